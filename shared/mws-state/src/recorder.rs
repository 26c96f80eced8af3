//! Recording without waiting: a bounded channel to one writer thread.
//!
//! Invariant: [`Recorder::record`] never blocks and never fails. What does not fit is counted and
//! written as a `dropped` event as soon as the log takes lines again.
//! Deliberately absent: an fsync for each event; there is at most one a second.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use mws_event::{Event, Kind, Record, WriterId};

use crate::{Appender, StateDir, now, writer_id};

/// Events waiting for the writer thread.
const CHANNEL: usize = 1024;
/// Lines kept while the disk refuses them.
const BACKLOG: usize = 4096;
const BATCH_BYTES: usize = 64 * 1024;
/// How long the first event of a batch waits for others; what a kill can lose. Much shorter, and under
/// load one call in a hundred would wait for the log's thread on a machine of one core.
const GATHER: Duration = Duration::from_millis(20);
const SYNC_EVERY: Duration = Duration::from_secs(1);
const RETRY_EVERY: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(1);

/// The sending end; dropping it writes and syncs what is left.
#[derive(Debug)]
pub struct Recorder {
    sender: Option<Sender<Entry>>,
    dropped: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Entry {
    /// Boxed: the channel's memory is there from the start.
    Event(Box<Event>),
    /// Write and sync what came before; who waits is told by the end of the channel.
    Sync(Sender<()>),
}

impl Recorder {
    /// Starts the writer thread for the log of `state`.
    ///
    /// # Errors
    /// When the thread cannot be started. A log that cannot be written is no error: it is
    /// warned about once and tried again every second.
    pub fn spawn(state: StateDir) -> std::io::Result<Self> {
        let (sender, receiver) = bounded(CHANNEL);
        let dropped = Arc::new(AtomicU64::new(0));
        let shared = Arc::clone(&dropped);
        let thread = std::thread::Builder::new()
            .name("event-log".into())
            .spawn(move || Writer::new(state, shared).run(&receiver))?;
        Ok(Self { sender: Some(sender), dropped, thread: Some(thread) })
    }

    /// Hands an event to the writer thread; counts it as dropped when that is too far behind.
    pub fn record(&self, event: Event) {
        let entry = Entry::Event(Box::new(event));
        let sent = self.sender.as_ref().is_some_and(|sender| sender.try_send(entry).is_ok());
        if !sent {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until what was recorded so far is written and synced; 2 s at most, as a disk may hang.
    pub fn sync(&self) {
        let Some(sender) = &self.sender else { return };
        let (done, wait) = bounded(0);
        if sender.send_timeout(Entry::Sync(done), PATIENCE).is_ok() {
            let _ = wait.recv_timeout(PATIENCE);
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        drop(self.sender.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Writer {
    state: StateDir,
    log: Option<Appender>,
    ids: WriterId,
    dropped: Arc<AtomicU64>,
    backlog: VecDeque<Vec<u8>>,
    degraded: bool,
    unsynced: bool,
    last_sync: Instant,
}

impl Writer {
    fn new(state: StateDir, dropped: Arc<AtomicU64>) -> Self {
        Self {
            state,
            log: None,
            ids: writer_id(),
            dropped,
            backlog: VecDeque::new(),
            degraded: false,
            unsynced: false,
            last_sync: Instant::now(),
        }
    }

    fn run(mut self, receiver: &Receiver<Entry>) {
        loop {
            let mut waits = None;
            match self.next(receiver) {
                Ok(entry) => {
                    waits = self.take(entry);
                    if waits.is_none() {
                        // Under load this saves a wake-up, a lock and a write for nearly every event.
                        std::thread::sleep(GATHER);
                    }
                    while waits.is_none()
                        && self.backlog.len() < BACKLOG
                        && let Ok(entry) = receiver.try_recv()
                    {
                        waits = self.take(entry);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.flush();
            if waits.is_some() || (self.unsynced && self.last_sync.elapsed() >= SYNC_EVERY) {
                self.sync();
            }
        }
        self.flush();
        self.sync();
    }

    /// Waits without a timer while there is nothing to retry and nothing to sync.
    fn next(&self, receiver: &Receiver<Entry>) -> Result<Entry, RecvTimeoutError> {
        if self.degraded {
            receiver.recv_timeout(RETRY_EVERY)
        } else if self.unsynced {
            receiver.recv_timeout(SYNC_EVERY.saturating_sub(self.last_sync.elapsed()))
        } else {
            receiver.recv().map_err(|_| RecvTimeoutError::Disconnected)
        }
    }

    /// Queues an event; gives back who waits for the disk.
    fn take(&mut self, entry: Entry) -> Option<Sender<()>> {
        match entry {
            Entry::Event(event) => self.queue(*event),
            Entry::Sync(done) => return Some(done),
        }
        None
    }

    fn queue(&mut self, mut event: Event) {
        event.set_id(|| self.ids.next_id());
        self.backlog.push_back(event.to_line());
        if self.backlog.len() > BACKLOG {
            self.backlog.pop_front();
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn flush(&mut self) {
        if self.write_backlog() {
            let n = self.dropped.swap(0, Ordering::Relaxed);
            if n > 0 {
                self.queue(Event::Record(Record::new(now(), Kind::Dropped { n })));
                self.write_backlog();
            }
        }
    }

    fn write_backlog(&mut self) -> bool {
        while !self.backlog.is_empty() {
            let mut lines = 0;
            let mut batch = Vec::new();
            for line in &self.backlog {
                if !batch.is_empty() && batch.len() + line.len() > BATCH_BYTES {
                    break;
                }
                batch.extend_from_slice(line);
                lines += 1;
            }
            if !self.write(&batch) {
                return false;
            }
            self.backlog.drain(..lines);
        }
        true
    }

    fn write(&mut self, batch: &[u8]) -> bool {
        match self.try_write(batch) {
            Ok(()) => {
                if self.degraded {
                    tracing::info!("The event log takes lines again.");
                }
                self.degraded = false;
                self.unsynced = true;
                true
            }
            Err(e) => {
                if !self.degraded {
                    tracing::warn!(
                        "Cannot append to the event log in {}: {e}; calls go on, retrying.",
                        self.state.events_dir().display()
                    );
                }
                self.degraded = true;
                self.log = None;
                false
            }
        }
    }

    fn try_write(&mut self, batch: &[u8]) -> std::io::Result<()> {
        let log = match &mut self.log {
            Some(log) => log,
            None => self.log.insert(Appender::open(&self.state)?),
        };
        log.append(batch, now())
    }

    fn sync(&mut self) {
        if let Some(log) = &self.log
            && let Err(e) = log.sync()
        {
            tracing::warn!("Cannot sync the event log: {e}.");
        }
        self.unsynced = false;
        self.last_sync = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_events;
    use mws_event::{Call, Via};

    fn call(tool: &str) -> Event {
        Event::Call(Box::new(Call::new(now(), tool, Via::Listed, true, 1)))
    }

    #[test]
    fn what_was_recorded_is_in_the_log_once_the_recorder_is_gone() {
        let tmp = tempfile::tempdir().expect("a directory");
        let state = StateDir::at(tmp.path().join("state"));
        let recorder = Recorder::spawn(state.clone()).expect("started");
        for i in 0..500 {
            recorder.record(call(&format!("t{i}")));
        }
        drop(recorder);
        let (events, damage) = read_events(&state);
        assert!(damage.is_none());
        let kept = events.iter().filter(|e| matches!(e, Event::Call(_))).count() as u64;
        let dropped: u64 = events
            .iter()
            .filter_map(|e| match e {
                Event::Record(Record { kind: Kind::Dropped { n }, .. }) => Some(*n),
                _ => None,
            })
            .sum();
        assert_eq!(kept + dropped, 500);
        assert!(kept > 0);
    }

    #[test]
    fn a_sync_waits_for_what_came_before() {
        let tmp = tempfile::tempdir().expect("a directory");
        let state = StateDir::at(tmp.path().join("state"));
        let recorder = Recorder::spawn(state.clone()).expect("started");
        for round in 1..=20 {
            recorder.record(call("t"));
            recorder.sync();
            assert_eq!(read_events(&state).0.len(), round);
        }
    }

    #[test]
    fn an_unwritable_log_blocks_nobody_and_recovers() {
        let tmp = tempfile::tempdir().expect("a directory");
        let blocked = tmp.path().join("state");
        std::fs::File::create(&blocked).expect("a file in the way");
        let state = StateDir::at(&blocked);
        let recorder = Recorder::spawn(state.clone()).expect("started");
        recorder.record(call("early"));
        std::thread::sleep(Duration::from_millis(50));
        std::fs::remove_file(&blocked).expect("out of the way");
        recorder.record(call("late"));
        drop(recorder);
        assert_eq!(read_events(&state).0.len(), 2);
    }
}
