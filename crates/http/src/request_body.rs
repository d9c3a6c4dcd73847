//! Bodies of requests, with bounds on size, time and memory; decoded where they are encoded.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use overdraft_wire::ApiError;

use crate::body_budget::BodyLease;
use crate::body_error::BodyError;
use crate::coding::{Coding, DecodedBody};
use crate::deadline_timer::DeadlineTimer;
use crate::limits::Limits;
use crate::line::Line;

/// The body of a request; fails as soon as it is known to be too large or too slow.
#[derive(Debug)]
pub struct RequestBody(Form);

#[derive(Debug)]
enum Form {
    /// As it comes.
    Plain(PlainBody),
    /// Decoded. In a box: few are.
    Decoded(Box<DecodedBody<PlainBody>>),
}

impl RequestBody {
    pub(crate) fn new(
        incoming: Incoming,
        limits: &Limits,
        line: Arc<Line>,
        lease: Arc<BodyLease>,
        coding: Option<Coding>,
    ) -> Self {
        let own = Arc::clone(&lease);
        let plain = PlainBody::new(incoming, limits, line, own);
        Self(match coding {
            None => Form::Plain(plain),
            Some(coding) => {
                Form::Decoded(Box::new(DecodedBody::new(plain, coding, limits.body_bytes, lease)))
            }
        })
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.0 {
            Form::Plain(plain) => Pin::new(plain).poll_frame(cx),
            Form::Decoded(decoded) => {
                decoded.poll_piece(cx).map(|piece| piece.map(|piece| piece.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Form::Plain(plain) => plain.is_end_stream(),
            Form::Decoded(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Form::Plain(plain) => plain.size_hint(),
            Form::Decoded(_) => SizeHint::default(),
        }
    }
}

/// The bytes as the client sends them.
#[derive(Debug)]
struct PlainBody {
    incoming: Incoming,
    left: usize,
    limit: usize,
    span: Duration,
    deadline: DeadlineTimer,
    line: Arc<Line>,
    lease: Arc<BodyLease>,
    /// Chunked bodies do not know their end until it was read.
    ended: bool,
}

impl PlainBody {
    fn new(incoming: Incoming, limits: &Limits, line: Arc<Line>, lease: Arc<BodyLease>) -> Self {
        let (limit, span) = (limits.body_bytes, limits.body);
        Self {
            incoming,
            left: limit,
            limit,
            span,
            deadline: DeadlineTimer::default(),
            line,
            lease,
            ended: false,
        }
    }
}

impl Drop for PlainBody {
    fn drop(&mut self) {
        if !self.ended && !self.incoming.is_end_stream() {
            self.line.note_unread();
        }
    }
}

impl HttpBody for PlainBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        // A declared length is refused before a byte of it is read.
        let declared = this.incoming.size_hint().lower();
        if usize::try_from(declared).map_or(true, |declared| declared > this.left) {
            return Poll::Ready(Some(Err(BodyError::TooLarge { limit: this.limit })));
        }
        match Pin::new(&mut this.incoming).poll_frame(cx) {
            Poll::Pending => {
                if !this.deadline.is_armed() {
                    this.deadline.arm(this.span);
                }
                ready!(this.deadline.poll_due(cx));
                Poll::Ready(Some(Err(BodyError::TimedOut { limit: this.span })))
            }
            Poll::Ready(None) => {
                this.ended = true;
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(BodyError::Broken(error)))),
            Poll::Ready(Some(Ok(frame))) => {
                let length = frame.data_ref().map_or(0, Bytes::len);
                match this.left.checked_sub(length) {
                    Some(_) if !this.lease.grow(length) => {
                        Poll::Ready(Some(Err(BodyError::NoRoom)))
                    }
                    Some(left) => {
                        this.left = left;
                        Poll::Ready(Some(Ok(frame)))
                    }
                    None => Poll::Ready(Some(Err(BodyError::TooLarge { limit: this.limit }))),
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

/// Reads a whole body; without a copy when it came in one piece.
pub async fn read_body(mut body: RequestBody) -> Result<Bytes, ApiError> {
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else {
            continue;
        };
        if first.is_empty() && rest.is_empty() {
            first = data;
            continue;
        }
        if rest.is_empty() {
            // The declared length, already checked, saves growing step by step.
            let declared = usize::try_from(body.size_hint().lower()).unwrap_or(0);
            rest.reserve(first.len() + data.len() + declared);
            rest.extend_from_slice(&first);
            first = Bytes::new();
        }
        rest.extend_from_slice(&data);
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}
