//! Status of one route's cascade, for operators and metrics.

use super::kill_switch::Standing;
use super::payback::Unpaid;
use super::quality::Estimate;
use super::threshold::Bar;
use overdraft_units::Ratio;

/// What is known of a route, for people and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Whether drafts may be served.
    pub standing: Standing,
    /// Why none is asked first though they may be served.
    pub unpaid: Option<Unpaid>,
    /// What a whole answer must score, of no class in particular.
    pub bar: Bar,
    /// Labels seen.
    pub labels: u64,
    /// The loss with its interval.
    pub loss: Estimate,
    /// Drafts judged, and those that were served.
    pub judged: u64,
    /// See [`Self::judged`].
    pub served: u64,
    /// The least chance of an answer to be checked now.
    pub shadow: Ratio,
}
