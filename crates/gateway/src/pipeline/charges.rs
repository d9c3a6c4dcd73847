//! Charges: what a request takes from its key's budget before it goes anywhere.

use super::Pipeline;
use super::keys::{Charge, Extent, Need};
use super::refusal::Refused;
use super::request_info::RequestInfo;

/// Whether a request has to pay for having come, beside its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fare {
    /// It has to.
    Due,
    /// It has paid at the cache, which had no answer for it.
    Paid,
}

/// Takes what a request is expected to need from its key's budget, if that is limited.
///
/// # Errors
/// 429 where the key has spent what it may.
pub(crate) fn charge(
    pipeline: &Pipeline,
    info: &RequestInfo,
    fare: Fare,
) -> Result<Option<Charge>, Refused> {
    if info.caller.budget().is_none() {
        return Ok(None);
    }
    let (prompt, completion) = pipeline.dispatcher.view().expected(info.request());
    let tokens = prompt.get().saturating_add(completion.get());
    let extent = if info.limit.is_some() { Extent::Limited } else { Extent::Unlimited };
    let requests = match fare {
        Fare::Due => 1,
        Fare::Paid => 0,
    };
    charge_for(pipeline, info, prompt.get(), Need { requests, tokens, extent })
}

/// The same for a request that needs no tokens of a worker.
///
/// # Errors
/// 429 where the key has spent what it may.
pub(crate) fn charge_request(
    pipeline: &Pipeline,
    info: &RequestInfo,
) -> Result<Option<Charge>, Refused> {
    charge_for(pipeline, info, 0, Need { requests: 1, tokens: 0, extent: Extent::Limited })
}

fn charge_for(
    pipeline: &Pipeline,
    info: &RequestInfo,
    prompt: u32,
    need: Need,
) -> Result<Option<Charge>, Refused> {
    let Some((key, budget)) = info.caller.budget() else { return Ok(None) };
    let now = pipeline.dispatcher.clock.now();
    let charged = Charge::new(&pipeline.budgets, key, budget, prompt, need, now);
    charged.map(Some).map_err(|why| {
        let refused = Refused::for_budget(budget, need.tokens, why);
        let reason = refused.reason.unwrap_or_default();
        pipeline.admission.budget_spent(info.caller.label(), reason);
        refused
    })
}
