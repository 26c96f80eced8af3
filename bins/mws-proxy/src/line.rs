//! The connections: how long each may keep us waiting, and which has to go when there are too many.
//!
//! Invariant: a connection with a request under way is never given up for a new one; one that has not
//! sent any yet is told so.
//! Deliberately absent: a limit on how long an answer may take to come.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, Id, JoinSet};

/// How long the head of a request may take.
const HEAD: Duration = Duration::from_secs(10);
/// How long a connection may rest between two requests.
const REST: Duration = Duration::from_secs(120);
/// How long a client may not take what is written.
const STALL: Duration = Duration::from_secs(30);

/// What one connection is doing, told by its wire and by its requests.
#[derive(Debug)]
pub(crate) struct Line {
    born: Instant,
    /// Milliseconds from birth to the last change.
    since: AtomicU64,
    /// The same for the first write that was not taken; 0 while all are.
    stalled: AtomicU64,
    resting: AtomicBool,
    busy: AtomicBool,
    given_up: Notify,
}

impl Line {
    fn new() -> Arc<Self> {
        let (since, stalled, resting, busy, given_up) = Default::default();
        Arc::new(Self { born: Instant::now(), since, stalled, resting, busy, given_up })
    }

    fn now(&self) -> u64 {
        u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// A request came.
    pub(crate) fn begin(&self) {
        self.busy.store(true, Ordering::Relaxed);
    }

    /// Its answer is out.
    pub(crate) fn end(&self) {
        self.since.store(self.now(), Ordering::Relaxed);
        self.resting.store(true, Ordering::Relaxed);
        self.busy.store(false, Ordering::Relaxed);
    }

    /// Waits until it has to go before its first request.
    pub(crate) async fn given_up(&self) {
        self.given_up.notified().await;
    }

    /// True until the first request is answered; its bytes may be on their way.
    fn is_new(&self) -> bool {
        self.since.load(Ordering::Relaxed) == 0 && !self.resting.load(Ordering::Relaxed)
    }

    fn heard(&self) {
        if self.resting.swap(false, Ordering::Relaxed) {
            self.since.store(self.now(), Ordering::Relaxed);
        }
    }

    fn wrote<T>(&self, polled: &Poll<T>) {
        let stalled = self.stalled.load(Ordering::Relaxed);
        match polled {
            Poll::Pending if stalled == 0 => {
                self.stalled.store(self.now().max(1), Ordering::Relaxed);
            }
            Poll::Ready(_) if stalled != 0 => self.stalled.store(0, Ordering::Relaxed),
            _ => {}
        }
    }

    fn waited(&self) -> Option<Duration> {
        let since = self.since.load(Ordering::Relaxed);
        (!self.busy.load(Ordering::Relaxed))
            .then(|| Duration::from_millis(self.now().saturating_sub(since)))
    }

    fn is_overdue(&self) -> bool {
        let limit = if self.resting.load(Ordering::Relaxed) { REST } else { HEAD };
        let stalled = self.stalled.load(Ordering::Relaxed);
        let held = Duration::from_millis(self.now().saturating_sub(stalled));
        self.waited().is_some_and(|waited| waited > limit) || (stalled != 0 && held > STALL)
    }
}

/// All connections.
pub(crate) struct Lines {
    tasks: JoinSet<()>,
    /// Those that are served; the other tasks tell that there is no room.
    open: HashMap<Id, (Arc<Line>, AbortHandle)>,
    most: usize,
    most_farewells: usize,
}

impl Lines {
    pub(crate) fn new(most: usize, most_farewells: usize) -> Self {
        Self { tasks: JoinSet::new(), open: HashMap::new(), most, most_farewells }
    }

    /// Makes room if it must; the line for one more connection, or none.
    pub(crate) fn admit(&mut self) -> Option<Arc<Line>> {
        (self.open.len() < self.most || self.give_up_one(self.can_tell())).then(Line::new)
    }

    pub(crate) fn run(
        &mut self,
        line: Arc<Line>,
        connection: impl Future<Output = ()> + Send + 'static,
    ) {
        let handle = self.tasks.spawn(connection);
        self.open.insert(handle.id(), (line, handle));
    }

    /// Tells somebody that there is no room, if there is room for that.
    pub(crate) fn tell(&mut self, farewell: impl Future<Output = ()> + Send + 'static) {
        if self.can_tell() {
            self.tasks.spawn(farewell);
        }
    }

    fn can_tell(&self) -> bool {
        self.tasks.len() - self.open.len() < self.most_farewells
    }

    /// Closes the connection that waited longest without a request; to tell it so takes its
    /// descriptor for a while longer.
    pub(crate) fn give_up_one(&mut self, tell: bool) -> bool {
        let waited =
            |(id, (line, _)): (&Id, &(Arc<Line>, AbortHandle))| Some((line.waited()?, *id));
        let Some((_, id)) = self.open.iter().filter_map(waited).max() else { return false };
        match self.open.remove(&id) {
            Some((line, _)) if tell && line.is_new() => line.given_up.notify_one(),
            Some((_, handle)) => handle.abort(),
            None => return false,
        }
        true
    }

    pub(crate) fn any(&self) -> bool {
        !self.open.is_empty()
    }

    /// Closes those that keep us waiting for too long.
    pub(crate) fn sweep(&mut self) {
        let overdue = self.open.iter().filter(|(_, (line, _))| line.is_overdue());
        for id in overdue.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.close(id);
        }
    }

    fn close(&mut self, id: Id) {
        if let Some((_, handle)) = self.open.remove(&id) {
            handle.abort();
        }
    }

    /// Waits until one ended; false when there is none.
    pub(crate) async fn ended(&mut self) -> bool {
        match self.tasks.join_next_with_id().await {
            None => return false,
            Some(Ok((id, ()))) => self.open.remove(&id),
            Some(Err(e)) => self.open.remove(&e.id()),
        };
        true
    }
}

/// A socket that tells its line what moves.
pub(crate) struct Wire<S> {
    pub(crate) socket: S,
    pub(crate) line: Arc<Line>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.socket).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.line.heard();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.socket).poll_write(cx, bytes);
        self.line.wrote(&polled);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.socket).poll_write_vectored(cx, bytes);
        self.line.wrote(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_one_that_waited_longest_goes_and_a_busy_one_never() {
        let mut lines = Lines::new(2, 0);
        let mut begun = Vec::new();
        for _ in 0..2 {
            let line = lines.admit().expect("room");
            begun.push(Arc::clone(&line));
            lines.run(line, std::future::pending());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        begun[0].begin();
        assert!(lines.admit().is_some() && lines.open.len() == 1);
        assert!(lines.ended().await);
        lines.run(Line::new(), std::future::pending());
        for (line, _) in lines.open.values() {
            line.begin();
        }
        assert!(lines.admit().is_none(), "a busy connection was given up");
        begun[0].end();
        assert!(lines.admit().is_some());
    }

    #[tokio::test]
    async fn one_that_goes_before_its_first_request_is_told_while_there_is_room_for_that() {
        let mut lines = Lines::new(1, 1);
        for told in [true, false] {
            let line = lines.admit().expect("room");
            let own = Arc::clone(&line);
            lines.run(line, async move {
                own.given_up().await;
                std::future::pending::<()>().await;
            });
            assert!(lines.admit().is_some());
            let ended = tokio::time::timeout(Duration::from_millis(50), lines.ended()).await;
            assert_eq!(ended.is_err(), told, "cut off: {ended:?}");
        }
    }

    #[test]
    fn each_kind_of_waiting_has_its_limit() {
        let aged = |age: u64| {
            let mut line = Line::new();
            let born = Instant::now().checked_sub(Duration::from_secs(age)).expect("a long uptime");
            Arc::get_mut(&mut line).expect("alone").born = born;
            line
        };
        assert!(!aged(9).is_overdue() && aged(11).is_overdue(), "a head");
        let line = aged(200);
        line.begin();
        assert!(!line.is_overdue(), "an answer may take its time");
        line.end();
        assert!(!line.is_overdue(), "the rest has just begun");
        line.since.store(50_000, Ordering::Relaxed);
        assert!(line.is_overdue(), "150 s of rest");
        line.heard();
        assert!(!line.is_overdue(), "the next head has just begun");
        line.begin();
        line.stalled.store(150_000, Ordering::Relaxed);
        assert!(line.is_overdue(), "nothing taken for 50 s");
        line.wrote(&Poll::Ready(()));
        assert!(!line.is_overdue());
    }
}
