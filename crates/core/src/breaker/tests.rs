//! What a breaker hears, told as text.

use alloc::format;
use alloc::string::String;

use super::*;

const SECOND: Micros = Micros::new(1_000_000);

/// No spread, so that times can be named.
fn settings() -> BreakerSettings {
    BreakerSettings { jitter_permille: 0, ..BreakerSettings::default() }
}

/// One breaker and the clock.
struct Story {
    breaker: Breaker,
    grants: Grants,
    now: Instant,
    trial: Option<(Instant, Option<u32>)>,
}

impl Story {
    fn new() -> Self {
        let now = Instant::ORIGIN + SECOND;
        Self { breaker: Breaker::new(), grants: Grants::Own, now, trial: None }
    }

    fn wait(&mut self, seconds: u64) {
        self.now = self.now + Micros::new(seconds * 1_000_000);
    }

    /// An attempt that is begun and ends now.
    fn attempt(&mut self, ended: Ended) -> Option<Turned> {
        let round = self.breaker.begin(self.grants, self.now);
        self.end(ended, (self.now, round))
    }

    fn end(&mut self, ended: Ended, begun: (Instant, Option<u32>)) -> Option<Turned> {
        let turned = self.breaker.end(ended, begun.0, begun.1, &settings(), self.now);
        if turned == Some(Turned::Trips) {
            self.breaker.open(&settings(), self.now);
        }
        turned
    }

    /// Does what `step` says and compares what the breaker says to the next request.
    #[track_caller]
    fn check(&mut self, step: &str, expected: &str) {
        match step.split_once(' ') {
            Some(("wait", seconds)) => self.wait(seconds.parse().unwrap()),
            Some(("failed", times)) => {
                for _ in 0..times.parse().unwrap() {
                    self.attempt(Ended::Failed);
                }
            }
            Some(("trial", "begins")) => {
                self.trial = Some((self.now, self.breaker.begin(self.grants, self.now)));
            }
            Some(("trial", end)) => {
                let begun = self.trial.take().unwrap();
                self.end(ended(end), begun);
            }
            _ => {
                self.attempt(ended(step));
            }
        }
        assert_eq!(self.standing(), expected, "after `{step}`");
    }

    fn standing(&self) -> String {
        format!("{:?}", self.breaker.standing(self.grants, self.now)).to_lowercase()
    }
}

fn ended(word: &str) -> Ended {
    match word {
        "served" => Ended::Served,
        "failed" => Ended::Failed,
        "unjudged" => Ended::Unjudged,
        other => panic!("`{other}` is not how an attempt ends"),
    }
}

// Faults: 50
#[test]
fn five_failures_in_a_row_open_it_and_one_served_forgives_four() {
    let mut story = Story::new();
    story.check("failed 4", "closed");
    story.check("served", "closed");
    story.check("failed 4", "closed");
    story.check("failed", "open");
}

#[test]
fn what_says_nothing_of_the_worker_is_not_counted() {
    let mut story = Story::new();
    story.check("failed 4", "closed");
    for _ in 0..100 {
        story.check("unjudged", "closed");
    }
    story.check("failed", "open");
}

#[test]
fn half_of_twenty_within_ten_seconds_open_it() {
    let mut story = Story::new();
    for _ in 0..9 {
        story.check("failed", "closed");
        story.check("served", "closed");
    }
    story.check("served", "closed");
    story.check("failed", "open");
}

/// How many failures after `served` attempts that were served trip it, if at most 200 do.
fn trips_after(served: u32, settings: &BreakerSettings) -> Option<u32> {
    let mut breaker = Breaker::new();
    let now = Instant::ORIGIN + SECOND;
    for _ in 0..served {
        breaker.end(Ended::Served, now, None, settings, now);
    }
    let mut failures = 1..=200;
    failures.find(|_| breaker.end(Ended::Failed, now, None, settings, now).is_some())
}

#[test]
fn a_row_of_failures_opens_it_at_the_number_that_was_set_whatever_share_it_is() {
    for (in_a_row, served) in [(5, 0), (5, 100), (100, 0), (100, 10), (100, 19), (100, 1_000)] {
        let settings = BreakerSettings { failures_in_a_row: in_a_row, ..settings() };
        assert_eq!(trips_after(served, &settings), Some(in_a_row), "after {served}");
    }
}

#[test]
fn no_share_is_no_rule() {
    let settings = BreakerSettings { failures_permille: 0, ..settings() };
    let mut breaker = Breaker::new();
    let now = Instant::ORIGIN + SECOND;
    for _ in 0..100 {
        for ended in [Ended::Failed, Ended::Failed, Ended::Served] {
            assert_eq!(breaker.end(ended, now, None, &settings, now), None);
        }
    }
}

#[test]
fn what_is_older_than_ten_seconds_is_forgotten() {
    let mut story = Story::new();
    for _ in 0..9 {
        story.check("served", "closed");
        story.check("failed", "closed");
    }
    story.check("wait 11", "closed");
    for _ in 0..4 {
        story.check("failed", "closed");
        story.check("served", "closed");
    }
    assert_eq!(story.breaker.window.sum(story.now), (8, 4));
}

#[test]
fn one_trial_when_its_time_is_over_and_what_it_finds_counts() {
    let mut story = Story::new();
    story.check("failed 5", "open");
    story.check("wait 9", "open");
    story.check("wait 1", "due");
    story.check("trial begins", "probing");
    story.check("trial failed", "open");
    // Twice as long now.
    story.check("wait 19", "open");
    story.check("wait 1", "due");
    story.check("trial begins", "probing");
    story.check("trial served", "closed");
    assert_eq!(story.breaker.streak(), 2);
}

#[test]
fn a_trial_that_was_given_up_leaves_its_place_to_the_next() {
    let mut story = Story::new();
    story.check("failed 5", "open");
    story.check("wait 10", "due");
    story.check("trial begins", "probing");
    story.check("trial unjudged", "due");
    story.check("trial begins", "probing");
    // Nobody says how it ends.
    let patience = TRIAL_PATIENCE.get() / 1_000_000;
    story.check(&format!("wait {}", patience - 1), "probing");
    story.check("wait 1", "due");
    let late = story.trial.take().unwrap();
    story.check("trial begins", "probing");
    assert_eq!(story.end(Ended::Failed, late), None, "it is not the trial any more");
    assert_eq!(story.standing(), "probing");
}

#[test]
fn attempts_of_before_it_opened_change_nothing() {
    let mut story = Story::new();
    let early = (story.now, None);
    story.wait(1);
    story.check("failed 5", "open");
    assert_eq!(story.end(Ended::Served, early), None);
    assert_eq!(story.standing(), "open");
    // Nor do failures of before it closed.
    story.check("wait 10", "due");
    story.check("served", "closed");
    for _ in 0..10 {
        assert_eq!(story.end(Ended::Failed, early), None);
    }
    assert_eq!(story.standing(), "closed");
}

#[test]
fn an_open_one_that_was_asked_all_the_same_and_served_closes() {
    let mut story = Story::new();
    story.check("failed 5", "open");
    story.check("wait 1", "open");
    story.check("failed", "open");
    story.check("served", "closed");
}

#[test]
fn it_stays_open_for_at_most_five_minutes_and_forgives_with_time() {
    let mut story = Story::new();
    story.check("failed 5", "open");
    for _ in 0..10 {
        story.check("wait 300", "due");
        story.check("trial begins", "probing");
        story.check("trial failed", "open");
    }
    story.check("wait 299", "open");
    story.check("wait 1", "due");
    story.check("served", "closed");
    story.check("wait 3000", "closed");
    story.check("failed 5", "open");
    story.check("wait 10", "due");
}

#[test]
fn times_are_spread_by_a_fifth_to_both_sides() {
    let settings = BreakerSettings::default();
    let times = || (0..1_000).map(|dice| settings.open_time(0, dice).get());
    assert!(times().all(|time| (8_000_000..=12_000_000).contains(&time)));
    assert!(times().any(|time| time < 8_500_000) && times().any(|time| 11_500_000 < time));
}

#[test]
fn a_shared_one_sends_no_trial_before_it_is_granted() {
    let mut story = Story::new();
    story.grants = Grants::Shared;
    story.check("failed 5", "open");
    story.check("wait 100", "open");
    assert!(story.breaker.grant(story.now));
    assert!(!story.breaker.grant(story.now), "there is one already");
    story.check("trial begins", "probing");
    story.check("trial served", "closed");
}

#[test]
fn a_grant_that_no_request_comes_for_is_given_up() {
    let mut story = Story::new();
    story.grants = Grants::Shared;
    story.check("failed 5", "open");
    story.check("wait 10", "open");
    assert!(story.breaker.grant(story.now));
    assert!(story.breaker.is_trying(story.now));
    story.check("wait 1", "open");
    assert!(!story.breaker.is_trying(story.now) && story.breaker.is_due(story.now));
}

#[test]
fn another_gateways_word_counts_by_its_version() {
    let mut story = Story::new();
    let until = Some(story.now + SECOND);
    let open = Seen { version: 7, until, streak: 3 };
    assert_eq!(story.breaker.see(open, story.now), Some(Turned::Opened));
    assert_eq!((story.standing().as_str(), story.breaker.streak()), ("open", 3));
    let closed = Seen { version: 7, until: None, streak: 3 };
    assert_eq!(story.breaker.see(closed, story.now), None, "seen already");
    let closed = Seen { version: 8, ..closed };
    assert_eq!(story.breaker.see(closed, story.now), Some(Turned::Closed));
    assert_eq!(story.breaker.news(story.now), None, "nothing of this is news to the others");
}

#[test]
fn what_was_decided_here_is_news_until_it_was_told() {
    let mut story = Story::new();
    story.check("failed 5", "open");
    let news = story.breaker.news(story.now).unwrap();
    assert_eq!((news.open_for, news.streak), (Some(Micros::new(10_000_000)), 1));
    let theirs = Seen { version: 4, until: None, streak: 0 };
    assert_eq!(story.breaker.see(theirs, story.now), None, "ours is told first");
    // It is decided otherwise while it is being told.
    story.wait(1);
    story.check("served", "closed");
    let merged = Seen { version: 5, until: Some(story.now + SECOND), streak: 1 };
    assert_eq!(story.breaker.told(news.sequence, merged, story.now), None);
    let news = story.breaker.news(story.now).unwrap();
    assert_eq!(news.open_for, None);
    let merged = Seen { version: 6, until: None, streak: 1 };
    assert_eq!(story.breaker.told(news.sequence, merged, story.now), None);
    assert_eq!(story.breaker.news(story.now), None);
}

#[test]
fn a_process_that_is_gone_takes_its_failures_along() {
    let mut story = Story::new();
    story.check("failed 5", "open");
    story.breaker.forget(story.now);
    assert_eq!(story.standing(), "closed");
    assert!(story.breaker.news(story.now).is_some_and(|news| news.open_for.is_none()));
}
