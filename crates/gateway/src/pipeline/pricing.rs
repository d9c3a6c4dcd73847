//! Pricing of a request by its tokens.
//!
//! A cascade keeps its own books and brings its cost along. Of other requests the cost follows from the prices of
//! the model that answered, as soon as its worker has counted tokens. An answer that was given again costs nothing.

use std::sync::Arc;

use overdraft_core::cost::{Money, Usage};
use overdraft_http::RecordSource;
use overdraft_telemetry::AccessRecord;
use overdraft_units::Tokens;

use super::Pipeline;
use super::facts::{RequestFacts, SharedFacts};
use crate::settings::GatewaySettings;

/// Picodollars in a millionth of a dollar.
const PICO_IN_MICRO: u64 = 1_000_000;

/// Notes what a request cost, where that is known and not noted yet.
pub(crate) fn price(facts: &mut RequestFacts, settings: &GatewaySettings) {
    if facts.cost.is_some() {
        return;
    }
    let used = facts.reused.or(facts.prompt.zip(facts.completion));
    let (Some((prompt, completion)), Some(model)) = (used, facts.priced_as()) else { return };
    // An embedding has a prompt alone; without both nothing was computed.
    if prompt == Tokens::ZERO && completion == Tokens::ZERO {
        return;
    }
    let Some(prices) = settings.prices.of_model(model, &settings.cascades) else { return };
    let micro = |money: Money| money.get() / PICO_IN_MICRO;
    // What a prefix cache found is found with the target alone as well.
    let cached = facts.cached.unwrap_or_default();
    let alone = micro(prices.of(Usage { prompt, cached, completion }));
    facts.cost = Some(if facts.reused.is_some() { 0 } else { alone });
    facts.cost_alone = Some(alone);
}

/// Facts of a request for its access record, with what it cost.
#[derive(Debug)]
pub(crate) struct PricedFacts {
    pub(crate) facts: SharedFacts,
    pub(crate) pipeline: Arc<Pipeline>,
}

impl RecordSource for PricedFacts {
    fn fill(&self, record: &mut AccessRecord) {
        let mut facts = self.facts.known();
        price(&mut facts, &self.pipeline.settings());
        facts.write(record, self.facts.trace());
    }
}
