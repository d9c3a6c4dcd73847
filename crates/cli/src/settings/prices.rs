//! Price settings: maps the section `prices`.

use overdraft_config as config;
use overdraft_core::cost::{Price, Prices};
use overdraft_gateway::PriceSettings;

pub(super) fn prices(configured: &config::Prices) -> PriceSettings {
    let config::Prices { models, pools, workers } = configured;
    let by_hour = |price: &config::Price| price.micros();
    PriceSettings {
        models: models.iter().map(|(model, prices)| (model.clone(), of_tokens(*prices))).collect(),
        pools: pools.iter().map(|(pool, price)| (super::pool(*pool), by_hour(price))).collect(),
        workers: workers.iter().map(|(name, price)| (name.clone(), by_hour(price))).collect(),
    }
}

/// What tokens cost. What is cached costs as much as the rest where nothing is said.
pub(crate) fn of_tokens(configured: config::TokenPrices) -> Prices {
    let price = |price: config::Price| Price::new(price.micros());
    Prices {
        prompt: price(configured.prompt),
        cached: price(configured.cached.unwrap_or(configured.prompt)),
        completion: price(configured.completion),
    }
}
