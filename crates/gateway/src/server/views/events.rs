//! Event stream of a view: the view once a second, as server-sent events.
//!
//! Of requests only those that ended since the last event are sent. A client that reads slowly gets
//! fewer events, never a backlog: the next view is made when the last one has been taken.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use overdraft_http::{Body, Drain, Exchange, reply};
use overdraft_wire::ApiError;

use super::request_filter::RequestFilter;
use super::{View, requests, text};
use crate::server::Gateway;

/// Streams that may be open at once; a page that gets none asks for the view again and again.
pub(super) const STREAMS_MAX: usize = 32;

/// Between two events.
const INTERVAL: Duration = Duration::from_secs(1);

/// A stream's place among those that are open.
struct Place(Arc<Gateway>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.event_streams.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Stream {
    place: Place,
    view: View,
    filter: RequestFilter,
    drain: Drain,
    is_first: bool,
}

/// The view as it changes.
pub(super) fn stream(
    gateway: &Arc<Gateway>,
    exchange: &Exchange,
    view: View,
    filter: RequestFilter,
) -> Response<Body> {
    let one_more = |open| (open < STREAMS_MAX).then_some(open + 1);
    let taken = gateway.event_streams.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
    if taken.is_err() {
        let why =
            format!("all {STREAMS_MAX} event streams are in use; request the view itself instead");
        return reply::error(&ApiError::overloaded(why));
    }
    let place = Place(Arc::clone(gateway));
    let stream = Stream { place, view, filter, drain: exchange.drain.clone(), is_first: true };
    reply::event_stream(Body::unfold(stream, |stream| async { Ok(stream.next().await) }))
}

impl Stream {
    /// The next event; none once the gateway shuts down.
    async fn next(mut self) -> Option<(Bytes, Self)> {
        if !std::mem::replace(&mut self.is_first, false) {
            tokio::select! {
                () = tokio::time::sleep(INTERVAL) => {}
                () = self.drain.closing() => return None,
            }
        }
        let Place(gateway) = &self.place;
        let json = if self.view == View::Requests {
            let view = requests::view(gateway, &self.filter);
            self.filter.after = Some(view.next);
            text(&view)
        } else {
            self.view.json(gateway, &self.filter)?
        };
        let mut event = Vec::with_capacity(json.len() + 8);
        event.extend_from_slice(b"data: ");
        event.extend_from_slice(&json);
        event.extend_from_slice(b"\n\n");
        Some((event.into(), self))
    }
}
