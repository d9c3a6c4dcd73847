//! Upstream answer: the body of a worker's response, as it comes.
//!
//! It owns its connection: polling it drives the connection, dropping it midway closes the
//! connection, and its clean end returns the connection to the pool.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Incoming};

use super::Upstream;
use super::connection::Connection;

/// A piece of up to this size, as an event with one token is, is cheaper copied than a buffer replaced.
const DETACHED_BYTES_MAX: usize = 1_024;

/// Why an answer stopped before its end.
#[derive(Debug, thiserror::Error)]
#[error("the answer broke off: {0}")]
pub(crate) struct AnswerError(hyper::Error);

/// The body of a worker's answer.
#[derive(Debug)]
pub(crate) struct AnswerBody {
    incoming: Incoming,
    connection: Option<Connection>,
    upstream: Arc<Upstream>,
}

impl AnswerBody {
    pub(crate) const fn new(
        incoming: Incoming,
        connection: Connection,
        upstream: Arc<Upstream>,
    ) -> Self {
        Self { incoming, connection: Some(connection), upstream }
    }

    /// The bytes that the worker said would come, if it said so.
    pub(crate) fn length(&self) -> Option<u64> {
        self.incoming.size_hint().exact()
    }

    /// Closes the connection, which tells the worker that nothing more is wanted.
    pub(crate) fn close(&mut self) {
        self.connection = None;
    }

    /// The next bytes; `None` at the clean end.
    pub(crate) fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, AnswerError>>> {
        loop {
            let Some(connection) = &mut self.connection else { return Poll::Ready(None) };
            match connection.poll_frame(&mut self.incoming, cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(frame))) => {
                    // Trailers are nothing that a client of an OpenAI endpoint looks for.
                    if let Ok(data) = frame.into_data()
                        && !data.is_empty()
                    {
                        return Poll::Ready(Some(Ok(detached(data))));
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    self.connection = None;
                    return Poll::Ready(Some(Err(AnswerError(error))));
                }
                Poll::Ready(None) => {
                    if let Some(connection) = self.connection.take() {
                        self.upstream.give_back(connection);
                    }
                    return Poll::Ready(None);
                }
            }
        }
    }
}

/// Copies a small piece out of the buffer it was read into. Otherwise that buffer stays in use until
/// the piece has left, and the next read, which is tried before that, needs a new one.
fn detached(data: Bytes) -> Bytes {
    if data.len() <= DETACHED_BYTES_MAX { Bytes::copy_from_slice(&data) } else { data }
}
