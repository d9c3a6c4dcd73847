//! The figures of a run that are compared, survivors and all the others.
//!
//! **Invariant:** a policy cannot look better by answering fewer. Beside first tokens of those who got an answer
//! there are those of *all* requests of the load: who was refused, lost, or never asked because the turn before
//! got no answer counts as having waited for the queue's patience, or for as long as it did wait.

use std::fmt;

use overdraft_claims::as_float;
use overdraft_sim::fleet::Simulated;
use overdraft_sim::float_conversion;
pub(crate) use overdraft_sim::float_conversion::{float, length, whole32};
use overdraft_sim::report::{Fate, Missed, Objectives, Run, Sample};
use overdraft_units::Micros;
use serde::Serialize;

/// What came of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Figures {
    /// Turns of the load, whether or not they came to be asked.
    pub(crate) asked: u64,
    /// Those without an answer, whatever the reason; a share of all.
    pub(crate) unanswered: f64,
    /// The same with those whose first token came after the patience of the queue.
    pub(crate) unserved: f64,
    /// Those that somebody refused, as a count.
    pub(crate) refused: u64,
    /// Answer tokens a second.
    pub(crate) tokens: f64,
    /// Share of prompt tokens that were found in a cache.
    pub(crate) found: f64,
    pub(crate) preempted: u64,
    pub(crate) crashes: u64,
    /// First tokens of answers, in milliseconds; no number where nobody got one, as all times of answers.
    pub(crate) ttft: f64,
    pub(crate) ttft_p95: f64,
    pub(crate) ttft_p99: f64,
    /// First tokens of all requests of the load.
    pub(crate) wait: f64,
    pub(crate) wait_p95: f64,
    /// Time per token of an answer, and between any two tokens.
    pub(crate) tpot_p99: f64,
    pub(crate) gap_p99: f64,
    /// To the end of an answer.
    pub(crate) end: f64,
    /// From the first request to the end of the last.
    pub(crate) seconds: f64,
    /// Prompt tokens that were not found, by cause, where somebody asks.
    #[serde(skip)]
    pub(crate) missed: Missed,
}

impl Figures {
    /// Of a load of so many turns, before a queue of such a patience.
    pub(crate) fn of(simulated: &Simulated, asked: u64, patience: Micros) -> Self {
        let recorder = simulated.recorder.clone();
        let samples = recorder.samples();
        let patience_ms = float(patience.get()) / 1e3;
        let mut waits: Vec<f64> = samples.iter().map(|one| wait_ms(one, patience_ms)).collect();
        let never = asked.saturating_sub(length(samples.len()));
        waits.extend((0..never).map(|_| patience_ms));
        waits.sort_unstable_by(f64::total_cmp);
        let answered = samples.iter().filter(|one| one.fate == Fate::Completed).count();
        let in_time = |one: &&Sample| {
            one.fate == Fate::Completed && one.ttft().is_some_and(|ttft| ttft <= patience)
        };
        let served = samples.iter().filter(in_time).count();
        let missing = |count: usize| 1.0 - as_float(count) / float(asked.max(1));
        let summary = Run::new(String::new(), 0, recorder.clone()).summary(&Objectives::default());
        Self {
            asked,
            unanswered: missing(answered),
            unserved: missing(served),
            refused: summary.refused,
            tokens: summary.output_throughput(),
            found: summary.cached_tokens.map_or(0.0, |_| summary.cached_share()),
            preempted: simulated.preemptions,
            crashes: simulated.crashes,
            ttft: summary.ttft.mean,
            ttft_p95: summary.ttft.p95,
            ttft_p99: summary.ttft.p99,
            wait: waits.iter().sum::<f64>() / as_float(waits.len().max(1)),
            wait_p95: quantile(&waits, 0.95),
            tpot_p99: summary.tpot.p99,
            gap_p99: summary.itl.p99,
            end: summary.e2el.mean,
            seconds: summary.duration,
            missed: simulated.missed,
        }
    }
}

impl Figures {
    /// The median of each figure that is judged; the others are those of the first run.
    ///
    /// # Panics
    /// Where there is no run.
    pub(crate) fn median(runs: &[Self]) -> Self {
        let first = *runs.first().expect("a draw is run once at least");
        let of = |figure: fn(&Self) -> f64| {
            let mut values: Vec<f64> = runs.iter().map(figure).collect();
            values.sort_unstable_by(f64::total_cmp);
            values[values.len() / 2]
        };
        Self {
            unanswered: of(|one| one.unanswered),
            unserved: of(|one| one.unserved),
            tokens: of(|one| one.tokens),
            wait: of(|one| one.wait),
            wait_p95: of(|one| one.wait_p95),
            tpot_p99: of(|one| one.tpot_p99),
            ..first
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [ttft, ttft_p95, ttft_p99] = [self.ttft, self.ttft_p95, self.ttft_p99].map(shown_ms);
        let [tpot_p99, gap_p99, end] = [self.tpot_p99, self.gap_p99, self.end].map(shown_ms);
        write!(
            f,
            "{:7.0} tok/s, {:3.0} % found, {:4.1} % unanswered ({} refused), {:4} preempted, \
             TTFT {ttft:>6} ms, p95 {ttft_p95:>6}, p99 {ttft_p99:>6}, TPOT p99 {tpot_p99:>5}, \
             gaps p99 {gap_p99:>5}, E2E {end:>6}",
            self.tokens,
            self.found * 100.0,
            self.unanswered * 100.0,
            self.refused,
            self.preempted,
        )
    }
}

/// Whole milliseconds, or a dash where there is no such time.
pub(crate) fn shown_ms(ms: f64) -> String {
    if ms.is_finite() { format!("{ms:.0}") } else { "-".to_owned() }
}

/// Why prompt tokens were not found, in hundredths of all that were not.
pub(crate) fn told(missed: &Missed) -> String {
    let Missed { never_seen, evicted, crashed, displaced_on_the_way, holder_full, sent_elsewhere } =
        *missed;
    let all = never_seen + evicted + crashed + displaced_on_the_way + holder_full + sent_elsewhere;
    let percent = |tokens: u64| float(tokens) / float(all.max(1)) * 100.0;
    format!(
        "of {:.2} million not found: {:.0} % never seen, {:.0} evicted, {:.0} crashed, \
         {:.0} displaced on the way, {:.0} holder full, {:.0} sent elsewhere though it had room",
        float(all) / 1e6,
        percent(never_seen),
        percent(evicted),
        percent(crashed),
        percent(displaced_on_the_way),
        percent(holder_full),
        percent(sent_elsewhere),
    )
}

/// How long somebody waited for a first token, if only in vain.
pub(crate) fn wait_ms(sample: &Sample, patience_ms: f64) -> f64 {
    let ms = |time: Micros| float(time.get()) / 1e3;
    match (sample.fate, sample.ttft()) {
        (Fate::Completed, Some(ttft)) => ms(ttft),
        _ => patience_ms.max(ms(sample.latency())),
    }
}

/// The value that such a share of sorted ones lies below, as numpy has it.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let place = share * as_float(last);
    let below = whole(place.floor()).min(last);
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (place - place.floor())
}

/// The nearest count of things in memory; zero for what is negative.
pub(crate) fn whole(value: f64) -> usize {
    usize::try_from(float_conversion::whole(value)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use overdraft_sim::report::Belongs;
    use overdraft_units::{Instant, Tokens};

    use super::*;

    #[test]
    fn who_gets_no_answer_waits_for_the_patience_or_longer() {
        let at = |ms: u64| Instant::ORIGIN + Micros::new(ms * 1_000);
        let sample = |fate, first: Option<u64>, ended| Sample {
            intended: at(0),
            sent: at(0),
            first_token: first.map(at),
            ended: at(ended),
            prompt: Tokens::new(10),
            cached: None,
            output: Tokens::new(10),
            fate,
            cause: None,
            belongs: Belongs::default(),
        };
        let waits = |sample: Sample, ms: f64| {
            assert!((wait_ms(&sample, 30_000.0) - ms).abs() < 1e-9, "{sample:?}");
        };
        waits(sample(Fate::Completed, Some(200), 900), 200.0);
        waits(sample(Fate::Completed, Some(80_000), 90_000), 80_000.0);
        waits(sample(Fate::Refused, None, 3), 30_000.0);
        waits(sample(Fate::Failed, Some(100), 45_000), 45_000.0);
    }
}
