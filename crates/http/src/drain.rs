//! How far has the end of a listener come?
//!
//! Serving -> leaving (still accepting, so that load balancers notice) -> draining (no new
//! connection, no second request on an old one) -> cut (streams must end now).

use std::fmt;

use tokio::sync::watch;

/// How far the end has come; only ever moves forward.
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
        Drain(self.0.subscribe())
    }
}

/// A request's view of the listener's end.
#[derive(Clone)]
pub struct Drain(watch::Receiver<Stage>);

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

    pub(crate) fn is_cut(&self) -> bool {
        *self.0.borrow() >= Stage::Cut
    }

    async fn reached(&self, stage: Stage) {
        let mut receiver = self.0.clone();
        if receiver.wait_for(|now| *now >= stage).await.is_err() {
            // The listener is gone, and with it whoever could signal.
            std::future::pending::<()>().await;
        }
    }
}

impl fmt::Debug for Drain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Drain({:?})", *self.0.borrow())
    }
}
