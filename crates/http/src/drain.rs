//! Graceful shutdown (drain) of a listener: serving, leaving, draining, cut.
//!
//! Serving -> leaving (still accepting, so that load balancers notice; each answer of HTTP/1 ends its
//! connection) -> draining (no new connection, no second request on an old one) -> cut (streams must
//! end now).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::sync::watch;

/// The stage of the shutdown; only ever moves forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Serving,
    Leaving,
    Draining,
    Cut,
}

/// The listener's side.
#[derive(Debug)]
pub(crate) struct DrainSignal(watch::Sender<Stage>);

impl DrainSignal {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(Stage::Serving))
    }

    pub(crate) fn enter(&self, stage: Stage) {
        self.0.send_replace(stage);
    }

    pub(crate) fn subscribe(&self) -> Drain {
        Drain(Arc::new(self.0.subscribe()))
    }
}

/// A request's view of the listener's end.
///
/// All requests of a connection share one receiver: counting receivers is counting in one place for
/// all threads.
#[derive(Clone)]
pub struct Drain(Arc<watch::Receiver<Stage>>);

impl Drain {
    /// Whether the end was signalled: a health check should say so.
    pub fn begun(&self) -> bool {
        *self.0.borrow() >= Stage::Leaving
    }

    /// Resolves when the drain's deadline has passed: end the stream with an error now, the
    /// connection is aborted a moment later.
    pub async fn cut(&self) {
        self.reached(Stage::Cut).await;
    }

    /// Resolves when no further request will be taken.
    pub async fn closing(&self) {
        self.reached(Stage::Draining).await;
    }

    /// Resolves like [`Drain::cut`], for what is polled at every event of a stream.
    pub fn until_cut(&self) -> Awaited {
        Awaited::new(self, Stage::Cut)
    }

    /// Resolves like [`Drain::closing`], for what is polled with every request of a connection.
    pub(crate) fn until_closing(&self) -> Awaited {
        Awaited::new(self, Stage::Draining)
    }

    pub(crate) fn is_cut(&self) -> bool {
        *self.0.borrow() >= Stage::Cut
    }

    async fn reached(&self, stage: Stage) {
        let mut receiver = watch::Receiver::clone(&self.0);
        if receiver.wait_for(|now| *now >= stage).await.is_err() {
            // The listener is gone, and with it the sender of the signal.
            std::future::pending::<()>().await;
        }
    }
}

/// A stage of the end, waited for beside something that happens far more often.
///
/// Who is to be woken is told once. To tell it anew at every poll takes a lock that all connections
/// share; whether anything has changed at all is known without.
pub struct Awaited {
    drain: Drain,
    reached: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// The task that `reached` wakes.
    wakes: Option<Waker>,
}

impl Awaited {
    fn new(drain: &Drain, stage: Stage) -> Self {
        let waiting = drain.clone();
        let reached = Box::pin(async move { waiting.reached(stage).await });
        Self { drain: drain.clone(), reached, wakes: None }
    }

    /// Ready once the stage is reached; wakes the task when it is.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let is_known = self.wakes.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        if is_known && matches!(self.drain.0.has_changed(), Ok(false)) {
            return Poll::Pending;
        }
        self.wakes = Some(cx.waker().clone());
        self.reached.as_mut().poll(cx)
    }
}

impl fmt::Debug for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Awaited").field("drain", &self.drain).finish_non_exhaustive()
    }
}

impl fmt::Debug for Drain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Drain({:?})", *self.0.borrow())
    }
}
