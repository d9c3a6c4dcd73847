//! What a fleet learns, one report after the other, told as text.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;

use overdraft_units::{Instant, Micros, Tokens};

use super::*;

const SOON: Micros = Micros::new(1_000);

/// A fleet of one worker, the clock, and the attempt that is in flight, if any.
struct Story {
    fleet: Fleet,
    worker: WorkerId,
    now: Instant,
}

impl Story {
    fn new() -> Self {
        let mut fleet = Fleet::new();
        let worker = fleet.join().unwrap();
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
            other => panic!("`{other}` is not a probe"),
        };
        self.fleet.probed(self.worker, probe, self.now)
    }

    fn attempt(&mut self, ending: Ending) -> Option<Change> {
        self.now = self.now + SOON;
        let attempt = self.fleet.start(self.worker, Tokens::new(1), Turn::First);
        self.fleet.end(attempt, ending, self.now)
    }

    /// Feeds a report and compares the health that follows.
    #[track_caller]
    fn check(&mut self, report: &str, expected: &str) {
        match report {
            "answered" => self.attempt(Ending::Answered),
            "broken" => self.attempt(Ending::Failed(Failure::Broken)),
            "full" => self.attempt(Ending::Failed(Failure::Saturated)),
            "no connection" => self.attempt(Ending::Failed(Failure::Unreachable)),
            "client left" => self.attempt(Ending::Abandoned),
            probe => self.probe(probe),
        };
        let seen = match self.fleet.worker(self.worker).health() {
            Health::Unproven => "unproven".to_string(),
            Health::Up { strikes, missed } => format!("up {strikes}/{missed}"),
            Health::Failing { cause, .. } => format!("{cause:?}").to_lowercase(),
        };
        assert_eq!(seen, expected, "after `{report}`");
    }
}

#[test]
fn a_worker_is_unproven_until_a_probe_finds_it_ready() {
    let mut story = Story::new();
    story.check("silent", "unproven");
    story.check("unready", "unproven");
    assert!(!story.fleet.can_serve());
    story.check("ready", "up 0/0");
    assert!(story.fleet.can_serve());
}

#[test]
fn a_refused_connection_takes_a_worker_out_at_once_and_a_good_probe_brings_it_back() {
    let mut story = Story::new();
    story.check("ready", "up 0/0");
    story.check("no connection", "unreachable");
    story.check("silent", "unreachable");
    story.check("ready", "up 0/0");
    story.check("refused", "unreachable");
    story.check("ready", "up 0/0");
}

#[test]
fn failed_attempts_must_repeat_and_an_answer_forgives_them() {
    let mut story = Story::new();
    story.check("ready", "up 0/0");
    story.check("broken", "up 1/0");
    story.check("broken", "up 2/0");
    story.check("ready", "up 2/0");
    story.check("answered", "up 0/0");
    for strikes in 1..STRIKES_MAX {
        story.check("broken", &format!("up {strikes}/0"));
    }
    story.check("broken", "faulty");
}

#[test]
fn a_full_worker_and_a_client_that_left_are_not_held_against_it() {
    let mut story = Story::new();
    story.check("ready", "up 0/0");
    for _ in 0..10 {
        story.check("full", "up 0/0");
        story.check("client left", "up 0/0");
    }
}

#[test]
fn failed_attempts_outweigh_good_probes_for_a_while() {
    let mut story = Story::new();
    story.check("ready", "up 0/0");
    story.check("broken", "up 1/0");
    story.check("broken", "up 2/0");
    story.check("broken", "faulty");
    story.check("ready", "faulty");
    story.now = story.now + FAULTY_HOLD;
    story.check("ready", "up 0/0");
}

#[test]
fn unanswered_probes_must_repeat_and_an_answered_one_forgives_them() {
    let mut story = Story::new();
    story.check("ready", "up 0/0");
    story.check("silent", "up 0/1");
    story.check("silent", "up 0/2");
    story.check("ready", "up 0/0");
    for missed in 1..MISSED_PROBES_MAX {
        story.check("silent", &format!("up 0/{missed}"));
    }
    story.check("silent", "silent");
    story.check("answered", "up 0/0");
}

#[test]
fn the_last_answers_of_a_worker_that_drains_do_not_bring_it_back() {
    let mut story = Story::new();
    story.check("ready", "up 0/0");
    story.check("unready", "unready");
    story.check("answered", "unready");
}

#[test]
fn reports_tell_what_changed_once() {
    let mut story = Story::new();
    let id = story.worker;
    assert_eq!(story.probe("ready"), Some(Change::CameUp(id)));
    assert_eq!(story.probe("ready"), None);
    assert_eq!(story.probe("refused"), Some(Change::WentDown(id, Cause::Unreachable)));
    assert_eq!(story.probe("refused"), None);
    assert_eq!(story.probe("ready"), Some(Change::CameUp(id)));
    let other = ["n".to_string()];
    let change = story.fleet.probed(id, Probe::Ready(&other), story.now);
    assert_eq!(change, Some(Change::ModelsChanged(id)));
    assert_eq!(story.fleet.models().collect::<Vec<_>>(), ["n"]);
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
    let joined = (0..WORKERS_MAX + 5).filter_map(|_| fleet.join()).count();
    assert_eq!(joined, WORKERS_MAX);
    assert_eq!(fleet.workers().count(), WORKERS_MAX);
}

#[test]
fn a_flapping_worker_keeps_its_ledger() {
    let mut story = Story::new();
    story.probe("ready");
    let kept = vec![
        story.fleet.start(story.worker, Tokens::new(10), Turn::First),
        story.fleet.start(story.worker, Tokens::new(20), Turn::Again),
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
