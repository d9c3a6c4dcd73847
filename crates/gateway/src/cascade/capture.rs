//! Capture: records the target's answer while it is relayed.
//!
//! The answer passes through byte for byte; a copy is kept up to a bound if a shadow comparison
//! needs it. When it has ended, the cost is accounted before the access line is written.

use std::borrow::Cow;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use overdraft_core::cascade::Event;
use overdraft_http::{Body, BoxError};
use overdraft_wire::answer::TokenChunk;
use overdraft_wire::sse::Splitter;
use tokio::sync::oneshot;

use super::cost_accounting::SharedAccount;
use super::draft_transcript::DraftTranscript;
use super::protocol::ProtocolHandle;
use crate::pipeline::request_guard::Books;

/// Bytes of an answer that are copied at most; a longer one is not compared.
const COPY_BYTES_MAX: usize = 1024 * 1024;

/// An answer on its way to the client.
pub(super) struct Capture {
    inner: Body,
    account: SharedAccount,
    copy: Option<Copied>,
    /// Until it has ended; nothing where it is no success.
    protocol: Option<ProtocolHandle>,
}

/// Who wants the copy, and what it is so far.
struct Copied {
    bytes: Vec<u8>,
    streamed: bool,
    wanted: oneshot::Sender<String>,
}

impl Capture {
    pub(super) fn new(
        inner: Body,
        account: SharedAccount,
        wanted: Option<oneshot::Sender<String>>,
        protocol: Option<ProtocolHandle>,
        streamed: bool,
    ) -> Self {
        let copy = wanted.map(|wanted| Copied { bytes: Vec::new(), streamed, wanted });
        Self { inner, account, copy, protocol }
    }

    fn ended(&mut self) {
        if let Some(protocol) = self.protocol.take() {
            let _none = protocol.report(Event::TargetEnded);
        }
        self.account.close();
        if let Some(copy) = self.copy.take() {
            let text =
                if copy.streamed { of_events(&copy.bytes) } else { of_document(&copy.bytes) };
            if let Some(text) = text {
                // Who wanted it may have given up.
                let _gone = copy.wanted.send(text);
            }
        }
    }
}

impl HttpBody for Capture {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let frame = std::task::ready!(Pin::new(&mut this.inner).poll_frame(cx));
        if let (Some(Ok(frame)), Some(copy)) = (&frame, &mut this.copy)
            && let Some(data) = frame.data_ref()
        {
            copy.bytes.extend_from_slice(data);
            if COPY_BYTES_MAX < copy.bytes.len() {
                this.copy = None;
            }
        }
        match &frame {
            Some(Ok(_)) if !this.inner.is_end_stream() => {}
            Some(Err(_)) => this.copy = None,
            _ => this.ended(),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture").finish_non_exhaustive()
    }
}

/// The text of a whole answer.
pub(super) fn of_document(bytes: &[u8]) -> Option<String> {
    let answer = TokenChunk::parse(bytes).ok()?;
    let choice = answer.choices.into_iter().next()?;
    choice.text.map(Cow::into_owned)
}

/// The text of a stream that has ended as it should.
fn of_events(bytes: &[u8]) -> Option<String> {
    let mut splitter = Splitter::new(COPY_BYTES_MAX);
    splitter.push(bytes);
    let mut transcript = DraftTranscript::default();
    while let Some(event) = splitter.next_event().ok()? {
        if event.is_done() {
            return transcript.reason().map(|_| transcript.text().to_owned());
        }
        if let Some(data) = event.data() {
            transcript.hear(&data).ok()?;
        }
    }
    None
}
