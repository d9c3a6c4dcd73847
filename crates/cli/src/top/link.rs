//! Link to the gateway: the views that a page of `overdraft top` shows.

use std::fmt::Write as _;

use http::{Request, StatusCode};
use overdraft_dash::views::{FleetView, NowView, RequestDetail, RequestsView};
use serde::de::DeserializeOwned;

use super::screen::Page;
use crate::ask::{Address, Want, ask};

/// Maximum bytes of a view: 10,000 workers have room.
const VIEW_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Requests that are asked for.
const REQUESTS: usize = 200;

/// What came back.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) now: NowView,
    pub(super) shown: Shown,
}

/// The view of the page that is shown.
#[derive(Debug, Default)]
pub(super) enum Shown {
    #[default]
    Nothing,
    Fleet(FleetView),
    Requests(RequestsView),
    Why(Box<RequestDetail>),
}

/// Where views are asked for.
#[derive(Debug)]
pub(super) struct Link {
    address: Address,
    token: Option<String>,
}

impl Link {
    pub(super) const fn new(address: Address, token: Option<String>) -> Self {
        Self { address, token }
    }

    /// Asks for what `page` shows.
    ///
    /// # Errors
    /// Says in a sentence why there is nothing to show.
    pub(super) async fn ask(&self, page: &Page) -> Result<Answer, String> {
        let now = self.view("now").await?;
        let shown = match page {
            Page::Fleet => Shown::Fleet(self.view("fleet").await?),
            Page::Requests => {
                Shown::Requests(self.view(&format!("requests?limit={REQUESTS}")).await?)
            }
            Page::Why(id) => {
                let name = format!("requests/{}", escaped(id));
                Shown::Why(Box::new(self.view(&name).await?))
            }
        };
        Ok(Answer { now, shown })
    }

    async fn view<T: DeserializeOwned>(&self, name: &str) -> Result<T, String> {
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
