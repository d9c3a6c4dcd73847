//! Draft that a client waits for: from the question to its verdict, and window by window to its end.

use alloc::vec;
use alloc::vec::Vec;

use overdraft_units::{Instant, Micros, Tokens};

use super::action::{Action, Cause, DraftCall};
use super::event::{Continuation, Rejected, Said, Scored};
use super::{Protocol, Scene, TargetTimes, is_given};
use crate::cascade::class::Delivery;
use crate::cascade::evidence::Finish;
use crate::cascade::gate::{Ask, Moment};
use crate::cascade::mode::Mode;
use crate::cascade::payback::{Upshot, Waited};
use crate::cascade::streaming_release::{Running, Step};
use crate::cascade::threshold::Choice;
use crate::cascade::verify::Resume;

/// Tokens between two looks at whether a draft is still worth waiting for.
const PROSPECT_TOKENS: u32 = 4;

/// How far a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It was not decided whom to ask.
    Arriving,
    /// The draft speaks, and was asked at this time; nothing of it was shown.
    Drafting(Instant),
    /// The target scores a window of the draft.
    Scoring(Window),
    /// The draft speaks, and some of it was shown.
    Showing,
    /// The target continues after what was shown, or all was shown.
    Closing,
    /// The target answers alone.
    Answering,
    /// The answer has ended.
    Ended,
}

/// A window that is being scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    /// When the draft was asked.
    asked: Instant,
    /// Tokens up to its end, of which [`Protocol::kept`] come before it.
    end: Tokens,
    finish: Finish,
    is_last: bool,
    /// The tokens after which the target can continue what was shown.
    resumes: Option<Tokens>,
}

impl Protocol {
    /// Arriving => Drafting | Answering
    pub(super) fn arrive(&mut self, scene: &mut Scene<'_>) -> Vec<Action> {
        let settings = *scene.cascade.settings();
        if let Some(reason) = self.exclusion(settings.mode) {
            // What no draft may answer says nothing of how long the target takes where one may.
            self.phase = Phase::Answering;
            return vec![Action::AskTarget(Cause::Excluded(reason))];
        }
        match self.choose(scene.cascade) {
            Ask::Draft => {
                scene.cascade.payback_mut().handle_start();
                self.limit = scene.cascade.payback().limit(&self.terms.traits);
                self.phase = Phase::Drafting(scene.now);
                let is_verified = settings.mode == Mode::Verify;
                let is_long = |least| least <= self.terms.traits.prompt;
                vec![Action::AskDraft(DraftCall {
                    limit: self.limit,
                    needs_prompt: self.may_continue() && (is_verified || self.is_streamed()),
                    prefills: settings.mode == Mode::Gate
                        && self.terms.prefill_from.is_some_and(is_long),
                })]
            }
            Ask::Target => self.ask_target(scene, Cause::Chosen),
            ask @ Ask::Beside(_) => {
                let mut actions = self.ask_target(scene, Cause::Chosen);
                actions.push(self.compare(ask));
                actions
            }
        }
    }

    /// Whether what the draft says concerns the client's answer.
    pub(super) const fn is_drafting(&self) -> bool {
        matches!(self.phase, Phase::Drafting(_) | Phase::Scoring(_) | Phase::Showing)
    }

    pub(super) fn opened(
        &mut self,
        scene: &mut Scene<'_>,
        continuation: Continuation,
    ) -> Vec<Action> {
        self.can_continue = continuation == Continuation::Possible;
        if !self.can_continue && self.is_drafting() && verifies(scene) {
            return self.rejected(scene, Rejected::Refused("no_tokens"), None);
        }
        Vec::new()
    }

    pub(super) fn draft_said(&mut self, scene: &mut Scene<'_>, said: &Said) -> Vec<Action> {
        self.observe(said);
        if said.is_over && said.finish == Finish::Running {
            return self.rejected(scene, Rejected::Failed("unfinished"), said.resumes);
        }
        match self.phase {
            Phase::Drafting(_) | Phase::Showing if verifies(scene) => self.fill(scene, said),
            Phase::Drafting(_) => self.gate(scene, said),
            Phase::Showing => self.proceed(scene, said),
            _ => Vec::new(),
        }
    }

    pub(super) fn observe(&mut self, said: &Said) {
        for one in &said.observations {
            self.evidence.observe(*one);
        }
        self.evidence.finish(said.finish);
        self.told = said.tokens.unwrap_or(self.told);
    }

    /// Drafting => Drafting | Showing | Closing | Answering
    fn gate(&mut self, scene: &mut Scene<'_>, said: &Said) -> Vec<Action> {
        if !said.is_same_prompt || said.tokens.is_none() {
            // The target could not continue: then the whole is judged before anything is shown.
            self.can_continue = false;
        }
        let tokens = self.evidence.tokens();
        let is_windowed = self.is_streamed() && self.can_continue;
        // After the reason why it ended come formalities.
        let has_ended = said.is_over || said.finish != Finish::Running;
        if has_ended || (is_windowed && self.release.due(tokens, said.finish)) {
            let moment = if has_ended { Moment::Whole } else { Moment::First };
            return self.verdict(scene, said, moment);
        }
        if tokens.get().is_multiple_of(PROSPECT_TOKENS) {
            let drawn = self.terms.draws.prospect;
            let (stand, is_hopeless) = scene.cascade.prospect(&self.evidence, drawn);
            self.stands = self.stands.with(stand);
            if is_hopeless {
                return self.rejected(scene, Rejected::Refused("aborted"), None);
            }
        }
        Vec::new()
    }

    fn verdict(&mut self, scene: &mut Scene<'_>, said: &Said, moment: Moment) -> Vec<Action> {
        let drawn = self.terms.draws.judge;
        let judgement = self.judge(scene.cascade, moment, Ask::Draft, drawn);
        if moment == Moment::Whole {
            scene.cascade.came_out(self.stands, &judgement);
        }
        self.judgement = Some(judgement);
        let mut actions = vec![Action::CountDraft(judgement.serve)];
        let running = Running {
            tokens: self.evidence.tokens(),
            finish: said.finish,
            score: judgement.score,
            bar: judgement.bar,
        };
        let step = if said.keeps_schema {
            self.release.open(&running, judgement.serve)
        } else {
            Step::Hold
        };
        match step {
            Step::Show(tokens) if is_given(&judgement) => {
                self.kept = tokens;
                self.show(scene, said.is_over, &mut actions);
            }
            _ => {
                let why = if said.keeps_schema { "refused" } else { "schema_failed" };
                actions.append(&mut self.rejected(scene, Rejected::Refused(why), None));
            }
        }
        actions
    }

    /// Showing => Showing | Closing: the next window of a gated draft may be shown, or may not.
    fn proceed(&mut self, scene: &mut Scene<'_>, said: &Said) -> Vec<Action> {
        let tokens = self.evidence.tokens();
        if !said.is_over && !self.release.due(tokens, said.finish) {
            return Vec::new();
        }
        let (score, bar) = self.running(scene.cascade);
        let running = Running { tokens, finish: said.finish, score, bar };
        match self.release.proceed(&running) {
            Step::Refuse | Step::HandOver(_) => self.hand_over("doubted", said.resumes, scene),
            step => {
                if let Step::Show(tokens) = step {
                    self.kept = tokens;
                }
                let mut actions = Vec::new();
                // Where it has finished and is not over, all that was said has been judged and formalities follow.
                if said.is_over || (matches!(step, Step::Show(_)) && said.finish == Finish::Running)
                {
                    self.show(scene, said.is_over, &mut actions);
                }
                actions
            }
        }
    }

    /// Drafting | Showing => Scoring, when the window is full.
    fn fill(&mut self, scene: &mut Scene<'_>, said: &Said) -> Vec<Action> {
        let windows = self.terms.windows;
        let size = if self.kept == Tokens::ZERO { windows.first } else { windows.next };
        let told = said.tokens.unwrap_or_default();
        // Only where a character ends: what is within one cannot be shown.
        let is_full = self.is_streamed() && self.kept + size <= told && said.marked == told;
        if !said.is_over && !is_full {
            return Vec::new();
        }
        let why = match said.tokens {
            _ if !said.is_same_prompt => "other_prompt",
            None => "no_tokens",
            Some(end) if end <= self.kept => "empty",
            Some(end) => {
                let finish = if said.is_over { said.finish } else { Finish::Running };
                let (is_last, resumes) = (said.is_over, said.resumes);
                let asked = self.asked().unwrap_or(scene.now);
                self.phase = Phase::Scoring(Window { asked, end, finish, is_last, resumes });
                return vec![Action::Score {
                    tokens: end.checked_sub(self.kept).unwrap_or_default(),
                    finish,
                }];
            }
        };
        self.rejected(scene, Rejected::Refused(why), said.resumes)
    }

    /// Scoring => Showing | Closing | Answering
    pub(super) fn scored(&mut self, scene: &mut Scene<'_>, scored: &Scored) -> Vec<Action> {
        let Phase::Scoring(window) = self.phase else { return Vec::new() };
        let Scored { verified, ends, is_end_token, is_full, marked } = *scored;
        let count = u32::try_from(verified.accepted).unwrap_or(u32::MAX);
        let accepted = self.kept + Tokens::new(count);
        let is_all = accepted == window.end;
        let is_whole = match verified.resume {
            Resume::Nowhere => is_end_token || ends,
            // It was cut where the target would have been cut as well.
            Resume::Behind => window.finish == Finish::Length && is_full,
            Resume::With(_) | Resume::Astray | Resume::Unproven => false,
        };
        let is_left = !is_all || (window.is_last && !is_whole);
        // Within a character nothing can be shown, and the target says those tokens again.
        self.kept = if is_left { marked } else { accepted };
        let mut actions = Vec::new();
        if is_left || window.is_last {
            let note = scene.cascade.counted(accepted, window.end);
            let _standing = scene.cascade.tell(note, scene.journal);
            let given = if is_all { Choice::Draft } else { Choice::Target };
            actions.extend([Action::CountDraft(given), Action::CountAccepted(accepted)]);
        }
        if self.kept == Tokens::ZERO {
            actions.append(&mut self.rejected(scene, Rejected::Refused("refused"), None));
            return actions;
        }
        self.show(scene, window.is_last && !is_left, &mut actions);
        if is_left {
            self.is_handed_over = true;
            self.phase = Phase::Closing;
            actions.push(Action::HandOver(self.kept));
        }
        actions
    }

    /// What is kept is shown; the first time that is the verdict.
    fn show(&mut self, scene: &mut Scene<'_>, is_over: bool, actions: &mut Vec<Action>) {
        if !self.is_shown {
            self.is_shown = true;
            self.tell_verdict(scene, Upshot::Given);
        }
        self.phase = Phase::Showing;
        actions.push(Action::Show(self.kept));
        if is_over {
            self.phase = Phase::Closing;
            actions.push(Action::End);
        }
    }

    /// Drafting => Answering, Showing => Closing | Ended
    pub(super) fn rejected(
        &mut self,
        scene: &mut Scene<'_>,
        rejected: Rejected,
        resumes: Option<Tokens>,
    ) -> Vec<Action> {
        if self.is_shown {
            let scored = match self.phase {
                Phase::Scoring(window) => window.resumes,
                _ => None,
            };
            return self.hand_over(rejected.name(), resumes.or(scored), scene);
        }
        match rejected {
            Rejected::Refused(_) => self.tell_verdict(scene, Upshot::Refused),
            Rejected::Failed(_) => self.tell_verdict(scene, Upshot::Failed),
            Rejected::Unasked(_) => {
                let traits = &self.terms.traits;
                scene.cascade.payback_mut().handle_left(traits, Micros::ZERO);
            }
        }
        self.fall_back(scene, Cause::Rejected(rejected))
    }

    fn hand_over(
        &mut self,
        why: &'static str,
        resumes: Option<Tokens>,
        scene: &Scene<'_>,
    ) -> Vec<Action> {
        match resumes.filter(|_| self.can_continue) {
            Some(tokens) => {
                self.kept = tokens;
                self.is_handed_over = true;
                self.phase = Phase::Closing;
                vec![Action::HandOver(tokens)]
            }
            None if self.is_streamed() => {
                self.phase = Phase::Ended;
                vec![Action::BreakOff(why)]
            }
            None => self.fall_back(scene, Cause::BrokenOff),
        }
    }

    /// The client leaves; only a draft that it waits for is concerned.
    pub(super) fn left(&mut self, scene: &mut Scene<'_>) -> Vec<Action> {
        if let Some(asked) = self.asked().filter(|_| !self.is_shown) {
            let took = scene.now.since(asked);
            scene.cascade.payback_mut().handle_left(&self.terms.traits, took);
            self.phase = Phase::Ended;
        }
        Vec::new()
    }

    /// Closing => Ended
    pub(super) fn ended(&mut self, scene: &mut Scene<'_>) -> Vec<Action> {
        if self.phase != Phase::Closing {
            return Vec::new();
        }
        self.phase = Phase::Ended;
        let took = scene.now.since(self.arrived);
        let payback = scene.cascade.payback_mut();
        payback.handle_draft_end(&self.terms.traits, took, Waited::Client);
        let is_checked = self.judgement.is_some_and(|judgement| judgement.checked);
        if is_checked && !self.is_handed_over { vec![self.compare(Ask::Draft)] } else { Vec::new() }
    }

    /// Closing => Answering | Ended: the client of a stream has seen what was shown, any other has seen nothing.
    pub(super) fn broke_off(&mut self, scene: &Scene<'_>) -> Vec<Action> {
        if self.phase != Phase::Closing {
            return Vec::new();
        }
        match self.terms.traits.delivery {
            Delivery::Streamed => {
                self.phase = Phase::Ended;
                Vec::new()
            }
            Delivery::Whole => self.fall_back(scene, Cause::BrokenOff),
        }
    }

    /// The target answers alone after all, and the draft is compared with it where that was drawn.
    fn fall_back(&mut self, scene: &Scene<'_>, cause: Cause) -> Vec<Action> {
        let mut actions = self.ask_target(scene, cause);
        if self.judgement.is_some_and(|judgement| judgement.checked) {
            actions.push(self.compare(Ask::Draft));
        }
        actions
    }

    fn ask_target(&mut self, scene: &Scene<'_>, cause: Cause) -> Vec<Action> {
        self.phase = Phase::Answering;
        self.target = Some(TargetTimes { asked: scene.now, first: None });
        vec![Action::AskTarget(cause)]
    }

    fn tell_verdict(&self, scene: &mut Scene<'_>, upshot: Upshot) {
        let took = self.asked().map_or(Micros::ZERO, |asked| scene.now.since(asked));
        let payback = scene.cascade.payback_mut();
        payback.handle_verdict(&self.terms.traits, took, upshot, Waited::Client);
    }

    /// When the draft was asked that a client waits for.
    const fn asked(&self) -> Option<Instant> {
        match self.phase {
            Phase::Drafting(asked) | Phase::Scoring(Window { asked, .. }) => Some(asked),
            _ => None,
        }
    }
}

/// Whether the target vouches for every token.
fn verifies(scene: &Scene<'_>) -> bool {
    scene.cascade.settings().mode == Mode::Verify
}
