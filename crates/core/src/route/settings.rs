//! Settings of routing for one model.

use overdraft_units::Micros;

use super::canary::Canary;
use super::fit_score::FitScore;
use super::policy::Policy;
use super::sticky::Sticky;
use crate::admit::AdmitSettings;
use crate::deadline::DeadlineSettings;
use crate::fleet::SLOW_START;

/// How the requests for one model are routed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteSettings {
    /// Who chooses.
    pub policy: Policy,
    /// Another policy for a share of the traffic, to compare (D9).
    pub canary: Option<Canary>,
    /// Whether sessions stay where they are (D8).
    pub sticky: Option<Sticky>,
    /// For how long a worker that came up gets less than its share.
    pub slow_start: Micros,
    /// The weights of `fit-score`.
    pub fit_score: FitScore,
    /// When a worker takes one more request.
    pub admission: AdmitSettings,
    /// How long their answers may take.
    pub deadlines: DeadlineSettings,
}

impl Default for RouteSettings {
    fn default() -> Self {
        Self {
            policy: Policy::Cost,
            canary: None,
            sticky: None,
            slow_start: SLOW_START,
            fit_score: FitScore::default(),
            admission: AdmitSettings::default(),
            deadlines: DeadlineSettings::default(),
        }
    }
}
