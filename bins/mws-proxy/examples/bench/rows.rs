//! The rows of the table, each measured on its own.
//!
//! Invariant: figures that depend on the machine are ratios within one run wherever one makes sense.
//! Deliberately absent: judging; see the report.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::Fallible;
use crate::client::{Client, Era};
use crate::load::{Effort, Figures, Job, Target, compare, median, medians, rounds};
use crate::process::Process;
use crate::report::{Limit, Report};

/// What is measured, and how long.
pub(crate) struct Bench {
    pub(crate) proxy: String,
    pub(crate) plain: Option<String>,
    pub(crate) peer: Option<String>,
    pub(crate) folder: PathBuf,
    pub(crate) effort: Effort,
    pub(crate) idle: Duration,
}

impl Bench {
    /// Fills the report.
    pub(crate) fn run(&self, report: &mut Report) -> Fallible<()> {
        self.sizes(report)?;
        let stub = Process::own(&["stub", "60"])?;
        let splice = Process::own(&["splice", &stub.address])?;
        let proxy = self.facing("main", &stub, "")?;
        let small = self.small_calls(report, [&stub, &splice, &proxy])?;
        self.many_clients(report, [&stub, &splice, &proxy])?;
        self.large_and_wrapped(report, [&stub, &proxy])?;
        self.process_upstream(report, &proxy)?;
        self.listings(report)?;
        self.event_streams(report)?;
        self.refreshes(report)?;
        self.starts(report)?;
        self.memory(report)?;
        self.other(report, small)
    }

    fn facing(&self, name: &str, stub: &Process, more: &str) -> Fallible<Process> {
        let upstream = format!(r#"{{"url":"http://{}/mcp"}}"#, stub.address);
        let proxy = self.start(name, &upstream, more)?;
        // The tool list is fetched at the start.
        std::thread::sleep(Duration::from_millis(200));
        Ok(proxy)
    }

    fn start(&self, name: &str, upstream: &str, more: &str) -> Fallible<Process> {
        let config = format!(r#"{{"upstream":{upstream},"search":{{"vectors":false}}{more}}}"#);
        Process::proxy(&self.proxy, &self.folder.join(name), &config)
    }

    fn sizes(&self, report: &mut Report) -> Fallible<()> {
        let size =
            |path: &str| Ok::<_, std::io::Error>(std::fs::metadata(path)?.len() as f64 / 1e6);
        if let Some(plain) = &self.plain {
            let limit = Limit::most(4.5, 3.0).exact();
            report.row("binary without TLS, MB", size(plain)?, limit);
        }
        report.row("binary with TLS, MB", size(&self.proxy)?, Limit::most(6.0, 4.5).exact());
        Ok(())
    }

    fn small_calls(&self, report: &mut Report, of: [&Process; 3]) -> Fallible<Figures> {
        let mut session = Figures::default();
        for (era, word) in [(Era::Stateless, "stateless"), (Era::Session, "session")] {
            let targets = of.map(|process| Target { process, era, job: Job::SMALL });
            let rounds = rounds(targets, 1, self.effort)?;
            let [direct, splice, proxy] = medians(&rounds);
            let ratio = |of: fn(&[Figures; 3]) -> f64| median(rounds.iter().map(of).collect());
            report.row(
                &format!("small call ({word}), CPU / splice's"),
                ratio(|[_, splice, proxy]| proxy.cpu / splice.cpu),
                Limit::most(3.5, 2.2),
            );
            report.row(
                &format!("small call ({word}), added p50 / splice's"),
                ratio(|[direct, splice, proxy]| {
                    (proxy.p50 - direct.p50) / (splice.p50 - direct.p50)
                }),
                Limit::most(2.5, 1.8),
            );
            report.row(
                &format!("small call ({word}), p99 / own p50"),
                proxy.p99 / proxy.p50,
                // On a busy machine the splice has a tail that is the machine's.
                Limit::most((2.0 * splice.p99 / splice.p50).max(3.0), 2.5),
            );
            report.note(&format!("small call ({word})"), [direct, splice, proxy]);
            session = proxy;
        }
        Ok(session)
    }

    fn many_clients(&self, report: &mut Report, of: [&Process; 3]) -> Fallible<()> {
        let targets = of.map(|process| Target { process, era: Era::Session, job: Job::SMALL });
        let [direct, splice, proxy] = compare(targets, 8, self.effort)?;
        report.row(
            "8 clients, calls/s / direct",
            proxy.rate / direct.rate,
            Limit::least(0.25, 0.33),
        );
        report.note("8 clients", [direct, splice, proxy]);
        Ok(())
    }

    fn large_and_wrapped(&self, report: &mut Report, [stub, proxy]: [&Process; 2]) -> Fallible<()> {
        const LARGE: usize = 200_000;
        let era = Era::Session;
        let mut direct = Client::connect(&stub.address, era)?;
        let mut through = Client::connect(&proxy.address, era)?;
        if direct.call(LARGE, false)? != through.call(LARGE, false)? {
            return Err("the proxy changed a result of 200 KB".into());
        }
        let call =
            |bytes, wrapped| Target { process: proxy, era, job: Job::Call { bytes, wrapped } };
        let targets = [call(200, false), call(200, true), call(LARGE, false)];
        let [small, wrapped, large] = compare(targets, 1, self.effort)?;
        let added = large.cpu - small.cpu;
        report.row("200 KB result, CPU over the small call, µs", added, Limit::most(90.0, 60.0));
        let ratio = wrapped.cpu / small.cpu;
        report.row("call_tool, CPU / the same call direct", ratio, Limit::most(1.25, 1.1));
        Ok(())
    }

    fn process_upstream(&self, report: &mut Report, http: &Process) -> Fallible<()> {
        let program = std::env::current_exe()?;
        let upstream = format!(r#"{{"command":"{}","args":["pipe","60"]}}"#, program.display());
        let piped = self.start("pipe", &upstream, "")?;
        let call = |process| Target { process, era: Era::Session, job: Job::SMALL };
        let [piped, http] = compare([call(&piped), call(http)], 1, self.effort)?;
        let ratio = piped.cpu / http.cpu;
        report.row("stdio upstream, CPU / HTTP upstream", ratio, Limit::most(1.2, 0.8));
        Ok(())
    }

    fn listings(&self, report: &mut Report) -> Fallible<()> {
        let pins: Vec<_> = (1..=20).map(|n| format!("\"{}\"", crate::catalog::name(n))).collect();
        let pins = format!(r#","pins":[{}]"#, pins.join(","));
        let (few, many) = (Process::own(&["stub", "60"])?, Process::own(&["stub", "2000"])?);
        let (of_few, of_many) =
            (self.facing("60", &few, &pins)?, self.facing("2000", &many, &pins)?);
        let target = |process, job| Target { process, era: Era::Session, job };
        let targets =
            [target(&of_few, Job::SMALL), target(&of_few, Job::List), target(&of_many, Job::List)];
        let [small, few, many] = compare(targets, 1, self.effort)?;
        let ratio = few.cpu / small.cpu;
        report.row("tools/list of 22, CPU / small call", ratio, Limit::most(1.0, 0.6));
        let ratio = many.cpu / few.cpu;
        report.row("tools/list, 2,000 tools / 60 tools, CPU", ratio, Limit::most(1.1, 1.0));
        Ok(())
    }

    fn event_streams(&self, report: &mut Report) -> Fallible<()> {
        let (stub, json) = (Process::own(&["stub", "60", "sse"])?, Process::own(&["stub", "60"])?);
        let (proxy, plain) = (self.facing("sse", &stub, "")?, self.facing("json", &json, "")?);
        let target = |process| Target { process, era: Era::Session, job: Job::SMALL };
        let [events, json] = compare([target(&proxy), target(&plain)], 1, self.effort)?;
        report.row(
            "SSE answers, p50, ms",
            events.p50 / 1e3,
            Limit::most(5.0, 1.1 * json.p50 / 1e3),
        );
        Ok(())
    }

    /// 443 tools, 664 KB: the size of a large real catalog.
    fn refreshes(&self, report: &mut Report) -> Fallible<()> {
        let stub = Process::own(&["stub", "443"])?;
        let proxy = self.facing("443", &stub, "")?;
        let mut client = Client::connect(&proxy.address, Era::Session)?;
        let mut changer = Client::connect(&stub.address, Era::Session)?;
        let mut events = client.listen()?;
        let search = Target { process: &proxy, era: Era::Session, job: Job::Search };
        let [search] = compare([search], 1, self.effort)?;
        report.row(
            "search_tools over 443 tools, p50, ms",
            search.p50 / 1e3,
            Limit::most(0.5, 0.25),
        );
        let mut spent = Vec::new();
        for _ in 0..self.effort.rounds {
            let before = proxy.cpu()?;
            changer.ask("bench/change", "")?;
            wait_for(&mut events, "list_changed")?;
            client.ask("tools/list", "")?;
            std::thread::sleep(Duration::from_millis(300));
            spent.push((proxy.cpu()? - before) / 1e3);
        }
        report.row("catalog refresh, 443 tools, CPU, ms", median(spent), Limit::most(10.0, 4.0));
        Ok(())
    }

    fn starts(&self, report: &mut Report) -> Fallible<()> {
        let stub = Process::own(&["stub", "443"])?;
        let upstream = format!(r#"{{"url":"http://{}/mcp"}}"#, stub.address);
        let seen = self.start("start", &upstream, "")?;
        Client::connect(&seen.address, Era::Session)?;
        std::thread::sleep(Duration::from_millis(500));
        drop((seen, stub));
        let mut spent = Vec::new();
        for _ in 0..self.effort.rounds.max(7) {
            let started = Instant::now();
            let proxy = self.start("start", &upstream, "")?;
            Client::connect(&proxy.address, Era::Session)?;
            spent.push(started.elapsed().as_secs_f64() * 1e3);
        }
        let limit = Limit::most(40.0, 20.0);
        report.row("start to first initialize, upstream down, ms", median(spent), limit);
        Ok(())
    }

    fn memory(&self, report: &mut Report) -> Fallible<()> {
        let stub = Process::own(&["stub", "500"])?;
        let proxy = self.facing("memory", &stub, "")?;
        let client = Client::connect(&proxy.address, Era::Session)?;
        let _events = client.listen()?;
        std::thread::sleep(Duration::from_secs(1));
        report.row("resident, idle with 500 tools, MiB", proxy.resident()?, Limit::most(8.0, 6.0));
        // Threads of the start end after 10 s, and their time with them.
        std::thread::sleep(Duration::from_secs(11));
        let before = proxy.cpu()?;
        std::thread::sleep(self.idle);
        let spent = (proxy.cpu()? - before) / 1e3 * 60.0 / self.idle.as_secs_f64();
        report.row("idle CPU in 60 s, one client, ms", spent, Limit::most(10.0, 5.0));
        calls(&proxy, 10_000)?;
        let early = proxy.resident()?;
        report.row("resident after 10,000 calls of 8 clients, MiB", early, Limit::most(12.0, 10.0));
        calls(&proxy, 90_000)?;
        let grown = proxy.resident()? - early;
        report.row("resident, growth to 100,000 calls, MiB", grown, Limit::most(1.0, 0.5));
        Ok(())
    }

    /// Another proxy in front of the same process, for comparison.
    fn other(&self, report: &mut Report, small: Figures) -> Fallible<()> {
        let Some(line) = &self.peer else { return Ok(()) };
        let program = std::env::current_exe()?;
        let peer = Process::other(&line.replace("{stub}", &program.display().to_string()))?;
        let target = Target { process: &peer, era: Era::Session, job: Job::SMALL };
        let [figures] = compare([target], 1, self.effort)?;
        report.peer(line, figures, small);
        Ok(())
    }
}

fn wait_for(events: &mut impl std::io::BufRead, mark: &str) -> Fallible<()> {
    let mut line = String::new();
    while !line.contains(mark) {
        line.clear();
        if events.read_line(&mut line)? == 0 {
            return Err("the stream ended".into());
        }
    }
    Ok(())
}

fn calls(proxy: &Process, count: usize) -> Fallible<()> {
    std::thread::scope(|scope| {
        let run = || -> Result<(), String> {
            let mut client =
                Client::connect(&proxy.address, Era::Session).map_err(|e| e.to_string())?;
            for _ in 0..count / 8 {
                client.call(200, false).map_err(|e| e.to_string())?;
            }
            Ok(())
        };
        let clients: Vec<_> = (0..8).map(|_| scope.spawn(run)).collect();
        for client in clients {
            client.join().map_err(|_| "a client failed")??;
        }
        Ok(())
    })
}

/// An empty folder for the state directories of a run.
pub(crate) fn fresh(folder: &Path) -> Fallible<PathBuf> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::create_dir_all(folder)?;
    Ok(folder.to_owned())
}
