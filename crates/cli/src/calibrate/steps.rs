//! Steps of a calibration: what is sent, and what step times the answers tell.
//!
//! A prompt that is alone tells by its first token what a step of its length takes, with the request around it. In a
//! batch of equal answers most steps compute one token for each: the median time between tokens is such a step.
//! Where a prompt comes meanwhile, one time between tokens of each answer is longer: the step that computes both.
//! The longest times while prompts are sent one by one are those steps, one for each prompt and answer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use overdraft_gpu_model::{Batch, Chunk, Observed};
use overdraft_load::{Asking, Loop, Plan, Progress, Target};
use overdraft_sim::report::{Objectives, Recorder, Run, Sample, Summary};
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

/// Tokens of prompts that are so short that their steps take as long as those of answers: what else their first tokens
/// take is the request.
const PROMPTS_TINY: [u32; 2] = [2, 8];

/// Tokens of the prompt that is also sent after a rest.
pub(super) const RESTED: u32 = PROMPTS_TINY[1];

/// The shortest of the prompts whose lengths double.
const PROMPT_MIN: u32 = 32;

/// Tokens of a prompt that is sent beside answers, and of those answers.
const BESIDE: (u32, u32) = (256, 100);

/// Prompts that are sent beside a batch of answers, one after the other.
const PROMPTS_BESIDE: u32 = 10;

/// The shortest context of which one is needed: behind less, what decodes read weighs too little to be told.
const CONTEXT_BESIDE_MIN: u32 = 512;

/// Mean time between pieces of a stream, in times for a token, from which on several tokens come in one piece.
const PIECES_APART_MAX: f64 = 1.5;

/// The number of the texts of answers beside which prompts are sent: the same in each round.
const NUMBER_BESIDE: u64 = 998;

/// How far lengths of prompts are apart, as the deviation of their logarithm.
const SPREAD: f64 = 0.1;

/// From the number of a prompt to that of the one that wakes the worker up before it: it shares no text with it.
const NUMBER_WAKING: u64 = 100_000;

/// How long a worker rests before that prompt.
const REST: Duration = Duration::from_secs(2);

/// How often a batch is asked whether all its answers have begun.
const BEGUN_EVERY: Duration = Duration::from_millis(2);

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
    /// Tokens of a step at most.
    pub(super) step_tokens: u32,
    /// Sequences at once, if somebody says how many.
    pub(super) seats: Option<u32>,
}

/// One thing to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A prompt of a length, alone: right after another, or after a rest.
    Prefill { tokens: u32, rested: bool },
    /// Answers to prompts of a length, so many at once.
    Decode { sequences: u32, context: u32 },
    /// Prompts of a length, one after the other, beside so many answers to prompts of another length.
    Beside { prompt: u32, sequences: u32, context: u32 },
}

/// Prompts that were sent beside a batch, and the times between the batch's tokens meanwhile.
struct Sent {
    prompts: Recorder,
    gaps: Vec<Micros>,
}

/// Whom to ask, and how.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    pub(super) target: Target,
    pub(super) asking: Asking,
    pub(super) seed: u64,
    /// Tokens of a step at most.
    pub(super) step_tokens: u32,
}

/// What is measured in each round, the cheapest first.
pub(super) fn plan(extent: &Extent) -> Vec<Step> {
    let doubled = |first: u32, most: u32| {
        std::iter::successors(Some(first), |one| one.checked_mul(2))
            .take_while(move |one| *one <= most)
    };
    let lengths = PROMPTS_TINY.into_iter().chain(doubled(PROMPT_MIN, extent.prompt_max));
    let rested = Step::Prefill { tokens: RESTED, rested: true };
    let prefills = lengths.map(|tokens| Step::Prefill { tokens, rested: false }).chain([rested]);
    let contexts = || CONTEXTS.into_iter().filter(|context| *context <= extent.prompt_max);
    let decodes = contexts().flat_map(|context| {
        doubled(1, extent.batch_max).map(move |sequences| Step::Decode { sequences, context })
    });
    let beside = contexts().map(|context| beside(extent, context)).filter(|step| step.fits(extent));
    let beside: Vec<Step> = beside.collect();
    let is_told = |step: &Step| matches!(step, Step::Beside { context, .. } if CONTEXT_BESIDE_MIN <= *context);
    let beside = if beside.iter().any(is_told) { beside } else { Vec::new() };
    prefills.chain(decodes).filter(|step| step.fits(extent)).chain(beside).collect()
}

/// Prompts beside answers behind a context: each has to find a seat, and room in one step.
fn beside(extent: &Extent, context: u32) -> Step {
    let seats = extent.seats.unwrap_or(u32::MAX);
    let sequences = (extent.batch_max / 2).min(seats.saturating_sub(1));
    let room = extent.step_tokens.saturating_sub(sequences) / 2;
    let prompt = BESIDE.0.min(extent.prompt_max).min(room);
    Step::Beside { prompt, sequences, context }
}

impl Step {
    /// Whether the cache has twice the room that answers need: a full one preempts.
    fn fits(&self, extent: &Extent) -> bool {
        let twice = |sequences: u32, each: u32| {
            u64::from(sequences) * u64::from(each) * 2 <= u64::from(extent.kv_tokens)
        };
        match *self {
            Self::Prefill { .. } => true,
            Self::Decode { sequences, context } => twice(sequences, context + ANSWER),
            Self::Beside { prompt, sequences, context } => {
                0 < sequences
                    && PROMPTS_TINY[0] <= prompt
                    && twice(sequences + 1, context.max(prompt) + BESIDE.1)
            }
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prefill { tokens, .. } => write!(f, "a prompt of {tokens} tokens"),
            Self::Decode { sequences, context } => {
                write!(f, "{sequences} answers at once behind {context} tokens")
            }
            Self::Beside { prompt, sequences, context } => {
                write!(f, "prompts of {prompt} tokens beside {sequences} answers behind {context}")
            }
        }
    }
}

impl Endpoint {
    /// Measures once; nothing where it cannot be told. Requests of one number have the same texts.
    pub(super) async fn take(&self, step: &Step, number: u64) -> Result<Option<Observed>, Fault> {
        match *step {
            Step::Prefill { tokens, rested } => {
                if rested {
                    tokio::time::sleep(REST).await;
                } else {
                    self.send(&load(RESTED, 2), number + NUMBER_WAKING, 1, 1).await?;
                }
                let recorder = self.send(&varied(tokens, 2), number, 1, 1).await?;
                Ok(prefilled(&recorder, self.step_tokens))
            }
            Step::Decode { sequences, context } => {
                let recorder =
                    self.send(&load(context, ANSWER), number, sequences, sequences).await?;
                Ok(decoded(&recorder, sequences))
            }
            Step::Beside { prompt, sequences, context } => {
                let (batch, prompt) = (load(context, BESIDE.1), varied(prompt, 2));
                let progress = Arc::new(Progress::default());
                let answers =
                    self.watch(&batch, NUMBER_BESIDE, sequences, sequences, Arc::clone(&progress));
                let prompts = self.send_beside(&prompt, number, sequences, &progress);
                let (answers, sent) = tokio::try_join!(answers, prompts)?;
                Ok(sent.and_then(|sent| computed_beside(&answers, sequences, &sent)))
            }
        }
    }

    /// Sends prompts one after the other while a batch answers; nothing where the batch has ended before them.
    async fn send_beside(
        &self,
        workload: &str,
        number: u64,
        sequences: u32,
        batch: &Progress,
    ) -> Result<Option<Sent>, Fault> {
        while batch.first_tokens() < u64::from(sequences) {
            if 0 < batch.ended() {
                return Ok(None);
            }
            tokio::time::sleep(BEGUN_EVERY).await;
        }
        // Before all answers have begun, steps compute their prompts.
        batch.keep_gaps();
        let prompts = self.send(workload, number, 1, PROMPTS_BESIDE).await?;
        let gaps = batch.take_gaps();
        Ok((batch.ended() == 0).then_some(Sent { prompts, gaps }))
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
        self.watch(workload, number, users, requests, Arc::default()).await
    }

    /// The same, and counts its progress.
    async fn watch(
        &self,
        workload: &str,
        number: u64,
        users: u32,
        requests: u32,
        progress: Arc<Progress>,
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
        let recorder = overdraft_load::run(plan, sessions, Arc::clone(&progress))
            .await
            .map_err(|error| fault(error.to_string()))?;
        // Tokens without text tell nothing, and are nobody's fault: parts of a character, marks of an end.
        let wrong = progress.wrong().into_iter().find(|(why, _)| why != overdraft_load::NO_TEXT);
        let Some((why, _)) = wrong else { return Ok(recorder) };
        Err(Fault::running(format!("the worker does not answer `{workload}`: {why}"))
            .hint("is its context long enough? `--prompt-max` and `--batch-max` ask for less"))
    }
}

/// The generator of prompts that share nothing, all of one length, with answers of one length.
fn load(prompt: u32, output: u32) -> String {
    format!("unique:question={prompt},output={output},spread=0")
}

/// The same with prompts of lengths around one. An engine may take longer for a length that it has not met before: its
/// kernels are chosen or compiled for it. Real prompts have all kinds of lengths.
fn varied(prompt: u32, output: u32) -> String {
    format!("unique:question={prompt},output={output},spread={SPREAD}")
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

/// A prompt's first token: its steps, each of `step_tokens` at most, and the request.
fn prefilled(recorder: &Recorder, step_tokens: u32) -> Option<Observed> {
    let length = prompt(recorder);
    if length < PROMPTS_TINY[0] {
        return None;
    }
    let step_tokens = step_tokens.max(1);
    let steps = (0..length.div_ceil(step_tokens)).map(|step| {
        let before = step * step_tokens;
        let rest = length - before;
        let part = Tokens::new(rest.min(step_tokens));
        [Chunk { before: Tokens::new(before), length: part, samples: rest <= step_tokens }]
            .into_iter()
            .collect()
    });
    let seconds = summary(recorder).ttft.median / 1e3;
    seconds.is_finite().then(|| Observed { steps: steps.collect(), seconds, with_request: true })
}

/// The step of a batch; nothing where no answer has a second token, as of a worker that ends answers at once.
fn decoded(recorder: &Recorder, sequences: u32) -> Option<Observed> {
    // Where an answer comes in one piece, or in few, there is no time between tokens.
    let (median, (least, _)) = (summary(recorder).itl.median * 1e3, tpot_us(recorder));
    let micros = if comes_in_pieces(recorder) { median } else { least };
    let steps = vec![decodes(recorder, sequences)];
    micros.is_finite().then_some(Observed { steps, seconds: micros / 1e6, with_request: false })
}

/// The step of a batch that computes a prompt too: the median of the longest times between tokens, one for each prompt
/// and answer.
fn computed_beside(answers: &Recorder, sequences: u32, sent: &Sent) -> Option<Observed> {
    let length = Tokens::new(prompt(&sent.prompts));
    let told = summary(&sent.prompts).completed;
    let long = usize::try_from(told * u64::from(sequences)).ok()?;
    let mut gaps = sent.gaps.clone();
    gaps.sort();
    // Fewer than twice as many do not tell the long ones from the others.
    if length < Tokens::new(PROMPTS_TINY[0]) || gaps.len() < 2 * long || !comes_in_pieces(answers) {
        return None;
    }
    let middle = gaps.len().checked_sub(long.div_ceil(2))?;
    let micros = gaps.get(middle)?.get();
    let mut batch = decodes(answers, sequences);
    batch.push(Chunk { before: Tokens::ZERO, length, samples: true });
    let seconds = Duration::from_micros(micros).as_secs_f64();
    Some(Observed { steps: vec![batch], seconds, with_request: false })
}

/// A step with one token of each answer, half way through them. The whole prompt is read, whether it was found in the
/// cache or not.
fn decodes(recorder: &Recorder, sequences: u32) -> Batch {
    let count = u32::try_from(recorder.samples().len().max(1)).unwrap_or(u32::MAX);
    let mean = |of: fn(&Sample) -> Tokens| {
        recorder.samples().iter().map(|sample| of(sample).get()).sum::<u32>() / count
    };
    let before = Tokens::new(mean(|sample| sample.prompt) + mean(|sample| sample.output) / 2);
    (0..sequences).map(|_| Chunk { before, length: Tokens::new(1), samples: true }).collect()
}

/// Whether each token comes by itself. Where several come in one piece of the stream, times between pieces say nothing.
fn comes_in_pieces(recorder: &Recorder) -> bool {
    summary(recorder).itl.mean * 1e3 <= PIECES_APART_MAX * tpot_us(recorder).1
}

/// The least mean time for a token of any answer, and the mean of all; infinite where none has a second token.
fn tpot_us(recorder: &Recorder) -> (f64, f64) {
    let each: Vec<f64> = recorder.samples().iter().filter_map(Sample::tpot_us).collect();
    let least = each.iter().copied().fold(f64::INFINITY, f64::min);
    let count = f64::from(u32::try_from(each.len()).unwrap_or(u32::MAX));
    let mean = if each.is_empty() { f64::INFINITY } else { each.iter().sum::<f64>() / count };
    (least, mean)
}

/// What was measured, in words.
pub(super) fn told(one: &Observed) -> String {
    let all = |of: fn(&Batch) -> f64| one.steps.iter().map(of).sum::<f64>();
    let (rows, sequences) = (all(Batch::rows), all(Batch::sequences));
    if one.with_request {
        return format!("a prompt of {rows:.0} tokens, to its first token");
    }
    let decodes = all(Batch::decodes);
    let context = all(Batch::decode_context) / decodes.max(1.0);
    if decodes < sequences {
        let prompt = rows - decodes;
        return format!("{prompt:.0} of a prompt beside {decodes:.0} answers at {context:.0}");
    }
    format!("a step of {sequences:.0} answers at {context:.0} tokens")
}

#[cfg(test)]
mod tests {
    use overdraft_sim::report::{Belongs, Fate};
    use overdraft_units::Instant;

    use super::*;

    /// One answer to a prompt of 64 tokens, with such times between its tokens.
    fn answered(gaps_ms: &[u64]) -> Recorder {
        let mut recorder = Recorder::new();
        for gap in gaps_ms {
            recorder.gap(Micros::new(gap * 1_000), Belongs::default());
        }
        let micros = Micros::new(gaps_ms.iter().sum::<u64>() * 1_000);
        recorder.sample(Sample {
            intended: Instant::ORIGIN,
            sent: Instant::ORIGIN,
            first_token: Some(Instant::ORIGIN),
            ended: Instant::ORIGIN + micros,
            prompt: Tokens::new(64),
            cached: None,
            output: Tokens::new(u32::try_from(gaps_ms.len()).unwrap() + 1),
            fate: Fate::Completed,
            cause: None,
            belongs: Belongs::default(),
        });
        recorder
    }

    #[test]
    fn answers_of_one_token_tell_no_step_of_a_batch() {
        assert_eq!(decoded(&answered(&[]), 1), None);
        let ten = decoded(&answered(&[10; 10]), 1).expect("ten times between tokens");
        assert!((ten.seconds - 0.01).abs() < 1e-5, "{ten:?}");
        // Behind the prompt and half of the answer.
        assert!((ten.steps[0].decode_context() - 70.0).abs() < 1e-9, "{ten:?}");
    }

    #[test]
    fn the_longest_times_between_tokens_are_the_steps_with_a_prompt() {
        let sent = |gaps: &[u64]| Sent {
            prompts: answered(&[10]),
            gaps: gaps.iter().map(|gap| Micros::new(gap * 1_000)).collect(),
        };
        // One prompt beside three answers of a hundred tokens: a step that takes fifteen times as long.
        let mut gaps = [10; 30];
        gaps[12..15].fill(150);
        let answers = answered(&[[10; 90].as_slice(), &[150; 10]].concat());
        let found = computed_beside(&answers, 3, &sent(&gaps)).expect("a step");
        assert!((found.seconds / 0.15 - 1.0).abs() < 1e-9, "{found:?}");
        let batch = &found.steps[0];
        assert!((batch.sequences() - 4.0).abs() < 1e-9 && (batch.rows() - 67.0).abs() < 1e-9);
        // Three answers behind 64 tokens and half of an answer.
        assert!((batch.decode_context() - 3.0 * 115.0).abs() < 1e-9, "{batch:?}");
        assert_eq!(told(&found), "64 of a prompt beside 3 answers at 115");
        // Nothing is told by an answer that comes in one piece or in few, and by too few times.
        assert_eq!(computed_beside(&answered(&[]), 3, &sent(&gaps)), None);
        assert_eq!(computed_beside(&answers, 3, &sent(&[10, 150, 150, 150])), None);
    }

    #[test]
    fn a_prompt_that_one_step_has_no_room_for_has_several() {
        let found = prefilled(&answered(&[10]), 24).expect("a first token");
        let rows: Vec<f64> = found.steps.iter().map(Batch::rows).collect();
        assert_eq!((rows, found.with_request), (vec![24.0, 24.0, 16.0], true));
        assert_eq!(prefilled(&answered(&[10]), 64).expect("a first token").steps.len(), 1);
    }

    #[test]
    fn what_would_not_fit_twice_is_not_sent() {
        let extent = Extent {
            prompt_max: 1_024,
            batch_max: 8,
            rounds: 2,
            kv_tokens: 4_000,
            step_tokens: 256,
            seats: None,
        };
        let steps = plan(&extent);
        assert!(steps.contains(&Step::Prefill { tokens: 32, rested: false }));
        assert!(steps.contains(&Step::Prefill { tokens: 1_024, rested: false }));
        assert!(!steps.contains(&Step::Prefill { tokens: 2_048, rested: false }));
        assert!(steps.contains(&Step::Decode { sequences: 8, context: 64 }));
        assert!(steps.contains(&Step::Decode { sequences: 2, context: 512 }));
        assert!(!steps.contains(&Step::Decode { sequences: 4, context: 512 }));
        assert!(!steps.iter().any(|step| matches!(step, Step::Decode { context: 2_048, .. })));
        // Five sequences behind 512 tokens would not fit twice, and behind 64 nothing is told.
        assert!(!steps.iter().any(|step| matches!(step, Step::Beside { .. })));
        let beside = |extent: Extent| -> Vec<Step> {
            plan(&extent).into_iter().filter(|step| matches!(step, Step::Beside { .. })).collect()
        };
        let large = Extent { kv_tokens: 40_000, ..extent };
        let one = |context| Step::Beside { prompt: 126, sequences: 4, context };
        assert_eq!(beside(large), [one(64), one(512)]);
        let few = beside(Extent { seats: Some(3), ..large });
        assert_eq!(few[0], Step::Beside { prompt: 127, sequences: 2, context: 64 });
        for none in [
            Extent { seats: Some(1), ..large },
            Extent { step_tokens: 3, ..large },
            Extent { prompt_max: 64, ..large },
        ] {
            assert_eq!(beside(none), [], "{none:?}");
        }
    }
}
