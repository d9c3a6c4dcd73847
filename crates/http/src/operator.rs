//! Operator authorisation: by admin token, or by loopback where there is none.
//!
//! With a token, a request is the operator's if it presents the token; without one, if it comes
//! over the loopback interface, is not forwarded for another machine, and names this machine.

use std::net::IpAddr;

use http::header::{AUTHORIZATION, HOST};
use http::uri::Authority;
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
        let is_local = exchange.peer.ip().to_canonical().is_loopback();
        return direct && is_local && is_host_trusted(&[], head);
    };
    presents(token, head)
}

/// Whether a request presents the admin token.
pub fn presents(token: &str, head: &HeaderMap) -> bool {
    let presented = head
        .get(AUTHORIZATION)
        .and_then(|value| value.as_bytes().strip_prefix(b"Bearer "))
        .into_iter()
        .chain(head.get(ADMIN).map(HeaderValue::as_bytes));
    presented.into_iter().any(|presented| is_same(presented, token.as_bytes()))
}

/// Whether the `host` of a request is an address, `localhost`, or one of `names`.
///
/// The owner of a web page may have its name resolve to this machine (DNS rebinding): the browser of
/// an operator who reads the page then takes our answers for the page's own. An address cannot be
/// made to point elsewhere. A request without the header is of no browser.
pub fn is_host_trusted(names: &[String], head: &HeaderMap) -> bool {
    let Some(value) = head.get(HOST) else { return true };
    let Ok(authority) = Authority::try_from(value.as_bytes()) else { return false };
    let host = authority.host();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    address.parse::<IpAddr>().is_ok()
        || host.eq_ignore_ascii_case("localhost")
        || names.iter().any(|name| host.eq_ignore_ascii_case(name))
}

/// Compares in constant time.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let differs = one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b));
    differs == 0 && one.len() == other.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(host: &str, trusted: bool) {
        let names = ["overdraft-admin.llm.svc".to_owned()];
        let value = HeaderValue::from_str(host).expect("a header's value");
        let head = HeaderMap::from_iter([(HOST, value)]);
        assert_eq!(is_host_trusted(&names, &head), trusted, "{host}");
    }

    #[test]
    fn an_address_and_a_known_name_are_trusted_and_no_other_name_is() {
        for host in ["127.0.0.1", "10.1.2.3:9091", "[::1]:9091", "[2001:db8::7]", "localhost:1"] {
            check(host, true);
        }
        check("LocalHost", true);
        check("Overdraft-Admin.llm.svc:9091", true);
        for host in ["page.example", "localhost.page.example:9091", "127.0.0.1.page.example"] {
            check(host, false);
        }
        for host in ["", "a b", "overdraft-admin.llm.svc.page.example"] {
            check(host, false);
        }
        assert!(is_host_trusted(&[], &HeaderMap::new()), "no browser leaves it out");
    }
}
