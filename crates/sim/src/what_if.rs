//! Access log replay: what logged requests cost, and what they would cost under another policy.
//!
//! A fleet costs by the hour, idle or not. The savings of single mechanisms are computed by the
//! work: the GPU time of a prompt token and of an output token, at the price of that time. The
//! total work is that of the target alone without any cache; each mechanism's savings are
//! subtracted from it. **Invariant:** a request is counted once, and its savings under one
//! mechanism: response cache, else cascade, else prefix cache.

use overdraft_core::cost::{Money, Prices, Speed, Usage};
use overdraft_gpu_model::{Batch, Chunk, Profile};
use overdraft_units::Tokens;

use crate::float_conversion::{float, length, whole, whole32};
use crate::report::{Belongs, Fate, Recorder, Sample};
use crate::workload::{AccessLog, AnswerSource, Entry};

/// Millionths of a dollar in a dollar.
const MICRO: f64 = 1e6;
/// Millionths of a millionth of a dollar in a dollar.
const PICO: f64 = 1e12;

/// What a load cost by its work, in dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// All of it by the target, without any cache hit.
    pub whole: f64,
    /// Saved by prefixes in the workers' caches.
    pub routing: f64,
    /// Saved by the response cache.
    pub cache: f64,
    /// Spared by small models that answered first; negative where they cost more than they spared.
    pub cascade: f64,
    /// Cascaded requests of which the log does not say what they cost; they count as if nothing was spared.
    pub cascaded_unpriced: u64,
}

impl Work {
    /// What remains.
    pub fn paid(&self) -> f64 {
        self.whole - self.routing - self.cache - self.cascade
    }

    /// A request that a worker of the target computed.
    fn asked(&mut self, prices: &Prices, prompt: Tokens, cached: Tokens, completion: Tokens) {
        let whole = dollars(prices.of(Usage { prompt, cached: Tokens::ZERO, completion }));
        self.whole += whole;
        self.routing += whole - dollars(prices.of(Usage { prompt, cached, completion }));
    }

    /// A request as the log has it.
    pub fn recorded(&mut self, prices: &Prices, entry: &Entry) {
        let Entry { prompt, output, cached, .. } = *entry;
        let whole = dollars(prices.of(Usage { prompt, cached: Tokens::ZERO, completion: output }));
        match entry.source {
            AnswerSource::Worker => {
                self.asked(prices, prompt, cached.unwrap_or_default(), output);
            }
            AnswerSource::Reused => {
                self.whole += whole;
                self.cache += whole;
            }
            AnswerSource::Cascade { cost_share } => {
                self.whole += whole;
                self.cascade += cost_share.map_or(0.0, |share| whole * (1.0 - share));
                self.cascaded_unpriced += u64::from(cost_share.is_none());
            }
        }
    }

    /// All that a simulated fleet answered, each request at the prices of the pool that did; a pool beyond
    /// the last has the last one's.
    pub fn simulated(&mut self, prices: &[Prices], recorder: &Recorder) {
        let Some(last) = prices.last() else { return };
        let completed = |sample: &&Sample| sample.fate == Fate::Completed;
        for sample in recorder.samples().iter().filter(completed) {
            let cached = sample.cached.unwrap_or_default();
            let pool = usize::from(sample.belongs.pool.unwrap_or(0));
            let prices = prices.get(pool).unwrap_or(last);
            self.asked(prices, sample.prompt, cached, sample.output);
        }
    }
}

/// Which requests of a log are not asked of the simulated fleet: they end as they did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Answers that were given again.
    pub cache: bool,
    /// Answers of a cascade.
    pub cascade: bool,
}

impl Kept {
    /// Whether a request ends as it did.
    pub const fn keeps(self, source: AnswerSource) -> bool {
        match source {
            AnswerSource::Worker => false,
            AnswerSource::Reused => self.cache,
            AnswerSource::Cascade { .. } => self.cascade,
        }
    }
}

/// The fleet that a log was recorded before, as far as the log tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recorded {
    /// Workers that answered for the target.
    pub workers: u32,
    /// From the first request to the last answer.
    pub seconds: f64,
    /// Answers being told at once by a worker, on average; one at least.
    pub running: f64,
    /// Positions that such an answer had before it, on average.
    pub context: f64,
}

impl Recorded {
    /// What a log tells of its fleet.
    pub fn of(log: &AccessLog) -> Self {
        let of_target = || {
            let is_asked = |entry: &&Entry| entry.source == AnswerSource::Worker;
            log.entries().iter().filter(is_asked)
        };
        let mut workers: Vec<_> = of_target().filter_map(|entry| entry.worker.as_ref()).collect();
        workers.sort_unstable();
        workers.dedup();
        // A part of a log begins later than the log.
        let first = log.entries().first().map(|entry| entry.at).unwrap_or_default();
        let ended = |entry: &Entry| float((entry.at.since(first) + entry.total).get()) / 1e6;
        let seconds = log.entries().iter().map(ended).fold(0.0, f64::max);
        let telling = |entry: &Entry| {
            let before = entry.first_token.map_or(0, |first| first.get().min(entry.total.get()));
            float(entry.total.get() - before) / 1e6
        };
        let told: f64 = of_target().map(telling).sum();
        let positions = |entry: &Entry| {
            float(u64::from(entry.prompt.get())) + float(u64::from(entry.output.get())) / 2.0
        };
        let asked = float(length(of_target().count()).max(1));
        let count = whole32(float(length(workers.len()))).max(1);
        Self {
            workers: count,
            seconds,
            running: (told / seconds.max(1e-6) / f64::from(count)).max(1.0),
            context: of_target().map(positions).sum::<f64>() / asked,
        }
    }

    /// What a token costs on a GPU: of a prompt at the pace of full steps, of an answer at the pace of as many
    /// sequences at once as the log shows.
    pub fn prices(&self, profile: &Profile, dollars_per_hour: f64) -> Prices {
        let step = profile.step_tokens;
        let prefill = Chunk { before: Tokens::ZERO, length: step, samples: false };
        let prompt_pace = float(u64::from(step.get())) / seconds(profile, [prefill]);
        let running = whole32(self.running).clamp(1, profile.running_max.max(1));
        let before = Tokens::new(whole32(self.context));
        let decode = Chunk { before, length: Tokens::new(1), samples: true };
        let decodes = std::iter::repeat_n(decode, usize::try_from(running).unwrap_or(1));
        let completion_pace = f64::from(running) / seconds(profile, decodes);
        let speed = Speed { prompt: whole(prompt_pace), completion: whole(completion_pace) };
        Prices::of_machine(whole(dollars_per_hour * MICRO), speed)
    }
}

/// The log's own requests, as a report tells them.
pub fn recorded(log: &AccessLog) -> Recorder {
    let mut recorder = Recorder::new();
    for entry in log.entries() {
        recorder.sample(sample(entry, entry.at));
    }
    recorder
}

/// A request that ended as the log has it, begun at a time that may be another.
pub fn sample(entry: &Entry, at: overdraft_units::Instant) -> Sample {
    Sample {
        intended: at,
        sent: at,
        first_token: entry.first_token.map(|first| at + first),
        ended: at + entry.total,
        prompt: entry.prompt,
        cached: entry.cached,
        output: entry.output,
        fate: Fate::Completed,
        cause: None,
        belongs: Belongs {
            priority: entry.sender.priority,
            tenant: entry.sender.tenant,
            ..Belongs::default()
        },
    }
}

fn seconds(profile: &Profile, chunks: impl IntoIterator<Item = Chunk>) -> f64 {
    let batch: Batch = chunks.into_iter().collect();
    profile.step(&batch).as_secs_f64().max(1e-9)
}

fn dollars(money: Money) -> f64 {
    float(money.get()) / PICO
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use overdraft_gpu_model::Catalogue;

    use super::*;

    /// A log of these requests: second, total in seconds, and what else.
    fn log(rows: &[(u32, &str)]) -> AccessLog {
        let mut text = String::new();
        for (second, more) in rows {
            let _written = writeln!(
                text,
                "{{\"timestamp\":\"2025-11-22T10:00:{second:02}Z\",\"path\":\"/v1/completions\",\
                 \"status\":200,\"model\":\"m\",\"tokens_prompt\":1000,\"tokens_out\":100,\
                 \"target\":\"access\",{more}}}"
            );
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        AccessLog::read(file.path()).unwrap()
    }

    fn profile() -> Profile {
        Catalogue::builtin().find("h100/llama-3-8b-bf16").unwrap()
    }

    fn work(log: &AccessLog) -> Work {
        let prices = Recorded::of(log).prices(&profile(), 3.0);
        let mut work = Work::default();
        for entry in log.entries() {
            work.recorded(&prices, entry);
        }
        work
    }

    #[track_caller]
    fn is_near(one: f64, other: f64) {
        assert!((one - other).abs() <= other.abs() * 1e-9, "{one} is not {other}");
    }

    #[test]
    fn a_fleet_is_told_by_its_log() {
        let told = Recorded::of(&log(&[
            (2, r#""worker":"a","total_us":2000000,"ttft_us":500000"#),
            (4, r#""worker":"b","total_us":4000000,"ttft_us":1000000"#),
            (9, r#""worker":"a","total_us":1000000,"cache":"hit""#),
        ]));
        assert_eq!(told.workers, 2);
        is_near(told.seconds, 9.0);
        // Four and a half seconds of telling over nine of two workers: less than one at once.
        is_near(told.running, 1.0);
        is_near(told.context, 1_050.0);
    }

    #[test]
    fn a_part_of_a_log_lasts_from_its_own_first_request_on() {
        let whole = log(&[
            (2, r#""worker":"a","total_us":1000000"#),
            (8, r#""worker":"b","total_us":3000000"#),
            (9, r#""worker":"a","total_us":1000000"#),
            (15, r#""worker":"a","total_us":1000000"#),
        ]);
        is_near(Recorded::of(&whole).seconds, 14.0);
        let part = whole.part(1..3);
        assert_eq!(part.entries(), &whole.entries()[1..3]);
        is_near(Recorded::of(&part).seconds, 4.0);
        assert!(whole.part(3..9).entries().is_empty(), "there are no such places");
    }

    #[test]
    fn each_request_saves_under_one_mechanism_and_all_add_up() {
        let rows = [
            (2, r#""total_us":1000000,"tokens_cached":500"#),
            (3, r#""total_us":1000000,"tokens_cached":1000,"cache":"hit""#),
            (
                4,
                r#""total_us":1000000,"served_by":"draft","cost_microusd":1,"cost_target_only_microusd":4"#,
            ),
            (5, r#""total_us":1000000,"served_by":"verified""#),
        ];
        let told = work(&log(&rows));
        let each = told.whole / 4.0;
        is_near(told.cache, each);
        is_near(told.cascade, each * 0.75);
        assert_eq!(told.cascaded_unpriced, 1);
        assert!(0.0 < told.routing && told.routing < each, "{told:?}");
        is_near(told.paid() + told.routing + told.cache + told.cascade, told.whole);
    }

    #[test]
    fn a_token_costs_what_its_share_of_a_step_costs() {
        let fleet = Recorded { workers: 1, seconds: 1.0, running: 8.0, context: 1_000.0 };
        let (one, twice) = (fleet.prices(&profile(), 3.0), fleet.prices(&profile(), 6.0));
        let ratio = |one: u64, other: u64| float(one) / float(other);
        assert!((1.99..2.01).contains(&ratio(twice.prompt.get(), one.prompt.get())));
        assert!((1.99..2.01).contains(&ratio(twice.completion.get(), one.completion.get())));
        // Alone, a sequence pays for the whole step.
        let alone = Recorded { running: 1.0, ..fleet }.prices(&profile(), 3.0);
        assert!(5.0 < ratio(alone.completion.get(), one.completion.get()));
        assert_eq!((one.prompt, one.cached.get()), (alone.prompt, 0));
    }

    #[test]
    fn what_a_simulated_fleet_found_is_what_routing_saved() {
        let log = log(&[(2, r#""total_us":1000000,"tokens_cached":600"#)]);
        let prices = Recorded::of(&log).prices(&profile(), 3.0);
        let mut again = Work::default();
        again.simulated(&[prices], &recorded(&log));
        assert_eq!(again, work(&log));
    }
}
