//! Log probabilities of the chosen token and of the likeliest ones.
//!
//! They are computed from the raw row of the model. The sum of exponentials is relative to the
//! maximum (log-sum-exp) and accumulated in double precision over short stretches, so that a large
//! vocabulary loses no precision.

use overdraft_units::TokenId;

use super::{scan, select};
use crate::request::{PositionLogprobs, TokenLogprob};

/// Log probabilities of `chosen` and of the `count` likeliest tokens of a raw row.
///
/// # Panics
/// When `chosen` lies outside the row.
pub fn position_logprobs(row: &[f32], chosen: TokenId, count: u32) -> PositionLogprobs {
    let best = scan::maximum(row);
    let log_mass = scan::single(scan::mass(row, f32::MIN, best, 1.0).ln());
    let logprob = |logit: f32| (logit - best) - log_mass;
    let place = scan::place(chosen);
    let chosen =
        TokenLogprob { id: chosen, logprob: logprob(row[place]), rank: scan::rank(row, place) };
    let count = usize::try_from(count).expect("usize holds 32 bits");
    let top = select::largest(row, count, f32::MIN)
        .iter()
        .zip(1..)
        .map(|(entry, rank)| TokenLogprob { id: entry.token, logprob: logprob(entry.logit), rank })
        .collect();
    PositionLogprobs { chosen, top }
}
