//! Comparison of a draft with the target: what a draft is worth, learnt after the client has its answer.
//!
//! A draft that was asked first is heard to its end. One that was not is asked beside the target, and its times count as
//! if a client had waited.

use alloc::vec;
use alloc::vec::Vec;

use overdraft_units::{Instant, Micros, Tokens};

use super::action::{Action, DraftCall};
use super::event::{Rejected, Said};
use super::{Protocol, Scene};
use crate::cascade::evidence::Finish;
use crate::cascade::gate::{Ask, Moment};
use crate::cascade::label_journal::Note;
use crate::cascade::mode::Mode;
use crate::cascade::payback::{Upshot, Waited};
use crate::cascade::scorer::Label;
use crate::cascade::threshold::Choice;

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Comparing {
    /// Why the draft was asked.
    ask: Ask,
    /// When it was asked beside the target.
    begun: Option<Instant>,
    /// After how long its first window was full.
    window: Option<Micros>,
    /// After how long a draft asked beside the target would have had its verdict, and was whole.
    times: Option<DraftTimes>,
}

/// When a draft that nobody waited for would have come to its verdict, and when it was whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DraftTimes {
    verdict: Micros,
    end: Micros,
}

impl Protocol {
    /// A draft that was asked for `ask` is to be compared.
    pub(super) const fn compare(&mut self, ask: Ask) -> Action {
        self.comparing = Some(Comparing { ask, begun: None, window: None, times: None });
        Action::Compare
    }

    /// There is a place for the comparison: the draft is asked, if it was not.
    pub(super) fn compare_began(&mut self, scene: &Scene<'_>) -> Vec<Action> {
        let Some(comparing) = &mut self.comparing else { return Vec::new() };
        let Ask::Beside(_) = comparing.ask else { return Vec::new() };
        comparing.begun = Some(scene.now);
        let limit = scene.cascade.payback().limit_beside(&self.terms.traits);
        vec![Action::AskDraft(DraftCall { limit, needs_prompt: false, prefills: false })]
    }

    pub(super) fn compared_draft_said(
        &mut self,
        scene: &mut Scene<'_>,
        said: &Said,
    ) -> Vec<Action> {
        self.observe(said);
        let Some(mut comparing) = self.comparing else { return Vec::new() };
        if said.is_over && said.finish == Finish::Running {
            return self.compared_draft_failed(scene, Rejected::Failed("unfinished"));
        }
        if let Some(begun) = comparing.begun {
            let took = scene.now.since(begun);
            // Where a stream is judged by its first window, that is when the client would have seen something.
            let is_windowed = self.is_streamed() && self.may_continue();
            let is_full = self.terms.windows.first <= self.evidence.tokens();
            if is_windowed && is_full && !said.is_over {
                comparing.window = comparing.window.or(Some(took));
            }
            if said.is_over {
                let verdict = comparing.window.unwrap_or(took);
                comparing.times = Some(DraftTimes { verdict, end: took });
            }
        }
        self.comparing = Some(comparing);
        if said.is_over && scene.cascade.settings().mode != Mode::Verify {
            self.judge_beside(scene, &comparing);
        }
        Vec::new()
    }

    fn judge_beside(&mut self, scene: &mut Scene<'_>, comparing: &Comparing) {
        let judgement = self.judgement.unwrap_or_else(|| {
            self.judge(scene.cascade, Moment::Whole, comparing.ask, self.terms.draws.beside)
        });
        self.judgement = Some(judgement);
        if let Some(times) = comparing.times {
            self.tell_times(scene, times, judgement.upshot());
        }
    }

    /// Where there was nobody to ask, or the answer is none to be judged, nothing is known of the draft's time.
    pub(super) fn compared_draft_failed(
        &mut self,
        scene: &mut Scene<'_>,
        rejected: Rejected,
    ) -> Vec<Action> {
        if let Some(Comparing { begun: Some(begun), times: None, .. }) = self.comparing.take()
            && let Rejected::Failed(_) = rejected
        {
            let took = scene.now.since(begun);
            let payback = scene.cascade.payback_mut();
            payback.handle_verdict(&self.terms.traits, took, Upshot::Failed, Waited::Nobody);
        }
        Vec::new()
    }

    pub(super) fn compared(&mut self, scene: &mut Scene<'_>, label: Label) -> Vec<Action> {
        let Some(comparing) = self.comparing.take() else { return Vec::new() };
        if scene.cascade.settings().mode == Mode::Verify {
            return self.compared_as_verified(scene, &comparing, label);
        }
        if let Some(judgement) = self.judgement.filter(|judgement| judgement.checked) {
            let note = Note::label(&judgement, &self.evidence, label);
            let _standing = scene.cascade.tell(note, scene.journal);
        }
        Vec::new()
    }

    /// Where the target vouches for every token, an answer that is worse counts as one of which nothing was accepted.
    fn compared_as_verified(
        &self,
        scene: &mut Scene<'_>,
        comparing: &Comparing,
        label: Label,
    ) -> Vec<Action> {
        let (accepted, upshot, given) = match label {
            Label::Worse => (Tokens::ZERO, Upshot::Refused, Choice::Target),
            Label::AsGood | Label::Better => (self.drafted(), Upshot::Given, Choice::Draft),
        };
        if let Some(times) = comparing.times {
            self.tell_times(scene, times, upshot);
        }
        let note = scene.cascade.counted(accepted, self.drafted());
        let _standing = scene.cascade.tell(note, scene.journal);
        vec![Action::CountDraft(given)]
    }

    /// Tokens of the draft, which are one where none was told.
    fn drafted(&self) -> Tokens {
        self.told.max(Tokens::new(1))
    }

    fn tell_times(&self, scene: &mut Scene<'_>, times: DraftTimes, upshot: Upshot) {
        let (traits, payback) = (&self.terms.traits, scene.cascade.payback_mut());
        payback.handle_verdict(traits, times.verdict, upshot, Waited::Nobody);
        payback.handle_draft_end(traits, times.end, Waited::Nobody);
    }
}
