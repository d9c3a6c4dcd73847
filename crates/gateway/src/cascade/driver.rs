//! Driver: runs one request through a cascade until it is decided whose answer begins.
//!
//! The driver reads the draft until its first window is full, or to its end where the answer is not
//! streamed or the target could not continue after a window. Then the draft is judged: by its own
//! confidence (gate), or by the target (verify). A refused draft leaves no trace in the answer; the
//! target answers as if there had been none.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use overdraft_core::cascade::{
    Action, Continuation, DraftCall, Event, Mode, Observation, Outcome, Path, Rejected, Said,
};
use overdraft_core::fleet::WorkerId;
use overdraft_units::Tokens;
use overdraft_wire::Generation;
use tokio::time::timeout;

use super::call::{AnswerStream, Call, CallContext};
use super::cost_accounting::CostAccount;
use super::draft_transcript::DraftTranscript;
use super::plan::Plan;
use super::prefill::Prefill;
use super::preview::draft_call;
use super::prompt;
use super::protocol::{Fallback, ProtocolHandle};
use super::response_writer::{Counts, ResponseWriter};
use super::state::CascadeState;
use super::verify::tokens_of;
use crate::dispatch::{Explanation, Used};
use crate::pipeline::request_guard::RequestGuard;
use crate::pipeline::request_info::RequestInfo;

/// One request.
#[derive(Debug)]
pub(super) struct Driver {
    pub(super) calls: CallContext,
    pub(super) plan: Plan,
    /// The request as the target would get it.
    pub(super) body: Bytes,
    pub(super) info: RequestInfo,
    pub(super) writer: ResponseWriter,
    pub(super) account: CostAccount,
    /// While the draft speaks.
    pub(super) stream: Option<AnswerStream>,
    /// While the target reads the prompt beside it.
    pub(super) prefill: Option<Prefill>,
    pub(super) transcript: DraftTranscript,
    /// What decides.
    pub(super) protocol: ProtocolHandle,
    /// The prompt as the target makes tokens of it, where the target may go on behind the draft's.
    pub(super) prompt: Option<Vec<u32>>,
    /// Tokens that the answer may have, where the target may go on.
    pub(super) most: u32,
    /// Bytes of the draft's text that were shown.
    pub(super) shown: usize,
    /// Tokens that the target has said behind those of the draft.
    pub(super) further: Tokens,
    /// Who drafts.
    pub(super) worker: Option<WorkerId>,
    /// Why it does, where the client wants to know.
    pub(super) explanation: Explanation,
    /// What is counted of the request, once its answer has begun to be told.
    pub(super) guard: Option<RequestGuard>,
}

impl Driver {
    pub(super) fn new(
        calls: CallContext,
        plan: Plan,
        body: Bytes,
        info: RequestInfo,
        writer: ResponseWriter,
        account: CostAccount,
    ) -> Self {
        let clock = calls.layer.pipeline.dispatcher.clock;
        Self {
            protocol: ProtocolHandle::begin(&plan.state, clock, plan.terms),
            calls,
            plan,
            body,
            info,
            writer,
            account,
            stream: None,
            prefill: None,
            transcript: DraftTranscript::default(),
            prompt: None,
            most: 0,
            shown: 0,
            further: Tokens::ZERO,
            worker: None,
            explanation: Explanation::default(),
            guard: None,
        }
    }

    /// Takes the books, and gives the driver others for what happens in the background.
    pub(super) fn change_account(&mut self) -> CostAccount {
        let other = self.account.of_shadow();
        std::mem::replace(&mut self.account, other)
    }

    /// What is told about an answer that both models have said parts of, unvouched.
    pub(super) fn note(&self) -> Option<String> {
        let is_mixed = self.protocol.outcome() == Outcome::HandedOver;
        let kept = self.protocol.kept();
        is_mixed.then(|| format!("overdraft served-by=draft,target draft-tokens={kept}"))
    }

    pub(super) fn state(&self) -> &Arc<CascadeState> {
        &self.plan.state
    }

    /// Whether the target vouches for every token.
    pub(super) fn verifies(&self) -> bool {
        self.state().settings.mode == Mode::Verify
    }

    /// Reports what has happened; what is to be done now.
    pub(super) fn report(&mut self, event: Event) -> Vec<Action> {
        let actions = self.protocol.report(event);
        if !self.protocol.can_continue() {
            self.prompt = None;
        }
        actions
    }

    /// Asks the draft, and listens until something may be shown.
    pub(super) async fn open(&mut self, call: DraftCall) -> Result<Vec<Action>, Fallback> {
        let opening = Box::pin(async {
            let event = match Box::pin(self.ask_draft(call)).await {
                Ok(continuation) => Event::Opened(continuation),
                Err(rejected) => Event::Failed(rejected, None),
            };
            let actions = self.report(event);
            self.drive(actions).await
        });
        let opened = timeout(Duration::from(call.limit), opening).await;
        let actions = opened.unwrap_or_else(|_elapsed| {
            self.stream = None;
            self.report(Event::Late)
        });
        Fallback::of(&actions).map_or(Ok(actions), Err)
    }

    async fn ask_draft(&mut self, asked: DraftCall) -> Result<Continuation, Rejected> {
        let call = self.draft(self.wants_rivals()).await;
        let place = self.calls.place_draft(&call, &mut self.explanation);
        let lease = place.map_err(|error| Rejected::Unasked(error.name()))?;
        self.worker = Some(lease.worker());
        if asked.prefills {
            self.begin_prefill();
        }
        let opening = self.calls.stream(lease, &call);
        let (stream, prompt) = tokio::join!(opening, async {
            if !asked.needs_prompt {
                return None;
            }
            let endpoint = self.plan.generation.endpoint();
            prompt::of_target(&self.calls, &self.info, &self.body, endpoint).await
        });
        self.stream = Some(stream.map_err(|error| Rejected::Failed(error.name()))?);
        self.most = self.limit(prompt.as_deref());
        self.prompt = prompt.filter(|_| 0 < self.most);
        let is_known = self.prompt.is_some();
        Ok(if is_known { Continuation::Possible } else { Continuation::Impossible })
    }

    /// Obeys, and listens to the draft, until there is something to do about the client's answer.
    pub(super) async fn drive(&mut self, mut actions: Vec<Action>) -> Vec<Action> {
        loop {
            let mut score = None;
            for action in &actions {
                match *action {
                    Action::CountAccepted(tokens) => {
                        self.calls.layer.metrics.accepted(&self.plan.state.name, tokens.get());
                    }
                    Action::Score { tokens, finish } => score = Some((tokens, finish)),
                    _ => {}
                }
            }
            actions.retain(|action| {
                !matches!(
                    action,
                    Action::CountAccepted(_) | Action::CountDraft(_) | Action::Score { .. }
                )
            });
            if !actions.is_empty() {
                return actions;
            }
            let event = match score {
                Some((tokens, finish)) => self.score_window(tokens, finish).await,
                None => self.listen().await,
            };
            actions = self.report(event);
        }
    }

    /// Asks the draft for an answer that nobody waits for.
    pub(super) async fn begin(&mut self) -> Result<(), Rejected> {
        let call = self.draft(false).await;
        let place = self.calls.place_draft(&call, &mut Explanation::default());
        let lease = place.map_err(|error| Rejected::Unasked(error.name()))?;
        self.worker = Some(lease.worker());
        let stream = self.calls.stream(lease, &call).await;
        self.stream = Some(stream.map_err(|error| Rejected::Failed(error.name()))?);
        Ok(())
    }

    /// The path that was asked.
    pub(super) const fn path(&self) -> &'static str {
        self.plan.generation.endpoint().path()
    }

    /// The client's request for the draft.
    async fn draft(&self, wants_rivals: bool) -> Call {
        let pipeline = &self.calls.layer.pipeline;
        draft_call(pipeline, &self.plan, &self.info, &self.body, wants_rivals).await
    }

    /// Whether the target may be asked about given tokens: what else the draft thought of is worth knowing then. Where
    /// an answer is judged by its own words these must be told as texts.
    fn wants_rivals(&self) -> bool {
        let scoring = self.state().settings.scoring;
        self.verifies() && matches!(scoring, None | Some(Path::Generate))
    }

    /// Tokens that the answer may have: as the client says, or as the target has room for.
    fn limit(&self, prompt: Option<&[u32]>) -> u32 {
        let Some(prompt) = prompt else { return 0 };
        let prompt = u32::try_from(prompt.len()).unwrap_or(u32::MAX);
        let room = self.calls.layer.pipeline.fleet.models.context(&self.info.model);
        let room = room.map(|room| room.saturating_sub(prompt));
        let default = (self.plan.generation == Generation::Completion).then_some(16);
        match (self.info.limit.or(default), room) {
            (Some(limit), room) => limit.min(room.unwrap_or(limit)),
            (None, Some(room)) => room,
            (None, None) => 0,
        }
    }

    /// Whether the draft speaks of the same prompt in the same tokens, as far as it tells.
    pub(super) fn agrees(&self) -> bool {
        match (&self.prompt, self.transcript.prompt()) {
            (Some(own), Some(told)) => own == told,
            _ => true,
        }
    }

    /// Hears the draft's next words.
    pub(super) async fn listen(&mut self) -> Event {
        let Some(stream) = &mut self.stream else { return self.said(Vec::new(), true) };
        match stream.next().await {
            Ok(Some(data)) => {
                let (heard, used) = (self.transcript.hear(&data), stream.used());
                self.note_drafted(used);
                match heard {
                    Ok(observations) => self.said(observations, false),
                    Err(unfit) => Event::Failed(Rejected::Refused(unfit.name()), self.resumes()),
                }
            }
            Ok(None) => {
                let used = stream.used();
                self.note_drafted(used);
                self.stream = None;
                self.said(Vec::new(), true)
            }
            // It had said it all.
            Err(_) if self.transcript.reason().is_some() => {
                self.stream = None;
                self.said(Vec::new(), true)
            }
            Err(fault) => {
                self.stream = None;
                tracing::debug!(cascade = self.plan.state.name, ?fault, "the draft broke off");
                Event::Failed(Rejected::Failed("broken"), self.resumes())
            }
        }
    }

    /// Books what the draft has said so far.
    fn note_drafted(&mut self, used: Option<Used>) {
        let prompt = self.transcript.prompt().map(|ids| tokens_of(ids.len()));
        self.account.drafted(used, prompt, self.transcript.count());
    }

    fn said(&self, observations: Vec<Observation>, is_over: bool) -> Event {
        let has_ended = is_over || self.transcript.reason().is_some();
        let schema = self.plan.schema.as_ref().filter(|_| has_ended);
        let tokens = self.transcript.ids().map(<[u32]>::len);
        Event::Said(Said {
            observations,
            finish: self.transcript.finish(),
            is_over,
            tokens: tokens.map(tokens_of),
            marked: tokens_of(self.transcript.mark(tokens.unwrap_or_default()).tokens),
            is_same_prompt: self.agrees(),
            keeps_schema: schema.is_none_or(|schema| schema.admits(self.transcript.text())),
            resumes: self.resumes(),
        })
    }

    /// The tokens after which the target can continue exactly what was shown; nothing where it cannot.
    pub(super) fn resumes(&self) -> Option<Tokens> {
        self.prompt.as_ref()?;
        self.transcript.ids()?;
        let mark = self.transcript.mark(self.protocol.kept());
        (mark.bytes == self.shown).then(|| tokens_of(mark.tokens))
    }

    /// Tokens of the prompt, and of the answer so far.
    pub(super) fn counts(&self) -> Counts {
        let told = self.prompt.as_deref().or(self.transcript.prompt());
        let told = told.map(|ids| tokens_of(ids.len()));
        let prompt = self.account.prompt().or(told).unwrap_or(self.plan.terms.traits.prompt);
        Counts { prompt, completion: tokens_of(self.protocol.kept()) + self.further }
    }

    /// Notes what was told of a stream that ends here. One whose books are closed has told its tokens.
    pub(super) fn note_told(&self) {
        let is_shown = 0 < self.shown || Tokens::ZERO < self.further;
        if self.guard.is_some() && is_shown {
            self.account.told_part(self.counts());
        }
    }
}
