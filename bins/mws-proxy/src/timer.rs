//! Time limits for what nearly always ends long before them.
//!
//! Invariant: a limit is kept to the moment. What is put off is only the arming: one request after the
//! other would otherwise arm the runtime's clock each time, and often wake it.
//! Deliberately absent: intervals.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};

use crate::lock::lock;

type Armed = Pin<Box<tokio::time::Sleep>>;

/// The timer of one connection, or of all requests to one upstream.
#[derive(Clone, Debug, Default)]
pub(crate) struct LazyTimer {
    /// What was armed for the request before.
    spare: Arc<Mutex<Option<Armed>>>,
}

impl LazyTimer {
    /// What `future` gives, unless it takes longer than `limit`. Pinned by the caller: an `async fn`
    /// would hold it twice.
    pub(crate) async fn within<T>(
        &self,
        limit: Duration,
        mut future: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        let mut end = self.limit(Instant::now() + limit);
        std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending => Pin::new(&mut end).poll(cx).map(|()| None),
        })
        .await
    }

    fn limit(&self, deadline: Instant) -> Limit {
        Limit { deadline, armed: lock(&self.spare).take(), spare: Arc::clone(&self.spare) }
    }
}

impl Timer for LazyTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(Instant::now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(self.limit(deadline))
    }
}

struct Limit {
    deadline: Instant,
    /// Armed for the deadline or for an earlier moment.
    armed: Option<Armed>,
    spare: Arc<Mutex<Option<Armed>>>,
}

impl Sleep for Limit {}

impl Future for Limit {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let deadline = tokio::time::Instant::from_std(self.deadline);
        let armed = self.armed.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if armed.deadline() > deadline {
            armed.as_mut().reset(deadline);
        }
        while armed.as_mut().poll(cx).is_ready() {
            if tokio::time::Instant::now() >= deadline {
                return Poll::Ready(());
            }
            armed.as_mut().reset(deadline);
        }
        Poll::Pending
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        *lock(&self.spare) = self.armed.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_limit_armed_for_an_earlier_request_is_kept_to_the_moment() {
        let timer = LazyTimer::default();
        let start = Instant::now();
        for ms in [50, 120, 20] {
            let mut sleep = timer.sleep_until(start + Duration::from_millis(ms));
            let waker = std::task::Waker::noop();
            assert!(sleep.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
        }
        timer.sleep_until(start + Duration::from_millis(80)).await;
        let passed = start.elapsed();
        assert!(passed >= Duration::from_millis(80), "{passed:?}");
        timer.sleep(Duration::from_millis(1)).await;
        let never = std::pin::pin!(std::future::pending::<()>());
        assert_eq!(timer.within(Duration::from_millis(5), never).await, None);
        assert_eq!(
            timer.within(Duration::from_millis(5), std::pin::pin!(async { 7 })).await,
            Some(7)
        );
        assert!(lock(&timer.spare).is_some());
    }
}
