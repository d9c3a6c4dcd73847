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
/// collector that is slow or gone costs no request anything. Read once, when the gateway starts. Prompts and answers
/// are in no trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Tracing {
    /// The collector, as in `http://127.0.0.1:4318`; `/v1/traces` is meant where it has no path. Else as
    /// `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` or `OTEL_EXPORTER_OTLP_ENDPOINT` say.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "super::web_url::shown")]
    pub endpoint: Option<String>,
    /// Headers that the collector wants, such as a key. Best given as `${NAME}`.
    pub headers: BTreeMap<String, Secret>,
    /// The share of the traces that begin here which is recorded.
    pub sample: Share,
    /// Whether a caller that says in `traceparent` what it records decides for its requests.
    pub parents: Parents,
    /// Names of OpenTelemetry for generative models, which still change between versions: `off`, `v1.36`, or
    /// `latest`.
    pub gen_ai: GenAi,
    /// What this service is called.
    pub service: String,
    /// What else is said of this process, as in `deployment.environment.name: production`.
    pub attributes: BTreeMap<String, String>,
    /// How long a batch may take.
    pub timeout: TimeSpan,
}

/// Whether a caller's decision counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Parents {
    /// A request whose caller records it is recorded, one whose caller does not is not.
    #[default]
    Honour,
    /// `sample` alone decides; for clients that are not trusted to decide.
    Ignore,
}

/// Names for generative models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum GenAi {
    /// None.
    #[default]
    #[serde(rename = "off")]
    Off,
    /// Those of version 1.36.
    #[serde(rename = "v1.36")]
    V1_36,
    /// The latest ones.
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
