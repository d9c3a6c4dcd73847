//! Link to the gateway: the views that a page of `overdraft top` shows.

use overdraft_dash::views::{FleetView, NowView, RequestDetail, RequestsView};

use super::screen::Page;
use crate::gateway_error::GatewayError;
use crate::view_client::ViewClient;

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
    client: ViewClient,
}

impl Link {
    pub(super) const fn new(client: ViewClient) -> Self {
        Self { client }
    }

    /// Asks for what `page` shows.
    ///
    /// # Errors
    /// Says why there is nothing to show.
    pub(super) async fn ask(&self, page: &Page) -> Result<Answer, GatewayError> {
        let now = self.client.view("now").await?;
        let shown = match page {
            Page::Fleet => Shown::Fleet(self.client.view("fleet").await?),
            Page::Requests => {
                Shown::Requests(self.client.view(&format!("requests?limit={REQUESTS}")).await?)
            }
            Page::Why(id) => Shown::Why(Box::new(self.client.request(id).await?)),
        };
        Ok(Answer { now, shown })
    }
}
