//! Continuation: an accepted answer, window by window, to its end by draft or target.
//!
//! Invariant: released text stays, and the rest continues exactly after it: by the released tokens
//! and never by their text. Where that cannot be done, the answer breaks off with an error.

use bytes::Bytes;
use overdraft_core::cascade::{Action, Event};
use overdraft_core::route::Strictness;
use overdraft_core::route::{Tried, Verdict};
use overdraft_telemetry::Delivery;
use overdraft_units::Tokens;
use overdraft_wire::Endpoint;
use overdraft_wire::response::FinishReason;
use overdraft_wire::{ApiError, Object};
use tokio::sync::mpsc;

use super::call::{AnswerStream, Call, CallError};
use super::draft_transcript::DraftTranscript;
use super::driver::Driver;
use super::protocol::Fallback;
use super::response_writer::Counts;
use super::rewrite;
use super::verify::tokens_of;
use crate::pipeline::relay::Fault;

/// Where the text goes.
#[derive(Debug)]
pub(super) enum Sink {
    /// To a client who reads along.
    Stream(mpsc::Sender<Bytes>),
    /// Into one piece.
    Whole(String),
}

impl Sink {
    /// What was put into one piece.
    pub(super) fn into_text(self) -> String {
        match self {
            Self::Whole(text) => text,
            Self::Stream(_) => String::new(),
        }
    }
}

/// How an answer came to its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    pub(super) reason: FinishReason,
    pub(super) counts: Counts,
}

/// An answer that was not finished.
#[derive(Debug)]
pub(super) struct Unfinished {
    /// How it ends where some of it was shown.
    pub(super) error: ApiError,
    /// What follows where none of it was: the target answers alone.
    pub(super) fallback: Option<Fallback>,
}

impl Driver {
    /// Tells the answer from the first thing to show on, whatever it takes.
    pub(super) async fn tell(
        &mut self,
        mut actions: Vec<Action>,
        sink: &mut Sink,
    ) -> Result<Told, Unfinished> {
        let opening = self.writer.opening(self.counts());
        if let Sink::Stream(sender) = sink
            && !opening.is_empty()
        {
            // A client that has left takes the driver with it.
            let _gone = sender.send(opening).await;
        }
        loop {
            for action in &actions {
                match action {
                    Action::Show(_) => self.show(sink).await,
                    Action::HandOver(_) => return self.hand_over(sink).await,
                    Action::BreakOff(_) | Action::AskTarget(_) => {
                        return Err(self.break_off(&actions));
                    }
                    Action::End => return Ok(self.ended()),
                    _ => {}
                }
            }
            actions = self.drive(Vec::new()).await;
        }
    }

    /// The draft is left; the target goes on behind what was shown.
    async fn hand_over(&mut self, sink: &mut Sink) -> Result<Told, Unfinished> {
        self.stream = None;
        tracing::debug!(cascade = self.plan.state.name, "the target goes on behind the draft");
        let continued = self.continued(sink).await;
        continued.map_err(|error| {
            let fallback = Fallback::of(&self.report(Event::BrokeOff));
            Unfinished { error, fallback }
        })
    }

    fn break_off(&mut self, actions: &[Action]) -> Unfinished {
        self.stream = None;
        let why = actions.iter().find_map(|action| match action {
            Action::BreakOff(why) => Some(*why),
            _ => None,
        });
        let why = why.unwrap_or("broken");
        let error = ApiError::upstream(format!(
            "the model that answered broke off ({why}), and no other can go on behind it"
        ));
        Unfinished { error, fallback: Fallback::of(actions) }
    }

    /// The draft has said it all.
    fn ended(&self) -> Told {
        let reason = self.transcript.reason().unwrap_or(FinishReason::Stop);
        let counts = self.counts();
        Told { reason, counts: self.account.counts_of_draft().unwrap_or(counts) }
    }

    /// Shows what was kept and has not been shown.
    async fn show(&mut self, sink: &mut Sink) {
        let text = self.transcript.text();
        let kept = self.protocol.kept();
        let is_all = self.stream.is_none() && !self.protocol.is_handed_over();
        let until = match (is_all, self.transcript.ids()) {
            (true, _) | (_, None) => text.len(),
            (false, Some(_)) => self.transcript.mark(kept).bytes,
        };
        let Some(more) = text.get(self.shown..until).filter(|more| !more.is_empty()) else {
            return;
        };
        let event = self.writer.text(more, self.counts());
        match sink {
            Sink::Stream(sender) => {
                let _gone = sender.send(event).await;
            }
            Sink::Whole(text) => text.push_str(more),
        }
        self.shown = until;
        if let Some(guard) = &mut self.guard {
            guard.streamed(u32::try_from(kept).unwrap_or(u32::MAX));
        }
        self.calls.layer.metrics.released(&self.plan.state.name);
    }

    /// The target's words behind those that were kept; if a worker breaks off, another goes on.
    async fn continued(&mut self, sink: &mut Sink) -> Result<Told, ApiError> {
        let kept = self.transcript.ids().unwrap_or_default();
        let kept = kept.get(..self.protocol.kept()).unwrap_or(kept).to_vec();
        let prompt = self.prompt.clone().unwrap_or_default();
        let mut said: Vec<u32> = Vec::new();
        let mut tried = Tried::default();
        loop {
            let so_far = u32::try_from(kept.len() + said.len()).unwrap_or(u32::MAX);
            let left = self.most.saturating_sub(so_far);
            let before = tokens_of(said.len());
            self.further = before;
            if left == 0 {
                return Ok(Told { reason: FinishReason::Length, counts: self.counts() });
            }
            let tokens: Vec<u32> = prompt.iter().chain(&kept).chain(&said).copied().collect();
            let stream = self.ask_rest(&tokens, left, &mut tried).await?;
            let worker = stream.worker();
            let (transcript, ended) = self.relay(stream, before, sink).await;
            match (ended, transcript.reason()) {
                (Ok(used), reason) => {
                    let own = used.unwrap_or(transcript.count());
                    let reason = reason.unwrap_or(FinishReason::Stop);
                    self.further = before + own;
                    return Ok(Told { reason, counts: self.counts() });
                }
                // It had said it all.
                (Err(_), Some(reason)) => return Ok(Told { reason, counts: self.counts() }),
                (Err(fault), None) => {
                    let ids = transcript.ids().filter(|_| fault != Fault::Drained);
                    let Some(ids) = ids else { return Err(fault.error()) };
                    let clean = transcript.mark(ids.len());
                    if clean.bytes != transcript.text().len() {
                        return Err(fault.error());
                    }
                    said.extend_from_slice(&ids[..clean.tokens]);
                    if let Some(worker) = worker {
                        tried.add(worker);
                    }
                    if let Verdict::GiveUp(_) =
                        self.calls.layer.pipeline.dispatcher.retry(&self.info.model, &tried)
                    {
                        return Err(fault.error());
                    }
                    self.calls.layer.pipeline.requests.retried();
                }
            }
        }
    }

    /// Asks a target worker to go on behind `tokens`.
    async fn ask_rest(
        &mut self,
        tokens: &[u32],
        left: u32,
        tried: &mut Tried,
    ) -> Result<AnswerStream, ApiError> {
        let object = Object::parse(&self.body).expect("it was parsed when it was looked into");
        let body = rewrite::rest(&object, &self.state().settings.target, tokens, left);
        let mut info = self.info.clone();
        (info.limit, info.delivery) = (Some(left), Delivery::Streamed);
        let call = Call { info, path: Endpoint::Completions.path(), body };
        loop {
            // Who is in the middle of an answer is not kept waiting for others' sake.
            let lease = self.calls.place(&call, tried, Strictness::Waived).map_err(|_| {
                ApiError::overloaded("no worker can go on with the answer; send the request again")
            })?;
            let worker = lease.worker();
            self.account.continued(tokens.len());
            let asked = self.calls.stream(lease, &call).await;
            if asked.is_err() {
                self.account.not_continued();
            }
            match asked {
                Ok(stream) => return Ok(stream),
                Err(CallError::Failed(failed)) => {
                    tried.add(worker);
                    if let Verdict::GiveUp(_) =
                        self.calls.layer.pipeline.dispatcher.retry(&call.info.model, tried)
                    {
                        let why = failed.kind();
                        return Err(ApiError::upstream(format!(
                            "the worker that was to go on with the answer is {why}"
                        )));
                    }
                }
                Err(error) => {
                    let why = error.name();
                    let what = format!("no worker goes on with the answer: {why}");
                    return Err(ApiError::upstream(what));
                }
            }
        }
    }

    /// Passes on what a worker says; what it said, and its token count or why it broke off.
    async fn relay(
        &mut self,
        mut stream: AnswerStream,
        before: Tokens,
        sink: &mut Sink,
    ) -> (DraftTranscript, Result<Option<Tokens>, Fault>) {
        let mut transcript = DraftTranscript::default();
        let mut shown = 0;
        loop {
            let data = match stream.next().await {
                Ok(Some(data)) => data,
                Ok(None) => {
                    self.account.completed(stream.used(), transcript.count());
                    return (transcript, Ok(stream.used().map(|used| used.completion)));
                }
                Err(fault) => {
                    self.account.completed(stream.used(), transcript.count());
                    return (transcript, Err(fault));
                }
            };
            if transcript.hear(&data).is_err() {
                let why = "it is no plain text".to_owned();
                return (transcript, Err(Fault::Broken(why)));
            }
            self.account.continues(stream.used(), transcript.count());
            self.further = before + transcript.count();
            let more = transcript.text().get(shown..).unwrap_or_default();
            if more.is_empty() {
                continue;
            }
            let counts = self.counts();
            match sink {
                Sink::Stream(sender) => {
                    let _gone = sender.send(self.writer.text(more, counts)).await;
                }
                Sink::Whole(text) => text.push_str(more),
            }
            shown = transcript.text().len();
        }
    }
}
