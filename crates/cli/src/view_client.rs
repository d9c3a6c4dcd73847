//! View client: asks a running gateway for its JSON views.

use std::fmt::Write as _;

use http::{HeaderValue, Request, StatusCode};
use serde::de::DeserializeOwned;

use crate::ask::{Address, Want, ask};
use crate::fault::Fault;
use crate::gateway_error::GatewayError;

/// The header in which a gateway is shown its admin token.
pub(crate) const TOKEN_HEADER: &str = "x-overdraft-admin";

/// Maximum bytes of a view: 10,000 workers have room.
const VIEW_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Where views are asked for.
#[derive(Debug)]
pub(crate) struct ViewClient {
    address: Address,
    token: Option<HeaderValue>,
}

impl ViewClient {
    /// Of the gateway at `url`.
    ///
    /// # Errors
    /// Where that is no address, or the token is none.
    pub(crate) fn new(url: &str, token: Option<&str>) -> Result<Self, Fault> {
        let address = Address::of_url(url);
        let address = address.map_err(|error| Fault::input(format!("`{url}`: {error}")))?;
        Ok(Self { address, token: token.map(token_value).transpose()? })
    }

    /// Asks for a view by its name and query.
    ///
    /// # Errors
    /// Says why there is nothing to show.
    pub(crate) async fn view<T: DeserializeOwned>(&self, name: &str) -> Result<T, GatewayError> {
        let path = format!("/admin/views/{name}");
        let mut request = Request::get(&path);
        if let Some(token) = &self.token {
            request = request.header(TOKEN_HEADER, token);
        }
        let want = Want::Body(VIEW_BYTES_MAX);
        let (status, body) = ask(&self.address, request, bytes::Bytes::new(), want).await?;
        if status != StatusCode::OK {
            return Err(GatewayError::refused(status, &body));
        }
        serde_json::from_slice(&body)
            .map_err(|error| GatewayError::unreadable(&path, error.to_string()))
    }

    /// Asks for one of the last requests by its id.
    ///
    /// # Errors
    /// Says why there is nothing to show.
    pub(crate) async fn request<T: DeserializeOwned>(&self, id: &str) -> Result<T, GatewayError> {
        let asked = self.view(&format!("requests/{}", escaped(id))).await;
        asked.map_err(GatewayError::of_request)
    }
}

/// An admin token as a header's value.
///
/// # Errors
/// Where no header can carry it: that is a slip here, and says nothing of the gateway.
pub(crate) fn token_value(token: &str) -> Result<HeaderValue, Fault> {
    HeaderValue::try_from(token).map_err(|_| {
        Fault::input("the token has characters that no header can carry; expected visible ASCII")
            .hint("give the gateway's `admin.token` with `--token` or in `OVERDRAFT_ADMIN_TOKEN`")
    })
}

/// A name as a part of a path.
fn escaped(name: &str) -> String {
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
