//! Cascade view: each cascade as the dashboard shows it.

use std::sync::Arc;

use overdraft_core::cascade::{Parity, Standing, Unpaid};
use overdraft_dash::views::{CascadeRow, Interval};
use overdraft_units::{Instant, Ratio};

use super::layer::CascadeLayer;
use super::state::CascadeState;

/// Each cascade, in the order of their names.
pub(crate) fn rows(layer: &CascadeLayer, now: Instant) -> Vec<CascadeRow> {
    layer.cascades.all().iter().map(|state| row(state, now)).collect()
}

fn row(state: &Arc<CascadeState>, now: Instant) -> CascadeRow {
    let share = |chance: Ratio| f64::from(chance.get()) / f64::from(Ratio::WHOLE.get());
    let report = state.report();
    let loss = report.loss.interval();
    let off_reason = match report.standing {
        Standing::Off { reason, .. } => Some(reason.name()),
        Standing::On => report.unpaid.map(Unpaid::name),
    };
    let tokenizers = match state.parity() {
        Parity::Same => "same",
        Parity::NotKnown => "unknown",
        Parity::Different(_) => "different",
    };
    CascadeRow {
        cascade: state.name.clone(),
        draft: state.settings.draft.clone(),
        target: state.settings.target.clone(),
        mode: state.settings.mode.name().to_owned(),
        on: off_reason.is_none(),
        off_reason: off_reason.map(str::to_owned),
        judged: report.judged,
        served: report.served,
        acceptance: state.acceptance(now).map(share),
        break_even: state.settings.break_even().map(share),
        loss: Interval {
            estimate: share(loss.share),
            low: share(loss.low),
            high: share(loss.high),
        },
        loss_allowed: share(state.settings.loss),
        labels: report.labels,
        shadow: if state.compares() { share(report.shadow) } else { 0.0 },
        tokenizers: tokenizers.to_owned(),
    }
}
