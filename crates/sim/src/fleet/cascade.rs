//! Cascade of the simulated gateway: a draft pool before the target's, driven by the live state machine.
//!
//! `core::cascade::Protocol` decides what to ask, show, hand over and compare; here its actions are executed in virtual
//! time. A draft is judged when it is whole, or window by window where the scenario says how long windows are; in mode
//! `verify` the target scores each window, which is a request of its own. A draft that is given up ends with its next
//! token: until then it takes its place among the draft workers' requests, as one whose connection is gone may.

use overdraft_core::cascade::{
    Action, Continuation, Event, Finish, Protocol, Rejected, Resume, Said, Scored, Verified,
};
use overdraft_core::route::Strictness;
use overdraft_units::{Instant, Tokens};

use super::draft_gate::DraftWords;
use super::error::SimulateError;
use super::event_loop::Simulation;
use super::event_queue::{self, CourseId, FlightId};
use super::life_cycle::unsent;
use super::refusal::{groups_of, unplaced};
use super::request_slab::{Flight, Role};
use crate::report::Fate;
use crate::workload::Piece;

/// A request's way through the cascade.
#[derive(Debug)]
pub(super) struct Course {
    pub(super) protocol: Protocol,
    pub(super) words: DraftWords,
    /// The request as it came.
    pub(super) client: Flight,
    /// The draft while it speaks, and the tokens of it that were reported.
    draft: Option<FlightId>,
    heard: u32,
    /// The tokens that it has said while the target scored.
    unheard: u32,
    /// The draft once it has ended.
    ended: Option<Flight>,
    /// The score that is asked for, and the draft's tokens up to which it goes.
    score: Option<FlightId>,
    scored_to: Tokens,
    /// Tokens that the client has seen, and when it saw the first and the last of them.
    shown: Tokens,
    pub(super) first: Option<Instant>,
    pub(super) last: Instant,
    /// Who still reports to it: the client's answer, and a draft that is only compared.
    parties: u8,
}

impl Course {
    pub(super) const fn new(protocol: Protocol, words: DraftWords, client: Flight) -> Self {
        let last = client.asked;
        Self {
            protocol,
            words,
            client,
            draft: None,
            heard: 0,
            unheard: 0,
            ended: None,
            score: None,
            scored_to: Tokens::ZERO,
            shown: Tokens::ZERO,
            first: None,
            last,
            parties: 1,
        }
    }

    /// What the draft has said since it was reported last.
    fn said(&mut self, tokens: u32, finish: Finish) -> Event {
        let observations = self.words.observe(tokens.saturating_sub(self.heard));
        self.heard = tokens.max(self.heard);
        Event::Said(Said {
            observations,
            finish,
            is_over: finish != Finish::Running,
            tokens: Some(Tokens::new(tokens)),
            marked: Tokens::new(tokens),
            is_same_prompt: true,
            keeps_schema: true,
            resumes: Some(self.protocol.kept()),
        })
    }
}

impl Simulation<'_> {
    /// Asks the draft pool where the gate says so.
    pub(super) fn draft_first(&mut self, mut flight: Flight) -> Result<(), SimulateError> {
        let Some(gatekeeper) = &self.gatekeeper else { return Ok(()) };
        let course = gatekeeper.begin(&mut flight, self.now);
        let id = self.courses.add(course);
        flight.course = Some(id);
        let actions = self.report(id, Event::Arrived);
        let Some(call) = asked(&actions) else {
            if actions.contains(&Action::Compare) {
                self.draft_beside(id, &flight)?;
            }
            let flight = self.flights.add(flight);
            return self.seek(flight);
        };
        let dice = flight.dice;
        flight.role = Role::Draft;
        let flight = self.flights.add(flight);
        self.courses.of(id).draft = Some(flight);
        self.agenda.enter(self.now + call.limit, event_queue::Event::Limit(id, dice));
        let is_known =
            if call.needs_prompt { Continuation::Possible } else { Continuation::Impossible };
        self.report(id, Event::Opened(is_known));
        self.seek(flight)
    }

    /// Asks the draft for an answer that nobody waits for.
    fn draft_beside(&mut self, id: CourseId, flight: &Flight) -> Result<(), SimulateError> {
        self.report(id, Event::CompareBegan);
        self.courses.of(id).parties += 1;
        let beside = Flight { visit: None, role: Role::Draft, course: Some(id), ..unsent(flight) };
        let beside = self.flights.add(beside);
        self.seek(beside)
    }

    /// Reports an event of a request; what is to be done.
    pub(super) fn report(&mut self, id: CourseId, event: Event) -> Vec<Action> {
        let Some(gatekeeper) = &mut self.gatekeeper else { return Vec::new() };
        gatekeeper.handle(self.courses.of(id), event, self.now)
    }

    /// A draft has taken as long as it may: the target is asked, if nothing of it was shown by now.
    pub(super) fn give_up_draft(&mut self, id: CourseId, dice: u64) -> Result<(), SimulateError> {
        let is_waited_for = |course: &Course| {
            let is_asked = course.draft.is_some() || course.score.is_some();
            course.client.dice == dice && course.first.is_none() && is_asked
        };
        if !self.courses.get(id).is_some_and(is_waited_for) {
            return Ok(());
        }
        let actions = self.report(id, Event::Late);
        let _nothing = self.obey(id, &actions)?;
        Ok(())
    }

    /// The gateway sees that a draft has said so much.
    pub(super) fn draft_said(
        &mut self,
        id: FlightId,
        dice: u64,
        tokens: u32,
    ) -> Result<(), SimulateError> {
        let is_same = |flight: &&Flight| flight.dice == dice && flight.role == Role::Draft;
        let course = self.flights.get(id).filter(is_same).and_then(|flight| flight.course);
        let Some(id) = course else { return Ok(()) };
        let course = self.courses.of(id);
        course.unheard = tokens;
        if course.score.is_some() {
            return Ok(());
        }
        let said = course.said(tokens, Finish::Running);
        let actions = self.report(id, said);
        let _nothing = self.obey(id, &actions)?;
        Ok(())
    }

    /// What becomes of a request whose draft has ended: it is given back where that is the answer.
    pub(super) fn draft_ended(&mut self, flight: Flight) -> Result<Option<Flight>, SimulateError> {
        let Some(id) = flight.course else { return Ok(None) };
        let is_beside = flight.visit.is_none();
        let course = self.courses.of(id);
        let event = match (flight.fate, flight.is_placed) {
            (Fate::Completed, _) if !is_beside && course.score.is_some() => {
                (course.draft, course.ended) = (None, Some(flight));
                return Ok(None);
            }
            (Fate::Completed, _) => course.said(flight.said, Finish::Stop),
            (Fate::Refused | Fate::Failed, is_placed) => {
                let rejected =
                    if is_placed { Rejected::Failed("failed") } else { Rejected::Unasked("full") };
                Event::Failed(rejected, Some(course.protocol.kept()))
            }
        };
        if is_beside {
            let is_whole = flight.fate == Fate::Completed;
            self.report(id, event);
            if is_whole {
                self.compare(id);
            }
            self.leave(id);
            return Ok(None);
        }
        (course.draft, course.ended) = (None, Some(flight));
        let actions = self.report(id, event);
        self.obey(id, &actions)
    }

    /// The target has scored a window, or could not.
    pub(super) fn scored(&mut self, flight: &Flight) -> Result<Option<Flight>, SimulateError> {
        let Some(id) = flight.course else { return Ok(None) };
        let course = self.courses.of(id);
        course.score = None;
        let kept = course.protocol.kept();
        let event = if flight.fate == Fate::Completed {
            let drafted = course.scored_to.checked_sub(kept).unwrap_or_default().get();
            let accepted = course.words.accept(drafted);
            let resume = match (accepted == drafted, course.ended.is_some()) {
                (true, true) => Resume::Nowhere,
                (true, false) => Resume::Behind,
                (false, _) => Resume::Astray,
            };
            let count = usize::try_from(accepted).unwrap_or(usize::MAX);
            Event::Scored(Scored {
                verified: Verified { accepted: count, ties: 0, resume },
                ends: true,
                is_end_token: true,
                is_full: false,
                marked: kept + Tokens::new(accepted),
            })
        } else {
            Event::Failed(Rejected::Failed("unscored"), Some(kept))
        };
        let actions = self.report(id, event);
        let given = self.obey(id, &actions)?;
        if actions.iter().all(|action| matches!(action, Action::Show(_))) {
            return self.hear_meanwhile(id);
        }
        Ok(given)
    }

    /// What the draft has said while the target scored.
    fn hear_meanwhile(&mut self, id: CourseId) -> Result<Option<Flight>, SimulateError> {
        let course = self.courses.of(id);
        let said = match (&course.ended, course.draft) {
            (Some(ended), _) => {
                let tokens = ended.said;
                course.said(tokens, Finish::Stop)
            }
            (None, Some(_)) if course.heard < course.unheard => {
                let tokens = course.unheard;
                course.said(tokens, Finish::Running)
            }
            (None, _) => return Ok(None),
        };
        let actions = self.report(id, said);
        self.obey(id, &actions)
    }

    /// Executes what is to be done; the answer where the draft gives it.
    fn obey(&mut self, id: CourseId, actions: &[Action]) -> Result<Option<Flight>, SimulateError> {
        let is_compared = actions.contains(&Action::Compare);
        for action in actions {
            match *action {
                Action::Show(tokens) => self.show(id, tokens),
                Action::Score { tokens, .. } => self.ask_score(id, tokens)?,
                Action::HandOver(tokens) => self.hand_over(id, tokens)?,
                Action::AskTarget(_) => {
                    let is_heard_out = self.leave_draft(id, is_compared);
                    if is_compared {
                        self.report(id, Event::CompareBegan);
                    }
                    if is_compared && !is_heard_out {
                        self.compare(id);
                    }
                    self.ask_target(id)?;
                }
                Action::BreakOff(_) => return Ok(Some(self.close(id, Fate::Failed))),
                Action::End => return self.end_answer(id),
                _ => {}
            }
        }
        Ok(None)
    }

    /// All of the answer is the draft's.
    fn end_answer(&mut self, id: CourseId) -> Result<Option<Flight>, SimulateError> {
        let actions = self.report(id, Event::Ended);
        if actions.contains(&Action::Compare) {
            let course = self.courses.of(id);
            let (client, visit) = (unsent(&course.client), course.client.visit);
            let mut shadow = Flight { visit: None, role: Role::Target, course: None, ..client };
            if let Some(visit) = visit {
                self.spell_again(&mut shadow, visit);
            }
            self.report(id, Event::CompareBegan);
            self.compare(id);
            let shadow = self.flights.add(shadow);
            self.seek(shadow)?;
        }
        Ok(Some(self.close(id, Fate::Completed)))
    }

    /// The client's answer as the draft gave it, as far as it came.
    fn close(&mut self, id: CourseId, fate: Fate) -> Flight {
        let course = self.courses.of(id);
        let mut flight = course.ended.take().unwrap_or_else(|| unsent(&course.client));
        let said = Tokens::new(flight.said);
        let rest = said.checked_sub(course.shown).unwrap_or_default();
        (flight.first, flight.fate) = (course.first, fate);
        // What the target scored is seen after the draft has ended.
        let (shown, last) = (course.last, flight.last.max(course.last));
        flight.last = last;
        if flight.is_counted() {
            let is_read = fate == Fate::Completed && course.first.is_some();
            if is_read && rest != Tokens::ZERO {
                self.recorder.gaps(last.since(shown), 1, groups_of(&flight));
            }
            self.recorder.tokens(last, u64::from(rest.get()));
        }
        self.leave(id);
        flight
    }

    /// The client sees the draft's tokens up to a count: at once, where the draft was judged whole.
    fn show(&mut self, id: CourseId, tokens: Tokens) {
        let course = self.courses.of(id);
        let new = tokens.checked_sub(course.shown).unwrap_or_default();
        let is_counted = course.client.is_counted();
        if is_counted && course.first.is_some() && new != Tokens::ZERO {
            self.recorder.gaps(self.now.since(course.last), 1, groups_of(&course.client));
        }
        if course.first.is_none() || new != Tokens::ZERO {
            course.last = self.now;
        }
        course.first = course.first.or(Some(self.now));
        course.shown = course.shown.max(tokens);
        if is_counted {
            self.recorder.tokens(self.now, u64::from(new.get()));
        }
    }

    /// The target reads the prompt and the draft, and says one token.
    fn ask_score(&mut self, id: CourseId, tokens: Tokens) -> Result<(), SimulateError> {
        let course = self.courses.of(id);
        course.scored_to = course.protocol.kept() + tokens;
        let (scored_to, client) = (course.scored_to, unsent(&course.client));
        let answer = Piece { tokens: Tokens::new(1), ..client.answer };
        let read = Piece { tokens: scored_to, ..client.answer };
        let mut flight = Flight {
            role: Role::Score,
            course: Some(id),
            prompt_tokens: client.prompt_tokens + scored_to,
            limit: Tokens::new(1),
            answer,
            asked: self.now,
            ..client
        };
        if let Some(visit) = flight.visit {
            self.spell(&mut flight, visit, read);
        }
        let flight = self.flights.add(flight);
        self.courses.of(id).score = Some(flight);
        self.seek(flight)
    }

    /// The target answers alone.
    fn ask_target(&mut self, id: CourseId) -> Result<(), SimulateError> {
        let course = self.courses.of(id);
        course.ended = None;
        let client = unsent(&course.client);
        let mut flight = Flight { role: Role::Target, course: Some(id), asked: self.now, ..client };
        if let Some(visit) = flight.visit {
            self.spell_again(&mut flight, visit);
        }
        let flight = self.flights.add(flight);
        self.seek(flight)
    }

    /// The draft is left, and the target continues after so many of its tokens. Who is in the middle of an answer is not
    /// kept waiting.
    fn hand_over(&mut self, id: CourseId, tokens: Tokens) -> Result<(), SimulateError> {
        self.leave_draft(id, false);
        let course = self.courses.of(id);
        course.ended = None;
        let client = unsent(&course.client);
        let mut flight = Flight {
            role: Role::Target,
            course: Some(id),
            asked: self.now,
            prompt_tokens: client.prompt_tokens + tokens,
            continues: tokens,
            said: tokens.get(),
            ..client
        };
        if let Some(visit) = flight.visit {
            self.spell_again(&mut flight, visit);
        }
        let flight = self.flights.add(flight);
        match self.place(flight, Strictness::Waived) {
            Ok(placed) => {
                self.send(flight, placed);
                Ok(())
            }
            Err(choice) => self.refuse(flight, unplaced(choice)),
        }
    }

    /// A draft that speaks ends with its next token, unless it is compared: then it is heard to its end, and that is true.
    fn leave_draft(&mut self, id: CourseId, is_compared: bool) -> bool {
        let course = self.courses.of(id);
        if let Some(score) = course.score.take() {
            let flight = self.flights.of(score);
            (flight.role, flight.visit, flight.course) = (Role::GivenUp, None, None);
        }
        let Some(draft) = course.draft.take() else { return false };
        let flight = self.flights.of(draft);
        flight.visit = None;
        if is_compared {
            course.parties += 1;
        } else {
            (flight.role, flight.course) = (Role::GivenUp, None);
        }
        is_compared
    }

    /// It is known what the draft is worth beside the target.
    fn compare(&mut self, id: CourseId) {
        let label = self.courses.of(id).words.label();
        self.report(id, Event::Compared(label));
    }

    /// The target has answered a client alone, or continued to the end or not.
    pub(super) fn target_ended(&mut self, flight: &mut Flight) {
        let Some(id) = flight.course else { return };
        let is_whole = flight.fate == Fate::Completed;
        if flight.continues == Tokens::ZERO {
            if is_whole {
                self.report(id, Event::TargetEnded);
            }
        } else {
            self.report(id, if is_whole { Event::Ended } else { Event::BrokeOff });
            flight.first = self.courses.of(id).first;
        }
        self.leave(id);
    }

    /// One that reported has nothing more to report.
    fn leave(&mut self, id: CourseId) {
        let course = self.courses.of(id);
        course.parties -= 1;
        if course.parties == 0 {
            drop(self.courses.remove(id));
        }
    }
}

/// How the draft is asked, if it is asked first.
fn asked(actions: &[Action]) -> Option<overdraft_core::cascade::DraftCall> {
    actions.iter().find_map(|action| match action {
        Action::AskDraft(call) => Some(*call),
        _ => None,
    })
}
