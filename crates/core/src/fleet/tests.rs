//! What a fleet learns, one report after the other, told as text.

mod ups_and_downs;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;

use overdraft_units::{Instant, Micros, Tokens};

use super::*;
use crate::admit::Prospect;
use crate::estimate::Lengths;

const SOON: Micros = Micros::new(1_000);

/// Half prompt, half answer.
fn demand(tokens: u32) -> Demand {
    let completion = Tokens::new(tokens / 2);
    Demand { prompt: Tokens::new(tokens - tokens / 2), completion, ..Demand::default() }
}

/// A fleet of one worker, the clock, and the attempt that is in flight, if any.
struct Story {
    fleet: Fleet,
    worker: WorkerId,
    now: Instant,
}

impl Story {
    fn new() -> Self {
        let mut fleet = Fleet::new();
        let worker = fleet.join(1).unwrap();
        Self { fleet, worker, now: Instant::ORIGIN }
    }

    fn probe(&mut self, seen: &str) -> Option<Change> {
        self.now = self.now + SOON;
        let models = ["m".to_string()];
        let probe = match seen {
            "ready" => Probe::Ready(&models),
            "unready" => Probe::Unready,
            "silent" => Probe::Silent,
            "refused" => Probe::Unreachable,
            "not reached" => Probe::NoConnection,
            other => panic!("`{other}` is not a probe"),
        };
        self.fleet.probed(self.worker, probe, self.now)
    }

    fn attempt(&mut self, ending: Ending) -> Option<Change> {
        self.now = self.now + SOON;
        let attempt = self.fleet.start(self.worker, demand(1), Turn::First, self.now);
        self.fleet.end(attempt, ending, self.now)
    }

    /// Feeds a report and compares the health that follows.
    #[track_caller]
    fn check(&mut self, report: &str, expected: &str) {
        match report {
            "answered" => self.attempt(Ending::Answered),
            "broken" => self.attempt(Ending::Failed(Failure::Broken)),
            "full" => self.attempt(Ending::Failed(Failure::Saturated)),
            "connection refused" => self.attempt(Ending::Failed(Failure::Unreachable)),
            "no connection" => self.attempt(Ending::Failed(Failure::NoConnection)),
            "could not try" => self.attempt(Ending::Failed(Failure::Local)),
            "client left" => self.attempt(Ending::Abandoned),
            probe => self.probe(probe),
        };
        let worker = self.fleet.worker(self.worker);
        let seen = match worker.health() {
            Health::Unproven => "unproven".to_string(),
            Health::Up { .. } if !worker.breaker().is_closed() => "open".to_string(),
            Health::Up { missed } => format!("up {missed}"),
            Health::Failing { cause, .. } => format!("{cause:?}").to_lowercase(),
        };
        assert_eq!(seen, expected, "after `{report}`");
    }
}

#[test]
fn failed_attempts_must_repeat_and_an_answer_forgives_them() {
    let mut story = Story::new();
    story.check("ready", "up 0");
    for _ in 0..4 {
        story.check("broken", "up 0");
    }
    story.check("answered", "up 0");
    for _ in 0..4 {
        story.check("broken", "up 0");
    }
    story.check("broken", "open");
}

#[test]
fn a_full_worker_and_a_client_that_left_are_not_held_against_it() {
    let mut story = Story::new();
    story.check("ready", "up 0");
    for _ in 0..10 {
        story.check("full", "up 0");
        story.check("client left", "up 0");
    }
}

#[test]
fn a_good_probe_does_not_close_what_failed_attempts_opened() {
    let mut story = Story::new();
    story.check("ready", "up 0");
    for _ in 0..5 {
        story.attempt(Ending::Failed(Failure::Faulty));
    }
    for _ in 0..10 {
        story.check("ready", "open");
    }
    // Its time is over: the next request finds out.
    story.now = story.now + Micros::new(12_000_001);
    story.check("ready", "open");
    story.check("answered", "up 0");
}

#[test]
fn a_worker_that_was_started_anew_begins_with_a_closed_breaker() {
    let mut story = Story::new();
    story.check("ready", "up 0");
    for _ in 0..5 {
        story.attempt(Ending::Failed(Failure::Broken));
    }
    story.check("refused", "unreachable");
    story.check("ready", "up 0");
}

#[test]
fn a_trials_first_token_closes_the_breaker() {
    let mut story = Story::new();
    story.probe("ready");
    for _ in 0..5 {
        story.attempt(Ending::Failed(Failure::Broken));
    }
    story.now = story.now + Micros::new(12_000_001);
    let mut trial = story.fleet.start(story.worker, demand(1), Turn::First, story.now);
    assert!(trial.is_trial());
    let change = story.fleet.first_token(&mut trial, story.now);
    assert_eq!(change, Some(Change::Closed(story.worker)));
    assert_eq!(story.fleet.end(trial, Ending::Answered, story.now), None);
}

#[test]
fn no_trial_is_asked_for_where_no_request_may_go() {
    let mut story = Story::new();
    story.probe("ready");
    for _ in 0..5 {
        story.attempt(Ending::Failed(Failure::Broken));
    }
    story.now = story.now + Micros::new(12_000_001);
    let due = |story: &Story| story.fleet.probes_due(story.now).count();
    assert_eq!(due(&story), 1);
    story.fleet.drain(story.worker);
    assert_eq!(due(&story), 0, "it drains");
    story.fleet.rejoin(story.worker);
    story.probe("unready");
    assert_eq!(due(&story), 0, "it is down");
    story.probe("ready");
    assert_eq!(due(&story), 1);
}

#[test]
fn of_three_workers_one_may_be_out() {
    let mut fleet = Fleet::new();
    let ids: Vec<WorkerId> = (0..3).filter_map(|tag| fleet.join(tag)).collect();
    for &id in &ids {
        fleet.probed(id, Probe::Ready(&["m".to_string()]), Instant::ORIGIN);
    }
    let mut opened = Vec::new();
    for &id in &ids {
        for _ in 0..10 {
            let attempt = fleet.start(id, demand(1), Turn::First, Instant::ORIGIN);
            opened.extend(fleet.end(attempt, Ending::Failed(Failure::Faulty), Instant::ORIGIN));
        }
    }
    // The others stay in, behind whoever serves.
    let behind = |id: &WorkerId| Change::Refuses(*id, RefusalKind::Failing);
    assert_eq!(opened, [Change::Opened(ids[0]), behind(&ids[1]), behind(&ids[2])]);
}

#[test]
fn of_a_model_that_another_answers_for_all_may_be_out() {
    let mut fleet = Fleet::new();
    fleet.set_spare(["draft".to_string()]);
    let ids: Vec<WorkerId> = (0..3).filter_map(|tag| fleet.join(tag)).collect();
    for &id in &ids {
        fleet.probed(id, Probe::Ready(&["draft".to_string()]), Instant::ORIGIN);
        for _ in 0..10 {
            let attempt = fleet.start(id, demand(1), Turn::First, Instant::ORIGIN);
            fleet.end(attempt, Ending::Failed(Failure::Faulty), Instant::ORIGIN);
        }
    }
    assert!(ids.iter().all(|&id| !fleet.worker(id).breaker().is_closed()));
}

#[test]
fn a_worker_that_is_down_still_counts_as_serving_its_models() {
    let mut story = Story::new();
    story.probe("ready");
    story.probe("refused");
    assert_eq!(story.fleet.serving("m"), Some(&[story.worker][..]));
    assert_eq!(story.fleet.serving("unheard-of"), None);
}

#[test]
fn a_name_listed_twice_and_a_list_without_end_are_bounded() {
    let mut story = Story::new();
    let mut listed: Vec<String> = (0..2 * WORKER_MODELS_MAX).map(|i| format!("m{i:04}")).collect();
    listed[1] = listed[0].clone();
    story.fleet.probed(story.worker, Probe::Ready(&listed), story.now);
    assert_eq!(story.fleet.models().count(), WORKER_MODELS_MAX - 1);
    assert_eq!(story.fleet.serving("m0000"), Some(&[story.worker][..]));
}

#[test]
fn a_fleet_has_room_for_so_many_and_no_more() {
    let mut fleet = Fleet::new();
    let joined = (0..WORKERS_MAX + 5).filter_map(|_| fleet.join(1)).count();
    assert_eq!(joined, WORKERS_MAX);
    assert_eq!(fleet.workers().count(), WORKERS_MAX);
}

#[test]
fn a_flapping_worker_keeps_its_ledger() {
    let mut story = Story::new();
    story.probe("ready");
    let kept = vec![
        story.fleet.start(story.worker, demand(10), Turn::First, story.now),
        story.fleet.start(story.worker, demand(20), Turn::Again, story.now),
    ];
    story.probe("refused");
    story.probe("ready");
    let worker = story.fleet.worker(story.worker);
    assert_eq!((worker.requests(), worker.tokens()), (2, 30));
    for attempt in kept {
        story.fleet.end(attempt, Ending::Answered, story.now);
    }
    let worker = story.fleet.worker(story.worker);
    assert_eq!((worker.requests(), worker.tokens(), story.fleet.retrying()), (0, 0, 0));
}

fn scrape(running: u32, waiting: u32, use_permille: u16, at: Instant) -> Scraped {
    Scraped {
        at,
        running,
        waiting,
        kv_use_permille: Some(use_permille),
        kv_capacity: Some(Tokens::new(1_000)),
        block_size: None,
        preemptions: None,
    }
}

#[test]
fn between_scrapes_what_was_sent_counts_at_once_and_nothing_twice() {
    let mut story = Story::new();
    story.probe("ready");
    story.fleet.scraped(story.worker, scrape(3, 0, 200, story.now), &Lengths::new());
    let on = story.fleet.worker(story.worker);
    assert_eq!((on.requests_all(), on.kv_used()), (3, Some(200)), "three strangers");
    let mine = story.fleet.start(story.worker, demand(300), Turn::First, story.now);
    let on = story.fleet.worker(story.worker);
    assert_eq!((on.requests_all(), on.kv_used()), (4, Some(350)), "my prompt too");
    // The next word counts mine too: now it is one of the four it tells of.
    story.fleet.scraped(story.worker, scrape(4, 0, 400, story.now + SOON), &Lengths::new());
    let on = story.fleet.worker(story.worker);
    assert_eq!((on.requests_all(), on.kv_used()), (4, Some(400)));
    story.fleet.end(mine, Ending::Answered, story.now + SOON);
    let on = story.fleet.worker(story.worker);
    assert_eq!((on.requests_all(), on.kv_used()), (3, Some(250)), "mine is over at once");
}

#[test]
fn answers_of_one_request_are_no_strangers() {
    let mut story = Story::new();
    story.probe("ready");
    let prospect = Prospect { answers: 8, ..Prospect::default() };
    let eight = Demand { prospect, ..demand(300) };
    let mine = story.fleet.start(story.worker, eight, Turn::First, story.now);
    story.fleet.scraped(story.worker, scrape(8, 0, 400, story.now), &Lengths::new());
    let on = story.fleet.worker(story.worker);
    assert_eq!((on.requests_all(), on.sequences_all()), (1, 8));
    story.fleet.end(mine, Ending::Answered, story.now);
    let on = story.fleet.worker(story.worker);
    assert_eq!((on.requests_all(), on.sequences_all()), (0, 0), "it is idle");
}

#[test]
fn a_page_without_capacity_keeps_the_one_before() {
    let mut story = Story::new();
    story.fleet.scraped(story.worker, scrape(0, 0, 0, story.now), &Lengths::new());
    let partial = Scraped { kv_capacity: None, ..scrape(1, 0, 100, story.now + SOON) };
    story.fleet.scraped(story.worker, partial, &Lengths::new());
    let on = story.fleet.worker(story.worker);
    assert_eq!(on.kv_capacity(), Some(Tokens::new(1_000)));
    assert_eq!(on.staleness(story.now + SOON + SOON), Some(SOON));
}

#[test]
fn a_first_token_takes_a_prompt_off_the_queue_once() {
    let mut story = Story::new();
    let mut first = story.fleet.start(story.worker, demand(200), Turn::First, story.now);
    let second = story.fleet.start(story.worker, demand(400), Turn::First, story.now);
    assert_eq!(story.fleet.worker(story.worker).booked().prefill_tokens, 300);
    story.now = story.now + Micros::new(100_000);
    story.fleet.first_token(&mut first, story.now);
    story.fleet.first_token(&mut first, story.now);
    assert_eq!(story.fleet.worker(story.worker).booked().prefill_tokens, 200);
    // A hundred tokens in a tenth of a second.
    let seen = story.fleet.worker(story.worker).prefill_rate().tokens_per_second();
    // Of the time a step of 20 ms was under way.
    assert_eq!(seen, Some(1_250));
    story.fleet.end(first, Ending::Answered, story.now);
    story.fleet.end(second, Ending::Abandoned, story.now);
    assert_eq!(story.fleet.worker(story.worker).booked(), Booked::default());
}

#[test]
fn prompts_whose_first_token_nobody_sees_are_worked_off_at_the_pace() {
    let mut story = Story::new();
    let unseen = Demand { first_token: FirstToken::Unseen, ..demand(8_000) };
    let attempt = story.fleet.start(story.worker, unseen, Turn::First, story.now);
    let pace = story.fleet.prefill_rate().pace();
    let on = story.fleet.worker(story.worker);
    assert_eq!(on.queued(pace, story.now), 4_000);
    // 4,000 tokens a second before anything was seen.
    assert_eq!(on.queued(pace, story.now + Micros::new(500_000)), 2_000);
    assert_eq!(on.queued(pace, story.now + Micros::new(2_000_000)), 0);
    let other = story.fleet.start(story.worker, unseen, Turn::First, story.now);
    // Whose answer has come, has been computed, however fast that was.
    story.fleet.end(attempt, Ending::Answered, story.now);
    assert_eq!(story.fleet.worker(story.worker).queued(pace, story.now), 4_000);
    story.fleet.end(other, Ending::Abandoned, story.now);
    assert_eq!(story.fleet.worker(story.worker).queued(pace, story.now), 0);
}

#[test]
fn what_a_worker_got_before_its_last_word_is_under_way_where_it_says_that_nobody_waits() {
    let mut story = Story::new();
    let unseen = Demand { first_token: FirstToken::Unseen, ..demand(8_000) };
    let first = story.fleet.start(story.worker, unseen, Turn::First, story.now);
    let pace = story.fleet.prefill_rate().pace();
    let queued_after = |story: &mut Story, waiting| {
        story.now = story.now + SOON;
        let word = scrape(1, waiting, 100, story.now);
        story.fleet.scraped(story.worker, word, &Lengths::new());
        story.fleet.worker(story.worker).queued(pace, story.now)
    };
    // Perhaps it was on its way when the worker spoke.
    assert_eq!(queued_after(&mut story, 0), 3_996);
    assert_eq!(queued_after(&mut story, 1), 3_992);
    assert_eq!(queued_after(&mut story, 0), 0);
    let second = story.fleet.start(story.worker, unseen, Turn::First, story.now);
    assert_eq!(queued_after(&mut story, 0), 3_996);
    assert_eq!(queued_after(&mut story, 0), 0);
    for attempt in [first, second] {
        story.fleet.end(attempt, Ending::Answered, story.now);
    }
}

/// Answers that come whole, one of them always under way beside the one that ends: so many, one each `millis`, to
/// prompts of 4,000 tokens. What is believed of the pace then, in tokens a second.
fn pace_after(answers: u32, millis: u64, waiting: u32) -> Option<u64> {
    let mut story = Story::new();
    let unseen = Demand { first_token: FirstToken::Unseen, ..demand(8_000) };
    let mut under_way = story.fleet.start(story.worker, unseen, Turn::First, story.now);
    for _ in 0..answers {
        story.now = story.now + Micros::new(millis * 1_000);
        story.fleet.scraped(story.worker, scrape(2, waiting, 100, story.now), &Lengths::new());
        let next = story.fleet.start(story.worker, unseen, Turn::First, story.now);
        let done = core::mem::replace(&mut under_way, next);
        story.fleet.end(done, Ending::Answered, story.now);
        story.fleet.computed(story.worker, 4_000, story.now);
    }
    story.fleet.end(under_way, Ending::Abandoned, story.now);
    story.fleet.worker(story.worker).prefill_rate().tokens_per_second()
}

#[test]
fn a_worker_is_at_least_as_fast_as_answers_come_that_come_whole() {
    // One each 100 ms is 40,000 a second, of which the first of five may have been computed before.
    let seen = pace_after(41, 100, 0).unwrap();
    assert!((30_000..=40_000).contains(&seen), "{seen} tokens a second");
    // One each four seconds is slower than believed: it may have generated for all that time.
    assert_eq!(pace_after(41, 4_000, 0), None);
    // Not where requests wait for it.
    let seen = pace_after(41, 4_000, 3).unwrap();
    assert!((750..=1_000).contains(&seen), "{seen} tokens a second");
}

#[test]
fn of_a_crowd_the_first_answer_does_not_say_that_a_worker_is_slow() {
    let mut story = Story::new();
    let unseen = Demand { first_token: FirstToken::Unseen, ..demand(8_000) };
    let start = |_| story.fleet.start(story.worker, unseen, Turn::First, story.now);
    let mut crowd: Vec<_> = (0..16).map(start).collect();
    let speed = |story: &Story| {
        let rate = story.fleet.worker(story.worker).prefill_rate();
        rate.tokens_per_second()
    };
    let mut answer = |story: &mut Story, after: u64| {
        story.now = story.now + Micros::new(after);
        story.fleet.scraped(story.worker, scrape(8, 8, 100, story.now), &Lengths::new());
        story.fleet.end(crowd.pop().unwrap(), Ending::Answered, story.now);
        story.fleet.computed(story.worker, 4_000, story.now);
    };
    // It has computed others meanwhile, and generated for all of them.
    answer(&mut story, 8_000_000);
    assert_eq!(speed(&story), None);
    for _ in 1..16 {
        answer(&mut story, 100_000);
    }
    assert_eq!(speed(&story), None, "nor do those that end all at once say that it is quick");
}

#[test]
fn a_prompt_that_was_begun_counts_for_what_is_left_of_it() {
    let mut story = Story::new();
    let mut first = story.fleet.start(story.worker, demand(8_000), Turn::First, story.now);
    let second = story.fleet.start(story.worker, demand(8_000), Turn::First, story.now);
    // 4,000 tokens a second before anything was seen.
    let pace = story.fleet.prefill_rate().pace();
    let left = |story: &Story, later: u64| {
        let worker = story.fleet.worker(story.worker);
        worker.queued(pace, story.now + Micros::new(later))
    };
    assert_eq!(left(&story, 0), 8_000);
    assert_eq!(left(&story, 500_000), 6_000);
    // However long it takes: the first would have been told of.
    assert_eq!(left(&story, 60_000_000), 4_000);
    story.now = story.now + Micros::new(2_000_000);
    story.fleet.first_token(&mut first, story.now);
    assert_eq!(left(&story, 0), 4_000, "the second has just begun");
    assert_eq!(left(&story, 500_000), 2_000);
    story.fleet.end(second, Ending::Abandoned, story.now);
    assert_eq!(left(&story, 500_000), 0);
    story.fleet.end(first, Ending::Answered, story.now);
}

#[test]
fn a_place_is_given_away_only_when_nothing_is_in_flight_on_it() {
    let mut story = Story::new();
    story.probe("ready");
    let attempt = story.fleet.start(story.worker, demand(2), Turn::First, story.now);
    story.fleet.leave(story.worker);
    assert!(!story.fleet.is_member(story.worker));
    assert_eq!(story.fleet.serving("m"), None, "nobody is asked who left");
    // Fresh places are given out first.
    let others = (0..).map_while(|tag| story.fleet.join(tag)).count();
    assert_eq!(others, WORKERS_MAX - 1, "its place is still taken");
    story.fleet.end(attempt, Ending::Answered, story.now);
    assert_eq!(story.fleet.join(3), Some(story.worker));
    assert_eq!(story.fleet.worker(story.worker).health(), Health::Unproven);
}

#[test]
fn of_two_witnesses_of_others_load_the_one_who_says_more_is_believed() {
    let mut story = Story::new();
    story.probe("ready");
    story.fleet.scraped(story.worker, scrape(3, 0, 200, story.now), &Lengths::new());
    let on = |story: &Story| {
        let on = story.fleet.worker(story.worker);
        (on.requests_all(), on.kv_used())
    };
    story.fleet.others(story.worker, Share { requests: 5, prompt_tokens: 700, tokens: 900 });
    assert_eq!(on(&story), (5, Some(700)));
    story.fleet.others(story.worker, Share { requests: 1, prompt_tokens: 10, tokens: 20 });
    assert_eq!(on(&story), (3, Some(200)));
}
