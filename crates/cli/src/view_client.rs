//! View client: asks a running gateway for its JSON views.

use std::fmt::Write as _;

use http::{Request, StatusCode};
use serde::de::DeserializeOwned;

use crate::ask::{Address, Want, ask};
use crate::fault::Fault;

/// Maximum bytes of a view: 10,000 workers have room.
const VIEW_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Where views are asked for.
#[derive(Debug)]
pub(crate) struct ViewClient {
    address: Address,
    token: Option<String>,
}

impl ViewClient {
    /// Of the gateway at `url`.
    ///
    /// # Errors
    /// Where that is no address.
    pub(crate) fn new(url: &str, token: Option<String>) -> Result<Self, Fault> {
        let address = Address::of_url(url);
        let address = address.map_err(|error| Fault::input(format!("`{url}`: {error}")))?;
        Ok(Self { address, token })
    }

    /// Asks for a view by its name and query.
    ///
    /// # Errors
    /// Says in a sentence why there is nothing to show.
    pub(crate) async fn view<T: DeserializeOwned>(&self, name: &str) -> Result<T, String> {
        let mut request = Request::get(format!("/admin/views/{name}"));
        if let Some(token) = &self.token {
            request = request.header("x-overdraft-admin", token);
        }
        let want = Want::Body(VIEW_BYTES_MAX);
        let answered = ask(&self.address, request, bytes::Bytes::new(), want).await;
        let (status, body) = answered.map_err(|error| error.to_string())?;
        match status {
            StatusCode::OK => {
                serde_json::from_slice(&body).map_err(|error| format!("no such view: {error}"))
            }
            StatusCode::FORBIDDEN => {
                Err("it tells operators only; give its admin token".to_owned())
            }
            StatusCode::NOT_FOUND => Err("it has no such view or request".to_owned()),
            status => Err(format!("it answered {status}")),
        }
    }
}

/// A name as a part of a path.
pub(crate) fn escaped(name: &str) -> String {
    let mut path = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            path.push(byte.into());
        } else {
            write!(path, "%{byte:02X}").expect("a string takes all of it");
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_part_of_the_path() {
        assert_eq!(escaped("req_7f3a"), "req_7f3a");
        assert_eq!(escaped("a/../b?c d"), "a%2F..%2Fb%3Fc%20d");
    }
}
