//! What a worker's refusals come to, told as text.

use alloc::format;
use alloc::string::String;

use super::*;

/// One worker's refusals and the clock, in milliseconds.
struct Story {
    refusals: Refusals,
    now: Instant,
    /// When what ends next was begun.
    began: Instant,
}

impl Story {
    fn new() -> Self {
        let now = Instant::ORIGIN + Micros::new(1_000_000);
        Self { refusals: Refusals::new(), now, began: now }
    }

    fn end(&mut self, ending: Ending) {
        self.refusals.ended(ending, self.began, self.now);
    }

    /// Does what `step` says and compares what a request that comes then is told.
    #[track_caller]
    fn check(&mut self, step: &str, expected: &str) {
        let (word, number) = step.split_once(' ').unwrap_or((step, "0"));
        let millis = Micros::new(number.parse::<u64>().unwrap() * 1_000);
        match word {
            "wait" => self.now = self.now + millis,
            "begin" => {
                self.refusals.begin(self.now);
                self.began = self.now;
            }
            "told" => self.refusals.asked_to_wait(millis),
            "full" => self.end(Ending::Failed(Failure::Saturated)),
            "denied" => self.end(Ending::Failed(Failure::Misconfigured)),
            "disputed" => self.end(Ending::Failed(Failure::Disputed)),
            "served" => self.end(Ending::Answered),
            "declined" => self.end(Ending::Declined),
            "blamed" => {
                self.refusals.condemned(RefusalKind::Misconfigured, self.now);
            }
            "failing" => {
                self.refusals.condemned(RefusalKind::Failing, self.now);
            }
            "agreed" => self.refusals.acquitted(),
            "anew" => self.refusals.forget(),
            other => panic!("`{other}` is no step"),
        }
        assert_eq!(self.told(), expected, "after `{step}`");
    }

    fn told(&self) -> String {
        format!("{:?}", self.refusals.acceptance(self.now)).to_lowercase()
    }

    #[track_caller]
    fn check_all(&mut self, steps: &[(&str, &str)]) {
        for (step, expected) in steps {
            self.check(step, expected);
        }
    }
}

#[test]
fn a_refusal_costs_the_rank_at_once_and_one_trial_wins_it_back() {
    Story::new().check_all(&[
        ("begin", "accepting"),
        ("full", "backingoff"),
        ("wait 499", "backingoff"),
        ("wait 1", "due"),
        ("begin", "trying"),
        ("wait 10", "trying"),
        ("served", "accepting"),
    ]);
}

#[test]
fn each_trial_that_is_refused_doubles_the_time_up_to_eight_seconds() {
    let mut story = Story::new();
    story.check("full", "backingoff");
    for millis in [500, 1_000, 2_000, 4_000, 8_000, 8_000, 8_000] {
        story.check(&format!("wait {}", millis - 1), "backingoff");
        story.check("wait 1", "due");
        story.check("begin", "trying");
        story.check("full", "backingoff");
    }
}

#[test]
fn a_burst_of_refusals_counts_as_one() {
    let mut story = Story::new();
    for _ in 0..50 {
        story.check("full", "backingoff");
    }
    story.check("wait 500", "due");
}

#[test]
fn a_full_worker_that_ends_something_has_room_for_one_more() {
    let mut story = Story::new();
    let before = story.began;
    story.check("wait 10", "accepting");
    story.check("begin", "accepting");
    story.check("full", "backingoff");
    story.began = before;
    story.check("served", "due");
    story.check("full", "due");
    story.check("begin", "trying");
    story.check("full", "backingoff");
}

#[test]
fn what_was_begun_before_says_nothing_of_a_misconfigured_worker() {
    let mut story = Story::new();
    let before = story.began;
    story.check("wait 10", "accepting");
    story.check("begin", "accepting");
    story.check("denied", "backingoff");
    story.began = before;
    story.check("served", "backingoff");
    story.check("wait 1000", "due");
    story.check("denied", "due");
}

#[test]
fn who_is_asked_as_the_last_resort_and_refuses_again_waits_no_longer_for_it() {
    let mut story = Story::new();
    story.check("full", "backingoff");
    for _ in 0..9 {
        story.check("wait 50", "backingoff");
        story.check("begin", "backingoff");
        story.check("full", "backingoff");
        story.check("told 400", "backingoff");
    }
    story.check("wait 50", "due");
}

#[test]
fn a_last_resort_that_serves_is_back_at_once() {
    Story::new().check_all(&[
        ("full", "backingoff"),
        ("wait 100", "backingoff"),
        ("begin", "backingoff"),
        ("wait 100", "backingoff"),
        ("served", "accepting"),
    ]);
}

#[test]
fn a_trial_that_is_not_refused_in_time_has_been_accepted() {
    // Refusals took 20 ms, so 80 ms without one are enough.
    Story::new().check_all(&[
        ("wait 20", "accepting"),
        ("full", "backingoff"),
        ("wait 500", "due"),
        ("begin", "trying"),
        ("wait 79", "trying"),
        ("wait 1", "accepting"),
        // And if it is refused after all, that counts.
        ("full", "backingoff"),
        ("wait 999", "backingoff"),
        ("wait 1", "due"),
    ]);
}

#[test]
fn a_trial_that_says_nothing_leaves_its_place_to_the_next() {
    Story::new().check_all(&[
        ("full", "backingoff"),
        ("wait 500", "due"),
        ("begin", "trying"),
        ("declined", "due"),
    ]);
}

#[test]
fn its_own_retry_after_is_heeded_within_bounds() {
    let full = ("full", "backingoff");
    Story::new().check_all(&[full, ("told 2000", "backingoff"), ("wait 2000", "due")]);
    Story::new().check_all(&[full, ("told 100", "backingoff"), ("wait 500", "due")]);
    Story::new().check_all(&[full, ("told 3600000", "backingoff"), ("wait 30000", "due")]);
}

#[test]
fn a_misconfigured_worker_waits_for_a_second_at_first_and_a_minute_at_most() {
    let mut story = Story::new();
    story.check("denied", "backingoff");
    for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
        story.check(&format!("wait {}", seconds * 1_000 - 1), "backingoff");
        story.check("wait 1", "due");
        story.check("begin", "trying");
        story.check("denied", "backingoff");
    }
    story.check("anew", "accepting");
}

#[test]
fn a_dispute_is_decided_by_what_another_worker_says() {
    Story::new().check_all(&[
        ("served", "accepting"),
        ("disputed", "accepting"),
        ("blamed", "backingoff"),
        ("wait 1000", "due"),
        ("begin", "trying"),
        ("disputed", "backingoff"),
        ("wait 1999", "backingoff"),
        ("wait 1", "due"),
        ("begin", "trying"),
        ("disputed", "backingoff"),
        ("agreed", "accepting"),
    ]);
}

#[test]
fn a_dispute_with_one_that_has_served_nobody_is_its_own_fault() {
    Story::new().check_all(&[("disputed", "backingoff"), ("agreed", "accepting")]);
}

#[test]
fn one_that_fails_is_forgiven_by_whatever_it_serves() {
    let mut story = Story::new();
    story.check("failing", "backingoff");
    story.began = Instant::ORIGIN;
    story.check("served", "accepting");
}

#[test]
fn busy_is_who_serves_between_its_refusals() {
    let mut story = Story::new();
    for _ in 0..5 {
        story.check("begin", "accepting");
        story.check("full", "backingoff");
        assert!(story.refusals.is_busy());
        story.check("begin", "backingoff");
        story.check("served", "accepting");
    }
    story.check("full", "backingoff");
    story.check("wait 500", "due");
    story.check("begin", "trying");
    story.check("full", "backingoff");
    assert!(!story.refusals.is_busy());
}

#[test]
fn a_status_says_whose_fault_it_is() {
    use Credentials::{Client, Own};
    let told = |status| [Own, Client].map(|whose| failure_of(status, whose));
    for status in [200, 206, 400, 402, 405, 409, 413, 414, 415, 422, 431, 499] {
        assert_eq!(told(status), [None; 2], "{status} is the request's own");
    }
    for (status, own, client) in [
        (401, Failure::Misconfigured, Failure::Disputed),
        (403, Failure::Misconfigured, Failure::Disputed),
        (404, Failure::Disputed, Failure::Disputed),
        (408, Failure::Faulty, Failure::Faulty),
        (425, Failure::Faulty, Failure::Faulty),
        (429, Failure::Saturated, Failure::Saturated),
        (500, Failure::Faulty, Failure::Faulty),
        (502, Failure::Faulty, Failure::Faulty),
        (503, Failure::Saturated, Failure::Saturated),
        (529, Failure::Faulty, Failure::Faulty),
    ] {
        assert_eq!(told(status), [Some(own), Some(client)], "{status}");
    }
}
