//! Google Cloud preemption notices: polls `instance/preempted` at the metadata server.
//!
//! `instance/preempted` is `FALSE` until the VM is preempted and `TRUE` from then on, 30 s ahead.
//! Request and response carry the header `Metadata-Flavor: Google`: the request, so that no web
//! page can be tricked into sending it, and the response, so that no other server's `TRUE` is
//! accepted.
//!
//! Source: "Preemption detection" in the Compute Engine documentation.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, StatusCode};

use super::metadata::{Metadata, Question, text};
use super::{Fate, Notice, NoticeError, TerminationNotice};
use crate::settings::Cloud;

const PREEMPTED: &str = "/computeMetadata/v1/instance/preempted";
const FLAVOR: HeaderName = HeaderName::from_static("metadata-flavor");
const GOOGLE: HeaderValue = HeaderValue::from_static("Google");

const AHEAD: Duration = Duration::from_secs(30);

/// A VM of the Compute Engine.
#[derive(Debug)]
pub(super) struct Gcp {
    metadata: Metadata,
}

impl Gcp {
    pub(super) const fn new(metadata: Metadata) -> Self {
        Self { metadata }
    }
}

impl TerminationNotice for Gcp {
    async fn poll(&mut self) -> Result<Option<Notice>, NoticeError> {
        let question = Question { method: Method::GET, path: PREEMPTED, header: (FLAVOR, GOOGLE) };
        let answer = self.metadata.ask(question).await?;
        if answer.status() != StatusCode::OK {
            return Err(NoticeError::Status { path: PREEMPTED, status: answer.status() });
        }
        let unfit = |expected| NoticeError::Answer { path: PREEMPTED, expected };
        if answer.headers().get(FLAVOR) != Some(&GOOGLE) {
            return Err(unfit("the header `Metadata-Flavor: Google`"));
        }
        match text(PREEMPTED, &answer)?.trim() {
            "FALSE" => Ok(None),
            "TRUE" => Ok(Some(Notice {
                cloud: Cloud::Gcp,
                fate: Fate::Terminated,
                id: "preempted".to_owned(),
                at: None,
                ahead: AHEAD,
            })),
            _ => Err(unfit("`TRUE` or `FALSE`")),
        }
    }
}
