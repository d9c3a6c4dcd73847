//! Settings of tracing: where spans go, how many requests are traced, and which names attributes have.

use overdraft_otlp::{ExporterSettings, Parents};

/// Which of OpenTelemetry's names for generative models spans have. They still change between versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GenAi {
    /// None: ours and those of HTTP alone.
    #[default]
    Off,
    /// Those of version 1.36, which most tools read.
    V1_36,
    /// The latest ones.
    Latest,
}

/// Traces of requests, sent to an OpenTelemetry collector.
#[derive(Clone, Debug, PartialEq)]
pub struct TracingSettings {
    /// Where spans go.
    pub exporter: ExporterSettings,
    /// So many of a thousand traces that begin here are recorded.
    pub sample_permille: u16,
    /// Whether a caller's decision counts.
    pub parents: Parents,
    /// Names for generative models.
    pub gen_ai: GenAi,
}
