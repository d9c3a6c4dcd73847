//! Operator authorisation: by admin token, or by loopback where there is none.
//!
//! With a token, a request is the operator's if it presents the token; without one, if it comes
//! over the loopback interface and is not forwarded for somebody else.

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::Exchange;

/// Header of the admin token for requests whose `authorization` is a client's key.
const ADMIN: HeaderName = HeaderName::from_static("x-overdraft-admin");

/// Headers that mark a forwarded request.
const SPEAKS_FOR_OTHERS: [&str; 4] = ["forwarded", "origin", "via", "x-forwarded-for"];

/// Whether the sender of a request has the rights of an operator.
pub fn is_operator(token: Option<&str>, exchange: &Exchange, head: &HeaderMap) -> bool {
    let Some(token) = token else {
        // A proxy on this machine, and a page in a browser on it, speak for others.
        let direct = SPEAKS_FOR_OTHERS.iter().all(|name| !head.contains_key(*name));
        return direct && exchange.peer.ip().to_canonical().is_loopback();
    };
    let presented = head
        .get(AUTHORIZATION)
        .and_then(|value| value.as_bytes().strip_prefix(b"Bearer "))
        .into_iter()
        .chain(head.get(ADMIN).map(HeaderValue::as_bytes));
    presented.into_iter().any(|presented| is_same(presented, token.as_bytes()))
}

/// Compares in constant time.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let differs = one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b));
    differs == 0 && one.len() == other.len()
}
