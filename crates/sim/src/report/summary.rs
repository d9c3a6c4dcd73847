//! Summary of a run: latency percentiles, throughput, goodput.

use overdraft_units::Instant;
use serde_json::{Map, Value, json};

use super::cause::{Cause, Causes};
use super::counts::Counts;
use super::histogram::Histogram;
use super::objectives::Objectives;
use super::recorder::{Fate, Recorder, Sample};
use crate::float_conversion::{float, length};

/// What is told of many durations, in milliseconds; no numbers where there are none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Their sum over their number.
    pub mean: f64,
    /// Half of them are shorter.
    pub median: f64,
    /// Standard deviation.
    pub std: f64,
    /// Nine in ten are shorter.
    pub p90: f64,
    /// Nineteen in twenty are.
    pub p95: f64,
    /// Ninety-nine in a hundred are.
    pub p99: f64,
}

/// The figures of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Requests that were to be sent.
    pub offered: u64,
    /// Those that came to their answer.
    pub completed: u64,
    /// Those that somebody had no room for.
    pub refused: u64,
    /// Those that ended otherwise.
    pub failed: u64,
    /// Why those of both got no answer.
    pub causes: Causes,
    /// Turns that were not asked because the one before them got no answer; they are not offered.
    pub unasked: u64,
    /// From the first that was to be sent to the end of the last, in seconds.
    pub duration: f64,
    /// Tokens of prompts of completed requests.
    pub input_tokens: u64,
    /// Those of them that were found in a cache; none where nobody says so.
    pub cached_tokens: Option<u64>,
    /// Tokens of answers.
    pub output_tokens: u64,
    /// Requests that met the objectives; none where there are no objectives, or one of the requests does not tell.
    pub good: Option<u64>,
    /// Most answer tokens of a second; no number where there are such tokens and nothing tells when they came.
    pub peak_output_throughput: f64,
    /// Most requests under way at once.
    pub peak_concurrency: u64,
    /// Dollars for all of it, where somebody reckons them.
    pub cost: Option<f64>,
    /// What the fleet counted, where it was simulated.
    pub counts: Option<Counts>,
    /// To the first token.
    pub ttft: Spread,
    /// Per token after it.
    pub tpot: Spread,
    /// Between tokens.
    pub itl: Spread,
    /// To the end.
    pub e2el: Spread,
    /// From when a request was to be sent until it was.
    pub lag: Spread,
}

/// A figure as tables tell it.
#[derive(Clone, Copy)]
pub(crate) struct Figure {
    pub(crate) key: &'static str,
    pub(crate) title: &'static str,
    pub(crate) value: fn(&Summary) -> f64,
}

/// What runs are compared by.
pub(crate) const FIGURES: [Figure; 23] = [
    figure("completed", "Successful requests", |one| float(one.completed)),
    figure("refused", "Refused requests", |one| float(one.refused)),
    figure("failed", "Failed requests", |one| float(one.failed)),
    figure("refused_share", "Refused of all offered (%)", |one| one.refused_share() * 100.0),
    figure("turns_not_asked", "Turns not asked after those", |one| float(one.unasked)),
    figure("request_throughput", "Request throughput (req/s)", Summary::request_throughput),
    figure("request_goodput", "Request goodput (req/s)", Summary::goodput),
    figure("good_share", "Good of all offered (%)", |one| one.good_share() * 100.0),
    figure("output_throughput", "Output token throughput (tok/s)", Summary::output_throughput),
    figure("cached_share", "Prompt tokens found in caches (%)", |one| one.cached_share() * 100.0),
    figure("mean_ttft_ms", "Mean TTFT (ms)", |one| one.ttft.mean),
    figure("median_ttft_ms", "Median TTFT (ms)", |one| one.ttft.median),
    figure("p95_ttft_ms", "P95 TTFT (ms)", |one| one.ttft.p95),
    figure("p99_ttft_ms", "P99 TTFT (ms)", |one| one.ttft.p99),
    figure("median_tpot_ms", "Median TPOT (ms)", |one| one.tpot.median),
    figure("p95_tpot_ms", "P95 TPOT (ms)", |one| one.tpot.p95),
    figure("median_e2el_ms", "Median E2EL (ms)", |one| one.e2el.median),
    figure("preemptions", "Preemptions", |one| one.counted(|all| all.preemptions)),
    figure("cache_pages_evicted", "Cached pages evicted", |one| one.counted(|all| all.evictions)),
    figure("crashes", "Crashes for want of pages", |one| one.counted(|all| all.crashes)),
    figure("answers_reused", "Answers given again", |one| one.counted(|all| all.reused)),
    figure("accepted_share", "Guesses that were right (%)", |one| {
        one.counts.map_or(f64::NAN, |all| all.right_share() * 100.0)
    }),
    figure("cost_per_million", "Cost ($ per million output tokens)", Summary::cost_per_million),
];

/// Figures whose rows are left out where all of them are nothing.
const RARE: [&str; 2] = ["refused_share", "turns_not_asked"];

impl Figure {
    /// Whether a cell says nothing.
    pub(crate) fn leaves_out(&self, cell: &str) -> bool {
        cell == "-" || (RARE.contains(&self.key) && matches!(cell, "0.00" | "0.00 ±0.00"))
    }
}

/// A figure with so many digits, or a dash where it is no number.
pub(super) fn shown(value: f64, digits: usize) -> String {
    if value.is_finite() { format!("{value:.digits$}") } else { "-".to_owned() }
}

const fn figure(key: &'static str, title: &'static str, value: fn(&Summary) -> f64) -> Figure {
    Figure { key, title, value }
}

impl Spread {
    /// Of no durations: a zero would be the shortest of all.
    const NONE: Self = Self {
        mean: f64::NAN,
        median: f64::NAN,
        std: f64::NAN,
        p90: f64::NAN,
        p95: f64::NAN,
        p99: f64::NAN,
    };

    /// Of durations in milliseconds, in any order.
    pub(crate) fn of(mut values: Vec<f64>) -> Self {
        if values.is_empty() {
            return Self::NONE;
        }
        values.sort_unstable_by(f64::total_cmp);
        let count = float(length(values.len()));
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let at = |share| quantile(&values, share);
        Self {
            mean,
            median: at(0.5),
            std: (squares / count).sqrt(),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
        }
    }
}

impl Spread {
    /// Of what was counted in microseconds.
    fn of_histogram(counted: &Histogram) -> Self {
        if counted.is_empty() {
            return Self::NONE;
        }
        let at = |share| counted.quantile(share) / 1e3;
        Self {
            mean: counted.mean() / 1e3,
            median: at(0.5),
            std: counted.deviation() / 1e3,
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
        }
    }
}

/// Between the two nearest of sorted values, as numpy does by default.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = share * float(length(last));
    let below =
        usize::try_from(crate::float_conversion::whole(place.floor())).unwrap_or(last).min(last);
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (place - place.floor())
}

impl Summary {
    pub(crate) fn of(recorder: &Recorder, objectives: &Objectives) -> Self {
        let samples = &recorder.samples;
        let completed = || samples.iter().filter(|sample| sample.fate == Fate::Completed);
        let count = |fate| length(samples.iter().filter(|sample| sample.fate == fate).count());
        let ms = |micros: u64| float(micros) / 1e3;
        let spread =
            |of: &dyn Fn(&Sample) -> Option<f64>| Spread::of(completed().filter_map(of).collect());
        let cached =
            completed().filter_map(|sample| sample.cached).map(|found| u64::from(found.get()));
        let tells_cached = completed().any(|sample| sample.cached.is_some());
        let good = samples.iter().filter(|sample| objectives.are_met_by(sample)).count();
        let tells_good =
            !objectives.is_empty() && samples.iter().all(|sample| objectives.can_tell_of(sample));
        let output_tokens: u64 = completed().map(|sample| u64::from(sample.output.get())).sum();
        // Tokens without times, as those of a log, were no zero in their best second.
        let unknown = if output_tokens == 0 { 0.0 } else { f64::NAN };
        Self {
            offered: length(samples.len()) + recorder.dropped,
            completed: count(Fate::Completed),
            refused: count(Fate::Refused),
            failed: count(Fate::Failed) + recorder.dropped,
            causes: Causes::of(samples.iter().filter_map(Sample::cause)),
            unasked: recorder.unasked,
            duration: recorder.seconds(),
            input_tokens: completed().map(|sample| u64::from(sample.prompt.get())).sum(),
            cached_tokens: tells_cached.then(|| cached.sum()),
            output_tokens,
            good: tells_good.then(|| length(good)),
            peak_output_throughput: recorder.tokens.most_in_a_second().unwrap_or(unknown),
            peak_concurrency: peak_concurrency(samples),
            cost: None,
            counts: None,
            ttft: spread(&|sample| sample.ttft().map(|time| ms(time.get()))),
            tpot: spread(&|sample| sample.tpot_us().map(|time| time / 1e3)),
            itl: Spread::of_histogram(&recorder.gaps),
            e2el: spread(&|sample| Some(ms(sample.latency().get()))),
            lag: spread(&|sample| Some(ms(sample.sent.since(sample.intended).get()))),
        }
    }

    /// Completed requests a second.
    pub fn request_throughput(&self) -> f64 {
        per_second(self.completed, self.duration)
    }

    /// Answer tokens a second.
    pub fn output_throughput(&self) -> f64 {
        per_second(self.output_tokens, self.duration)
    }

    /// Tokens of prompts and answers a second.
    pub fn total_throughput(&self) -> f64 {
        per_second(self.input_tokens + self.output_tokens, self.duration)
    }

    /// Requests a second that met the objectives; not a number where nothing tells.
    pub fn goodput(&self) -> f64 {
        self.good.map_or(f64::NAN, |good| per_second(good, self.duration))
    }

    /// Share of all offered requests that met the objectives; not a number where nothing tells.
    pub fn good_share(&self) -> f64 {
        let good = self.good.filter(|_| 0 < self.offered);
        good.map_or(f64::NAN, |good| float(good) / float(self.offered))
    }

    /// Dollars for a million answer tokens; not a number where nobody reckons them, or there are no such tokens.
    pub fn cost_per_million(&self) -> f64 {
        let cost = self.cost.filter(|_| 0 < self.output_tokens);
        cost.map_or(f64::NAN, |cost| cost / float(self.output_tokens) * 1e6)
    }

    /// Share of prompt tokens that were found in a cache.
    pub fn cached_share(&self) -> f64 {
        self.cached_tokens.map_or(f64::NAN, |found| float(found) / float(self.input_tokens.max(1)))
    }

    /// Share of all offered requests that were refused.
    pub fn refused_share(&self) -> f64 {
        float(self.refused) / float(self.offered.max(1))
    }

    /// Share of all offered requests that failed.
    pub fn failed_share(&self) -> f64 {
        float(self.failed) / float(self.offered.max(1))
    }

    /// A count of the fleet; no number where it was not simulated.
    fn counted(&self, of: fn(&Counts) -> u64) -> f64 {
        self.counts.as_ref().map_or(f64::NAN, |counts| float(of(counts)))
    }

    /// Under the names of vLLM's benchmark; figures that do not exist are null.
    pub(crate) fn json(&self) -> Map<String, Value> {
        let mut told = Map::new();
        let mut tell = |name: &str, value: Value| {
            told.insert(name.to_owned(), value);
        };
        tell("num_prompts", self.offered.into());
        tell("completed", self.completed.into());
        tell("refused", self.refused.into());
        tell("failed", self.failed.into());
        tell("refused_share", self.refused_share().into());
        tell("failed_share", self.failed_share().into());
        let reason = |(cause, count): (Cause, u64)| (cause.name().to_owned(), count.into());
        let reasons: Map<String, Value> = self.causes.told().into_iter().map(reason).collect();
        tell("unanswered_by_reason", reasons.into());
        tell("turns_not_asked", self.unasked.into());
        tell("duration", self.duration.into());
        tell("total_input_tokens", self.input_tokens.into());
        tell("total_cached_tokens", json!(self.cached_tokens));
        tell("total_output_tokens", self.output_tokens.into());
        tell("request_throughput", self.request_throughput().into());
        tell("request_goodput", json!(self.good.map(|_| self.goodput())));
        tell("good_share_of_offered", json!(self.good.map(|_| self.good_share())));
        tell("output_throughput", self.output_throughput().into());
        tell("total_token_throughput", self.total_throughput().into());
        tell("max_output_tokens_per_s", self.peak_output_throughput.into());
        tell("max_concurrent_requests", self.peak_concurrency.into());
        tell("cost_dollars", json!(self.cost));
        if let Some(counts) = self.counts {
            for (name, count) in counts.json() {
                tell(&name, count);
            }
        }
        for (name, spread) in self.spreads() {
            tell(&format!("mean_{name}_ms"), spread.mean.into());
            tell(&format!("median_{name}_ms"), spread.median.into());
            tell(&format!("std_{name}_ms"), spread.std.into());
            tell(&format!("p90_{name}_ms"), spread.p90.into());
            tell(&format!("p95_{name}_ms"), spread.p95.into());
            tell(&format!("p99_{name}_ms"), spread.p99.into());
        }
        told
    }

    fn spreads(&self) -> [(&'static str, Spread); 5] {
        [
            ("ttft", self.ttft),
            ("tpot", self.tpot),
            ("itl", self.itl),
            ("e2el", self.e2el),
            ("send_lag", self.lag),
        ]
    }
}

fn per_second(count: u64, seconds: f64) -> f64 {
    if 0.0 < seconds { float(count) / seconds } else { 0.0 }
}

/// Most requests between being sent and ending.
fn peak_concurrency(samples: &[Sample]) -> u64 {
    let mut sent: Vec<Instant> = samples.iter().map(|sample| sample.sent).collect();
    let mut ended: Vec<Instant> = samples.iter().map(|sample| sample.ended).collect();
    sent.sort_unstable();
    ended.sort_unstable();
    let (mut peak, mut over) = (0, 0);
    for (begun, at) in sent.iter().enumerate() {
        while over < ended.len() && ended[over] <= *at && over <= begun {
            over += 1;
        }
        peak = peak.max(length(begun + 1).saturating_sub(length(over)));
    }
    peak
}
