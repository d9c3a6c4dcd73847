//! Terms of an attempt: how long its answer is waited for, and by which settings it is read.

use std::sync::Arc;

use overdraft_core::deadline::{Limit, standstill};
use overdraft_telemetry::Delivery;
use overdraft_units::Micros;

use super::Pipeline;
use super::deadline::{Overrun, Which};
use super::request_info::RequestInfo;
use crate::dispatch::Lease;
use crate::settings::{Credentials, HeaderSettings, Limits};

/// What an answer is waited for and read by.
pub(super) struct Terms {
    /// The limit that it is waited for, as it is told where it is passed.
    pub(super) patience: Overrun,
    /// For how long the worker's engine may stand still meanwhile, at the least.
    pub(super) standstill: Limit,
    pub(super) credentials: Credentials,
    pub(super) limits: Limits,
    /// Which headers pass, where that is not as usual.
    pub(super) headers: Option<Arc<HeaderSettings>>,
}

impl Terms {
    pub(super) fn of(pipeline: &Pipeline, info: &RequestInfo, lease: &Lease) -> Self {
        let settings = pipeline.settings();
        let deadlines = pipeline.routes().route(&info.model).deadlines;
        let limits = lease.limits(deadlines);
        // The head of a whole answer comes when the last token has been made.
        let patience = match info.delivery {
            Delivery::Streamed => Overrun { which: Which::FirstToken, limit: limits.first_token },
            Delivery::Whole => Overrun { which: Which::Total, limit: limits.total },
        };
        Self {
            patience,
            standstill: standstill(deadlines, Micros::ZERO),
            credentials: lease.member().credentials(&settings),
            limits: settings.limits,
            headers: settings.headers.clone(),
        }
    }
}
