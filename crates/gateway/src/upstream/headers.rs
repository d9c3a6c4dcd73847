//! Header filtering: which headers pass from client to worker and back.
//!
//! To a worker go only the headers of an allow list, each built or checked here, so that no
//! client's header reaches a worker unchecked. To the client go all headers except hop-by-hop ones
//! and those that the gateway sets itself. `headers` in the configuration lets more through to workers, or fewer to
//! clients.

use http::header::{
    ACCEPT, ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, DATE,
    HOST, SERVER, SET_COOKIE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, USER_AGENT, VIA,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use overdraft_wire::kv_blocks::SOURCE_HEADER;

use crate::settings::{Credentials, HeaderSettings};
use crate::trace::{self, TRACE_PARENT, TRACE_STATE};
use crate::upstream::Upstream;

/// The `User-Agent` of our requests to workers.
pub(crate) const AGENT: HeaderValue =
    HeaderValue::from_static(concat!("overdraft/", env!("CARGO_PKG_VERSION")));
/// The content type of all requests to workers.
pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Accepts any content type.
pub(crate) const ANYTHING: HeaderValue = HeaderValue::from_static("*/*");

const ANY_ANSWER: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const OURSELVES: HeaderValue = HeaderValue::from_static("1.1 overdraft");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const WORKER: HeaderName = HeaderName::from_static("x-overdraft-worker");
const KV_SOURCE: HeaderName = HeaderName::from_static(SOURCE_HEADER);
const RANK: HeaderName = HeaderName::from_static("x-data-parallel-rank");
const ANTHROPIC_VERSION: HeaderName = HeaderName::from_static("anthropic-version");
const ANTHROPIC_BETA: HeaderName = HeaderName::from_static("anthropic-beta");
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// Maximum bytes of a client's header that is passed on.
const PASSED_VALUE_BYTES_MAX: usize = 512;

/// Headers that the configuration lets through of one request at most, and bytes of each.
const NAMED_MAX: usize = 32;
const NAMED_VALUE_BYTES_MAX: usize = 4 * 1024;

/// Room for every header that a worker is sent as a rule.
const OUTGOING_HEADERS: usize = 12;

/// Headers that speak of the connection they came over, that the listener sets itself, or that would share answers
/// with pages which only `cors` may allow.
const NOT_RELAYED: [HeaderName; 16] = [
    ACCESS_CONTROL_ALLOW_CREDENTIALS,
    ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS,
    CONNECTION,
    KEEP_ALIVE,
    PROXY_CONNECTION,
    TRANSFER_ENCODING,
    CONTENT_LENGTH,
    TE,
    TRAILER,
    UPGRADE,
    DATE,
    SERVER,
    SET_COOKIE,
    REQUEST_ID,
    VIA,
];

/// The head's fields of a request to a worker; `from` are the client's.
pub(crate) fn outgoing(
    from: &HeaderMap,
    upstream: &Upstream,
    request_id: &HeaderValue,
    credentials: Credentials,
) -> HeaderMap {
    let mut to = HeaderMap::with_capacity(OUTGOING_HEADERS);
    to.insert(HOST, upstream.host.clone());
    to.insert(CONTENT_TYPE, JSON);
    to.insert(ACCEPT, ANY_ANSWER);
    to.insert(USER_AGENT, AGENT);
    to.insert(VIA, OURSELVES);
    to.insert(REQUEST_ID, request_id.clone());
    if let Some(rank) = &upstream.rank {
        to.insert(RANK, rank.clone());
    }
    // What does not parse is no context, and its state belongs to nothing.
    if trace::parent(from).is_some() {
        pass(from, &mut to, TRACE_PARENT);
        pass(from, &mut to, TRACE_STATE);
    }
    match (&upstream.key, credentials) {
        (Some((name, key)), _) => drop(to.insert(name.clone(), key.clone())),
        (None, Credentials::Forward) => pass(from, &mut to, AUTHORIZATION),
        (None, Credentials::Strip) => {}
    }
    to
}

/// The head's fields of a question of the gateway's own.
pub(crate) fn own(upstream: &Upstream) -> HeaderMap {
    let mut to = HeaderMap::with_capacity(OUTGOING_HEADERS);
    to.insert(HOST, upstream.host.clone());
    to.insert(USER_AGENT, AGENT);
    to.insert(ACCEPT, ANYTHING);
    if let Some((name, key)) = &upstream.key {
        to.insert(name.clone(), key.clone());
    }
    to
}

/// Names a worker that has more of the prompt. What a client says under this name is not passed on.
pub(crate) fn name_source(to: &mut HeaderMap, source: &Upstream) {
    let host = source.host.to_str().unwrap_or_default();
    if let Ok(value) = HeaderValue::from_str(&format!("{}://{host}", source.scheme())) {
        to.insert(KV_SOURCE, value);
    }
}

/// Copies a header that came once, is short and printable.
fn pass(from: &HeaderMap, to: &mut HeaderMap, name: HeaderName) {
    let mut values = from.get_all(&name).iter();
    if let (Some(value), None) = (values.next(), values.next())
        && value.len() <= PASSED_VALUE_BYTES_MAX
        && value.to_str().is_ok()
    {
        to.insert(name, value.clone());
    }
}

/// Copies the versions and trials of its dialect that one of Anthropic's clients names.
pub(crate) fn pass_versions(from: &HeaderMap, to: &mut HeaderMap) {
    pass(from, to, ANTHROPIC_VERSION);
    let is_good =
        |value: &&HeaderValue| value.len() <= NAMED_VALUE_BYTES_MAX && value.to_str().is_ok();
    // A client may write a line for each.
    for value in from.get_all(&ANTHROPIC_BETA).iter().filter(is_good).take(NAMED_MAX) {
        to.append(ANTHROPIC_BETA, value.clone());
    }
}

/// Copies the client's headers that the configuration lets through, but for those that the gateway has written.
pub(crate) fn pass_named(from: &HeaderMap, to: &mut HeaderMap, settings: &HeaderSettings) {
    let passes = passes(from, settings);
    let is_named = |&name: &&HeaderName| passes(name) && !to.contains_key(name);
    let named: Vec<HeaderName> = from.keys().filter(is_named).take(NAMED_MAX).cloned().collect();
    for name in named {
        let is_short = |value: &&HeaderValue| value.len() <= NAMED_VALUE_BYTES_MAX;
        for value in from.get_all(&name).iter().take(NAMED_MAX).filter(is_short) {
            to.append(name.clone(), value.clone());
        }
    }
}

/// The client's headers that the configuration lets through, sorted by name: the answer may depend on each of them. A
/// header that came more than once is there as often, in the order in which it came.
pub(crate) fn named<'a>(
    from: &'a HeaderMap,
    settings: &HeaderSettings,
) -> Vec<(&'a HeaderName, &'a HeaderValue)> {
    let passes = passes(from, settings);
    let mut named: Vec<_> = from.iter().filter(|&(name, _)| passes(name)).collect();
    named.sort_by_key(|&(name, _)| name.as_str());
    named
}

/// Whether the configuration lets a header of this client through.
fn passes(from: &HeaderMap, settings: &HeaderSettings) -> impl Fn(&HeaderName) -> bool {
    let of_connection: Vec<HeaderName> = nominated(from).collect();
    move |name| settings.go_to_workers(name) && !of_connection.contains(name)
}

/// The headers that a `connection` header makes its own.
fn nominated(headers: &HeaderMap) -> impl Iterator<Item = HeaderName> {
    headers
        .get_all(CONNECTION)
        .iter()
        .flat_map(|names| names.to_str().unwrap_or_default().split(','))
        .filter_map(|name| HeaderName::try_from(name.trim()).ok())
}

/// Turns the head's fields of a worker's answer into those of ours.
pub(crate) fn relayed(
    headers: &mut HeaderMap,
    upstream: &Upstream,
    settings: Option<&HeaderSettings>,
) {
    let nominated = nominated(headers).filter(|name| *name != CONTENT_TYPE);
    let is_named = |name: &HeaderName| {
        settings.is_none_or(|settings| settings.go_to_clients(name)) || *name == CONTENT_TYPE
    };
    // An answer has a handful; to look for each that it might have takes longer.
    let gone = |name: &&HeaderName| NOT_RELAYED.contains(name) || !is_named(name);
    let ours = headers.keys().filter(gone).cloned();
    let gone: Vec<HeaderName> = nominated.chain(ours).collect();
    for name in &gone {
        headers.remove(name);
    }
    signed(headers, upstream);
}

/// Tells which worker answered, and that we stand between.
pub(crate) fn signed(headers: &mut HeaderMap, upstream: &Upstream) {
    headers.insert(VIA, OURSELVES);
    headers.insert(WORKER, upstream.name.clone());
}
