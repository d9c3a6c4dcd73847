//! `overdraft cost`: what the requests of an access log cost, by the hour and by the work.

mod figures;
mod page;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use overdraft_config::{Config, Loader, Pool, WorkerSource};
use overdraft_core::cost::Prices;
use overdraft_sim::invoice::HourlyPrices;
use overdraft_sim::workload::{AccessLog, similar};

use self::figures::Figures;
use crate::fault::Fault;
use crate::settings;
use crate::simulate::dollars;

/// Millionths of a dollar.
const MICRO: f64 = 1e6;

/// Engines behind one address at most; what ends with a higher number is a name like any other.
const RANKS_MAX: u32 = 1_024;

#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// An access log of `overdraft serve --log-format json`
    log: PathBuf,
    /// The gateway's configuration: takes `prices` and the pools of workers from it
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Dollars that a worker costs by the hour, as `gpu-a=4.10`, or `4.10` for every worker that is not named;
    /// may be given several times. A worker that the log does not name was idle
    #[arg(long, value_name = "[WORKER=]DOLLARS", value_parser = hourly)]
    price: Vec<(Option<String>, f64)>,
    /// Tells only what requests for this model cost; a worker's time is still shared by all that it computed
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Prints JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Also writes a page with plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  overdraft serve --config overdraft.yaml --log-format json 2> access.jsonl
      records; `2>` because the log goes to standard error
  overdraft cost access.jsonl --price 4.10
      every worker of the log costs $4.10 an hour
  overdraft cost access.jsonl --price gpu-a=4.10 --price gpu-b=2.20 --html cost.html
      the page has what it cost over time; a worker without a request was there and idle
  overdraft cost access.jsonl --config overdraft.yaml --json
      prices of hours and tokens as the gateway has them

How it adds up: a worker costs from the first request to the last answer. The requests that it
computes at a moment share that moment's cost, by the tokens that each holds; without any it is
idle. All shares and the idle time add up to hours times price. What a mechanism saved follows from
the tokens that it spared, at the prices of tokens; unless all models have such prices, an output
token counts as four prompt tokens, and a cached one as a tenth. Without any price by the hour,
requests cost what their tokens do, and those for a model without a price cost nothing.";

fn hourly(text: &str) -> Result<(Option<String>, f64), String> {
    match text.rsplit_once('=') {
        Some(("", _)) => {
            Err("no worker stands before `=`; expected one as in `gpu-a=4.10`".to_owned())
        }
        Some((worker, price)) => Ok((Some(worker.to_owned()), dollars(price)?)),
        None => Ok((None, dollars(text)?)),
    }
}

/// What is known of prices and pools.
#[derive(Debug, Default)]
struct Known {
    hourly: HourlyPrices,
    models: BTreeMap<String, Prices>,
    /// The pool of each worker.
    pools: BTreeMap<String, &'static str>,
}

/// Reads, splits and tells.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Fault> {
    let log = AccessLog::read(&arguments.log).map_err(|error| Fault::input(error.to_string()))?;
    let model = arguments.model.as_deref().map(|model| known_model(&log, model)).transpose()?;
    let known = arguments.known(&log)?;
    let figures = Figures::of(&log, model, &known)?;
    if let Some(file) = &arguments.html {
        let part = model.map(|model| log.of_model(model));
        write(file, &page::html(part.as_ref().unwrap_or(&log), &figures))?;
    }
    crate::config::print(&if arguments.json {
        crate::config::pretty(&figures.json())
    } else {
        table::table(&figures)
    })
}

fn known_model<'a>(log: &AccessLog, asked: &'a str) -> Result<&'a str, Fault> {
    let models = log.models();
    if log.asks_for(asked) {
        return Ok(asked);
    }
    let near = similar(asked, models.iter().copied());
    let known = models.join("`, `");
    Err(Fault::input(format!("the log has no request for `{asked}`{near}; expected `{known}`")))
}

fn write(file: &Path, page: &str) -> Result<(), Fault> {
    std::fs::write(file, page)
        .map_err(|error| Fault::running(format!("`{}` cannot be written: {error}", file.display())))
}

impl Arguments {
    fn known(&self, log: &AccessLog) -> Result<Known, Fault> {
        let mut known = Known::default();
        if let Some(file) = &self.config {
            let loader = Loader::new(file.clone()).with_workers(WorkerSource::Elsewhere);
            known.read(&loader.load()?.config, log);
        }
        for (worker, price) in &self.price {
            match worker {
                Some(worker) => drop(known.hourly.workers.insert(worker.clone(), *price)),
                None => known.hourly.others = Some(*price),
            }
        }
        known.share(log);
        Ok(known)
    }
}

impl Known {
    /// Takes what a configuration says of the workers that it names, and of those of the log.
    fn read(&mut self, config: &Config, log: &AccessLog) {
        let prices = &config.prices;
        let mut pools: BTreeMap<&str, Pool> =
            config.workers.iter().map(|worker| (worker.name(), worker.pool)).collect();
        for worker in log.entries().iter().filter_map(|entry| entry.worker.as_deref()) {
            let named = match rank(worker) {
                Some((all, _)) if !pools.contains_key(worker) => all,
                _ => worker,
            };
            // What a discovery found is of the target pool, for all that the log tells.
            let pool = *pools.entry(named).or_insert(Pool::Target);
            self.pools.insert(worker.to_owned(), pool_name(pool));
            if let Some(own) = prices.workers.get(worker) {
                self.hourly.workers.insert(worker.to_owned(), from_micro(own.micros()));
            }
        }
        for (worker, pool) in pools {
            let price = prices.workers.get(worker).or_else(|| prices.pools.get(&pool));
            if let Some(price) = price {
                self.hourly.workers.insert(worker.to_owned(), from_micro(price.micros()));
            }
            self.pools.insert(worker.to_owned(), pool_name(pool));
        }
        for (name, cascade) in &config.cascades {
            if let Some(both) = cascade.prices {
                self.models.insert(cascade.draft.clone(), settings::of_tokens(both.draft));
                let target = cascade.target.as_ref().unwrap_or(name);
                self.models.insert(target.clone(), settings::of_tokens(both.target));
            }
        }
        for (model, price) in &prices.models {
            self.models.insert(model.clone(), settings::of_tokens(*price));
        }
    }

    /// Shares what a worker costs among the engines behind its address, where the log names those one by one.
    fn share(&mut self, log: &AccessLog) {
        let mut ranks: BTreeMap<&str, u32> = BTreeMap::new();
        for worker in log.entries().iter().filter_map(|entry| entry.worker.as_deref()) {
            if let Some((all, rank)) = rank(worker) {
                let count = ranks.entry(all).or_default();
                *count = (*count).max(rank + 1);
            }
        }
        for (all, count) in ranks {
            let Some(price) = self.hourly.workers.remove(all) else { continue };
            for rank in 0..count {
                let share = price / f64::from(count);
                self.hourly.workers.entry(format!("{all}#{rank}")).or_insert(share);
            }
        }
    }
}

/// What the engines behind an address are called together, and the number of the one that a name is of.
fn rank(name: &str) -> Option<(&str, u32)> {
    let (all, rank) = name.rsplit_once('#').filter(|(all, _)| !all.is_empty())?;
    let is_number = rank.bytes().all(|byte| byte.is_ascii_digit());
    let rank = rank.parse::<u32>().ok().filter(|rank| is_number && *rank < RANKS_MAX)?;
    Some((all, rank))
}

const fn pool_name(pool: Pool) -> &'static str {
    match pool {
        Pool::Target => "target",
        Pool::Draft => "draft",
    }
}

#[expect(clippy::cast_precision_loss, reason = "an amount for people")]
fn from_micro(micro: u64) -> f64 {
    micro as f64 / MICRO
}
