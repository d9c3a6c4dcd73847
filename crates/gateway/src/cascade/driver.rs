//! One request on its way through a cascade, until it is known whose answer begins.
//!
//! The draft is listened to until its first window is full, or to its end where the answer is whole or the
//! target could not go on behind a window. Then it is judged: by its own words (gate), or by the target
//! (verify). What is refused leaves no trace in the answer; the target answers as if nothing had been.

use std::sync::Arc;

use bytes::Bytes;
use overdraft_core::cascade::{
    Ask, Bar, Chance, Evidence, Finish, Judgement, Mode, Moment, Parity, Path, Release, Running,
    Stands, Step, Windows,
};
use overdraft_core::fleet::WorkerId;
use overdraft_telemetry::Delivery;
use overdraft_units::Tokens;
use overdraft_wire::Object;

use super::ask;
use super::call::{Matter, Outset, Talk};
use super::course::{Course, is_given};
use super::ledger::Ledger;
use super::plan::{Plan, Way};
use super::prefill::Prefill;
use super::prompt;
use super::speech::Speech;
use super::teller::{Counts, Surface, Teller};
use crate::fingerprint::Fingerprint;
use crate::tally::Tally;

/// Tokens after which it is asked whether a draft is still worth waiting for.
const PROSPECT_TOKENS: u32 = 4;

/// What goes wrong with a draft, or speaks against it: the target answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turned {
    /// As metrics call it.
    pub(super) why: &'static str,
    /// Whether the draft is at fault and not its answer.
    pub(super) broken: bool,
    /// Whether there was nobody to ask, which took no time.
    pub(super) unasked: bool,
}

impl Turned {
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
pub(super) enum Heard {
    More,
    End,
}

/// One request.
#[derive(Debug)]
pub(super) struct Driver {
    pub(super) outset: Outset,
    pub(super) plan: Plan,
    /// The request as the target would get it.
    pub(super) body: Bytes,
    pub(super) print: Fingerprint,
    pub(super) teller: Teller,
    pub(super) ledger: Ledger,
    /// While the draft speaks.
    pub(super) talk: Option<Talk>,
    /// While the target reads the prompt beside it.
    pub(super) prefill: Option<Prefill>,
    pub(super) speech: Speech,
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
    pub(super) tally: Option<Tally>,
    stands: Stands,
}

impl Driver {
    pub(super) fn new(
        outset: Outset,
        plan: Plan,
        (body, print): (Bytes, Fingerprint),
        (teller, ledger): (Teller, Ledger),
    ) -> Self {
        let settings = &plan.course.settings;
        let windows = Windows {
            first: Tokens::new(settings.first_window),
            next: Tokens::new(settings.next_window),
        };
        Self {
            evidence: plan.course.evidence(plan.traits),
            release: Release::new(windows),
            outset,
            plan,
            body,
            print,
            teller,
            ledger,
            talk: None,
            prefill: None,
            speech: Speech::default(),
            judgement: None,
            prompt: None,
            most: 0,
            kept: 0,
            shown: 0,
            goes_on: false,
            worker: None,
            tally: None,
            stands: Stands::default(),
        }
    }

    /// Takes the books, and gives the driver others for what happens in the background.
    pub(super) fn change_ledger(&mut self) -> Ledger {
        let other = self.ledger.of_shadow();
        std::mem::replace(&mut self.ledger, other)
    }

    /// What is told about an answer that both models have said parts of, unvouched.
    pub(super) fn note(&self) -> Option<String> {
        let mixed = self.ledger.is_mixed() && !self.verifies();
        mixed.then(|| format!("overdraft served-by=draft,target draft-tokens={}", self.kept))
    }

    pub(super) fn course(&self) -> &Arc<Course> {
        &self.plan.course
    }

    /// Whether the target vouches for every token.
    pub(super) fn verifies(&self) -> bool {
        self.course().settings.mode == Mode::Verify
    }

    /// Listens until something may be shown.
    pub(super) async fn open(&mut self) -> Result<(), Turned> {
        let matter = self.draft().await;
        let place = self.outset.place_draft(&matter);
        let lease = place.map_err(|unheard| Turned::unasked(unheard.name()))?;
        self.worker = Some(lease.worker());
        self.begin_prefill();
        let asked = self.outset.talk(lease, &matter);
        let wanted = self.verifies() || self.print.delivery == Delivery::Streamed;
        let (talk, prompt) = tokio::join!(asked, async {
            if !(wanted && self.may_continue()) {
                return None;
            }
            prompt::of_target(&self.outset, &self.print, &self.body, matter.path).await
        });
        self.talk = Some(talk.map_err(|unheard| Turned::broken(unheard.name()))?);
        self.most = self.limit(prompt.as_deref());
        self.prompt = prompt.filter(|_| 0 < self.most);
        if self.verifies() {
            if self.prompt.is_none() {
                return Err(Turned::down("no_tokens"));
            }
            return self.verify_window().await;
        }
        self.gate().await
    }

    /// Asks the draft, if that has not been done, for an answer that nobody waits for.
    pub(super) async fn begin(&mut self) -> Result<(), Turned> {
        if self.worker.is_some() {
            return Ok(());
        }
        let matter = self.draft().await;
        let place = self.outset.place_draft(&matter);
        let lease = place.map_err(|unheard| Turned::unasked(unheard.name()))?;
        self.worker = Some(lease.worker());
        let talk = self.outset.talk(lease, &matter).await;
        self.talk = Some(talk.map_err(|unheard| Turned::broken(unheard.name()))?);
        Ok(())
    }

    /// Which endpoint was asked.
    pub(super) const fn path(&self) -> &'static str {
        match self.plan.surface {
            Surface::Chat => crate::forward::CHAT,
            Surface::Completion => crate::forward::COMPLETIONS,
        }
    }

    /// The client's request for the draft.
    async fn draft(&self) -> Matter {
        let shared = &self.outset.shared;
        let object = Object::parse(&self.body).expect("it was parsed when it was looked into");
        let model = &self.course().settings.draft;
        let body = ask::draft(&object, model, self.plan.surface, self.wants_rivals());
        let path = self.path();
        let mut print = self.print.of_draft(&shared.routes(), model, &body, path);
        crate::tokenizing::count(shared, &mut print, &body, path).await;
        Matter { print, path, body }
    }

    /// Whether the target may be asked about given tokens: what else the draft thought of is worth knowing then. Where
    /// an answer is judged by its own words these must be told as texts.
    fn wants_rivals(&self) -> bool {
        let scoring = self.course().settings.scoring;
        self.verifies()
            && self.plan.way == Way::Ask(Ask::Draft)
            && matches!(scoring, None | Some(Path::Generate))
    }

    /// Whether the target could go on behind the draft's tokens, if it knew the prompt's.
    pub(super) fn may_continue(&self) -> bool {
        self.plan.continuable
            && self.course().parity() == Parity::Same
            && self.plan.schema.is_none()
    }

    /// Tokens that the answer may have: as the client says, or as the target has room for.
    fn limit(&self, prompt: Option<&[u32]>) -> u32 {
        let Some(prompt) = prompt else { return 0 };
        let prompt = u32::try_from(prompt.len()).unwrap_or(u32::MAX);
        let room = self.outset.shared.catalogue.context(&self.print.model);
        let room = room.map(|room| room.saturating_sub(prompt));
        let default = (self.plan.surface == Surface::Completion).then_some(16);
        match (self.print.limit.or(default), room) {
            (Some(limit), room) => limit.min(room.unwrap_or(limit)),
            (None, Some(room)) => room,
            (None, None) => 0,
        }
    }

    /// Whether it is judged before it has ended.
    fn is_windowed(&self) -> bool {
        self.print.delivery == Delivery::Streamed && self.prompt.is_some()
    }

    /// Whether the draft speaks of the same prompt in the same tokens, as far as it tells.
    pub(super) fn agrees(&self) -> bool {
        match (&self.prompt, self.speech.prompt()) {
            (Some(own), Some(told)) => own == told,
            _ => true,
        }
    }

    async fn gate(&mut self) -> Result<(), Turned> {
        loop {
            let heard = self.listen().await?;
            // Behind the reason why it ended come formalities.
            let ended = heard == Heard::End || self.speech.reason().is_some();
            if self.prompt.is_some() && (!self.agrees() || self.speech.ids().is_none()) {
                // The target could not go on: then the whole is judged before anything is shown.
                self.prompt = None;
            }
            let tokens = self.evidence.tokens();
            let due = self.is_windowed() && self.release.due(tokens, self.speech.finish());
            if ended || due {
                return self.judge(ended);
            }
            if tokens.get().is_multiple_of(PROSPECT_TOKENS) {
                let drawn = self.plan.dice.draw("prospect");
                let (stand, hopeless) = self.course().prospect(&self.evidence, drawn);
                self.stands = self.stands.with(stand);
                if hopeless {
                    return Err(Turned::down("aborted"));
                }
            }
        }
    }

    fn judge(&mut self, ended: bool) -> Result<(), Turned> {
        let course = Arc::clone(self.course());
        let moment = if ended { Moment::Whole } else { Moment::First };
        let drawn = self.plan.dice.draw("judge");
        let judgement = course.judge(moment, &self.evidence, Ask::Draft, drawn);
        if ended {
            course.came_out(self.stands, &judgement);
        }
        self.judgement = Some(judgement);
        if self.plan.schema.as_ref().is_some_and(|schema| !schema.admits(self.speech.text())) {
            return Err(Turned::down("schema_failed"));
        }
        let running = self.running(judgement.score, judgement.bar);
        match self.release.open(&running, judgement.serve) {
            Step::Show(tokens) if is_given(&judgement) => {
                self.kept = usize::try_from(tokens.get()).unwrap_or(usize::MAX);
                Ok(())
            }
            _ => Err(Turned::down("refused")),
        }
    }

    pub(super) fn running(&self, score: Chance, bar: Bar) -> Running {
        let finish = self.speech.finish();
        Running { tokens: self.evidence.tokens(), finish, score, bar }
    }

    /// Hears the draft's next words.
    pub(super) async fn listen(&mut self) -> Result<Heard, Turned> {
        let Some(talk) = &mut self.talk else { return Ok(Heard::End) };
        match talk.next().await {
            Ok(Some(data)) => {
                let seen = self.speech.hear(&data).map_err(|unfit| Turned::down(unfit.name()))?;
                for one in seen {
                    self.evidence.observe(one);
                }
                self.evidence.finish(self.speech.finish());
                self.ledger.drafted(talk.used(), self.speech.count());
                Ok(Heard::More)
            }
            Ok(None) => {
                self.ledger.drafted(talk.used(), self.speech.count());
                self.talk = None;
                match self.speech.finish() {
                    Finish::Running => Err(Turned::broken("unfinished")),
                    _ => Ok(Heard::End),
                }
            }
            // It had said it all.
            Err(_) if self.speech.reason().is_some() => {
                self.talk = None;
                Ok(Heard::End)
            }
            Err(fault) => {
                self.talk = None;
                tracing::debug!(cascade = self.plan.course.name, ?fault, "the draft broke off");
                Err(Turned::broken("broken"))
            }
        }
    }

    /// Tokens of the prompt, and of the answer so far.
    pub(super) fn counts(&self, further: Tokens) -> Counts {
        let told = self.prompt.as_deref().or(self.speech.prompt());
        let told = told.map(|ids| Tokens::new(u32::try_from(ids.len()).unwrap_or(u32::MAX)));
        let prompt = self.ledger.prompt().or(told).unwrap_or(self.plan.traits.prompt);
        let kept = Tokens::new(u32::try_from(self.kept).unwrap_or(u32::MAX));
        (prompt, kept + further)
    }
}
