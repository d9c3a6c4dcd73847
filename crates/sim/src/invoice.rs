//! Invoice split: what a fleet cost by the hour, told apart by request.
//!
//! A worker costs from the first request of the log to the last answer, whether it works or not. At each moment its
//! price is shared by the requests that it computes then, in proportion to the tokens that each holds in its cache:
//! memory is what a worker has little of. While it computes none, it is idle, and that is nobody's. **Invariant:**
//! the shares of all requests and the idle time of all workers add up to hours times price, to rounding.
//!
//! A request belongs to the worker that the log names, from the end of its wait in the queue on. A draft that was not
//! taken is in no line of its own; its worker's time for it counts as idle.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::float_conversion::float;
use crate::workload::{AccessLog, AnswerSource, Entry};

/// Seconds of an hour.
const HOUR: f64 = 3_600.0;

/// Dollars by the hour of each worker.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HourlyPrices {
    /// By name.
    pub workers: BTreeMap<String, f64>,
    /// Of workers that are not named.
    pub others: Option<f64>,
}

impl HourlyPrices {
    fn of(&self, worker: &str) -> Option<f64> {
        self.workers.get(worker).copied().or(self.others)
    }
}

/// What one worker cost.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerBill {
    /// Its name.
    pub worker: String,
    /// Dollars by the hour.
    pub price: f64,
    /// From the first request of the log to the last answer.
    pub hours: f64,
    /// Those of them in which it computed nothing.
    pub idle_hours: f64,
    /// Requests that it answered.
    pub requests: u64,
}

impl WorkerBill {
    /// Hours times price.
    pub fn dollars(&self) -> f64 {
        self.hours * self.price
    }

    /// What of that nobody used.
    pub fn idle_dollars(&self) -> f64 {
        self.idle_hours * self.price
    }
}

/// A fleet's cost.
#[derive(Clone, Debug, Default)]
pub struct Invoice {
    /// By worker, in the order of their names.
    pub workers: Vec<WorkerBill>,
    /// What each entry of the log cost, in its order.
    pub requests: Vec<f64>,
    /// Workers of the log that have no price.
    pub unpriced: Vec<String>,
}

impl Invoice {
    /// Splits what the fleet of `log` cost. A worker that has a price and no line was there and idle.
    pub fn of(log: &AccessLog, prices: &HourlyPrices) -> Self {
        let mut by_worker: BTreeMap<&str, Vec<usize>> =
            prices.workers.keys().map(|name| (name.as_str(), Vec::new())).collect();
        for (place, entry) in log.entries().iter().enumerate() {
            if let (Some(worker), true) = (&entry.worker, is_computed(entry)) {
                by_worker.entry(worker).or_default().push(place);
            }
        }
        let hours = seconds(log) / HOUR;
        let mut invoice = Self { requests: vec![0.0; log.entries().len()], ..Self::default() };
        for (worker, places) in by_worker {
            let Some(price) = prices.of(worker) else {
                invoice.unpriced.push(worker.to_owned());
                continue;
            };
            let busy = share(log.entries(), &places, price, &mut invoice.requests);
            invoice.workers.push(WorkerBill {
                worker: worker.to_owned(),
                price,
                hours,
                idle_hours: (hours - busy / HOUR).max(0.0),
                requests: u64::try_from(places.len()).unwrap_or(u64::MAX),
            });
        }
        invoice
    }

    /// Hours times price, of all workers.
    pub fn dollars(&self) -> f64 {
        self.workers.iter().map(WorkerBill::dollars).sum()
    }

    /// What of that nobody used.
    pub fn idle_dollars(&self) -> f64 {
        self.workers.iter().map(WorkerBill::idle_dollars).sum()
    }

    /// What requests used, by a name that `group` gives each.
    pub fn by(
        &self,
        log: &AccessLog,
        group: impl Fn(&Entry) -> Arc<str>,
    ) -> BTreeMap<Arc<str>, (u64, f64)> {
        let mut groups: BTreeMap<Arc<str>, (u64, f64)> = BTreeMap::new();
        for (entry, dollars) in log.entries().iter().zip(&self.requests) {
            let sum = groups.entry(group(entry)).or_default();
            (sum.0, sum.1) = (sum.0 + 1, sum.1 + dollars);
        }
        groups
    }
}

/// Whether a worker computed the answer.
const fn is_computed(entry: &Entry) -> bool {
    !matches!(entry.source, AnswerSource::Reused)
}

/// From the first request to the last answer.
fn seconds(log: &AccessLog) -> f64 {
    log.entries().iter().map(|entry| span(entry).1).fold(0.0, f64::max)
}

/// When a request was computed, in seconds from the first of the log on.
fn span(entry: &Entry) -> (f64, f64) {
    let at = entry.at.since(overdraft_units::Instant::ORIGIN);
    let end = float((at + entry.total).get()) / 1e6;
    let begin = float((at + entry.queued).get()) / 1e6;
    (begin.min(end), end)
}

/// Tokens that a request holds in its worker's cache, on average; one at least.
fn weight(entry: &Entry) -> f64 {
    let tokens = |count: overdraft_units::Tokens| float(u64::from(count.get()));
    (tokens(entry.prompt) + tokens(entry.output) / 2.0).max(1.0)
}

/// Shares the time of one worker among its requests; the seconds in which it had any.
fn share(entries: &[Entry], places: &[usize], price: f64, dollars: &mut [f64]) -> f64 {
    // Beginnings and ends in the order of time; between two of them the set of requests is one.
    let mut edges: Vec<(f64, bool, usize)> = Vec::with_capacity(2 * places.len());
    for &place in places {
        let (begin, end) = span(&entries[place]);
        edges.push((begin, true, place));
        edges.push((end, false, place));
    }
    edges.sort_by(|one, other| one.0.total_cmp(&other.0).then(other.1.cmp(&one.1)));
    // What a unit of weight has cost up to now: a request's share is its weight times what that grew by while it ran.
    let (mut level, mut held, mut running, mut busy, mut before) = (0.0, 0.0, 0_u64, 0.0, 0.0);
    let mut entered: BTreeMap<usize, f64> = BTreeMap::new();
    for (at, begins, place) in edges {
        if 0 < running {
            busy += at - before;
            level += (at - before) / HOUR * price / held;
        }
        before = at;
        let weight = weight(&entries[place]);
        if begins {
            (held, running) = (held + weight, running + 1);
            entered.insert(place, level);
        } else {
            running -= 1;
            held = if running == 0 { 0.0 } else { held - weight };
            dollars[place] += (level - entered.remove(&place).unwrap_or(level)) * weight;
        }
    }
    busy
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    /// A log of these requests: when each ended, how long it took, and what else.
    fn log(rows: &[(u32, u32, &str)]) -> AccessLog {
        let mut text = String::new();
        for (end, total, more) in rows {
            let _written = writeln!(
                text,
                "{{\"timestamp\":\"2025-11-22T10:{:02}:{:02}Z\",\"path\":\"/v1/completions\",\"status\":200,\
                 \"model\":\"m\",\"total_us\":{}000000,\"target\":\"access\",{more}}}",
                end / 60,
                end % 60,
                total
            );
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        AccessLog::read(file.path()).unwrap()
    }

    fn prices(named: &[(&str, f64)], others: Option<f64>) -> HourlyPrices {
        let workers = named.iter().map(|(name, price)| ((*name).to_owned(), *price)).collect();
        HourlyPrices { workers, others }
    }

    #[track_caller]
    fn is_near(one: f64, other: f64) {
        assert!((one - other).abs() <= 1e-9 * other.abs().max(1.0), "{one} is not {other}");
    }

    #[test]
    fn a_moment_is_shared_by_what_each_holds_and_idle_time_is_nobodys() {
        // The first runs from 0 to 30, the second from 20 to 40 and holds three times as much.
        let log = log(&[
            (30, 30, r#""worker":"a","tokens_prompt":90,"tokens_out":20"#),
            (40, 20, r#""worker":"a","tokens_prompt":290,"tokens_out":20,"tenant":"t""#),
            (60, 5, r#""worker":"b","tokens_prompt":9,"tokens_out":2"#),
        ]);
        let invoice = Invoice::of(&log, &prices(&[("spare", 7.2)], Some(3.6)));
        // A tenth of a cent a second.
        is_near(invoice.requests[0], 0.020 + 0.0025);
        is_near(invoice.requests[1], 0.0075 + 0.010);
        let [a, b, spare] = invoice.workers.as_slice() else { panic!("{invoice:?}") };
        is_near(a.idle_hours * HOUR, 20.0);
        is_near(b.idle_hours * HOUR, 55.0);
        is_near(spare.idle_dollars(), 0.12);
        let by_tenant = invoice.by(&log, |entry| match entry.sender.tenant {
            Some(_) => "t".into(),
            None => "-".into(),
        });
        is_near(by_tenant["t"].1, 0.0175);
        let shares: f64 = by_tenant.values().map(|(_, dollars)| dollars).sum();
        is_near(shares + invoice.idle_dollars(), invoice.dollars());
    }

    #[test]
    fn what_waited_or_was_given_again_took_no_worker() {
        let log = log(&[
            (30, 30, r#""worker":"a","tokens_prompt":9,"tokens_out":2,"queued_us":20000000"#),
            (31, 1, r#""worker":"a","tokens_prompt":9,"tokens_out":2,"cache":"coalesced""#),
        ]);
        let invoice = Invoice::of(&log, &prices(&[], Some(3.6)));
        is_near(invoice.requests[0], 0.010);
        is_near(invoice.requests[1], 0.0);
        is_near(invoice.workers[0].idle_hours * HOUR, 21.0);
        let unpriced = Invoice::of(&log, &HourlyPrices::default());
        assert_eq!((unpriced.unpriced, unpriced.workers), (vec!["a".to_owned()], Vec::new()));
    }

    #[test]
    fn many_requests_add_up_to_hours_times_price() {
        let mut rows = Vec::new();
        let texts: Vec<String> = (0..600_u32)
            .map(|number| {
                format!(
                    r#""worker":"w{}","tokens_prompt":{},"tokens_out":{},"tenant":"t{}""#,
                    number % 3,
                    10 + number * 37 % 4_000,
                    1 + number * 13 % 300,
                    number % 7
                )
            })
            .collect();
        for (number, text) in (0_u32..).zip(&texts) {
            rows.push((100 + number * 3, 1 + number * 11 % 90, text.as_str()));
        }
        let log = log(&rows);
        let invoice = Invoice::of(&log, &prices(&[("w1", 2.5)], Some(4.0)));
        let shares: f64 = invoice.requests.iter().sum();
        is_near(shares + invoice.idle_dollars(), invoice.dollars());
        is_near(invoice.dollars(), seconds(&log) / HOUR * (2.5 + 4.0 + 4.0));
    }
}
