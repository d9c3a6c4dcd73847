//! Metrics exposition formats: Prometheus text 0.0.4 and `OpenMetrics`.
//!
//! The registry produces `OpenMetrics`. The classic format differs in how it names a counter's
//! family (`x_total`, where `OpenMetrics` says `x` and appends `_total` to the sample), in having
//! no unit and no end marker; the rest is the same. **Invariant:** every sample is the same in
//! both.

use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

use super::registry::DescribedRegistry;

/// A format of exposed metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exposition {
    /// Text format 0.0.4: what vLLM serves unless asked otherwise.
    #[default]
    Text,
    /// `OpenMetrics` 1.0.
    OpenMetrics,
}

impl Exposition {
    /// What a scraper with this `accept` header gets.
    pub fn for_accept(accept: Option<&str>) -> Self {
        match accept {
            Some(accept) if accept.contains("application/openmetrics-text") => Self::OpenMetrics,
            _ => Self::Text,
        }
    }

    /// The `content-type` to send.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    pub(super) fn encode(self, registry: &Registry) -> String {
        self.of(open(registry))
    }

    /// The same with those that have no series: their names, types and meanings.
    pub(super) fn catalogue(self, registry: &DescribedRegistry) -> String {
        self.of(registry.with_the_absent(&open(registry.exposed())))
    }

    fn of(self, open: String) -> String {
        match self {
            Self::OpenMetrics => open,
            Self::Text => to_classic(&open),
        }
    }
}

fn open(registry: &Registry) -> String {
    let mut open = String::new();
    text::encode(&mut open, registry).expect("writing to a string does not fail");
    open
}

/// Rewrites the comment lines; samples stay as they are.
fn to_classic(open: &str) -> String {
    let mut classic = String::with_capacity(open.len());
    let mut help = None;
    for line in open.lines() {
        if line.starts_with("# HELP ") {
            help = Some(line);
        } else if let Some(declared) = line.strip_prefix("# TYPE ") {
            let (name, kind) = declared.rsplit_once(' ').unwrap_or((declared, "untyped"));
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" if name.ends_with("_total") => ("", "counter"),
                "unknown" => ("", "untyped"),
                other => ("", other),
            };
            if let Some(help) = help.take().and_then(|help| help.strip_prefix("# HELP ")) {
                let text = help.strip_prefix(name).unwrap_or_default();
                classic.extend(["# HELP ", name, suffix, text, "\n"]);
            }
            classic.extend(["# TYPE ", name, suffix, " ", kind, "\n"]);
        } else if !line.starts_with('#') {
            classic.extend([line, "\n"]);
        }
    }
    classic
}
