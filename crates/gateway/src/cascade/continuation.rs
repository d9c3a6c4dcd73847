//! Continuation: an accepted answer, window by window, to its end by draft or target.
//!
//! Invariant: released text stays, and the rest continues exactly after it: by the released tokens
//! and never by their text. Where that cannot be done, the answer breaks off with an error.

use bytes::Bytes;
use overdraft_core::cascade::Step;
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
use super::driver::{Driver, Listened, Rejected};
use super::response_writer::Counts;
use super::rewrite;
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

impl Driver {
    /// Tells the rest, whatever it takes.
    pub(super) async fn tell(&mut self, sink: &mut Sink) -> Result<Told, ApiError> {
        let opening = self.writer.opening(self.counts(Tokens::ZERO));
        if let Sink::Stream(sender) = sink
            && !opening.is_empty()
        {
            // A client that has left takes the driver with it.
            let _gone = sender.send(opening).await;
        }
        loop {
            self.show(sink).await;
            if self.goes_on {
                return self.continued(sink).await;
            }
            if self.stream.is_none() {
                return Ok(self.ended());
            }
            let next = if self.verifies() { self.next_verified().await } else { self.next().await };
            if let Err(rejected) = next {
                tracing::debug!(
                    cascade = self.plan.state.name,
                    why = rejected.why,
                    "the target goes on behind the draft"
                );
                self.hand_over(rejected.why)?;
            }
        }
    }

    /// The draft has said it all.
    fn ended(&self) -> Told {
        let reason = self.transcript.reason().unwrap_or(FinishReason::Stop);
        let counts = self.counts(Tokens::ZERO);
        Told { reason, counts: self.account.counts_of_draft().unwrap_or(counts) }
    }

    /// Shows what was kept and has not been shown.
    async fn show(&mut self, sink: &mut Sink) {
        let text = self.transcript.text();
        let until = match (self.stream.is_none() && !self.goes_on, self.transcript.ids()) {
            (true, _) | (_, None) => text.len(),
            (false, Some(_)) => self.transcript.mark(self.kept).bytes,
        };
        let Some(more) = text.get(self.shown..until).filter(|more| !more.is_empty()) else {
            return;
        };
        let event = self.writer.text(more, self.counts(Tokens::ZERO));
        match sink {
            Sink::Stream(sender) => {
                let _gone = sender.send(event).await;
            }
            Sink::Whole(text) => text.push_str(more),
        }
        self.shown = until;
        if let Some(guard) = &mut self.guard {
            guard.streamed(u32::try_from(self.kept).unwrap_or(u32::MAX));
        }
        self.calls.layer.metrics.released(&self.plan.state.name);
    }

    /// Listens until the next window of a gated draft may be shown, or may not.
    async fn next(&mut self) -> Result<(), Rejected> {
        loop {
            let listened = self.listen().await?;
            if listened == Listened::More
                && !self.release.due(self.evidence.tokens(), self.transcript.finish())
            {
                continue;
            }
            let (score, bar) = self.state().running(&self.evidence);
            let running = self.running(score, bar);
            match self.release.proceed(&running) {
                Step::Show(tokens) => {
                    self.kept = usize::try_from(tokens.get()).unwrap_or(usize::MAX);
                    if listened == Listened::End || self.transcript.reason().is_none() {
                        return Ok(());
                    }
                }
                // All that was said has been judged; only the formalities follow.
                Step::Hold if listened == Listened::End => return Ok(()),
                Step::Hold => {}
                Step::Refuse | Step::HandOver(_) => {
                    return Err(Rejected::down("doubted"));
                }
            }
        }
    }

    /// The same where the target vouches.
    async fn next_verified(&mut self) -> Result<(), Rejected> {
        let before = self.kept;
        self.verify_window().await.inspect_err(|_| self.kept = before)
    }

    /// The draft is left; the target goes on behind what was shown.
    fn hand_over(&mut self, why: &'static str) -> Result<(), ApiError> {
        self.stream = None;
        let shown = self.shown;
        let mark = self.transcript.mark(self.kept);
        if self.prompt.is_none() || self.transcript.ids().is_none() || mark.bytes != shown {
            return Err(ApiError::upstream(format!(
                "the model that answered broke off ({why}), and no other can go on behind it"
            )));
        }
        self.kept = mark.tokens;
        self.goes_on = true;
        self.account.handed_over();
        Ok(())
    }

    /// The target's words behind those that were kept; if a worker breaks off, another goes on.
    async fn continued(&mut self, sink: &mut Sink) -> Result<Told, ApiError> {
        let kept = self.transcript.ids().unwrap_or_default();
        let kept = kept.get(..self.kept).unwrap_or(kept).to_vec();
        let prompt = self.prompt.clone().unwrap_or_default();
        let mut said: Vec<u32> = Vec::new();
        let mut tried = Tried::default();
        loop {
            let so_far = u32::try_from(kept.len() + said.len()).unwrap_or(u32::MAX);
            let left = self.most.saturating_sub(so_far);
            let further = Tokens::new(u32::try_from(said.len()).unwrap_or(u32::MAX));
            if left == 0 {
                let counts = self.counts(further);
                return Ok(Told { reason: FinishReason::Length, counts });
            }
            let tokens: Vec<u32> = prompt.iter().chain(&kept).chain(&said).copied().collect();
            let stream = self.ask_rest(&tokens, left, &mut tried).await?;
            let worker = stream.worker();
            let (transcript, ended) = self.relay(stream, further, sink).await;
            match ended {
                Ok(used) => {
                    let own = used.unwrap_or(transcript.count());
                    let reason = transcript.reason().unwrap_or(FinishReason::Stop);
                    return Ok(Told { reason, counts: self.counts(further + own) });
                }
                Err(fault) => {
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
            match self.calls.stream(lease, &call).await {
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
            let more = transcript.text().get(shown..).unwrap_or_default();
            if more.is_empty() {
                continue;
            }
            let counts = self.counts(before + transcript.count());
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
