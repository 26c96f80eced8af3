//! Closed loops against several targets in turn.
//!
//! Invariant: each target has its turn in every round, in changing order; a figure is the median over
//! the rounds, the p99 that of the quietest one, so a disturbance of the machine sticks to no target.
//! Deliberately absent: pauses; a closed loop is what CPU time per call is read from.

use std::time::{Duration, Instant};

use crate::Fallible;
use crate::client::{Client, Era};
use crate::process::Process;

/// What one turn does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Job {
    Call { bytes: usize, wrapped: bool },
    List,
    Search,
}

impl Job {
    pub(crate) const SMALL: Self = Self::Call { bytes: 200, wrapped: false };

    fn run(self, client: &mut Client, turn: usize) -> Fallible<()> {
        match self {
            Self::Call { bytes, wrapped } => client.call(bytes, wrapped)?,
            Self::List => client.ask("tools/list", "")?,
            Self::Search => {
                let query = QUERIES[turn % QUERIES.len()];
                let arguments =
                    format!(r#""name":"search_tools","arguments":{{"query":"{query}"}}"#);
                client.ask("tools/call", &arguments)?
            }
        };
        Ok(())
    }
}

const QUERIES: [&str; 6] = [
    "share a file with somebody",
    "list messages",
    "delete the event",
    "create a new page in the wiki",
    "export an issue",
    "what is in the billing thread",
];

/// One target of a comparison.
pub(crate) struct Target<'a> {
    pub(crate) process: &'a Process,
    pub(crate) era: Era,
    pub(crate) job: Job,
}

/// What was measured of one target: medians over the rounds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Figures {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) rate: f64,
    /// CPU time of the target for each call, in µs.
    pub(crate) cpu: f64,
}

/// How long to measure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) rounds: usize,
    pub(crate) turn: Duration,
}

/// Measures all targets with `clients` clients each: medians over the rounds.
pub(crate) fn compare<const N: usize>(
    targets: [Target<'_>; N],
    clients: usize,
    effort: Effort,
) -> Fallible<[Figures; N]> {
    Ok(medians(&rounds(targets, clients, effort)?))
}

/// The same, round by round: a ratio within a round holds also where the machine's speed changes.
pub(crate) fn rounds<const N: usize>(
    targets: [Target<'_>; N],
    clients: usize,
    effort: Effort,
) -> Fallible<Vec<[Figures; N]>> {
    let mut open = Vec::new();
    for target in &targets {
        let mut group = Vec::new();
        for _ in 0..clients {
            let mut client = Client::connect(&target.process.address, target.era)?;
            for turn in 0..20 {
                target.job.run(&mut client, turn)?;
            }
            group.push(client);
        }
        open.push(group);
    }
    let mut taken = Vec::new();
    for round in 0..effort.rounds {
        let mut figures = [Figures::default(); N];
        for step in 0..N {
            let at = if round % 2 == 0 { step } else { N - 1 - step };
            figures[at] = turn(&targets[at], &mut open[at], effort.turn)?;
        }
        taken.push(figures);
    }
    Ok(taken)
}

pub(crate) fn medians<const N: usize>(rounds: &[[Figures; N]]) -> [Figures; N] {
    std::array::from_fn(|at| {
        let middle = |read: fn(&Figures) -> f64| {
            median(rounds.iter().map(|round| read(&round[at])).collect())
        };
        // The tail is the target's own only where nothing else ran on the core.
        let p99 = rounds.iter().map(|round| round[at].p99).fold(f64::INFINITY, f64::min);
        Figures { p50: middle(|f| f.p50), p99, rate: middle(|f| f.rate), cpu: middle(|f| f.cpu) }
    })
}

fn turn(target: &Target<'_>, clients: &mut [Client], length: Duration) -> Fallible<Figures> {
    let job = target.job;
    let before = target.process.cpu()?;
    let started = Instant::now();
    let mut times = Vec::new();
    std::thread::scope(|scope| -> Fallible<()> {
        let run = move |client: &mut Client| -> Result<Vec<f64>, String> {
            let mut times = Vec::new();
            while started.elapsed() < length {
                let sent = Instant::now();
                job.run(client, times.len()).map_err(|e| e.to_string())?;
                times.push(sent.elapsed().as_secs_f64() * 1e6);
            }
            Ok(times)
        };
        let (first, others) = clients.split_first_mut().ok_or("no client")?;
        let others: Vec<_> = others.iter_mut().map(|c| scope.spawn(move || run(c))).collect();
        times.extend(run(first)?);
        for other in others {
            times.extend(other.join().map_err(|_| "a client failed")??);
        }
        Ok(())
    })?;
    let (calls, spent) = (times.len() as f64, started.elapsed().as_secs_f64());
    let cpu = (target.process.cpu()? - before) / calls;
    times.sort_by(f64::total_cmp);
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    Ok(Figures { p50: at(0.5), p99: at(0.99), rate: calls / spent, cpu })
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
