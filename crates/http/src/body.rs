//! Bodies of answers, from any source.
//!
//! **Invariant:** a response body that fails aborts the connection; only one that ends by itself
//! ends the answer cleanly. Nobody can mistake a broken answer for a whole one.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::sync::mpsc;

/// Any error that ends a body.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An answer was broken off; the client has been told why in the event before, where it could be.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the stream was broken off")]
pub struct BrokenOff;

type Frames = Pin<Box<dyn HttpBody<Data = Bytes, Error = BoxError> + Send>>;

/// The body of an answer.
pub struct Body(Kind);

enum Kind {
    Full(Option<Bytes>),
    Frames(Frames),
}

impl Body {
    /// Nothing.
    pub const fn empty() -> Self {
        Self(Kind::Full(None))
    }

    /// These bytes.
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self(Kind::Full((!bytes.is_empty()).then_some(bytes)))
    }

    /// Any other body; dropping this one drops it.
    pub fn wrap<B>(body: B) -> Self
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self(Kind::Frames(Box::pin(body.map_err(Into::into))))
    }

    /// Frames that `step` makes one after the other from a state: `Ok(None)` ends the body, an
    /// error breaks it off. Nothing runs unless the client can take more, and dropping the body
    /// drops the state: that is how a stream is cancelled.
    pub fn unfold<T, F, Step>(state: T, step: Step) -> Self
    where
        T: Send + 'static,
        F: Future<Output = Result<Option<(Bytes, T)>, BoxError>> + Send + 'static,
        Step: FnMut(T) -> F + Send + 'static,
    {
        Self(Kind::Frames(Box::pin(Unfold { step, at: Unfolding::State(Some(state)) })))
    }

    /// A body fed from elsewhere, with room for `frames` of them before the sender waits.
    pub fn channel(frames: usize) -> (BodySender, Self) {
        let (sender, receiver) = mpsc::channel(frames);
        (BodySender(sender), Self(Kind::Frames(Box::pin(Fed(receiver)))))
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.0 {
            Kind::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Frames(frames) => frames.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Full(bytes) => bytes.is_none(),
            Kind::Frames(frames) => frames.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Full(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Kind::Frames(frames) => frames.size_hint(),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.0 {
            Kind::Full(_) => "full",
            Kind::Frames(_) => "frames",
        };
        write!(f, "Body({kind})")
    }
}

/// The client has gone; what is sent reaches nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the client has gone")]
pub struct Gone;

/// Feeds a [`Body::channel`]. Dropping it ends the body as if it were whole.
#[derive(Clone, Debug)]
pub struct BodySender(mpsc::Sender<Result<Bytes, BoxError>>);

impl BodySender {
    /// Hands over one frame; waits while the client is behind.
    pub async fn send(&self, frame: Bytes) -> Result<(), Gone> {
        self.0.send(Ok(frame)).await.map_err(|_| Gone)
    }

    /// Resolves when the client has gone.
    pub async fn gone(&self) {
        self.0.closed().await;
    }

    /// Breaks the body off: the connection is aborted, the client sees an error.
    pub async fn abort(self, error: BoxError) {
        // A client that is gone already has nothing to be told.
        let _gone = self.0.send(Err(error)).await;
    }
}

struct Fed(mpsc::Receiver<Result<Bytes, BoxError>>);

impl HttpBody for Fed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.0.poll_recv(cx).map(|fed| fed.map(|frame| frame.map(Frame::data)))
    }
}

enum Unfolding<T, F> {
    State(Option<T>),
    Step(Pin<Box<F>>),
}

struct Unfold<T, F, Step> {
    step: Step,
    at: Unfolding<T, F>,
}

// Nothing is pinned structurally: the future has its own box.
impl<T, F, Step> Unpin for Unfold<T, F, Step> {}

impl<T, F, Step> HttpBody for Unfold<T, F, Step>
where
    F: Future<Output = Result<Option<(Bytes, T)>, BoxError>>,
    Step: FnMut(T) -> F,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        loop {
            match &mut this.at {
                Unfolding::State(state) => {
                    let Some(state) = state.take() else {
                        return Poll::Ready(None);
                    };
                    this.at = Unfolding::Step(Box::pin((this.step)(state)));
                }
                Unfolding::Step(future) => {
                    let made = ready!(future.as_mut().poll(cx));
                    this.at = Unfolding::State(None);
                    return Poll::Ready(match made {
                        Ok(None) => None,
                        Ok(Some((frame, state))) => {
                            this.at = Unfolding::State(Some(state));
                            Some(Ok(Frame::data(frame)))
                        }
                        Err(error) => Some(Err(error)),
                    });
                }
            }
        }
    }
}
