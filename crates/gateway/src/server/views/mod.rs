//! Dashboard: the page, the JSON views it reads, and their stream of events.
//!
//! | subject                                | file             |
//! |----------------------------------------|------------------|
//! | The page and its headers               | `page.rs`        |
//! | Views by name, and who may read them   | this file        |
//! | Server-sent events, once a second      | `events.rs`      |
//! | Workers                                | `fleet.rs`       |
//! | Requests and their decisions           | `requests.rs`, `request_filter.rs` |
//! | Queue, cache, speculation, cost        | `subjects.rs`    |
//! | The state of all in one look           | `now.rs`         |
//! | One sample a second                    | `sampler.rs`     |
//!
//! Views only read. **Invariants.** No view has the text of a prompt or of an answer. The core is locked
//! for a handful of workers at a time. What is computed each second does not grow with those who watch
//! beyond [`STREAMS_MAX`](events::STREAMS_MAX).

mod events;
mod fleet;
mod now;
mod page;
mod request_filter;
mod requests;
mod sampler;
mod subjects;

use std::sync::Arc;

use http::header::{CACHE_CONTROL, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use overdraft_http::{Body, Exchange, reply};
use overdraft_telemetry::Audience;
use overdraft_units::Micros;
use overdraft_wire::{ApiError, ErrorKind};
use serde::Serialize;

pub(super) use self::page::answer as page;
use self::request_filter::RequestFilter;
pub(crate) use self::sampler::keep;
use super::Gateway;

/// What browsers say of where a request comes from.
const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// A view by its name in a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum View {
    Now,
    History,
    Fleet,
    Requests,
    /// One request by its name.
    Request(String),
    Queue,
    Cache,
    Cascade,
    Speculation,
    Cost,
}

impl View {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "now" => Self::Now,
            "history" => Self::History,
            "fleet" => Self::Fleet,
            "requests" => Self::Requests,
            "queue" => Self::Queue,
            "cache" => Self::Cache,
            "cascade" => Self::Cascade,
            "speculation" => Self::Speculation,
            "cost" => Self::Cost,
            _ => Self::Request(super::percent::unescaped(name.strip_prefix("requests/")?)),
        })
    }

    /// Of what is behind `/admin/views/` or, with `events` alone, behind `/admin/events/`.
    pub(super) fn of_path(path: &str) -> Option<ViewRoute> {
        if let Some(name) = path.strip_prefix("views/") {
            return Self::of(name).map(ViewRoute::Once);
        }
        let view = Self::of(path.strip_prefix("events/")?)?;
        (!matches!(view, Self::Request(_) | Self::History)).then_some(ViewRoute::Stream(view))
    }

    /// The view as JSON; `None` where there is no such request.
    fn json(&self, gateway: &Gateway, filter: &RequestFilter) -> Option<Vec<u8>> {
        Some(match self {
            Self::Now => text(&now::view(gateway)),
            Self::History => text(&gateway.history.view()),
            Self::Fleet => text(&fleet::view(gateway)),
            Self::Requests => text(&requests::view(gateway, filter)),
            Self::Request(id) => text(&requests::detail(gateway, id)?),
            Self::Queue => text(&subjects::queue(gateway)),
            Self::Cache => text(&subjects::cache(gateway)),
            Self::Cascade => text(&subjects::cascade(gateway)),
            Self::Speculation => text(&subjects::speculation(gateway)),
            Self::Cost => text(&subjects::cost(gateway)),
        })
    }
}

/// A view once, or as it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ViewRoute {
    Once(View),
    Stream(View),
}

/// Answers a request for a view, from a caller who may see what operators may.
pub(super) fn answer(
    gateway: &Arc<Gateway>,
    exchange: &Exchange,
    query: Option<&str>,
    route: ViewRoute,
) -> Response<Body> {
    exchange.access.note(|record| record.audience = Audience::Debugger);
    let filter = match RequestFilter::of_query(query.unwrap_or_default()) {
        Ok(filter) => filter,
        Err(error) => return reply::error(&error),
    };
    match route {
        ViewRoute::Stream(view) => events::stream(gateway, exchange, view, filter),
        ViewRoute::Once(view) => match view.json(gateway, &filter) {
            Some(json) => {
                let mut response = reply::json(StatusCode::OK, json);
                let no_store = HeaderValue::from_static("no-store");
                response.headers_mut().insert(CACHE_CONTROL, no_store);
                response
            }
            None => reply::error(&ApiError::new(
                ErrorKind::NotFound,
                "the log has no such request; it keeps the last ones only, see `dashboard.requests`"
                    .to_owned(),
            )),
        },
    }
}

/// Whether a page of another site sent this, or one that calls this machine by a name of its own. Where
/// there is no token, being on this machine is all that makes an operator, and browsers on it show
/// everybody's pages.
pub(super) fn is_foreign(has_token: bool, head: &HeaderMap) -> bool {
    let site = head.get(SITE).map(HeaderValue::as_bytes);
    if site.is_some_and(|site| site != b"same-origin" && site != b"none") {
        return true;
    }
    let host = head.get(HOST).and_then(|host| host.to_str().ok());
    !has_token && host.is_some_and(|host| !is_local(host))
}

/// Whether a `Host` names this machine by its address or as `localhost`.
fn is_local(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok()
}

fn text(view: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(view).expect("a view has string keys")
}

/// In milliseconds, to a hundredth of one.
#[expect(clippy::cast_precision_loss, reason = "no request takes 285 years")]
fn ms(time: Micros) -> f64 {
    (time.get() / 10) as f64 / 100.0
}

/// The value at a share of sorted values, if there are any.
fn quantile(sorted: &[Micros], permille: usize) -> Option<Micros> {
    let at = (sorted.len() * permille).div_ceil(1_000).checked_sub(1)?;
    sorted.get(at).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_views() {
        assert_eq!(View::of_path("views/now"), Some(ViewRoute::Once(View::Now)));
        assert_eq!(View::of_path("events/fleet"), Some(ViewRoute::Stream(View::Fleet)));
        let one = View::Request("a/b".to_owned());
        assert_eq!(View::of_path("views/requests/a%2Fb"), Some(ViewRoute::Once(one)));
        for path in ["views/", "views/none", "events/requests/a", "events/history", "workers"] {
            assert_eq!(View::of_path(path), None, "{path}");
        }
    }

    #[test]
    fn a_page_of_another_site_is_foreign() {
        let head = |pairs: &[(&'static str, &'static str)]| {
            let one = |&(name, value): &(&'static str, &'static str)| {
                (HeaderName::from_static(name), HeaderValue::from_static(value))
            };
            pairs.iter().map(one).collect::<HeaderMap>()
        };
        let check = |has_token, pairs: &[(&'static str, &'static str)], expected| {
            assert_eq!(is_foreign(has_token, &head(pairs)), expected, "{pairs:?}");
        };
        check(false, &[], false);
        check(false, &[("host", "127.0.0.1:8080")], false);
        check(false, &[("host", "localhost:8080"), ("sec-fetch-site", "same-origin")], false);
        check(false, &[("host", "[::1]:8080"), ("sec-fetch-site", "none")], false);
        check(false, &[("host", "evil.example:8080")], true);
        check(true, &[("host", "gateway.example")], false);
        check(true, &[("host", "gateway.example"), ("sec-fetch-site", "cross-site")], true);
        check(false, &[("sec-fetch-site", "same-site")], true);
    }

    #[test]
    fn quantiles_are_values_that_were_seen() {
        let sorted: Vec<Micros> = (1..=20).map(Micros::new).collect();
        assert_eq!(quantile(&sorted, 500), Some(Micros::new(10)));
        assert_eq!(quantile(&sorted, 950), Some(Micros::new(19)));
        assert_eq!(quantile(&sorted[..1], 950), Some(Micros::new(1)));
        assert_eq!(quantile(&[], 950), None);
    }
}
