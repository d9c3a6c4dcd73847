//! Parse pool: large requests are parsed on a blocking thread, small ones on the async one.
//!
//! A prompt of megabytes takes long to tokenize; on the async thread it would hold up every stream
//! of that thread. Concurrency is bounded, so that parsing cannot take all cores from the engine.

use std::sync::Arc;

use bytes::Bytes;
use overdraft_wire::ApiError;
use tokio::sync::Semaphore;

/// Bodies up to this size are worked on in place: about a millisecond.
const IN_PLACE_BYTES_MAX: usize = 16 * 1024;

/// Where requests are prepared.
#[derive(Debug)]
pub(crate) struct ParsePool {
    seats: Arc<Semaphore>,
}

impl ParsePool {
    /// A pool for that many large requests at once.
    pub(crate) fn new(at_once: usize) -> Self {
        Self { seats: Arc::new(Semaphore::new(at_once.clamp(1, Semaphore::MAX_PERMITS))) }
    }

    /// Does `work` on `body`, here or elsewhere.
    pub(crate) async fn prepare<T, F>(&self, body: Bytes, work: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce(&[u8]) -> Result<T, ApiError> + Send + 'static,
    {
        if body.len() <= IN_PLACE_BYTES_MAX {
            return work(&body);
        }
        let seat = Arc::clone(&self.seats).acquire_owned().await;
        let done = tokio::task::spawn_blocking(move || {
            let _seat = seat;
            work(&body)
        });
        match done.await {
            Ok(result) => result,
            // The listener turns a panic into an answer and a log line.
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(ApiError::overloaded("the worker is shutting down")),
            },
        }
    }
}
