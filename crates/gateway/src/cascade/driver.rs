//! Driver: runs one request through a cascade until it is decided whose answer begins.
//!
//! The driver reads the draft until its first window is full, or to its end where the answer is not
//! streamed or the target could not continue after a window. Then the draft is judged: by its own
//! confidence (gate), or by the target (verify). A refused draft leaves no trace in the answer; the
//! target answers as if there had been none.

use std::sync::Arc;

use bytes::Bytes;
use overdraft_core::cascade::{
    Ask, Bar, Chance, Evidence, Finish, Judgement, Mode, Moment, Parity, Path, Release, Running,
    Stands, Step, Windows,
};
use overdraft_core::fleet::WorkerId;
use overdraft_telemetry::Delivery;
use overdraft_units::Tokens;
use overdraft_wire::{Generation, Object};

use super::call::{AnswerStream, Call, CallContext};
use super::cost_accounting::CostAccount;
use super::draft_transcript::DraftTranscript;
use super::plan::{Plan, Way};
use super::prefill::Prefill;
use super::prompt;
use super::response_writer::{Counts, ResponseWriter};
use super::rewrite;
use super::state::{CascadeState, is_given};
use crate::pipeline::prompt_tokens;
use crate::pipeline::request_guard::RequestGuard;
use crate::pipeline::request_info::RequestInfo;

/// Tokens after which it is asked whether a draft is still worth waiting for.
const PROSPECT_TOKENS: u32 = 4;

/// What goes wrong with a draft, or speaks against it: the target answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rejected {
    /// As metrics call it.
    pub(super) why: &'static str,
    /// Whether the draft is at fault and not its answer.
    pub(super) broken: bool,
    /// Whether there was nobody to ask, which took no time.
    pub(super) unasked: bool,
}

impl Rejected {
    pub(super) const fn down(why: &'static str) -> Self {
        Self { why, broken: false, unasked: false }
    }

    pub(super) const fn broken(why: &'static str) -> Self {
        Self { why, broken: true, unasked: false }
    }

    pub(super) const fn unasked(why: &'static str) -> Self {
        Self { why, broken: true, unasked: true }
    }
}

/// What an event of the draft amounted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listened {
    More,
    End,
}

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
    pub(super) evidence: Evidence,
    pub(super) release: Release,
    /// What the draft's answer came to, once it was judged.
    pub(super) judgement: Option<Judgement>,
    /// The prompt as the target makes tokens of it, where the target may go on behind the draft's.
    pub(super) prompt: Option<Vec<u32>>,
    /// Tokens that the answer may have, where the target may go on.
    pub(super) most: u32,
    /// Draft tokens that the target has accepted (verify), or that were shown (gate).
    pub(super) kept: usize,
    /// Bytes of text that were shown.
    pub(super) shown: usize,
    /// Whether the target goes on behind what was kept.
    pub(super) goes_on: bool,
    /// Who drafts.
    pub(super) worker: Option<WorkerId>,
    /// What is counted of the request, once its answer has begun to be told.
    pub(super) guard: Option<RequestGuard>,
    stands: Stands,
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
        let settings = &plan.state.settings;
        let windows = Windows {
            first: Tokens::new(settings.first_window),
            next: Tokens::new(settings.next_window),
        };
        Self {
            evidence: plan.state.evidence(plan.traits),
            release: Release::new(windows),
            calls,
            plan,
            body,
            info,
            writer,
            account,
            stream: None,
            prefill: None,
            transcript: DraftTranscript::default(),
            judgement: None,
            prompt: None,
            most: 0,
            kept: 0,
            shown: 0,
            goes_on: false,
            worker: None,
            guard: None,
            stands: Stands::default(),
        }
    }

    /// Takes the books, and gives the driver others for what happens in the background.
    pub(super) fn change_account(&mut self) -> CostAccount {
        let other = self.account.of_shadow();
        std::mem::replace(&mut self.account, other)
    }

    /// What is told about an answer that both models have said parts of, unvouched.
    pub(super) fn note(&self) -> Option<String> {
        let mixed = self.account.is_mixed() && !self.verifies();
        mixed.then(|| format!("overdraft served-by=draft,target draft-tokens={}", self.kept))
    }

    pub(super) fn state(&self) -> &Arc<CascadeState> {
        &self.plan.state
    }

    /// Whether the target vouches for every token.
    pub(super) fn verifies(&self) -> bool {
        self.state().settings.mode == Mode::Verify
    }

    /// Listens until something may be shown.
    pub(super) async fn open(&mut self) -> Result<(), Rejected> {
        let call = self.draft().await;
        let place = self.calls.place_draft(&call);
        let lease = place.map_err(|error| Rejected::unasked(error.name()))?;
        self.worker = Some(lease.worker());
        self.begin_prefill();
        let asked = self.calls.stream(lease, &call);
        let wanted = self.verifies() || self.info.delivery == Delivery::Streamed;
        let (stream, prompt) = tokio::join!(asked, async {
            if !(wanted && self.may_continue()) {
                return None;
            }
            let endpoint = self.plan.generation.endpoint();
            prompt::of_target(&self.calls, &self.info, &self.body, endpoint).await
        });
        self.stream = Some(stream.map_err(|error| Rejected::broken(error.name()))?);
        self.most = self.limit(prompt.as_deref());
        self.prompt = prompt.filter(|_| 0 < self.most);
        if self.verifies() {
            if self.prompt.is_none() {
                return Err(Rejected::down("no_tokens"));
            }
            return self.verify_window().await;
        }
        self.gate().await
    }

    /// Asks the draft, if that has not been done, for an answer that nobody waits for.
    pub(super) async fn begin(&mut self) -> Result<(), Rejected> {
        if self.worker.is_some() {
            return Ok(());
        }
        let call = self.draft().await;
        let place = self.calls.place_draft(&call);
        let lease = place.map_err(|error| Rejected::unasked(error.name()))?;
        self.worker = Some(lease.worker());
        let stream = self.calls.stream(lease, &call).await;
        self.stream = Some(stream.map_err(|error| Rejected::broken(error.name()))?);
        Ok(())
    }

    /// The path that was asked.
    pub(super) const fn path(&self) -> &'static str {
        self.plan.generation.endpoint().path()
    }

    /// The client's request for the draft.
    async fn draft(&self) -> Call {
        let pipeline = &self.calls.layer.pipeline;
        let object = Object::parse(&self.body).expect("it was parsed when it was looked into");
        let model = &self.state().settings.draft;
        let body = rewrite::draft(&object, model, self.plan.generation, self.wants_rivals());
        let endpoint = self.plan.generation.endpoint();
        let mut info = self.info.of_draft(&pipeline.routes(), model, &body, endpoint);
        prompt_tokens::count(pipeline, &mut info, &body, endpoint).await;
        Call { info, path: endpoint.path(), body }
    }

    /// Whether the target may be asked about given tokens: what else the draft thought of is worth knowing then. Where
    /// an answer is judged by its own words these must be told as texts.
    fn wants_rivals(&self) -> bool {
        let scoring = self.state().settings.scoring;
        self.verifies()
            && self.plan.way == Way::Ask(Ask::Draft)
            && matches!(scoring, None | Some(Path::Generate))
    }

    /// Whether the target could go on behind the draft's tokens, if it knew the prompt's.
    pub(super) fn may_continue(&self) -> bool {
        self.plan.continuable && self.state().parity() == Parity::Same && self.plan.schema.is_none()
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

    /// Whether it is judged before it has ended.
    fn is_windowed(&self) -> bool {
        self.info.delivery == Delivery::Streamed && self.prompt.is_some()
    }

    /// Whether the draft speaks of the same prompt in the same tokens, as far as it tells.
    pub(super) fn agrees(&self) -> bool {
        match (&self.prompt, self.transcript.prompt()) {
            (Some(own), Some(told)) => own == told,
            _ => true,
        }
    }

    async fn gate(&mut self) -> Result<(), Rejected> {
        loop {
            let listened = self.listen().await?;
            // Behind the reason why it ended come formalities.
            let ended = listened == Listened::End || self.transcript.reason().is_some();
            if self.prompt.is_some() && (!self.agrees() || self.transcript.ids().is_none()) {
                // The target could not go on: then the whole is judged before anything is shown.
                self.prompt = None;
            }
            let tokens = self.evidence.tokens();
            let due = self.is_windowed() && self.release.due(tokens, self.transcript.finish());
            if ended || due {
                return self.judge(ended);
            }
            if tokens.get().is_multiple_of(PROSPECT_TOKENS) {
                let drawn = self.plan.dice.draw("prospect");
                let (stand, hopeless) = self.state().prospect(&self.evidence, drawn);
                self.stands = self.stands.with(stand);
                if hopeless {
                    return Err(Rejected::down("aborted"));
                }
            }
        }
    }

    fn judge(&mut self, ended: bool) -> Result<(), Rejected> {
        let state = Arc::clone(self.state());
        let moment = if ended { Moment::Whole } else { Moment::First };
        let drawn = self.plan.dice.draw("judge");
        let judgement = state.judge(moment, &self.evidence, Ask::Draft, drawn);
        if ended {
            state.came_out(self.stands, &judgement);
        }
        self.judgement = Some(judgement);
        if self.plan.schema.as_ref().is_some_and(|schema| !schema.admits(self.transcript.text())) {
            return Err(Rejected::down("schema_failed"));
        }
        let running = self.running(judgement.score, judgement.bar);
        match self.release.open(&running, judgement.serve) {
            Step::Show(tokens) if is_given(&judgement) => {
                self.kept = usize::try_from(tokens.get()).unwrap_or(usize::MAX);
                Ok(())
            }
            _ => Err(Rejected::down("refused")),
        }
    }

    pub(super) fn running(&self, score: Chance, bar: Bar) -> Running {
        let finish = self.transcript.finish();
        Running { tokens: self.evidence.tokens(), finish, score, bar }
    }

    /// Hears the draft's next words.
    pub(super) async fn listen(&mut self) -> Result<Listened, Rejected> {
        let Some(stream) = &mut self.stream else { return Ok(Listened::End) };
        match stream.next().await {
            Ok(Some(data)) => {
                let seen =
                    self.transcript.hear(&data).map_err(|unfit| Rejected::down(unfit.name()))?;
                for one in seen {
                    self.evidence.observe(one);
                }
                self.evidence.finish(self.transcript.finish());
                self.account.drafted(stream.used(), self.transcript.count());
                Ok(Listened::More)
            }
            Ok(None) => {
                self.account.drafted(stream.used(), self.transcript.count());
                self.stream = None;
                match self.transcript.finish() {
                    Finish::Running => Err(Rejected::broken("unfinished")),
                    _ => Ok(Listened::End),
                }
            }
            // It had said it all.
            Err(_) if self.transcript.reason().is_some() => {
                self.stream = None;
                Ok(Listened::End)
            }
            Err(fault) => {
                self.stream = None;
                tracing::debug!(cascade = self.plan.state.name, ?fault, "the draft broke off");
                Err(Rejected::broken("broken"))
            }
        }
    }

    /// Tokens of the prompt, and of the answer so far.
    pub(super) fn counts(&self, further: Tokens) -> Counts {
        let told = self.prompt.as_deref().or(self.transcript.prompt());
        let told = told.map(|ids| Tokens::new(u32::try_from(ids.len()).unwrap_or(u32::MAX)));
        let prompt = self.account.prompt().or(told).unwrap_or(self.plan.traits.prompt);
        let kept = Tokens::new(u32::try_from(self.kept).unwrap_or(u32::MAX));
        Counts { prompt, completion: kept + further }
    }
}
