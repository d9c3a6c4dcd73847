//! Admission control through the router: which requests start, which are refused, and the ledger.

mod behind_others;
mod coming_and_going;
mod longest_prefix;

use std::collections::VecDeque;

use overdraft_core::admit::{
    AdmitSettings, ByPriority, Mode, Priority, RETRY_AFTER_MAX, RETRY_AFTER_MIN, Tenant, Wait,
    WaitTime,
};
use overdraft_core::estimate::Kind;
use overdraft_core::fleet::{Ending, FirstToken, Probe, Scraped, Turn, WorkerId};
use overdraft_core::prefix::PrefixLimits;
use overdraft_core::route::{
    Attempted, Choice, Outcome, Placed, Prompt, Reason, Request, RouteSettings, Router, Sticky,
    Tried,
};
use overdraft_units::{BlockSize, Instant, Micros, Tokens};
use proptest::prelude::*;

const MODEL: &str = "m";
const SECOND: u64 = 1_000_000;

fn at(micros: u64) -> Instant {
    Instant::ORIGIN + Micros::new(micros)
}

fn request(prompt: u32, limit: Option<u32>, priority: Priority) -> Request<'static> {
    let block = BlockSize::new(16).expect("sixteen is not zero");
    Request {
        model: MODEL,
        prompt: Prompt::Counted { tokens: Tokens::new(prompt), chain: &[], block },
        limit,
        choices: 1,
        first_token: FirstToken::Seen,
        session: None,
        dice: 0,
        priority,
        tenant: Tenant(1),
        kind: Kind(0),
    }
}

fn scrape(use_permille: u16, capacity: u32, now: Instant) -> Scraped {
    Scraped {
        at: now,
        running: 0,
        waiting: 0,
        kv_use_permille: Some(use_permille),
        kv_capacity: Some(Tokens::new(capacity)),
        block_size: BlockSize::new(16),
        preemptions: Some(0),
    }
}

/// A router over workers that are up, with the given capacity if they report one.
struct Story {
    router: Router,
    ids: Vec<WorkerId>,
    settings: RouteSettings,
    now: Instant,
    placed: Vec<Placed>,
    sent: u64,
}

impl Story {
    fn new(workers: u64, capacity: Option<u32>, mode: Mode) -> Self {
        let mut router = Router::new(PrefixLimits::default());
        let ids: Vec<WorkerId> =
            (0..workers).map(|tag| router.join(tag).expect("there is room for three")).collect();
        for &id in &ids {
            router.probed(id, Probe::Ready(&[MODEL.to_owned()]), Instant::ORIGIN);
            if let Some(capacity) = capacity {
                router.scraped(id, scrape(0, capacity, Instant::ORIGIN));
            }
        }
        // Prompts are computed in no time here, unless a test is about that.
        let prefill_backlog = Micros::new(u64::MAX);
        let admission = AdmitSettings { mode, prefill_backlog, ..AdmitSettings::default() };
        let settings =
            RouteSettings { admission, slow_start: Micros::ZERO, ..RouteSettings::default() };
        Self { router, ids, settings, now: Instant::ORIGIN, placed: Vec::new(), sent: 0 }
    }

    fn send(&mut self, request: Request<'_>) -> Result<WorkerId, Choice> {
        let turn = Attempted { tried: &Tried::default(), turn: Turn::First };
        // Equal dice would draw alike, and no two requests have them.
        self.sent += 1;
        let request = Request { dice: self.sent, ..request };
        let placed = self.router.place(request, &self.settings, turn, self.now)?;
        let worker = placed.worker();
        self.placed.push(placed);
        Ok(worker)
    }

    /// Sends the same request until it is refused; returns how many were taken, and the refusal.
    fn fill(&mut self, request: Request<'_>) -> (usize, Choice) {
        for taken in 0..2_000 {
            if let Err(choice) = self.send(request) {
                return (taken, choice);
            }
        }
        panic!("nothing was ever refused");
    }

    fn end_one(&mut self) {
        let mut placed = self.placed.pop().expect("something is in flight");
        self.router.first_token(&mut placed, self.now);
        self.router.end(placed, Outcome::of(Ending::Answered), self.now);
    }
}

#[track_caller]
fn saturated(choice: Choice) -> (u64, u64, Micros) {
    let Choice::Saturated { asked, free, retry_after, .. } = choice else { panic!("{choice:?}") };
    assert!((RETRY_AFTER_MIN..=RETRY_AFTER_MAX).contains(&retry_after), "{retry_after}");
    (asked, free, retry_after)
}

#[test]
fn a_worker_takes_as_many_as_will_fit_at_their_peak() {
    let mut story = Story::new(1, Some(100_000), Mode::Peak);
    // Answers of exactly one token: what is held is known.
    let (taken, choice) = story.fill(request(1_000, Some(1), Priority::Priority));
    assert!((95..=98).contains(&taken), "{taken} of 98, and a bucket's seven tokens each");
    let (asked, free, _) = saturated(choice);
    assert_eq!(asked, 1_001);
    assert!(free < 5_000, "{free}");
    let decision = story.router.decision();
    assert_eq!(decision.candidates[0].reason, Reason::Saturated);
    assert!(decision.candidates[0].peak > Some(98_000));
    story.end_one();
    assert!(story.send(request(1_000, Some(1), Priority::Priority)).is_ok(), "one has ended");
}

#[test]
fn those_that_matter_less_leave_more_room() {
    let taken = |priority| {
        let mut story = Story::new(1, Some(100_000), Mode::Peak);
        story.fill(request(10, Some(4_000), priority)).0
    };
    let [flex, default, priority] = Priority::ALL.map(taken);
    assert!(flex < default && default < priority, "{flex} {default} {priority}");
    // Declared are 4,010 tokens each: 24 would fit if all were to be kept free for.
    assert!(flex > 40, "{flex}");
}

#[test]
fn a_worker_that_is_full_is_passed_over_for_one_that_is_not() {
    let mut story = Story::new(2, Some(10_000), Mode::Peak);
    let first = story.send(request(9_000, Some(1), Priority::Default)).unwrap();
    let second = story.send(request(9_000, Some(1), Priority::Default)).unwrap();
    assert_ne!(first, second);
    saturated(story.send(request(2_000, Some(1), Priority::Default)).unwrap_err());
    assert!(story.send(request(500, Some(1), Priority::Default)).is_ok());
}

#[test]
fn fewer_forecasts_are_read_where_others_wait() {
    let large = request(9_000, Some(1), Priority::Default);
    let read = |story: &Story| {
        let candidates = story.router.decision().candidates.iter();
        candidates.filter(|one| one.reason == Reason::Saturated).count()
    };
    // A reservation does not ask who waits: any worker may have room.
    for (mode, behind) in [(Mode::Peak, 6), (Mode::Reserve, 16)] {
        let mut story = Story::new(40, Some(10_000), mode);
        assert_eq!(story.fill(large).0, 40, "one each");
        assert_eq!(read(&story), 16, "nobody waits");
        let time = WaitTime::exactly(Micros::new(SECOND));
        for id in story.ids.clone() {
            story.router.wait(large, Wait::for_room(id, time), story.now).unwrap();
        }
        saturated(story.send(large).unwrap_err());
        assert_eq!(read(&story), behind, "{mode:?}");
    }
}

#[test]
fn an_idle_worker_takes_what_it_can_hold_and_what_never_fits_is_told_so() {
    let mut story = Story::new(1, Some(10_000), Mode::Peak);
    story.router.scraped(story.ids[0], scrape(990, 10_000, story.now));
    let whole = request(9_999, None, Priority::Flex);
    assert!(story.send(whole).is_ok(), "who else should use it");
    saturated(story.send(whole).unwrap_err());
    let never = request(10_001, None, Priority::Priority);
    assert!(matches!(story.send(never), Err(Choice::NoRoom { most: 10_000, .. })));
}

#[test]
fn a_worker_that_says_it_is_full_takes_nothing_that_matters_less() {
    let takes = |permille: u16, mode, age: u64| {
        let mut story = Story::new(1, Some(100_000), mode);
        story.send(request(10, Some(1), Priority::Priority)).unwrap();
        let id = story.ids[0];
        story.router.scraped(id, Scraped { running: 1, ..scrape(permille, 100_000, at(SECOND)) });
        story.now = at(SECOND + age * SECOND);
        Priority::ALL.map(|priority| story.send(request(10, Some(1), priority)).is_ok())
    };
    assert_eq!(takes(840, Mode::Threshold, 1), [true, true, true]);
    assert_eq!(takes(860, Mode::Threshold, 1), [false, true, true]);
    assert_eq!(takes(980, Mode::Threshold, 1), [false, false, true]);
    assert_eq!(takes(995, Mode::Threshold, 1), [false, false, false]);
    assert_eq!(takes(860, Mode::Peak, 1), [true, true, true], "what others hold is on the books");
    assert_eq!(takes(990, Mode::Peak, 1), [false, false, false]);
    assert_eq!(takes(980, Mode::Peak, 6), [true, true, true], "its word is too old");
    assert_eq!(takes(1_000, Mode::Off, 1), [true, true, true]);
}

#[test]
fn a_reservation_is_of_what_was_declared_and_a_static_limit_counts() {
    let mut story = Story::new(1, Some(100_000), Mode::Reserve);
    let (taken, choice) = story.fill(request(1_000, Some(4_000), Priority::Default));
    assert_eq!(taken, 19, "98,000 in 5,000s");
    saturated(choice);
    let on = story.router.fleet().worker(story.ids[0]);
    assert_eq!(on.overcommit_permille(), Some(950));
    let mut story = Story::new(2, None, Mode::Static(7));
    assert_eq!(story.fill(request(1_000, None, Priority::Default)).0, 14);
}

#[test]
fn where_nobody_says_how_much_there_is_a_count_may_bound_it() {
    let mut story = Story::new(1, None, Mode::Peak);
    story.settings.admission.requests_max = Some(5);
    assert_eq!(story.fill(request(100, None, Priority::Default)).0, 5);
    let mut story = Story::new(1, None, Mode::Peak);
    story.now = Instant::ORIGIN + Micros::new(5 * SECOND);
    for _ in 0..100 {
        story.send(request(100, None, Priority::Default)).unwrap();
    }
}

#[test]
fn prompts_wait_here_only_where_a_greater_priority_would_wait_for_them_there() {
    let mut story = Story::new(1, None, Mode::Peak);
    story.now = Instant::ORIGIN + Micros::new(5 * SECOND);
    story.settings.admission.prefill_backlog = Micros::new(SECOND);
    for _ in 0..100 {
        story.send(request(1_000, None, Priority::Default)).expect("nobody else is there");
    }
    while !story.placed.is_empty() {
        story.end_one();
    }
    story.send(request(1_000, None, Priority::Priority)).unwrap();
    // 4,000 tokens a second before anything was seen.
    let (taken, choice) = story.fill(request(1_000, None, Priority::Default));
    assert_eq!(taken, 4, "the fourth comes when four are a second's work, and makes it more");
    saturated(choice);
    assert!(story.send(request(1_000, None, Priority::Priority)).is_ok());
    let mut idle = Story::new(1, None, Mode::Peak);
    idle.settings.admission.prefill_backlog = Micros::new(1);
    assert!(idle.send(request(100_000, None, Priority::Flex)).is_ok(), "it has nothing else to do");
}

/// Prompts of 1,000 tokens, ever so many, to a worker that computes 40,000 tokens a second and whose answers come
/// whole a second later; it is asked for its word five times a second. Prompts it got in the first of twenty seconds
/// and in the last ten, and the most that waited there then.
fn whole_answers_only() -> (usize, usize, usize) {
    const COMPUTED_EACH: u64 = SECOND / 40;
    let mut story = Story::new(1, Some(10_000_000), Mode::Peak);
    // A second of them may wait there, for somebody who matters more is there.
    story.settings.admission.prefill_backlog = Micros::new(SECOND);
    let asked = request(1_000, Some(10), Priority::Default);
    let asked = Request { first_token: FirstToken::Unseen, ..asked };
    // When each prompt will have been computed, the last one at the back.
    let mut computed = VecDeque::new();
    let (mut sent, mut waiting_max) = ([0; 20], 0);
    for tick in 0..2000_u64 {
        story.now = at(tick * SECOND / 100);
        let now = story.now;
        while computed.front().is_some_and(|&when| when + Micros::new(SECOND) <= now) {
            computed.pop_front();
            let completion = Some(Tokens::new(10));
            let outcome = Outcome { completion, ..Outcome::of(Ending::Answered) };
            story.router.end(story.placed.remove(0), outcome, now);
        }
        let waiting = computed.iter().filter(|&&when| now < when).count();
        if tick % 20 == 0 {
            // One is being computed.
            let waiting = u32::try_from(waiting.saturating_sub(1)).expect("few");
            let word = Scraped { waiting, ..scrape(0, 10_000_000, now) };
            story.router.scraped(story.ids[0], word);
        }
        let second = usize::try_from(tick / 100).expect("few");
        if tick % 500 == 0 {
            story.send(request(1, Some(1), Priority::Priority)).expect("it has a greater claim");
            story.end_one();
        }
        while story.send(asked).is_ok() {
            let begun = computed.back().map_or(now, |&last| now.max(last));
            computed.push_back(begun + Micros::new(COMPUTED_EACH));
            sent[second] += 1;
        }
        if second >= 10 {
            waiting_max = waiting_max.max(waiting);
        }
    }
    (sent[0], sent[10..].iter().sum(), waiting_max)
}

#[test]
fn whose_answers_all_come_whole_is_kept_as_busy_as_it_can_be() {
    let (first, late, waiting) = whole_answers_only();
    assert!(first < 40, "nobody knows yet how fast it is: {first}");
    assert!((360..=440).contains(&late), "{late} of the 400 that it computes");
    assert!(waiting <= 40, "{waiting} wait there, and that is more than a second of them");
}

#[test]
fn preemptions_make_a_worker_take_less() {
    let taken = |preemptions: u64| {
        let mut story = Story::new(1, Some(100_000), Mode::Peak);
        let word = Scraped { preemptions: Some(preemptions), ..scrape(0, 100_000, story.now) };
        story.router.scraped(story.ids[0], word);
        story.fill(request(10, Some(4_000), Priority::Default)).0
    };
    let (calm, shaken) = (taken(0), taken(8));
    assert!(shaken < calm, "{shaken} {calm}");
    let worker = Story::new(1, Some(1_000), Mode::Peak);
    assert_eq!(worker.router.fleet().worker(worker.ids[0]).caution_milli(), 0);
}

#[test]
fn a_worker_that_dies_full_takes_less_when_it_is_back() {
    let caution_after_death_with = |requests: usize| {
        let mut story = Story::new(1, Some(100_000), Mode::Peak);
        for _ in 0..requests {
            story.send(request(1_000, Some(1), Priority::Default)).unwrap();
        }
        story.router.probed(story.ids[0], Probe::Unreachable, story.now);
        while !story.placed.is_empty() {
            story.end_one();
        }
        story.router.probed(story.ids[0], Probe::Ready(&[MODEL.to_owned()]), story.now);
        story.router.scraped(story.ids[0], scrape(0, 100_000, story.now));
        story.router.fleet().worker(story.ids[0]).caution_milli()
    };
    assert_eq!(caution_after_death_with(80), 1_000);
    assert_eq!(caution_after_death_with(20), 0, "it did not die of that");
}

#[test]
fn what_has_grown_longer_than_thought_counts_for_more() {
    let mut story = Story::new(1, Some(50_000), Mode::Peak);
    for _ in 0..10 {
        story.send(request(100, None, Priority::Default)).unwrap();
    }
    let peak = |story: &Story| story.router.fleet().worker(story.ids[0]).predicted_peak().mean;
    let before = peak(&story);
    for placed in &mut story.placed {
        story.router.progress(placed, Tokens::new(3_000), story.now);
    }
    assert!(peak(&story) > before + 20_000, "{before} {}", peak(&story));
    assert_eq!(story.router.fleet().worker(story.ids[0]).expected_use(), 10 * 3_100);
    while !story.placed.is_empty() {
        story.end_one();
    }
    assert_eq!(peak(&story), 0);
}

#[test]
fn what_answers_were_like_is_what_answers_are_taken_to_be_like() {
    let taken = |length: u32| {
        let mut story = Story::new(1, Some(100_000), Mode::Peak);
        for _ in 0..200 {
            story.send(request(100, Some(8_000), Priority::Default)).unwrap();
            let placed = story.placed.pop().unwrap();
            let completion = Some(Tokens::new(length));
            let outcome = Outcome { completion, ..Outcome::of(Ending::Answered) };
            story.router.end(placed, outcome, story.now);
        }
        story.fill(request(100, Some(8_000), Priority::Default)).0
    };
    let (short, long) = (taken(50), taken(4_000));
    assert!(short > 400 && long < 30, "{short} {long}");
}

#[derive(Clone, Debug)]
enum Step {
    Send { prompt: u32, limit: Option<u32>, choices: u32, priority: usize, whole: bool },
    FirstToken(usize),
    Progress(usize, u32),
    End(usize, Ending, Option<u32>),
    Scrape { worker: usize, permille: u16, waiting: u32, preemptions: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let ending = prop_oneof![
        3 => Just(Ending::Answered),
        1 => Just(Ending::Abandoned),
    ];
    let limit = prop::option::of(1..5_000_u32);
    prop_oneof![
        5 => (0..9_000_u32, limit, 1..4_u32, 0..3_usize, any::<bool>()).prop_map(
            |(prompt, limit, choices, priority, whole)| {
                Step::Send { prompt, limit, choices, priority, whole }
            }
        ),
        2 => any::<usize>().prop_map(Step::FirstToken),
        4 => (any::<usize>(), 0..6_000_u32).prop_map(|(which, tokens)| Step::Progress(which, tokens)),
        3 => (any::<usize>(), ending, prop::option::of(0..9_000_u32))
            .prop_map(|(which, ending, tokens)| Step::End(which, ending, tokens)),
        2 => (0..3_usize, 0..=1_000_u16, 0..5_u32, 0..50_u64).prop_map(
            |(worker, permille, waiting, preemptions)| {
                Step::Scrape { worker, permille, waiting, preemptions }
            }
        ),
    ]
}

impl Story {
    fn take(&mut self, step: &Step) {
        self.now = self.now + Micros::new(130_000);
        let count = self.placed.len();
        match *step {
            Step::Send { prompt, limit, choices, priority, whole } => {
                let first_token = if whole { FirstToken::Unseen } else { FirstToken::Seen };
                let ordinary = request(prompt, limit, Priority::ALL[priority]);
                match self.send(Request { choices, first_token, ..ordinary }) {
                    Ok(_) | Err(Choice::NoRoom { .. }) => {}
                    Err(choice) => {
                        saturated(choice);
                    }
                }
            }
            Step::FirstToken(which) if count > 0 => {
                self.router.first_token(&mut self.placed[which % count], self.now);
            }
            Step::Progress(which, tokens) if count > 0 => {
                let placed = &mut self.placed[which % count];
                self.router.progress(placed, Tokens::new(tokens), self.now);
            }
            Step::End(which, ending, tokens) if count > 0 => {
                let placed = self.placed.swap_remove(which % count);
                let completion = tokens.map(Tokens::new);
                let outcome = Outcome { completion, ..Outcome::of(ending) };
                self.router.end(placed, outcome, self.now);
            }
            Step::Scrape { worker, permille, waiting, preemptions } => {
                let word = scrape(permille, 40_000, self.now);
                let preemptions = Some(preemptions);
                let word = Scraped { waiting, preemptions, ..word };
                self.router.scraped(self.ids[worker], word);
            }
            _ => {}
        }
    }
}

proptest! {
    #[test]
    fn whatever_happens_ends_give_back_all(
        steps in prop::collection::vec(step(), 1..250),
        mode in prop::sample::select(
            &[Mode::Peak, Mode::Threshold, Mode::Reserve, Mode::Static(9), Mode::Off][..],
        ),
    ) {
        let mut story = Story::new(3, Some(40_000), mode);
        story.settings.admission.prefill_backlog = Micros::new(3 * SECOND);
        for step in &steps {
            story.take(step);
        }
        while !story.placed.is_empty() {
            story.end_one();
        }
        for &id in &story.ids {
            // What nobody of ours holds is nobody's, as soon as the worker says so often enough.
            for _ in 0..60 {
                story.router.scraped(id, scrape(0, 40_000, story.now));
            }
            let worker = story.router.fleet().worker(id);
            prop_assert!(worker.expected_use() < 4);
            prop_assert_eq!(worker.predicted_peak().deviation, 0);
            prop_assert_eq!(worker.overcommit_permille(), Some(0));
            prop_assert_eq!(worker.requests_all(), 0);
        }
        story.settings.admission.mode = Mode::Peak;
        story.settings.admission.kv_threshold_permille =
            ByPriority { flex: 0, default: 0, priority: 0 };
        prop_assert!(story.send(request(39_000, Some(1), Priority::Flex)).is_ok());
    }
}

#[test]
fn who_waits_for_a_worker_that_drains_goes_elsewhere() {
    let mut story = Story::new(2, Some(10_000), Mode::Peak);
    let asked = request(9_000, Some(1), Priority::Default);
    let first = story.send(asked).unwrap();
    let second = story.send(asked).unwrap();
    let Err(Choice::Saturated { at, .. }) = story.send(asked) else { panic!("both are full") };
    let waiting = Request { dice: 99, ..asked };
    let wait = Wait::for_room(at, WaitTime::exactly(Micros::new(SECOND)));
    let ticket = story.router.wait(waiting, wait, story.now).unwrap();
    while let Some(called) = story.router.call(story.now) {
        let placed = story.router.place_called(called, waiting, &story.settings, story.now);
        assert!(placed.is_err(), "there is no room");
    }
    story.router.drain(at);
    assert_eq!(story.router.call(story.now), Some(ticket), "it is asked anew");
    let placed = story.router.place_called(ticket, waiting, &story.settings, story.now);
    let Err(Choice::Saturated { at: other, .. }) = placed else { panic!("{placed:?}") };
    assert!(other != at && [first, second].contains(&other), "and waits for the other");
    assert!(story.router.leave_queue(ticket));
}

#[test]
fn a_threshold_holds_where_only_the_share_in_use_is_told() {
    let mut story = Story::new(1, None, Mode::Threshold);
    let told = |permille| Scraped {
        kv_capacity: None,
        kv_use_permille: Some(permille),
        ..scrape(1, 1, Instant::ORIGIN)
    };
    story.router.scraped(story.ids[0], told(960));
    assert!(story.send(request(10, Some(1), Priority::Default)).is_ok());
    // That somebody asks at a greater priority changes no threshold.
    assert!(story.send(request(100_000, Some(1), Priority::Priority)).is_ok());
    assert!(story.send(request(10, Some(1), Priority::Default)).is_ok());
    story.router.scraped(story.ids[0], told(999));
    assert!(story.send(request(10, Some(1), Priority::Default)).is_err());
}

#[test]
fn a_session_waits_for_its_worker_where_all_are_equally_full() {
    let mut story = Story::new(2, Some(10_000), Mode::Peak);
    story.settings.sticky = Some(Sticky::default());
    let of =
        |session| Request { session: Some(session), ..request(9_000, Some(1), Priority::Default) };
    let homes: Vec<WorkerId> = (0..16)
        .map(|session| {
            let told =
                story.router.explain(of(session), &story.settings, &Tried::default(), story.now);
            told.chosen().expect("there is room").worker
        })
        .collect();
    story.send(request(9_000, Some(1), Priority::Default)).expect("there is room");
    story.send(request(9_000, Some(1), Priority::Default)).expect("there is room");
    for (session, home) in (0..16).zip(homes) {
        let Err(Choice::Saturated { at, .. }) = story.send(of(session)) else {
            panic!("both are full")
        };
        assert_eq!(at, home, "session {session}");
    }
}

#[test]
fn requests_are_held_while_no_worker_is_up_and_start_in_their_order() {
    let mut story = Story::new(0, None, Mode::Peak);
    let ask = request(1_000, Some(1), Priority::Default);
    assert_eq!(story.send(ask), Err(Choice::UnknownModel));
    let mut held: VecDeque<_> = (0..50)
        .map(|_| {
            story.router.hold(ask, Micros::new(60 * SECOND), story.now).expect("there is room")
        })
        .collect();
    let ticket = story.router.call(story.now).expect("the first is tried");
    let choice = story.router.place_called(ticket, ask, &story.settings, story.now);
    assert_eq!(choice.err(), Some(Choice::UnknownModel));
    assert_eq!(story.router.call(story.now), None, "the others wait for it");
    // A worker comes that takes ten at once.
    story.now = at(20 * SECOND);
    let worker = story.router.join(1).expect("there is room");
    story.router.probed(worker, Probe::Ready(&[MODEL.to_owned()]), story.now);
    story.router.scraped(worker, scrape(0, 12_000, story.now));
    let mut rounds = 0;
    while !held.is_empty() {
        while let Some(ticket) = story.router.call(story.now) {
            let placed = story.router.place_called(ticket, ask, &story.settings, story.now);
            match placed {
                Ok(placed) => {
                    assert_eq!(held.pop_front(), Some(ticket), "the oldest first");
                    story.placed.push(placed);
                }
                Err(choice) => assert!(matches!(choice, Choice::Saturated { .. }), "{choice:?}"),
            }
        }
        assert!(!story.placed.is_empty(), "{} are never started", held.len());
        rounds += 1;
        while !story.placed.is_empty() {
            story.end_one();
        }
    }
    assert!(1 < rounds, "they did not all fit at once");
    assert!(story.router.queue().is_empty());
}
