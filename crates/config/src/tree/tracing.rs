//! Tracing section: spans of requests for an OpenTelemetry collector.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::secret::Secret;
use crate::quantity::{Share, TimeSpan};

/// What traces call this service by default.
const SERVICE: &str = "overdraft";

/// The share that is recorded by default.
const SAMPLE: Share = match Share::from_permille(100) {
    Some(share) => share,
    None => panic!("a tenth is a share"),
};

/// Traces of requests, sent to an OpenTelemetry collector in protobuf over HTTP (OTLP). Off without `endpoint`. A
/// slow or missing collector delays no request. The section is read once, when the gateway starts. No trace has
/// prompts or answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Tracing {
    /// Address of the collector, as in `http://127.0.0.1:4318`; without a path, `/v1/traces` is used. Without this
    /// key, `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` or `OTEL_EXPORTER_OTLP_ENDPOINT` applies.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "super::web_url::shown")]
    pub endpoint: Option<String>,
    /// Headers for the collector, such as a key. Best given as `${NAME}`.
    pub headers: BTreeMap<String, Secret>,
    /// Share of recorded traces, among those that begin at this gateway.
    pub sample: Share,
    /// Whether the caller's decision in `traceparent` decides if its requests are recorded.
    pub parents: Parents,
    /// OpenTelemetry's attribute names for generative models, which still change between versions: `off`, `v1.36`, or
    /// `latest`.
    pub gen_ai: GenAi,
    /// Name of this service.
    pub service: String,
    /// Further attributes of this process, as in `deployment.environment.name: production`.
    pub attributes: BTreeMap<String, String>,
    /// Maximum time to send a batch.
    pub timeout: TimeSpan,
}

/// Whether a caller's decision counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Parents {
    /// A request is recorded if its caller records it, and not otherwise.
    #[default]
    Honour,
    /// `sample` alone decides, for clients that are not trusted to decide.
    Ignore,
}

/// Names for generative models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum GenAi {
    /// None.
    #[default]
    #[serde(rename = "off")]
    Off,
    /// The names of version 1.36.
    #[serde(rename = "v1.36")]
    V1_36,
    /// The latest names.
    #[serde(rename = "latest")]
    Latest,
}

impl Default for Tracing {
    fn default() -> Self {
        Self {
            endpoint: None,
            headers: BTreeMap::new(),
            sample: SAMPLE,
            parents: Parents::default(),
            gen_ai: GenAi::default(),
            service: SERVICE.to_owned(),
            attributes: BTreeMap::new(),
            timeout: TimeSpan::from_secs(10),
        }
    }
}
