//! Request state in the engine: sampler, text, stream and timings of a running request.
//!
//! It holds what the scheduler does not: how to sample its tokens, its text, the channel to its
//! client, and its timestamps. None of it depends on the KV cache, so preemption does not touch it.

use overdraft_units::{Instant, Micros, TokenId, Tokens};
use tokio::sync::mpsc;

use super::observe::{End, RequestRecord};
use super::text::{TextOut, Watch};
use crate::request::{
    Event, FinishReason, Guessing, PositionLogprobs, Request, Sampling, StopCause, TokenOut, Usage,
};
use crate::sample::{Choice, GREEDY_BELOW, Sampler};
use crate::stop::StopStep;

/// A request on its way through the engine.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) sampler: Sampler,
    /// Who may guess for it.
    pub(super) guessing: Guessing,
    /// Requests of one class are likely to be alike in what can be guessed of them.
    pub(super) class: u64,
    text: TextOut,
    events: mpsc::Sender<Event>,
    ends: Ends,
    stop: Vec<String>,
    output_max: Tokens,
    usage: Usage,
    prompt_logprobs: Option<PromptLogprobs>,
    times: Times,
    preemptions: u32,
}

/// What ends a completion, apart from stop strings and length.
#[derive(Debug)]
struct Ends {
    /// The model's own end tokens; empty when they are to be ignored.
    model: Vec<TokenId>,
    client: Vec<TokenId>,
    min_tokens: Tokens,
    /// Whether the text of an ending token belongs to the answer.
    shown: bool,
}

/// Log probabilities of the prompt, as far as they are computed.
#[derive(Debug)]
struct PromptLogprobs {
    count: u32,
    entries: Vec<Option<PositionLogprobs>>,
}

#[derive(Debug)]
struct Times {
    arrived: Instant,
    scheduled: Option<Instant>,
    first: Option<Instant>,
    last: Option<Instant>,
}

/// The end of a completion that is whole.
#[derive(Debug)]
pub(super) struct Finish {
    pub(super) reason: FinishReason,
    /// Text that was held back.
    pub(super) tail: String,
}

/// The last that is heard of a request.
#[derive(Debug)]
pub(super) enum Last {
    /// It is whole.
    Finish(Finish),
    /// It is lost; a sentence for the client.
    Failure(String),
}

/// When a token came, relative to what came before it.
#[derive(Clone, Copy, Debug)]
pub(super) enum TokenTime {
    /// The first, since submission.
    First(Micros),
    /// A later one, since the one before.
    Next(Micros),
}

/// The way of a token to the reader of the answer.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) sampler: Sampler,
    pub(super) text: TextOut,
    pub(super) events: mpsc::Sender<Event>,
}

impl Live {
    pub(super) fn new(
        request: &Request,
        ends: &[TokenId],
        output: Output,
        output_max: Tokens,
        arrived: Instant,
    ) -> Self {
        let Output { sampler, text, events } = output;
        let prompt = Tokens::new(u32::try_from(request.prompt.len()).unwrap_or(u32::MAX));
        let prompt_logprobs = request
            .prompt_logprobs
            .map(|count| PromptLogprobs { count, entries: vec![None; request.prompt.len()] });
        Self {
            sampler,
            guessing: request.sampling.guessing,
            class: class(request),
            text,
            events,
            ends: Ends::new(&request.sampling, ends),
            stop: request.sampling.stop.clone(),
            output_max,
            usage: Usage { prompt, ..Usage::default() },
            prompt_logprobs,
            times: Times { arrived, scheduled: None, first: None, last: None },
            preemptions: 0,
        }
    }

    /// Whether nobody listens any more.
    pub(super) fn is_abandoned(&self) -> bool {
        self.events.is_closed()
    }

    pub(super) fn note_admitted(&mut self, now: Instant) {
        self.times.scheduled.get_or_insert(now);
    }

    pub(super) fn note_preempted(&mut self) {
        self.preemptions = self.preemptions.saturating_add(1);
    }

    /// How many likely tokens are wanted for the prompt's token at `position`, if any and if they
    /// are not there yet.
    pub(super) fn wants_prompt_logprobs(&self, position: usize) -> Option<u32> {
        let wanted = self.prompt_logprobs.as_ref()?;
        let missing = wanted.entries.get(position)?.is_none();
        missing.then_some(wanted.count)
    }

    pub(super) fn note_prompt_logprobs(&mut self, position: usize, logprobs: PositionLogprobs) {
        if let Some(wanted) = &mut self.prompt_logprobs
            && let Some(entry) = wanted.entries.get_mut(position)
        {
            *entry = Some(logprobs);
        }
    }

    /// Notes when a token came. `Started` goes out before the first.
    pub(super) fn note_token_time(&mut self, now: Instant, cached: Tokens) -> TokenTime {
        let before = self.times.last.replace(now);
        if let Some(before) = before {
            return TokenTime::Next(now.since(before));
        }
        self.times.first = Some(now);
        self.usage.cached = cached;
        let prompt_logprobs = self.prompt_logprobs.take().map(|wanted| wanted.entries);
        self.send(Event::Started { cached, prompt_logprobs });
        TokenTime::First(now.since(self.times.arrived))
    }

    /// When it was asked for.
    pub(super) fn arrived(&self) -> Instant {
        self.times.arrived
    }

    pub(super) fn prompt_tokens(&self) -> Tokens {
        self.usage.prompt
    }

    /// Whether the token that is taken next was drafted, where there is a drafter.
    pub(super) fn note_drafted(&mut self, was: bool) {
        *self.usage.accepted.get_or_insert_default() += Tokens::new(u32::from(was));
    }

    /// Takes the chosen token and tells of it; when it was the last, says why and what is left.
    pub(super) fn take(&mut self, choice: Choice) -> Option<Finish> {
        let Choice { token: id, logprobs } = choice;
        self.sampler.accept(id);
        self.usage.completion += Tokens::new(1);
        let ended = self.ends.reason(id, self.usage.completion);
        let step = if ended.is_some() && !self.ends.shown {
            StopStep::Released(String::new())
        } else {
            self.text.push(id, self.watch())
        };
        let (text, stopped) = self.read(step);
        self.send(Event::Tokens(vec![TokenOut { id, text, logprobs }]));

        if let Some(reason) = stopped {
            return Some(Finish { reason, tail: String::new() });
        }
        let full = self.usage.completion >= self.output_max;
        let reason = ended.or(full.then_some(FinishReason::Length))?;
        Some(self.finish(reason))
    }

    /// Tells of the end.
    pub(super) fn send_last(&self, last: Last) {
        self.send(match last {
            Last::Finish(Finish { reason, tail }) => {
                Event::Finished { reason, tail, usage: self.usage }
            }
            Last::Failure(sentence) => Event::Failed(sentence),
        });
    }

    pub(super) fn record(&self, end: End, now: Instant) -> RequestRecord {
        let times = &self.times;
        let since = |later: Option<Instant>, earlier: Option<Instant>| match (later, earlier) {
            (Some(later), Some(earlier)) => later.since(earlier),
            _ => Micros::ZERO,
        };
        RequestRecord {
            end,
            usage: self.usage,
            output_max: self.output_max,
            total: now.since(times.arrived),
            queued: times.scheduled.unwrap_or(now).since(times.arrived),
            prefill: since(times.first, times.scheduled),
            decode: since(times.last, times.first),
            preemptions: self.preemptions,
        }
    }

    /// Whether a token, so many places behind the next one, would end the completion.
    pub(super) fn would_end(&self, token: TokenId, ahead: usize) -> bool {
        let ahead = Tokens::new(u32::try_from(ahead).unwrap_or(u32::MAX));
        self.ends.reason(token, self.usage.completion + Tokens::new(1) + ahead).is_some()
    }

    /// The end, unless the text that was held back turns out to hold a stop string after all.
    fn finish(&mut self, reason: FinishReason) -> Finish {
        let step = self.text.finish(self.watch());
        let (tail, stopped) = self.read(step);
        Finish { reason: stopped.unwrap_or(reason), tail }
    }

    fn watch(&self) -> Watch {
        if self.usage.completion <= self.ends.min_tokens && self.ends.min_tokens > Tokens::ZERO {
            Watch::NotYet
        } else {
            Watch::Stops
        }
    }

    fn read(&self, step: StopStep) -> (String, Option<FinishReason>) {
        match step {
            StopStep::Released(text) => (text, None),
            StopStep::Hit { text, stop } => {
                let cause = StopCause::Text(self.stop[stop].clone());
                (text, Some(FinishReason::Stop(Some(cause))))
            }
        }
    }

    fn send(&self, event: Event) {
        // The channel has room for every event of the request, so it is never full. When it is
        // closed, the next sweep drops the sequence.
        let sent = self.events.try_send(event);
        debug_assert!(
            !matches!(sent, Err(mpsc::error::TrySendError::Full(_))),
            "a request has more events than its channel has room for"
        );
    }
}

/// The tenant, and whether tokens are drawn.
fn class(request: &Request) -> u64 {
    request.salt.0.rotate_left(1) ^ u64::from(request.sampling.temperature < GREEDY_BELOW)
}

impl Ends {
    fn new(sampling: &Sampling, ends: &[TokenId]) -> Self {
        let model = if sampling.ignore_eos { Vec::new() } else { ends.to_vec() };
        Self {
            model,
            client: sampling.stop_tokens.clone(),
            min_tokens: sampling.min_tokens,
            shown: sampling.include_stop,
        }
    }

    /// Whether `token`, the last of `completion` tokens, ends the completion.
    fn reason(&self, token: TokenId, completion: Tokens) -> Option<FinishReason> {
        if completion <= self.min_tokens && self.min_tokens > Tokens::ZERO {
            // The sampler masks end tokens until then; only a bias can have forced one.
            return None;
        }
        if self.model.contains(&token) {
            return Some(FinishReason::Stop(None));
        }
        let asked = self.client.contains(&token);
        asked.then_some(FinishReason::Stop(Some(StopCause::Token(token))))
    }
}
