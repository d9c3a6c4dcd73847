//! Question: what a request asks, the same for every worker, and how it is put to one of them.

use http::header::{ACCEPT, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Method, Uri};
use overdraft_wire::Endpoint;
use overdraft_wire::dialect::Dialect;
use tokio::time::Instant;

use super::relay::Watch;
use super::request_info::{FormContent, RequestInfo};
use super::terms::Terms;
use super::upstream_body::Content;
use crate::trace::RequestTrace;
use crate::upstream::{Outgoing, Pieces, Upstream, headers};

/// What is asked, the same for every worker.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    pub(crate) content: Content,
    pub(crate) path: Uri,
    /// The endpoint, where it is one that clients have.
    pub(crate) endpoint: Option<Endpoint>,
    pub(crate) request_id: HeaderValue,
    /// The head as the client sent it.
    pub(crate) head: &'a Parts,
    pub(crate) begun: Instant,
    /// The trace of the request that it is asked for.
    pub(crate) trace: RequestTrace,
}

impl Question<'_> {
    fn answers_media(&self) -> bool {
        self.endpoint.is_some_and(Endpoint::answers_media)
    }

    pub(super) fn dialect(&self) -> Option<Dialect> {
        self.endpoint.and_then(Endpoint::dialect)
    }

    /// What watches an answer that is a stream of events.
    pub(super) fn watch(&self, info: &RequestInfo, event_bytes: usize) -> Watch {
        match self.dialect() {
            Some(dialect) => {
                let request = self.request_id.to_str().unwrap_or_default();
                Watch::of_dialect(dialect, request, event_bytes)
            }
            None if self.answers_media() => Watch::of_media(event_bytes),
            None => Watch::new(info.choices, event_bytes, info.counts),
        }
    }

    /// What goes to one worker.
    pub(super) fn to(
        &self,
        upstream: &Upstream,
        body: &Pieces,
        form: Option<&FormContent>,
        terms: &Terms,
    ) -> Outgoing {
        let mut request = Outgoing::new(body.clone());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.path.clone();
        *request.headers_mut() =
            headers::outgoing(&self.head.headers, upstream, &self.request_id, terms.credentials);
        if let Some(settings) = &terms.headers {
            headers::pass_named(&self.head.headers, request.headers_mut(), settings);
        }
        if let Some(form) = form {
            request.headers_mut().insert(CONTENT_TYPE, form.content_type.clone());
        }
        if self.answers_media() {
            request.headers_mut().insert(ACCEPT, headers::ANYTHING);
        }
        if self.dialect() == Some(Dialect::Messages) {
            headers::pass_versions(&self.head.headers, request.headers_mut());
        }
        request
    }
}
