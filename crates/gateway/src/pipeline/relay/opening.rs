//! Opening of an answer: its first bytes, which are held back until a reader has something of them.
//!
//! As long as the client has seen nothing, another worker can be asked.

use std::future::poll_fn;

use bytes::{Bytes, BytesMut};

use super::{Fault, Watch};
use crate::upstream::AnswerBody;

/// Bytes of a stream that are held back for its first token at most; what goes on without one is relayed.
const OPENING_BYTES_MAX: usize = 64 * 1024;

/// A stream whose first events have come.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) answer: AnswerBody,
    pub(crate) watch: Watch,
    pub(crate) first: Bytes,
}

/// Waits for the first token of a stream, or its end. What comes before, a role or keep-alives, is held back
/// until then.
///
/// # Errors
/// [`Fault`] where it breaks off before, or the worker says that it failed.
pub(crate) async fn open(mut answer: AnswerBody, mut watch: Watch) -> Result<Opened, Fault> {
    let mut held = BytesMut::new();
    loop {
        match poll_fn(|cx| answer.poll_data(cx)).await {
            Some(Ok(chunk)) => {
                let seen = watch.take(chunk);
                if let Some(fault) = seen.fault {
                    return Err(fault);
                }
                let is_open =
                    watch.has_begun() || OPENING_BYTES_MAX < held.len() + seen.relay.len();
                if held.is_empty() && is_open {
                    return Ok(Opened { answer, watch, first: seen.relay });
                }
                held.extend_from_slice(&seen.relay);
                if is_open {
                    return Ok(Opened { answer, watch, first: held.freeze() });
                }
            }
            Some(Err(error)) => return Err(Fault::Broken(error.to_string())),
            None => return Err(Fault::Broken("it ended before its first token".to_owned())),
        }
    }
}

/// Waits for the first bytes of a recording or a picture, which goes out as it comes: a player begins before the worker
/// has made the end.
///
/// # Errors
/// [`Fault::Broken`] where it breaks off before, or has none.
pub(crate) async fn open_bytes(mut answer: AnswerBody) -> Result<Opened, Fault> {
    match poll_fn(|cx| answer.poll_data(cx)).await {
        Some(Ok(first)) => Ok(Opened { answer, watch: Watch::of_bytes(), first }),
        Some(Err(error)) => Err(Fault::Broken(error.to_string())),
        None => Err(Fault::Broken("it ended before its first byte".to_owned())),
    }
}
