//! The protocol of one request: which action follows from which event.

use alloc::vec;
use alloc::vec::Vec;

use overdraft_units::{Instant, Micros, Ratio, Tokens};

use super::token;
use crate::cascade::{
    Action, Cascade, Cause, Choice, Continuation, Delivery, Event, Exclusion, Exclusions, Finish,
    Journal, Mode, Parity, Protocol, Rejected, RequestDraws, Resume, Said, Scored, Settings,
    Shadow, Standing, Terms, Tokenizers, Traits, Verified, Windows,
};

/// A request of a stream with windows of two tokens, and what its cascade has learnt.
struct World {
    cascade: Cascade,
    journal: Journal,
    protocol: Protocol,
    now: Instant,
}

const fn terms(bar: Ratio, delivery: Delivery) -> Terms {
    let traits = Traits { delivery, ..NO_TRAITS };
    let two = Tokens::new(2);
    Terms {
        traits,
        exclusions: Exclusions::NONE,
        tokenizers: Tokenizers::Same,
        is_greedy: true,
        is_continuable: true,
        windows: Windows { first: two, next: two },
        bar: Some(bar),
        prefill_from: None,
        draws: RequestDraws { ask: 1, prospect: 1, judge: 1, beside: 1 },
    }
}

const NO_TRAITS: Traits = Traits {
    tenant: 1,
    route: 2,
    prompt: Tokens::new(100),
    script: crate::cascade::Script::Latin,
    bound: crate::cascade::Bound::Free,
    delivery: Delivery::Whole,
};

impl World {
    fn new(mode: Mode, terms: Terms) -> Self {
        let shadow = Shadow { start: Ratio::NONE, ..Shadow::default() };
        let settings = Settings { mode, shadow, slowdown: None, ..Settings::default() };
        let cascade = Cascade::new(settings);
        let protocol = Protocol::new(&cascade, terms, Instant::ORIGIN);
        Self { cascade, journal: Journal::new(0), protocol, now: Instant::ORIGIN }
    }

    /// One whose draft is asked and speaks.
    fn drafting(mode: Mode, terms: Terms) -> Self {
        let mut world = Self::new(mode, terms);
        let actions = world.tell(Event::Arrived);
        assert!(matches!(actions.as_slice(), [Action::AskDraft(_)]), "{actions:?}");
        assert_eq!(world.tell(Event::Opened(Continuation::Possible)), []);
        world
    }

    fn tell(&mut self, event: Event) -> Vec<Action> {
        self.now = self.now + Micros::new(1_000);
        self.protocol.handle(&mut self.cascade, &mut self.journal, event, self.now)
    }

    /// The draft says tokens up to that many, and has ended or not.
    fn say(&mut self, tokens: u32, finish: Finish) -> Vec<Action> {
        let is_over = finish != Finish::Running;
        let resumes = Some(self.protocol.kept());
        self.tell(said(tokens, finish, is_over, resumes))
    }
}

fn said(tokens: u32, finish: Finish, is_over: bool, resumes: Option<Tokens>) -> Event {
    Event::Said(Said {
        observations: vec![token(-100), token(-100)],
        finish,
        is_over,
        tokens: Some(Tokens::new(tokens)),
        marked: Tokens::new(tokens),
        is_same_prompt: true,
        keeps_schema: true,
        resumes,
    })
}

const STREAM: Terms = terms(Ratio::NONE, Delivery::Streamed);
const WHOLE: Terms = terms(Ratio::NONE, Delivery::Whole);
const TWO: Tokens = Tokens::new(2);

#[test]
fn a_stream_is_shown_by_windows_and_an_answer_that_is_wanted_whole_at_once() {
    let mut world = World::drafting(Mode::Gate, STREAM);
    let given = Action::CountDraft(Choice::Draft);
    assert_eq!(world.say(2, Finish::Running), [given, Action::Show(TWO)]);
    let four = Tokens::new(4);
    assert_eq!(world.say(4, Finish::Running), [Action::Show(four)]);
    assert_eq!(world.say(6, Finish::Stop), [Action::Show(Tokens::new(6)), Action::End]);
    assert_eq!(world.tell(Event::Ended), []);
    let mut world = World::drafting(Mode::Gate, WHOLE);
    assert_eq!(world.say(2, Finish::Running), []);
    assert_eq!(world.say(4, Finish::Stop), [given, Action::Show(four), Action::End]);
}

#[test]
fn what_is_not_shown_the_target_answers_and_what_is_shown_it_continues() {
    let mut world = World::drafting(Mode::Gate, terms(Ratio::WHOLE, Delivery::Streamed));
    let refused = Action::AskTarget(Cause::Rejected(Rejected::Refused("refused")));
    assert_eq!(world.say(2, Finish::Running), [Action::CountDraft(Choice::Target), refused]);
    let late = Action::AskTarget(Cause::Rejected(Rejected::Failed("late")));
    assert_eq!(World::drafting(Mode::Gate, STREAM).tell(Event::Late), [late]);
    let broken = || Event::Failed(Rejected::Failed("broken"), Some(TWO));
    let fault = Action::AskTarget(Cause::Rejected(Rejected::Failed("broken")));
    assert_eq!(World::drafting(Mode::Gate, STREAM).tell(broken()), [fault]);
    let mut world = World::drafting(Mode::Gate, STREAM);
    world.say(2, Finish::Running);
    assert_eq!(world.tell(broken()), [Action::HandOver(TWO)]);
    assert!(world.protocol.is_handed_over());
    assert_eq!(world.tell(Event::BrokeOff), []);
}

#[test]
fn where_nobody_can_continue_a_stream_breaks_off_and_a_whole_answer_is_the_target_s() {
    let mut world = World::drafting(Mode::Gate, STREAM);
    world.say(2, Finish::Running);
    let broken = Event::Failed(Rejected::Failed("broken"), None);
    assert_eq!(world.tell(broken), [Action::BreakOff("broken")]);
    let mut world = World::drafting(Mode::Verify, WHOLE);
    world.say(4, Finish::Stop);
    let actions = world.tell(score(1, Resume::Astray, 1));
    assert!(actions.contains(&Action::HandOver(Tokens::new(1))), "{actions:?}");
    assert_eq!(world.tell(Event::BrokeOff), [Action::AskTarget(Cause::BrokenOff)]);
}

fn score(accepted: usize, resume: Resume, marked: u32) -> Event {
    Event::Scored(Scored {
        verified: Verified { accepted, ties: 0, resume },
        ends: false,
        is_end_token: true,
        is_full: false,
        marked: Tokens::new(marked),
    })
}

#[test]
fn a_window_is_scored_before_it_is_shown_and_none_of_it_is_none_of_the_draft() {
    let mut world = World::drafting(Mode::Verify, STREAM);
    let asked = Action::Score { tokens: TWO, finish: Finish::Running };
    assert_eq!(world.say(2, Finish::Running), [asked]);
    assert_eq!(world.tell(score(2, Resume::Behind, 2)), [Action::Show(TWO)]);
    let asked = Action::Score { tokens: TWO, finish: Finish::Stop };
    assert_eq!(world.say(4, Finish::Stop), [asked]);
    let all = Tokens::new(4);
    let counted = [Action::CountDraft(Choice::Draft), Action::CountAccepted(all)];
    let ended = [counted[0], counted[1], Action::Show(all), Action::End];
    assert_eq!(world.tell(score(2, Resume::Nowhere, 4)), ended);
    let mut world = World::drafting(Mode::Verify, STREAM);
    world.say(2, Finish::Running);
    let actions = world.tell(score(0, Resume::Astray, 0));
    let refused = Action::AskTarget(Cause::Rejected(Rejected::Refused("refused")));
    assert_eq!(actions.last(), Some(&refused), "{actions:?}");
}

#[test]
fn what_no_draft_may_answer_meets_none() {
    let cause = |mode, terms: Terms| World::new(mode, terms).tell(Event::Arrived);
    let excluded = |why| vec![Action::AskTarget(Cause::Excluded(why))];
    let tools = Terms { exclusions: Exclusions::NONE.with(Exclusion::Tools), ..STREAM };
    assert_eq!(cause(Mode::Gate, tools), excluded("tools"));
    let drawn = Terms { is_greedy: false, ..STREAM };
    assert_eq!(cause(Mode::Verify, drawn), excluded("not_greedy"));
    let apart = Terms { tokenizers: Tokenizers::Apart, ..STREAM };
    assert_eq!(cause(Mode::Verify, apart), excluded("tokenizers"));
    let refused = Terms { tokenizers: Tokenizers::Refused, ..STREAM };
    assert_eq!(cause(Mode::Gate, refused), excluded("tokenizers"));
}

#[test]
fn a_draft_whose_tokenizer_nobody_knows_is_missed_where_it_would_be_asked() {
    let apart = Terms { tokenizers: Tokenizers::Apart, ..STREAM };
    let misses = |mode, terms, parity: &Parity| {
        let World { cascade, protocol, .. } = World::new(mode, terms);
        protocol.misses_draft(&cascade, parity)
    };
    assert!(misses(Mode::Verify, apart, &Parity::NotKnown));
    // It is asked all the same, its worker has told, or another reason keeps it away.
    assert!(!misses(Mode::Gate, apart, &Parity::NotKnown));
    assert!(!misses(Mode::Verify, STREAM, &Parity::Same));
    let tools = Terms { exclusions: Exclusions::NONE.with(Exclusion::Tools), ..apart };
    assert!(!misses(Mode::Verify, tools, &Parity::NotKnown));
}

#[test]
fn a_draft_that_is_switched_off_is_missed_by_its_trials_alone() {
    let mut cascade = Cascade::new(Settings { mode: Mode::Verify, ..Settings::default() });
    let misses = |cascade: &Cascade, ask| {
        let draws = RequestDraws { ask, ..STREAM.draws };
        let terms = Terms { tokenizers: Tokenizers::Apart, draws, ..STREAM };
        let protocol = Protocol::new(cascade, terms, Instant::ORIGIN);
        protocol.misses_draft(cascade, &Parity::NotKnown)
    };
    assert!(misses(&cascade, u64::MAX));
    let mut journal = Journal::new(0);
    for _ in 0..500 {
        let note = cascade.counted(Tokens::ZERO, TWO);
        let _standing = cascade.tell(note, &mut journal);
    }
    assert!(matches!(cascade.standing(), Standing::Off { .. }));
    assert!(!misses(&cascade, u64::MAX));
    assert!(misses(&cascade, 0), "one of some hundred is drawn to find out");
}

#[test]
fn a_client_that_leaves_before_the_verdict_leaves_room_for_another_draft() {
    let mut world = World::drafting(Mode::Gate, STREAM);
    for _ in 0..100 {
        assert_eq!(world.tell(Event::Left), []);
        world.protocol = Protocol::new(&world.cascade, STREAM, world.now);
        let actions = world.tell(Event::Arrived);
        assert!(matches!(actions.as_slice(), [Action::AskDraft(_)]), "{actions:?}");
    }
}
