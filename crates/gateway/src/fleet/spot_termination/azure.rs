//! Azure scheduled events: polls the metadata service for `Preempt` and other terminations.
//!
//! `scheduledevents` lists the events of all VMs of an availability or scale set. So once it lists
//! an event of a kind that ends processes, the poll reads the VM's own name. `Freeze` pauses a VM
//! for seconds and ends no process. We do not approve events, because approval hastens them.
//!
//! Source: "Scheduled Events for Linux VMs" in the Azure documentation.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Method};
use serde::Deserialize;

use super::metadata::{Metadata, Question};
use super::{Fate, Notice, NoticeError, TerminationNotice};
use crate::settings::Cloud;

pub(super) const EVENTS: &str = "/metadata/scheduledevents?api-version=2020-07-01";
pub(super) const NAME: &str = "/metadata/instance/compute/name?api-version=2021-02-01&format=text";
const METADATA: HeaderName = HeaderName::from_static("metadata");
const TRUE: HeaderValue = HeaderValue::from_static("true");

/// A VM.
#[derive(Debug)]
pub(super) struct Azure {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Document {
    events: Vec<Event>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Event {
    #[serde(rename = "EventId")]
    id: String,
    #[serde(rename = "EventType")]
    kind: String,
    #[serde(default)]
    resources: Vec<String>,
    /// Empty once it has begun.
    #[serde(default)]
    not_before: String,
}

impl Azure {
    pub(super) const fn new(metadata: Metadata) -> Self {
        Self { metadata }
    }

    async fn get(&self, path: &'static str) -> Result<String, NoticeError> {
        let question = Question { method: Method::GET, path, header: (METADATA, TRUE) };
        self.metadata.text(question).await
    }
}

impl TerminationNotice for Azure {
    async fn poll(&mut self) -> Result<Option<Notice>, NoticeError> {
        let text = self.get(EVENTS).await?;
        let Ok(Document { events }) = serde_json::from_str(&text) else {
            return Err(NoticeError::Answer { path: EVENTS, expected: "an object with `Events`" });
        };
        let ends = |event: Event| {
            let (fate, ahead) = fate(&event.kind)?;
            Some((event, fate, ahead))
        };
        let ending: Vec<_> = events.into_iter().filter_map(ends).collect();
        if ending.is_empty() {
            return Ok(None);
        }
        let name = self.get(NAME).await?;
        let name = name.trim();
        let is_ours = |event: &Event| {
            event.resources.iter().any(|resource| resource.eq_ignore_ascii_case(name))
        };
        let ours = ending.into_iter().filter(|(event, _, _)| is_ours(event));
        // The most urgent, for it may be announced after another.
        let ours = ours.min_by_key(|(_, _, ahead)| *ahead);
        Ok(ours.map(|(event, fate, ahead)| Notice {
            cloud: Cloud::Azure,
            fate,
            id: event.id,
            at: Some(event.not_before).filter(|at| !at.is_empty()),
            ahead,
        }))
    }
}

/// The fate of the VM after an event, and the minimum notice; `None` if processes survive it.
fn fate(kind: &str) -> Option<(Fate, Duration)> {
    match kind {
        "Preempt" => Some((Fate::Terminated, Duration::from_secs(30))),
        "Terminate" => Some((Fate::Terminated, Duration::from_mins(5))),
        "Reboot" => Some((Fate::Restarted, Duration::from_mins(15))),
        "Redeploy" => Some((Fate::Restarted, Duration::from_mins(10))),
        _ => None,
    }
}
