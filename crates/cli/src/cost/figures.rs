//! Figures of a log's cost: by the hour, by the work, and by tenant, model, worker and pool.

use std::collections::BTreeMap;
use std::sync::Arc;

use overdraft_core::cost::{Price, Prices};
use overdraft_sim::invoice::{Invoice, WorkerBill};
use overdraft_sim::what_if::Work;
use overdraft_sim::workload::{AccessLog, Entry};
use serde_json::{Value, json};

use super::Known;
use crate::fault::Fault;

/// Prices of tokens where nothing is said: only their ratios count. An output token takes about four times as long
/// as a prompt token, and a cached one is not computed but read.
const RELATIVE: Prices = Prices {
    prompt: Price::new(1_000_000),
    cached: Price::new(100_000),
    completion: Price::new(4_000_000),
};

/// What tenants without a name are called.
const NAMELESS: &str = "-";

/// A part of the cost.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Share {
    pub(super) name: String,
    pub(super) requests: u64,
    pub(super) dollars: f64,
}

/// Whether dollars are those of hours or of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Basis {
    /// Workers cost by the hour; requests share what they used.
    Hours,
    /// Tokens have prices; nobody is idle.
    Tokens,
}

impl Basis {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Hours => "hours",
            Self::Tokens => "tokens",
        }
    }
}

/// All that is told.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    pub(super) basis: Basis,
    pub(super) requests: u64,
    pub(super) unanswered: u64,
    /// What was paid: hours times price, or tokens times price.
    pub(super) paid: f64,
    /// What of that no request used.
    pub(super) idle: f64,
    /// What of that requests for other models used, where only one model's are told.
    pub(super) others: f64,
    pub(super) idle_hours: f64,
    pub(super) hours: f64,
    /// What the used part would have been without a mechanism.
    pub(super) without: Vec<(&'static str, f64)>,
    /// Cascaded requests of which the log does not say what they cost.
    pub(super) cascaded_unpriced: u64,
    pub(super) workers: Vec<WorkerBill>,
    pub(super) tenants: Vec<Share>,
    pub(super) models: Vec<Share>,
    pub(super) pools: Vec<Share>,
    /// Workers that have no price.
    pub(super) unpriced: Vec<String>,
    /// Models of whose tokens no price is known, though others have one.
    pub(super) models_unpriced: Vec<String>,
    /// What each entry of the log cost.
    pub(super) each: Vec<f64>,
}

impl Figures {
    /// Adds a log up, and tells all of it, or what requests for one model cost. The time of a worker is shared by all
    /// that it computed, whichever is told: the models' shares add up to the whole.
    ///
    /// # Errors
    /// Where there is no price at all, or none of the model.
    pub(super) fn of(log: &AccessLog, model: Option<&str>, known: &Known) -> Result<Self, Fault> {
        let invoice = Invoice::of(log, &known.hourly);
        let basis = if invoice.workers.is_empty() { Basis::Tokens } else { Basis::Hours };
        let narrowed = model.map(|model| log.of_model(model));
        let part = narrowed.as_ref().unwrap_or(log);
        let tokens = TokenPrices::of(part, known, basis)?;
        let (by_tokens, work) = tokens.works(part);
        let is_told = |entry: &Entry| model.is_none_or(|model| entry.is_for(model));
        let all = || log.entries().iter().zip(&invoice.requests);
        let each = match basis {
            Basis::Hours => {
                all().filter(|(entry, _)| is_told(entry)).map(|(_, dollars)| *dollars).collect()
            }
            Basis::Tokens => by_tokens,
        };
        let used = sum(each.iter().copied());
        let others = all().filter(|(entry, _)| !is_told(entry)).map(|(_, dollars)| *dollars);
        let others = sum(others);
        let (paid, idle) = match basis {
            Basis::Hours => (invoice.dollars(), invoice.idle_dollars()),
            Basis::Tokens => (used, 0.0),
        };
        // What a mechanism spared of the work it would have taken as long at the same pace.
        let pace = if 0.0 < work.paid() { used / work.paid() } else { 0.0 };
        let without = [
            ("target only", work.cascade),
            ("no response cache", work.cache),
            ("no prefix routing", work.routing),
            ("none of these", work.cascade + work.cache + work.routing),
        ];
        let split = Invoice { requests: each.clone(), ..invoice.clone() };
        let names = log.tenants();
        Ok(Self {
            basis,
            requests: length(part.entries().len()),
            unanswered: part.unanswered(),
            paid,
            idle,
            others,
            idle_hours: sum(invoice.workers.iter().map(|worker| worker.idle_hours)),
            hours: sum(invoice.workers.iter().map(|worker| worker.hours)),
            without: without.map(|(name, spared)| (name, spared * pace)).to_vec(),
            cascaded_unpriced: work.cascaded_unpriced,
            tenants: shares(split.by(part, |entry| {
                let name = entry.sender.tenant.and_then(|place| names.get(usize::from(place)));
                name.map_or(NAMELESS, String::as_str).into()
            })),
            models: shares(split.by(part, |entry| Arc::clone(&entry.model))),
            pools: pools(part, known, &split),
            workers: invoice.workers,
            // Where tokens have prices, no worker is left out.
            unpriced: if basis == Basis::Hours { invoice.unpriced } else { Vec::new() },
            models_unpriced: tokens.unpriced,
            each,
        })
    }

    /// What requests used.
    pub(super) fn used(&self) -> f64 {
        self.paid - self.idle - self.others
    }

    pub(super) fn json(&self) -> Value {
        let shares = |shares: &[Share]| -> Value {
            let one = |share: &Share| json!({"name": share.name, "requests": share.requests, "dollars": share.dollars});
            shares.iter().map(one).collect()
        };
        let worker = |bill: &WorkerBill| {
            json!({
                "name": bill.worker,
                "dollars_per_hour": bill.price,
                "hours": bill.hours,
                "idle_hours": bill.idle_hours,
                "requests": bill.requests,
                "dollars": bill.dollars(),
                "idle_dollars": bill.idle_dollars(),
            })
        };
        let more = |(name, dollars): &(&str, f64)| (name.replace(' ', "_"), json!(dollars));
        json!({
            "basis": self.basis.name(),
            "requests": self.requests,
            "unanswered": self.unanswered,
            "dollars": self.paid,
            "used_dollars": self.used(),
            "idle_dollars": self.idle,
            "other_models_dollars": self.others,
            "worker_hours": self.hours,
            "idle_hours": self.idle_hours,
            "spared_dollars": self.without.iter().map(more).collect::<serde_json::Map<_, _>>(),
            "cascaded_without_prices": self.cascaded_unpriced,
            "workers": self.workers.iter().map(worker).collect::<Vec<_>>(),
            "workers_without_price": self.unpriced,
            "models_without_price": self.models_unpriced,
            "tenants": shares(&self.tenants),
            "models": shares(&self.models),
            "pools": shares(&self.pools),
        })
    }
}

/// What tokens of each model count.
struct TokenPrices<'a> {
    known: &'a BTreeMap<String, Prices>,
    /// Those of models without prices of their own, where such are counted.
    others: Option<Prices>,
    /// Models of the log that have none, though others do.
    unpriced: Vec<String>,
}

impl<'a> TokenPrices<'a> {
    /// For the models of a log. Dollars of hours are shared, so any scale does if all models have the same: the
    /// relative one, unless every model has a price. Dollars of tokens are those that are known, and no others.
    ///
    /// # Errors
    /// Where dollars are those of tokens, and no model has a price.
    fn of(log: &AccessLog, known: &'a Known, basis: Basis) -> Result<Self, Fault> {
        static NONE: BTreeMap<String, Prices> = BTreeMap::new();
        let models = log.priced_as();
        let is_known = |model: &&str| known.models.contains_key(*model);
        let (priced, unpriced): (Vec<&str>, Vec<&str>) =
            models.iter().partition(|model| is_known(model));
        if basis == Basis::Tokens && priced.is_empty() {
            return Err(no_price(&unpriced, known));
        }
        let is_partial = !priced.is_empty() && !unpriced.is_empty();
        let unpriced =
            unpriced.into_iter().filter(|_| is_partial).map(str::to_owned).collect::<Vec<_>>();
        Ok(match basis {
            Basis::Hours if is_partial || priced.is_empty() => {
                Self { known: &NONE, others: Some(RELATIVE), unpriced }
            }
            Basis::Hours | Basis::Tokens => Self { known: &known.models, others: None, unpriced },
        })
    }

    /// What each request cost by its tokens, and the work of all of them by mechanism. Those without a price cost nothing.
    fn works(&self, log: &AccessLog) -> (Vec<f64>, Work) {
        let mut sum = Work::default();
        let each = log.entries().iter().map(|entry| {
            let before = sum.paid();
            if let Some(prices) = self.known.get(&*entry.priced_as).or(self.others.as_ref()) {
                sum.recorded(prices, entry);
            }
            sum.paid() - before
        });
        let each = each.collect();
        (each, sum)
    }
}

fn no_price(models: &[&str], known: &Known) -> Fault {
    let why = if known.models.is_empty() {
        "no prices are known, so no cost can be computed".to_owned()
    } else {
        let models = models.join("`, `");
        let priced = known.models.keys().map(String::as_str).collect::<Vec<_>>().join("`, `");
        format!("no price is known of `{models}`; the configuration has those of `{priced}`")
    };
    Fault::input(why)
        .hint("give `--price DOLLARS` by the hour, or `--config FILE` with the section `prices`")
}

fn pools(log: &AccessLog, known: &Known, split: &Invoice) -> Vec<Share> {
    if known.pools.is_empty() {
        return Vec::new();
    }
    shares(split.by(log, |entry| {
        let pool = entry.worker.as_deref().and_then(|worker| known.pools.get(worker));
        pool.copied().unwrap_or(NAMELESS).into()
    }))
}

/// The dearest first.
fn shares(groups: BTreeMap<Arc<str>, (u64, f64)>) -> Vec<Share> {
    let share = |(name, (requests, dollars)): (Arc<str>, (u64, f64))| Share {
        name: name.to_string(),
        requests,
        dollars,
    };
    let mut shares: Vec<Share> = groups.into_iter().map(share).collect();
    shares.sort_by(|one, other| other.dollars.total_cmp(&one.dollars));
    shares
}

/// The sum of some dollars or hours; of none it is a zero without a sign.
fn sum(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, |sum, value| sum + value)
}

fn length(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
