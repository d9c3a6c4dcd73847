//! Acceptor: makes an exchange of every request on one connection, or refuses it before its handler.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, HOST, TRANSFER_ENCODING,
};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Request, Response, Uri, Version};
use hyper::body::Incoming;
use hyper::service::Service as HyperService;
use overdraft_telemetry::RequestId;
use overdraft_wire::{ApiError, ErrorKind};

use crate::answer::{Answering, REQUEST_ID, Watched};
use crate::body::Body;
use crate::body_budget::BodyOwner;
use crate::coding::{self, Coding};
use crate::drain::Drain;
use crate::exchange::{Access, AccessGuard, Exchange};
use crate::limits::Limits;
use crate::line::Line;
use crate::reply;
use crate::request_body::RequestBody;
use crate::service::Service;
use crate::shared::Shared;
use crate::streams::Streams;

/// What may be asked for on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Everything.
    Full,
    /// What is vital: there is no room for more.
    Vital,
}

/// Who is at the other end of a connection, and what it may ask for.
pub(crate) struct Client<S> {
    pub(crate) shared: Arc<Shared<S>>,
    pub(crate) peer: SocketAddr,
    pub(crate) drain: Drain,
    pub(crate) scope: Scope,
}

impl<S> Clone for Client<S> {
    fn clone(&self) -> Self {
        let Self { shared, peer, drain, scope } = self;
        Self { shared: Arc::clone(shared), peer: *peer, drain: drain.clone(), scope: *scope }
    }
}

/// Makes an exchange of every request on one connection.
pub(crate) struct Acceptor<S> {
    client: Client<S>,
    line: Arc<Line>,
    /// Where its requests have tasks of their own (HTTP/2).
    streams: Option<Arc<Streams>>,
}

impl<S> Acceptor<S> {
    pub(crate) const fn new(
        client: Client<S>,
        line: Arc<Line>,
        streams: Option<Arc<Streams>>,
    ) -> Self {
        Self { client, line, streams }
    }
}

impl<S: Service> HyperService<Request<Incoming>> for Acceptor<S> {
    type Response = Response<Watched>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, mut request: Request<Incoming>) -> Answering {
        let Client { peer, drain, scope, .. } = &self.client;
        let shared = Arc::clone(&self.client.shared);
        let id = request
            .headers()
            .get(REQUEST_ID)
            .and_then(|value| value.to_str().ok())
            .and_then(RequestId::from_client)
            .unwrap_or_else(|| shared.ids.next());
        let exchange = Exchange {
            id: id.clone(),
            peer: *peer,
            begun: shared.clock.now(),
            access: Access::default(),
            drain: drain.clone(),
            body: Arc::new(shared.bodies.lease(BodyOwner::Peer(peer.ip()))),
        };
        exchange.access.note(|record| {
            id.as_str().clone_into(&mut record.request);
            request.method().as_str().clone_into(&mut record.method);
            request.uri().path().clone_into(&mut record.path);
        });
        let guard = AccessGuard::new(&exchange, shared.clock, Arc::clone(&self.line));
        let line = Arc::clone(&self.line);
        let refusal = refusal(&request, *scope, &shared.limits);
        let pulse = self.streams.as_ref().map(|streams| {
            settle_authority(&mut request);
            if *scope == Scope::Vital && refusal.is_some() {
                // As `connection: close` says with HTTP/1.
                line.oust();
            }
            streams.begin(exchange.access.clone())
        });
        let coding = take_coding(request.headers_mut());
        let lease = Arc::clone(&exchange.body);
        let request =
            request.map(|body| RequestBody::new(body, &shared.limits, line, lease, coding));
        let handler = Box::pin(async move {
            let Some(mut refused) = refusal else {
                return shared.service.call(exchange, request).await;
            };
            let (head, _unread) = request.into_parts();
            shared.service.sign_refusal(&head, refused.headers_mut());
            refused
        });
        Answering::new(handler, id, guard, pulse)
    }
}

/// Makes a request of HTTP/2 look as one of HTTP/1: the host in `host`, the target without it.
fn settle_authority<B>(request: &mut Request<B>) {
    let Some(authority) = request.uri().authority() else { return };
    if let Ok(host) = HeaderValue::from_str(authority.as_str()) {
        request.headers_mut().insert(HOST, host);
    }
    if let Some(target) = request.uri().path_and_query().cloned() {
        *request.uri_mut() = Uri::from(target);
    }
}

/// Takes out what a body is encoded by, and the length that it has then: whoever reads it reads it decoded.
fn take_coding(head: &mut HeaderMap) -> Option<Coding> {
    let coding = Coding::of(head).ok().flatten()?;
    head.remove(CONTENT_ENCODING);
    head.remove(CONTENT_LENGTH);
    Some(coding)
}

/// Why a request is answered without its handler, if it is. RFC 9112 names a bad `Host` (section 3.2) and transfer
/// codings (section 6.1), RFC 9113 a bad `:authority` (section 8.3.1), RFC 9110 encodings that are not understood
/// (section 8.4); besides, there may be no room.
fn refusal<B>(request: &Request<B>, scope: Scope, limits: &Limits) -> Option<Response<Body>> {
    let headers = request.headers();
    if request.version() == Version::HTTP_2 {
        if !has_good_authority(request.uri(), headers) {
            let why =
                "expected an `:authority` with a host and perhaps a port, and no other `host`";
            return Some(reply::error(&ApiError::new(ErrorKind::InvalidRequest, why)));
        }
        if limits.headers < headers.len() {
            let why = format!("at most {} header lines are taken", limits.headers);
            return Some(reply::error(&ApiError::new(ErrorKind::HeadTooLarge, why)));
        }
    } else if !has_good_host(request.version(), headers) {
        let why = "expected one `Host` header with a host and perhaps a port";
        return Some(reply::error(&ApiError::new(ErrorKind::InvalidRequest, why)));
    } else if !has_plain_framing(headers) {
        let why = "the `transfer-encoding` is not understood; expected `chunked` alone, or a `content-length`";
        return Some(closing(&ApiError::new(ErrorKind::InvalidRequest, why)));
    }
    if let Err(encoding) = Coding::of(headers) {
        let why = format!(
            "the content encoding {encoding:?} is not understood; expected `gzip`, `zstd`, or the \
             body as it is"
        );
        let mut response = reply::error(&ApiError::new(ErrorKind::UnsupportedMediaType, why));
        response.headers_mut().insert(ACCEPT_ENCODING, coding::UNDERSTOOD);
        return Some(response);
    }
    (scope == Scope::Vital && !limits.vital.contains(&request.uri().path())).then(|| {
        let why = "the server's limit of connections is reached; try again in a moment";
        closing(&ApiError::overloaded(why))
    })
}

/// A refusal after which the connection is closed.
fn closing(error: &ApiError) -> Response<Body> {
    let mut response = reply::error(error);
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Whether a body is in chunks and nothing else, if it has a transfer coding: hyper reads the chunks and hands over what
/// is coded in them as if it were the body.
fn has_plain_framing(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let is_chunked =
        |coding: &HeaderValue| coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked");
    codings.next().is_none_or(is_chunked) && codings.next().is_none()
}

fn has_good_host(version: Version, headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.is_empty() || host.to_str().is_ok_and(is_authority),
        (None, _) => version < Version::HTTP_11,
        (Some(_), Some(_)) => false,
    }
}

/// Whether `:authority` and `host` name one host, in either or in both.
fn has_good_authority(target: &Uri, headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(HOST).iter();
    match (target.authority(), hosts.next(), hosts.next()) {
        (Some(authority), None, _) => is_authority(authority.as_str()),
        (Some(authority), Some(host), None) => {
            let is_same = host.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes());
            is_same && is_authority(authority.as_str())
        }
        (None, Some(host), None) => host.to_str().is_ok_and(is_authority),
        (None, None, _) | (_, Some(_), Some(_)) => false,
    }
}

fn is_authority(host: &str) -> bool {
    host.parse::<Authority>().is_ok() && !host.contains('@')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(target: &str, hosts: &[&str], good: bool) {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(HOST, HeaderValue::from_str(host).expect("a header's value"));
        }
        let target: Uri = target.parse().expect("a target");
        assert_eq!(has_good_authority(&target, &headers), good, "{target} {hosts:?}");
    }

    #[test]
    fn authority_and_host_name_one_host() {
        check("http://a:80/x", &[], true);
        check("http://a/x", &["A"], true);
        check("/x", &["a:80"], true);
        check("http://a/x", &["b"], false);
        check("http://user@a/x", &[], false);
        check("/x", &[], false);
        check("/x", &["a", "a"], false);
        check("/x", &["user@a"], false);
    }

    #[test]
    fn a_request_of_http2_has_its_host_where_one_of_http1_has_it() {
        let mut request =
            Request::get("https://a.example:8443/v1/models?x=1").body(()).expect("one");
        settle_authority(&mut request);
        assert_eq!(request.headers()[HOST], "a.example:8443");
        assert_eq!(request.uri().to_string(), "/v1/models?x=1");
    }
}
