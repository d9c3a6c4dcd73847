//! Cascade view: does asking the draft first pay?

use serde::{Deserialize, Serialize};

/// Every cascade.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CascadeView {
    /// When this was so, in milliseconds since 1970.
    pub at_ms: u64,
    /// Each, in the order of their names.
    pub cascades: Vec<CascadeRow>,
}

/// One cascade.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CascadeRow {
    /// The name that clients ask for.
    pub cascade: String,
    /// The model that is asked first.
    pub draft: String,
    /// The model that answers otherwise.
    pub target: String,
    /// `off`, `gate`, `verify` or `shadow`.
    pub mode: String,
    /// Whether drafts may be given now.
    pub on: bool,
    /// Why not, where they may not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub off_reason: Option<String>,
    /// Drafts judged since the start, and those that were given.
    pub judged: u64,
    /// See above.
    pub served: u64,
    /// Share of the drafts of the last five minutes that were given, of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acceptance: Option<f64>,
    /// Share from which it costs less than the target alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub break_even: Option<f64>,
    /// Share of answers worse than the target's.
    pub loss: Interval,
    /// The share that may be worse.
    pub loss_allowed: f64,
    /// Comparisons learnt from.
    pub labels: u64,
    /// The least share of requests that are compared now.
    pub shadow: f64,
    /// Whether the two models make the same tokens: `same`, `different` or `unknown`.
    pub tokenizers: String,
}

/// An estimate with its bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The likeliest.
    pub estimate: f64,
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}
