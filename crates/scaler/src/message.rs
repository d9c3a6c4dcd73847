//! KEDA messages, field by field as in `proto/externalscaler.proto`.

use std::collections::BTreeMap;

/// A trigger of a `ScaledObject`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct ScaledObjectRef {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) namespace: String,
    #[prost(btree_map = "string, string", tag = "3")]
    pub(crate) metadata: BTreeMap<String, String>,
}

/// Whether anything is to be done.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct IsActiveResponse {
    #[prost(bool, tag = "1")]
    pub(crate) result: bool,
}

/// What can be asked for.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct GetMetricSpecResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) specs: Vec<MetricSpec>,
}

/// One metric, and how much of it one replica is meant to carry.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct MetricSpec {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    /// For a KEDA of before 2.16.
    #[prost(int64, tag = "2")]
    pub(crate) target: i64,
    #[prost(double, tag = "3")]
    pub(crate) target_float: f64,
}

/// Asks for one metric.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct GetMetricsRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) object: Option<ScaledObjectRef>,
    #[prost(string, tag = "2")]
    pub(crate) name: String,
}

/// What it is.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct GetMetricsResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) values: Vec<MetricValue>,
}

/// One metric's value.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct MetricValue {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    /// For a KEDA of before 2.16.
    #[prost(int64, tag = "2")]
    pub(crate) value: i64,
    #[prost(double, tag = "3")]
    pub(crate) value_float: f64,
}
