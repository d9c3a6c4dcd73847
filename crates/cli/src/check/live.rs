//! `overdraft check --live`: asks one address whether it is well, for the health checks of images,
//! which have neither shell nor curl.

use crate::ask::{self, Address, Want};
use crate::fault::Fault;

/// What is asked of an address without a path.
const PATH: &str = "/readyz";

/// Ends well where `url` answers with a status of 2xx.
pub(super) fn run(url: &str) -> Result<(), Fault> {
    let (place, path) = split(url);
    let address = Address::of_url(place);
    let address = address.map_err(|error| Fault::input(format!("`{url}`: {error}")))?;
    let asked = ask::get(&address, path, Want::Status);
    match crate::runtime::runtime()?.block_on(asked) {
        Ok((status, _)) if status.is_success() => Ok(()),
        Ok((status, _)) => Err(Fault::running(format!("`{url}` says {status}"))),
        Err(error) => Err(Fault::running(format!("`{url}`: {error}"))),
    }
}

/// Scheme, host and port; then the path.
fn split(url: &str) -> (&str, &str) {
    let begin = url.find("://").map_or(0, |place| place + 3);
    match url[begin..].find('/') {
        Some(slash) if begin + slash + 1 < url.len() => url.split_at(begin + slash),
        Some(slash) => (&url[..begin + slash], PATH),
        None => (url, PATH),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_path_is_asked_whether_it_is_ready() {
        assert_eq!(split("http://127.0.0.1:9091"), ("http://127.0.0.1:9091", PATH));
        assert_eq!(split("http://127.0.0.1:9091/"), ("http://127.0.0.1:9091", PATH));
        assert_eq!(split("http://h:1/livez"), ("http://h:1", "/livez"));
    }
}
