//! Steps of a calibration: what is sent, and what step times the answers tell.
//!
//! A prompt that is alone tells by its first token what a step of its length takes, with the request around it. In a
//! batch of equal answers most steps compute one token for each: the median time between tokens is such a step.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use overdraft_gpu_model::{Batch, Chunk, Observed};
use overdraft_load::{Asking, Loop, Plan, Progress, Target};
use overdraft_sim::report::{Fate, Objectives, Recorder, Run, Sample, Summary};
use overdraft_sim::workload::{Pacing, Source};
use overdraft_units::{Micros, Tokens};

use crate::fault::Fault;

/// How often the worker's metrics are looked at while it works.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How long an answer may take.
pub(super) const PATIENCE: Duration = Duration::from_mins(10);

/// Tokens of an answer in a batch: enough that most steps have all of it.
const ANSWER: u32 = 40;

/// Lengths of contexts in batches.
const CONTEXTS: [u32; 3] = [64, 512, 2_048];

/// The shortest prompt.
const PROMPT_MIN: u32 = 32;

/// How far it goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// The longest prompt, in tokens.
    pub(super) prompt_max: u32,
    /// The largest batch.
    pub(super) batch_max: u32,
    /// Rounds over all steps; the median of each step counts.
    pub(super) rounds: u32,
    /// Tokens that fit the cache.
    pub(super) kv_tokens: u32,
}

/// One thing to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A prompt of a length, alone.
    Prefill { tokens: u32 },
    /// Answers to prompts of a length, so many at once.
    Decode { sequences: u32, context: u32 },
}

/// Whom to ask, and how.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    pub(super) target: Target,
    pub(super) asking: Asking,
    pub(super) seed: u64,
}

/// What is measured in each round, the cheapest first.
pub(super) fn plan(extent: &Extent) -> Vec<Step> {
    let doubled = |first: u32, most: u32| {
        std::iter::successors(Some(first), |one| one.checked_mul(2))
            .take_while(move |one| *one <= most)
    };
    let prefills =
        doubled(PROMPT_MIN, extent.prompt_max).map(move |tokens| Step::Prefill { tokens });
    let contexts = CONTEXTS.into_iter().filter(|context| *context <= extent.prompt_max);
    let decodes = contexts.flat_map(|context| {
        doubled(1, extent.batch_max).map(move |sequences| Step::Decode { sequences, context })
    });
    // Twice the room that answers need: a full cache preempts.
    let fits = |step: &Step| match step {
        Step::Prefill { .. } => true,
        Step::Decode { sequences, context } => {
            u64::from(*sequences) * u64::from(context + ANSWER) * 2 <= u64::from(extent.kv_tokens)
        }
    };
    prefills.chain(decodes).filter(fits).collect()
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prefill { tokens } => write!(f, "a prompt of {tokens} tokens"),
            Self::Decode { sequences, context } => {
                write!(f, "{sequences} answers at once behind {context} tokens")
            }
        }
    }
}

impl Endpoint {
    /// Measures once; nothing where it cannot be told. Requests of one number have the same texts.
    pub(super) async fn take(&self, step: &Step, number: u64) -> Result<Option<Observed>, Fault> {
        match *step {
            Step::Prefill { tokens } => {
                Ok(prefilled(&self.send(&load(tokens, 2), number, 1, 1).await?))
            }
            Step::Decode { sequences, context } => {
                let recorder =
                    self.send(&load(context, ANSWER), number, sequences, sequences).await?;
                Ok(decoded(&recorder, sequences))
            }
        }
    }

    /// The seed of a step: every one has texts of its own, so that nothing is in the cache.
    pub(super) const fn seed_of(&self, number: u64) -> u64 {
        self.seed.wrapping_mul(1_000).wrapping_add(number)
    }

    /// Sends so many requests of a load from so many users.
    pub(super) async fn send(
        &self,
        workload: &str,
        number: u64,
        users: u32,
        requests: u32,
    ) -> Result<Recorder, Fault> {
        let seed = self.seed_of(number);
        let fault = |error: String| Fault::running(error);
        let source = Source::parse(workload).map_err(|error| fault(error.to_string()))?;
        let sessions = source.open(seed).map_err(|error| fault(error.to_string()))?.sessions;
        let requests_max = Some(u64::from(requests));
        let sessions = Pacing { requests_max, ..Pacing::default() }.apply(sessions, seed);
        let plan = Plan {
            target: self.target.clone(),
            asking: self.asking.clone(),
            pace: Loop::Closed {
                users: usize::try_from(users).unwrap_or(usize::MAX),
                is_timed: false,
                refused_wait: Micros::ZERO,
            },
            concurrency_max: None,
            session_header: None,
            patience: PATIENCE,
            warm_up: Micros::ZERO,
            until: None,
        };
        let progress = Arc::new(Progress::default());
        let recorder = overdraft_load::run(plan, sessions, Arc::clone(&progress))
            .await
            .map_err(|error| fault(error.to_string()))?;
        if recorder.samples().iter().all(|sample| sample.fate == Fate::Completed) {
            return Ok(recorder);
        }
        let why = progress.wrong().into_iter().next().map_or_else(String::new, |(why, _)| why);
        Err(Fault::running(format!("the worker does not answer `{workload}`: {why}"))
            .hint("is its context long enough? `--prompt-max` and `--batch-max` ask for less"))
    }
}

/// The generator of prompts that share nothing, all of one length, with answers of one length.
fn load(prompt: u32, output: u32) -> String {
    format!("unique:question={prompt},output={output},spread=0")
}

pub(super) fn summary(recorder: &Recorder) -> Summary {
    Run::new(String::new(), 0, recorder.clone()).summary(&Objectives::default())
}

/// The tokens of prompts as the worker counts them, less those that it had in its cache.
fn prompt(recorder: &Recorder) -> u32 {
    let count = u32::try_from(recorder.samples().len().max(1)).unwrap_or(u32::MAX);
    let tokens = recorder.samples().iter().map(|sample| {
        let cached = sample.cached.unwrap_or_default();
        sample.prompt.checked_sub(cached).unwrap_or_default().get()
    });
    tokens.sum::<u32>() / count
}

fn prefilled(recorder: &Recorder) -> Option<Observed> {
    let length = Tokens::new(prompt(recorder));
    if length < Tokens::new(2) {
        return None;
    }
    let batch = [Chunk { before: Tokens::ZERO, length, samples: true }].into_iter().collect();
    let seconds = summary(recorder).ttft.median / 1e3;
    Some(Observed { batch, seconds, with_request: true })
}

/// The step of a batch; nothing where no answer has a second token, as of a worker that ends answers at once.
fn decoded(recorder: &Recorder, sequences: u32) -> Option<Observed> {
    let count = u32::try_from(recorder.samples().len().max(1)).unwrap_or(u32::MAX);
    let mean = |of: fn(&Sample) -> Tokens| {
        recorder.samples().iter().map(|sample| of(sample).get()).sum::<u32>() / count
    };
    // The whole prompt is read, whether it was found in the cache or not.
    let before = Tokens::new(mean(|sample| sample.prompt) + mean(|sample| sample.output) / 2);
    let told = summary(recorder);
    // Where several tokens come in one piece of the stream, times between pieces say nothing.
    let each = recorder.samples().iter().filter_map(Sample::tpot_us);
    let least = each.fold(f64::INFINITY, f64::min);
    let median = told.itl.median * 1e3;
    // Where an answer comes in one piece, there is no time between pieces.
    let micros = if least / 2.0 <= median { median } else { least };
    let one = Chunk { before, length: Tokens::new(1), samples: true };
    let batch: Batch = (0..sequences).map(|_| one).collect();
    micros.is_finite().then_some(Observed { batch, seconds: micros / 1e6, with_request: false })
}

/// What was measured, in words.
pub(super) fn told(one: &Observed) -> String {
    let (rows, sequences) = (one.batch.rows(), one.batch.sequences());
    if one.with_request {
        return format!("a prompt of {rows:.0} tokens, to its first token");
    }
    let context = one.batch.decode_context() / sequences.max(1.0);
    format!("a step of {sequences:.0} answers at {context:.0} tokens")
}

#[cfg(test)]
mod tests {
    use overdraft_sim::report::Belongs;
    use overdraft_units::Instant;

    use super::*;

    #[test]
    fn answers_of_one_token_tell_no_step_of_a_batch() {
        let answered = |output: u32, micros: u64| {
            let mut recorder = Recorder::new();
            recorder.sample(Sample {
                intended: Instant::ORIGIN,
                sent: Instant::ORIGIN,
                first_token: Some(Instant::ORIGIN),
                ended: Instant::ORIGIN + Micros::new(micros),
                prompt: Tokens::new(64),
                cached: None,
                output: Tokens::new(output),
                fate: Fate::Completed,
                cause: None,
                belongs: Belongs::default(),
            });
            recorder
        };
        assert_eq!(decoded(&answered(1, 0), 1), None);
        let ten = decoded(&answered(11, 100_000), 1).expect("ten times between tokens");
        assert!((ten.seconds - 0.01).abs() < 1e-9, "{ten:?}");
        // Behind the prompt and half of the answer.
        assert!((ten.batch.decode_context() - 70.0).abs() < 1e-9, "{ten:?}");
    }

    #[test]
    fn what_would_not_fit_twice_is_not_sent() {
        let extent = Extent { prompt_max: 1_024, batch_max: 8, rounds: 2, kv_tokens: 4_000 };
        let steps = plan(&extent);
        assert!(steps.contains(&Step::Prefill { tokens: 32 }));
        assert!(steps.contains(&Step::Prefill { tokens: 1_024 }));
        assert!(!steps.contains(&Step::Prefill { tokens: 2_048 }));
        assert!(steps.contains(&Step::Decode { sequences: 8, context: 64 }));
        assert!(steps.contains(&Step::Decode { sequences: 2, context: 512 }));
        assert!(!steps.contains(&Step::Decode { sequences: 4, context: 512 }));
        assert!(!steps.iter().any(|step| matches!(step, Step::Decode { context: 2_048, .. })));
    }
}
