//! Body buffers: where a request's body is put together and looked at.
//!
//! A body that came in one piece is not copied. Others are joined, long ones in reused buffers:
//! fresh memory of that size must be zeroed page by page, which costs as much as all other work on
//! such a request.
//!
//! Invariant: at most [`BUFFERS_MAX`] buffers of at most [`BUFFER_BYTES_MAX`] bytes are idle.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt;
use overdraft_http::{BodyError, RequestBody};
use overdraft_wire::ApiError;

/// Idle buffers at most.
const BUFFERS_MAX: usize = 16;

/// Bytes of a buffer that is worth keeping.
const BUFFER_BYTES_MIN: usize = 64 * 1024;

/// Bytes of a buffer that may be kept.
const BUFFER_BYTES_MAX: usize = 1024 * 1024;

/// The buffers that bodies are put together in.
#[derive(Debug, Default)]
pub(crate) struct BodyBuffers {
    idle: Mutex<Vec<BytesMut>>,
}

impl BodyBuffers {
    /// Reads a whole body.
    pub(crate) async fn read(&self, mut body: RequestBody) -> Result<Bytes, ApiError> {
        let Some(first) = next(&mut body).await? else { return Ok(Bytes::new()) };
        let Some(second) = next(&mut body).await? else { return Ok(first) };
        // The declared length, already checked, saves growing step by step.
        let left = usize::try_from(body.size_hint().lower()).unwrap_or(0);
        let mut whole = self.take(first.len() + second.len() + left);
        whole.extend_from_slice(&first);
        whole.extend_from_slice(&second);
        drop((first, second));
        while let Some(data) = next(&mut body).await? {
            whole.extend_from_slice(&data);
        }
        Ok(whole.freeze())
    }

    /// Takes a body back when nobody needs it any more.
    pub(crate) fn give_back(&self, body: Bytes) {
        if body.len() < BUFFER_BYTES_MIN {
            return;
        }
        // Somebody may still hold a part of it: then it is freed when they let go.
        let Ok(mut buffer) = body.try_into_mut() else { return };
        buffer.clear();
        let mut idle = self.idle();
        if buffer.capacity() <= BUFFER_BYTES_MAX && idle.len() < BUFFERS_MAX {
            idle.push(buffer);
        }
    }

    fn take(&self, bytes: usize) -> BytesMut {
        let kept = if bytes < BUFFER_BYTES_MIN { None } else { self.idle().pop() };
        let mut buffer = kept.unwrap_or_default();
        buffer.reserve(bytes);
        buffer
    }

    fn idle(&self) -> MutexGuard<'_, Vec<BytesMut>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a client is told whose body was not taken, with the key that the operator can change.
fn told(error: BodyError) -> ApiError {
    let key = match error {
        BodyError::TooLarge { .. } => "limits.body_bytes",
        BodyError::NoRoom => "limits.bodies_bytes",
        BodyError::TimedOut { .. } => "timeouts.body",
        _ => return error.into(),
    };
    let mut told = ApiError::from(error);
    told.message = format!("{} (the gateway's `{key}`)", told.message);
    told
}

/// The next bytes of a body; `None` at its end.
async fn next(body: &mut RequestBody) -> Result<Option<Bytes>, ApiError> {
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.map_err(told)?.into_data()
            && !data.is_empty()
        {
            return Ok(Some(data));
        }
    }
    Ok(None)
}
