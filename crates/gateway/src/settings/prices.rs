//! Settings of prices: what tokens of a model and hours of a worker cost.

use std::collections::BTreeMap;

use overdraft_core::cost::Prices;

use super::{CascadeSettings, Pool};

/// Prices of models and workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PriceSettings {
    /// What tokens cost, by model.
    pub models: BTreeMap<String, Prices>,
    /// Millionths of a dollar by the hour of each worker of a pool.
    pub pools: BTreeMap<Pool, u64>,
    /// The same of single workers, by name.
    pub workers: BTreeMap<String, u64>,
}

impl PriceSettings {
    /// What tokens of a model cost; where nothing is said, as a cascade says that has the model.
    pub(crate) fn of_model(
        &self,
        model: &str,
        cascades: &BTreeMap<String, CascadeSettings>,
    ) -> Option<Prices> {
        let named = self.models.get(model).copied();
        named.or_else(|| {
            cascades.values().find_map(|cascade| {
                let [draft, target] = cascade.prices?;
                if cascade.target == model {
                    return Some(target);
                }
                (cascade.draft == model).then_some(draft)
            })
        })
    }

    /// Millionths of a dollar that a worker costs by the hour.
    pub(crate) fn of_worker(&self, name: &str, pool: Pool) -> Option<u64> {
        self.workers.get(name).or_else(|| self.pools.get(&pool)).copied()
    }

    /// Whether any price is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.models.is_empty() && self.pools.is_empty() && self.workers.is_empty()
    }
}
