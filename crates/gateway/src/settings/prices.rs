//! Settings of prices: what tokens of a model and hours of a worker cost.

use std::collections::BTreeMap;

use overdraft_core::cost::Prices;

use super::{CascadeSettings, Pool, WorkerSettings};

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

    /// Millionths of a dollar that a worker costs by the hour. One of `ranks` engines behind an address costs its share of
    /// what they cost together, unless it has a price of its own.
    pub(crate) fn of_worker(&self, worker: &WorkerSettings, ranks: u32) -> Option<u64> {
        if let Some(own) = self.workers.get(&worker.name) {
            return Some(*own);
        }
        let together = self.workers.get(worker.name_of_all());
        let together = together.or_else(|| self.pools.get(&worker.pool))?;
        Some(together / u64::from(ranks.max(1)))
    }

    /// Whether any price is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.models.is_empty() && self.pools.is_empty() && self.workers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_share_what_their_worker_costs() {
        let prices = PriceSettings {
            pools: [(Pool::Target, 800)].into(),
            workers: [("gpu-a".to_owned(), 3_600_000), ("gpu-b#1".to_owned(), 7)].into(),
            ..PriceSettings::default()
        };
        let worker = |name: &str| WorkerSettings {
            name: name.to_owned(),
            ..WorkerSettings::new("http://host:8000")
        };
        assert_eq!(prices.of_worker(&worker("gpu-a"), 1), Some(3_600_000));
        assert_eq!(prices.of_worker(&worker("gpu-c"), 1), Some(800));
        let ranks =
            |name: &str| [0, 1].map(|rank| prices.of_worker(&worker(name).of_rank(rank), 2));
        assert_eq!(ranks("gpu-a"), [Some(1_800_000); 2]);
        assert_eq!(ranks("gpu-b"), [Some(400), Some(7)], "one has a price of its own");
    }
}
