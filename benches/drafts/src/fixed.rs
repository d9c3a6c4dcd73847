//! Hindsight baseline: the best gate with a fixed threshold, as the upper bound of savings.
//!
//! It asks the draft first each time, knows the one thing that tells good drafts from bad, compares nothing, and is chosen
//! among all bars by what came of them: within the loss and the slowdown, over the very requests it is judged by. None that
//! has to learn can be as good.

use overdraft_core::cascade::Delivery;

use super::draw::{Form, Request, World};
use super::pool::{Call, Pool};
use super::{LEARNT_REQUESTS, SLOWER_MAX};

/// Bars that are tried.
const BARS: usize = 48;
/// A call's limit, in the target's own times: as far as the best fixed gate has one.
const LIMIT_TIMES: f64 = 2.0;

/// The share of the target's price that it saves; none where no bar keeps to both.
pub(crate) fn best(world: &World, requests: &[Request]) -> f64 {
    let requests = &requests[LEARNT_REQUESTS.min(requests.len())..];
    let mut surprises: Vec<f64> =
        requests.iter().map(|request| request.surprise(world.form)).collect();
    surprises.sort_by(f64::total_cmp);
    let bars =
        (1..=BARS).filter_map(|bar| surprises.get((bar * surprises.len() / BARS).max(1) - 1));
    bars.filter_map(|bar| saving(world, requests, *bar)).fold(0.0, f64::max)
}

/// What a bar saves, if it keeps to loss and slowdown.
fn saving(world: &World, requests: &[Request], bar: f64) -> Option<f64> {
    let mut pool = Pool::new(world.draft_workers());
    let (mut paid, mut lost) = (0.0, 0.0);
    let (mut first, mut end, mut alone) = (0.0, 0.0, (0.0, 0.0));
    for request in requests {
        let target = request.target;
        let limit = LIMIT_TIMES * target.end;
        let takes = request.draft.map_or(f64::INFINITY, |times| times.end);
        let takes = request.fails.map_or(takes, |fails| fails.min(takes));
        let verdict = request.draft.map_or(f64::INFINITY, |times| times.verdict(world.form));
        let verdict = if request.fails.is_some() { takes } else { verdict };
        let waits = match pool.call(request.at, takes, limit) {
            Call::Left => limit,
            Call::Begins(waits) => waits,
        };
        let is_told = waits + verdict < limit && request.fails.is_none();
        let is_given = is_told && request.surprise(world.form) <= bar;
        let at = (waits + verdict).min(limit);
        let is_streamed = request.traits.delivery == Delivery::Streamed;
        let told = waits + takes;
        let (shown, done) = match (is_given, world.form) {
            (true, Form::Whole) => (told, told),
            (true, _) => (at, told),
            (false, _) => (at + target.first, at + target.end),
        };
        first += if is_streamed { shown } else { done };
        end += done;
        alone.0 += if is_streamed { target.first } else { target.end };
        alone.1 += target.end;
        paid += world.price + if is_given { 0.0 } else { 1.0 };
        lost += if is_given && request.is_worse { 1.0 } else { 0.0 };
    }
    let count = overdraft_claims::as_float(requests.len());
    let allowed = f64::from(world.loss_permille) / 1_000.0;
    let holds =
        lost / count <= allowed && first <= SLOWER_MAX * alone.0 && end <= SLOWER_MAX * alone.1;
    holds.then_some(1.0 - paid / count)
}
