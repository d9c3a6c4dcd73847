//! Synthesised stream: a stream of events that the gateway makes from several workers' output.
//!
//! The reader polls the producer: a client that leaves drops both, and with them every request
//! upstream.
//!
//! Invariant: it ends cleanly only where its maker says so; else with an error event and an aborted
//! connection.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};
use overdraft_http::BrokenOff;
use overdraft_wire::{ApiError, sse};
use tokio::sync::mpsc;

/// Lots of events that may wait for a slow client; the maker waits beyond that.
const WAITING_MAX: usize = 16;

type Maker = Pin<Box<dyn Future<Output = Result<(), ApiError>> + Send>>;

enum State {
    Making(Maker),
    /// It is made; what waits is to be given out, and then the error if there is one.
    Made(Option<ApiError>),
    Aborting,
    Over,
}

/// The body of such a stream.
pub(super) struct Flow {
    state: State,
    made: mpsc::Receiver<Bytes>,
}

impl Flow {
    /// What `make` makes.
    pub(super) fn new<F>(make: impl FnOnce(mpsc::Sender<Bytes>) -> F) -> Self
    where
        F: Future<Output = Result<(), ApiError>> + Send + 'static,
    {
        let (sender, made) = mpsc::channel(WAITING_MAX);
        Self { state: State::Making(Box::pin(make(sender))), made }
    }
}

impl Body for Flow {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let this = self.get_mut();
        loop {
            // Whoever sends is polled below, so nothing wakes this but the maker. `poll_recv` has no place here: it is
            // pending on a channel with events as soon as the task has used up its budget of tokio's.
            if let Ok(events) = this.made.try_recv() {
                return Poll::Ready(Some(Ok(Frame::data(events))));
            }
            match &mut this.state {
                // Making => Made
                State::Making(maker) => match maker.as_mut().poll(cx) {
                    Poll::Ready(made) => this.state = State::Made(made.err()),
                    Poll::Pending if this.made.is_empty() => return Poll::Pending,
                    Poll::Pending => {}
                },
                // Made => Aborting | Over
                State::Made(error) => {
                    let error = error.take();
                    this.state = if error.is_some() { State::Aborting } else { State::Over };
                    if let Some(error) = error {
                        let event = sse::error_event(&error).into();
                        return Poll::Ready(Some(Ok(Frame::data(event))));
                    }
                }
                // Aborting => Over: the listener lets the event leave before the connection does.
                State::Aborting => {
                    this.state = State::Over;
                    return Poll::Ready(Some(Err(BrokenOff)));
                }
                State::Over => return Poll::Ready(None),
            }
        }
    }
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flow").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    /// More events than tokio lets a task receive before it has to yield (128), all there at once.
    const EVENTS: usize = 1_000;

    #[tokio::test]
    async fn no_event_is_lost_where_many_are_there_at_once() {
        let flow = Flow::new(|sender| async move {
            for _ in 0..EVENTS {
                let _gone = sender.send(Bytes::from_static(b"x")).await;
            }
            Ok(())
        });
        let whole = flow.collect().await.expect("it ends cleanly").to_bytes();
        assert_eq!(whole.len(), EVENTS);
    }

    #[tokio::test]
    async fn what_was_made_before_an_error_is_told_before_it() {
        let mut flow = Flow::new(|sender| async move {
            for _ in 0..WAITING_MAX {
                let _gone = sender.send(Bytes::from_static(b"x")).await;
            }
            Err(ApiError::upstream("it broke off"))
        });
        for _ in 0..WAITING_MAX {
            let frame = flow.frame().await.expect("an event").expect("no error yet");
            assert_eq!(frame.into_data().ok(), Some(Bytes::from_static(b"x")));
        }
        let event = flow.frame().await.expect("an event").expect("the error as an event");
        let event = event.into_data().unwrap_or_default();
        assert!(event.starts_with(b"data: {\"error\""), "{event:?}");
        assert!(flow.frame().await.expect("an end").is_err(), "the connection is aborted");
        assert!(flow.frame().await.is_none());
    }
}
