//! Ports of addresses: read once, in one place, and never another one silently.

use core::fmt;

/// What stands behind a host's colon is no port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAPort;

impl fmt::Display for NotAPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("its port is not a number from 1 to 65535")
    }
}

impl core::error::Error for NotAPort {}

/// The port that `authority` names, as in `host:8001` or `[::1]:8001`; `default` where it names none.
///
/// ```
/// use overdraft_units::port_of;
///
/// assert_eq!(port_of("host:8001", 80), Ok(8001));
/// assert_eq!(port_of("[::1]", 80), Ok(80));
/// assert!(port_of("127.0.0.1:80800", 80).is_err());
/// ```
///
/// # Errors
/// [`NotAPort`] for anything else behind the colon; parsers of URLs pass over a port that is too large.
pub fn port_of(authority: &str, default: u16) -> Result<u16, NotAPort> {
    let host = authority.rfind(']').map_or(0, |bracket| bracket + 1);
    match authority[host..].rsplit_once(':') {
        None => Ok(default),
        Some((_, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            port.parse().ok().filter(|&port| 0 < port).ok_or(NotAPort)
        }
        Some(_) => Err(NotAPort),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_what_the_address_says_or_an_error() {
        let cases = [
            ("a", Ok(80)),
            ("a:1", Ok(1)),
            ("a:65535", Ok(65_535)),
            ("[::1]:8001", Ok(8_001)),
            ("[::1]", Ok(80)),
            ("a:65536", Err(NotAPort)),
            ("a:80800", Err(NotAPort)),
            ("a:0", Err(NotAPort)),
            ("a:", Err(NotAPort)),
            ("a:-1", Err(NotAPort)),
            ("a:8x", Err(NotAPort)),
        ];
        for (authority, port) in cases {
            assert_eq!(port_of(authority, 80), port, "{authority}");
        }
    }
}
