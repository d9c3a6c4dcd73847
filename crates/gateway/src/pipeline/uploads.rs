//! Uploads: a fair share, for each client, of the places in flight whose requests' bodies are still on their way.
//!
//! A place is taken before the body is read, and held for as long as the client takes to send it. A client that begins
//! bodies and ends none would have all places, before any budget is charged. So one client may have as many bodies on
//! their way as places are free, the rule by which bodies share memory (dynamic thresholds, Choudhury and Hahne, 1998).
//! Alone it gets half of the places, beside others less, and some are always left for who comes next. What has come
//! already takes no time and so no share.
//!
//! Invariant: an upload counts until it is dropped.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use bytes::Bytes;
use overdraft_http::{BodyOwner, Exchange, RequestBody};
use overdraft_units::Micros;
use overdraft_wire::ApiError;

use super::Pipeline;
use super::keys::Caller;
use super::refusal::{Refused, Retry};

/// How many bodies of each client are on their way.
#[derive(Debug, Default)]
pub(crate) struct Uploads(Mutex<BTreeMap<BodyOwner, usize>>);

impl Uploads {
    /// Begins an upload of `owner` beside so many places that are free; none where others of its own are on their way in
    /// more places than that.
    fn begin(self: &Arc<Self>, owner: BodyOwner, free: usize) -> Option<Upload> {
        let mut uploads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = uploads.get(&owner).copied().unwrap_or_default();
        (own <= free).then(|| {
            uploads.insert(owner, own + 1);
            Upload { uploads: Arc::clone(self), owner }
        })
    }
}

/// A body on its way.
#[derive(Debug)]
struct Upload {
    uploads: Arc<Uploads>,
    owner: BodyOwner,
}

impl Drop for Upload {
    fn drop(&mut self) {
        let mut uploads = self.uploads.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left = uploads.get(&self.owner).map_or(0, |own| own.saturating_sub(1));
        if left == 0 {
            uploads.remove(&self.owner);
        } else {
            uploads.insert(self.owner, left);
        }
    }
}

/// Reads the body of a request of `caller` that has its place in flight.
///
/// # Errors
/// 429 where it is on its way still and its client's share of the places is taken; else as the body cannot be read.
pub(crate) async fn read_body(
    pipeline: &Pipeline,
    exchange: &Exchange,
    caller: &Caller,
    body: RequestBody,
) -> Result<Bytes, Refused> {
    let owner = caller.body_owner(exchange.peer.ip());
    exchange.belongs_to(owner);
    let mut reading = pin!(pipeline.buffers.read(body));
    if let Poll::Ready(read) = poll_fn(|cx| Poll::Ready(reading.as_mut().poll(cx))).await {
        return Ok(read?);
    }
    let Some(_upload) = pipeline.uploads.begin(owner, pipeline.free_places()) else {
        return Err(too_many());
    };
    Ok(reading.await?)
}

/// Its client's other bodies are still on their way.
fn too_many() -> Refused {
    let error = ApiError::rate_limited(
        "too many request bodies of this client are incomplete (the gateway's `limits.requests`); \
         finish sending them and try again in a moment",
    );
    Refused::for_room(error, "bodies", Retry::After(Micros::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: usize = 12;

    /// Begins as many uploads of a tenant as may be beside those that are held.
    fn fill(uploads: &Arc<Uploads>, held: &mut Vec<Upload>, tenant: u8) -> usize {
        let before = held.len();
        // The request has its own place by then.
        while let Some(free) = PLACES.checked_sub(held.len() + 1) {
            let Some(upload) = uploads.begin(BodyOwner::Tenant([tenant; 32]), free) else { break };
            held.push(upload);
        }
        held.len() - before
    }

    #[test]
    fn one_client_gets_half_of_the_places_and_leaves_some_to_the_next() {
        let uploads: Arc<Uploads> = Arc::default();
        let mut held = Vec::new();
        let begun = [1, 2, 3, 4].map(|tenant| fill(&uploads, &mut held, tenant));
        assert_eq!(begun, [6, 3, 2, 1]);
        held.clear();
        assert!(uploads.0.lock().unwrap().is_empty());
        assert_eq!(fill(&uploads, &mut held, 4), 6, "all were given back");
    }
}
