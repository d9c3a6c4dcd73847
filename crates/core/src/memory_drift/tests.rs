//! Repairs told as stories: what the memory looks like at a second, and what is done about it.

use alloc::string::ToString;

use overdraft_units::{Instant, Micros};

use super::*;
use crate::fleet::{Attempt, Demand, Ending, Fleet, Probe, Turn};

const fn seconds(count: u64) -> Micros {
    Micros::new(count * 1_000_000)
}

fn at(second: u64) -> Instant {
    Instant::ORIGIN + seconds(second)
}

fn settings() -> FragmentSettings {
    FragmentSettings {
        settle: seconds(10),
        drain: seconds(100),
        ready: seconds(200),
        backoff: Backoff { first: seconds(600), max: seconds(3_000) },
        ..FragmentSettings::default()
    }
}

/// A fleet whose workers have all settled with half of their memory in use.
struct Story {
    fleet: Fleet,
    watch: Watch,
    settings: FragmentSettings,
    ids: Vec<WorkerId>,
    pools: Vec<u8>,
    cure: Cure,
    /// From one reading to the next.
    every: Micros,
}

impl Story {
    fn new(pools: &[u8]) -> Self {
        let mut fleet = Fleet::new();
        let ids: Vec<WorkerId> =
            (0..).zip(pools).map(|(tag, _)| fleet.join(tag).unwrap()).collect();
        let pools = pools.to_vec();
        let (watch, settings) = (Watch::default(), settings());
        let (cure, every) = (Cure::Restart, seconds(10));
        let mut story = Self { fleet, watch, settings, ids, pools, cure, every };
        for worker in 0..story.ids.len() {
            story.up(worker, 0);
            story.read(worker, 0, 500);
            story.read(worker, 10, 500);
        }
        story
    }

    fn up(&mut self, worker: usize, second: u64) {
        let models = ["m".to_string()];
        self.fleet.probed(self.ids[worker], Probe::Ready(&models), at(second));
    }

    fn down(&mut self, worker: usize, second: u64) {
        self.fleet.probed(self.ids[worker], Probe::Unreachable, at(second));
    }

    fn read(&mut self, worker: usize, second: u64, memory_permille: u16) {
        self.read_with_kv(worker, second, (memory_permille, 0));
    }

    fn read_with_kv(&mut self, worker: usize, second: u64, (memory, kv): (u16, u16)) {
        let id = self.ids[worker];
        let (at, every) = (at(second), self.every);
        let reading = Reading { at, memory_permille: memory, kv_permille: kv, every };
        self.watch.read(id, self.fleet.worker(id), reading, &self.settings);
    }

    /// Looks until there is nothing to do, and does what is said; workers are told by number.
    fn look(&mut self, second: u64) -> Vec<(usize, Step)> {
        let mut steps = Vec::new();
        loop {
            let (pools, ids, cure) = (&self.pools, &self.ids, self.cure);
            let number = |id| ids.iter().position(|&known| known == id).unwrap();
            let place = |id| Place { pool: pools[number(id)], cure };
            let Some((id, step)) = self.watch.look(&self.fleet, place, &self.settings, at(second))
            else {
                return steps;
            };
            match step {
                Step::Drain { .. } => self.fleet.drain_for_repair(id),
                Step::Rejoin(_) => self.fleet.repaired(id),
                Step::Restart => {}
            }
            steps.push((number(id), step));
        }
    }

    #[track_caller]
    fn check(&mut self, second: u64, expected: &[(usize, Step)]) {
        assert_eq!(self.look(second), expected, "at {second} s");
    }

    /// Worker 0 has drifted for as long as it takes.
    fn drifted(pools: &[u8]) -> Self {
        let mut story = Self::new(pools);
        story.read(0, 20, 650);
        story.read(0, 80, 650);
        story
    }

    fn start(&mut self, worker: usize) -> Attempt {
        self.fleet.start(self.ids[worker], Demand::default(), Turn::First, at(80))
    }
}

const DRAIN: Step = Step::Drain { drift_permille: 150 };

fn rejoin(outcome: Outcome) -> Step {
    Step::Rejoin(outcome)
}

#[test]
fn a_drift_that_lasts_drains_restarts_and_lets_back_in() {
    let mut story = Story::new(&[0, 0]);
    story.read(0, 20, 650);
    story.check(20, &[]);
    story.read(0, 79, 650);
    story.check(79, &[]);
    story.read(0, 80, 650);
    // Nothing is in flight, so both steps come at once.
    story.check(80, &[(0, DRAIN), (0, Step::Restart)]);
    assert!(story.watch.is_under_repair(story.ids[0]));
    // Still up: the old process has not ended yet.
    story.check(81, &[]);
    story.down(0, 82);
    story.check(82, &[]);
    story.up(0, 100);
    story.check(100, &[(0, rejoin(Outcome::Restarted))]);
    assert!(!story.fleet.worker(story.ids[0]).is_draining());
    assert_eq!(story.watch.drift_permille(story.ids[0], &story.settings), None, "it settles anew");
}

#[test]
fn a_drift_at_the_threshold_or_one_that_passes_is_none() {
    let mut story = Story::new(&[0, 0]);
    for second in 20..200 {
        story.read(0, second, 600);
        story.check(second, &[]);
    }
    for second in 200..400 {
        story.read(0, second, if second % 50 == 0 { 600 } else { 700 });
        story.check(second, &[]);
    }
}

#[test]
fn memory_that_the_cache_took_is_no_drift() {
    let mut story = Story::new(&[0, 0]);
    story.settings.kv_memory_permille = 400;
    story.read_with_kv(0, 20, (880, 950));
    assert_eq!(story.watch.drift_permille(story.ids[0], &story.settings), Some(0));
    story.read_with_kv(0, 21, (880, 100));
    assert_eq!(story.watch.drift_permille(story.ids[0], &story.settings), Some(340));
}

#[test]
fn what_a_worker_takes_while_it_starts_is_no_drift() {
    let mut story = Story::new(&[0, 0]);
    story.down(0, 11);
    story.check(11, &[]);
    story.up(0, 12);
    story.read(0, 12, 50);
    story.read(0, 15, 800);
    assert_eq!(story.watch.drift_permille(story.ids[0], &story.settings), None);
    story.read(0, 22, 900);
    assert_eq!(story.watch.drift_permille(story.ids[0], &story.settings), Some(0));
}

#[test]
fn old_readings_are_no_evidence() {
    let mut story = Story::drifted(&[0, 0]);
    story.check(141, &[]);
    story.read(0, 142, 650);
    story.check(142, &[]);
}

#[test]
fn a_drift_that_rare_readings_show_is_mended_as_well() {
    let mut story = Story::new(&[0, 0]);
    story.every = seconds(120);
    story.read(0, 140, 650);
    for second in 140..260 {
        story.check(second, &[]);
    }
    story.read(0, 260, 650);
    story.check(260, &[(0, DRAIN), (0, Step::Restart)]);
    // Three are missing.
    let mut story = Story::new(&[0, 0]);
    story.every = seconds(120);
    story.read(0, 140, 650);
    story.check(501, &[]);
    story.read(0, 502, 650);
    story.check(502, &[]);
}

#[test]
fn requests_in_flight_may_finish_for_so_long() {
    let mut story = Story::drifted(&[0, 0]);
    let attempt = story.start(0);
    story.check(80, &[(0, DRAIN)]);
    story.check(179, &[]);
    story.check(180, &[(0, Step::Restart)]);
    let _ = story.fleet.end(attempt, Ending::Answered, at(181));

    let mut story = Story::drifted(&[0, 0]);
    let attempt = story.start(0);
    story.check(80, &[(0, DRAIN)]);
    let _ = story.fleet.end(attempt, Ending::Answered, at(90));
    story.check(91, &[(0, Step::Restart)]);
}

#[test]
fn one_of_a_pool_at_a_time_and_pools_apart() {
    let mut story = Story::new(&[0, 0, 0, 1, 1]);
    for worker in [0, 1, 3] {
        story.read(worker, 20, 650);
        story.read(worker, 80, 650);
    }
    let expected = [(0, DRAIN), (0, Step::Restart), (3, DRAIN), (3, Step::Restart)];
    story.check(80, &expected);
    story.read(1, 130, 650);
    story.check(130, &[]);
    story.down(0, 131);
    story.check(131, &[]);
    story.up(0, 132);
    let expected = [(0, rejoin(Outcome::Restarted)), (1, DRAIN), (1, Step::Restart)];
    story.check(132, &expected);
}

#[test]
fn the_last_one_stays() {
    let mut alone = Story::drifted(&[0, 1]);
    alone.check(80, &[]);
    let mut story = Story::drifted(&[0, 0]);
    story.down(1, 79);
    story.check(80, &[]);
    story.up(1, 85);
    story.check(85, &[(0, DRAIN), (0, Step::Restart)]);
    // The only other one serves another model.
    let mut story = Story::drifted(&[0, 0]);
    let models = ["other".to_string()];
    story.fleet.probed(story.ids[1], Probe::Ready(&models), at(79));
    story.check(80, &[]);
}

#[test]
fn a_drain_ends_when_the_worker_is_needed_or_somebody_calls_it_off() {
    let mut story = Story::drifted(&[0, 0]);
    let attempt = story.start(0);
    story.check(80, &[(0, DRAIN)]);
    story.down(1, 81);
    story.check(81, &[(0, rejoin(Outcome::Needed))]);
    let _ = story.fleet.end(attempt, Ending::Abandoned, at(82));

    let mut story = Story::drifted(&[0, 0]);
    let attempt = story.start(0);
    story.check(80, &[(0, DRAIN)]);
    let id = story.ids[0];
    story.fleet.rejoin(id);
    story.check(81, &[(0, rejoin(Outcome::CalledOff))]);
    let _ = story.fleet.end(attempt, Ending::Abandoned, at(82));
}

#[test]
fn what_somebody_else_drains_is_left_alone() {
    let mut story = Story::drifted(&[0, 0]);
    let id = story.ids[0];
    story.fleet.drain(id);
    story.check(80, &[]);
}

#[test]
fn a_repair_that_ends_calls_off_no_drain_but_its_own() {
    let mut story = Story::drifted(&[0, 0]);
    let id = story.ids[0];
    story.check(80, &[(0, DRAIN), (0, Step::Restart)]);
    story.fleet.drain(id);
    story.watch.hooked(id, Hooked::Gone);
    story.check(81, &[(0, rejoin(Outcome::Restarted))]);
    assert!(story.fleet.worker(id).is_draining(), "an operator wants it so");
    story.fleet.rejoin(id);
    assert!(!story.fleet.worker(id).is_draining());

    // A worker that is needed is left to who drains it, too.
    let mut story = Story::drifted(&[0, 0]);
    let attempt = story.start(0);
    story.check(80, &[(0, DRAIN)]);
    story.fleet.drain(id);
    story.down(1, 81);
    story.check(81, &[(0, rejoin(Outcome::Needed))]);
    assert!(story.fleet.worker(id).is_draining());
    let _ = story.fleet.end(attempt, Ending::Abandoned, at(82));
}

#[test]
fn a_worker_without_a_hook_is_only_watched() {
    let mut story = Story::drifted(&[0, 0]);
    story.cure = Cure::Nothing;
    story.check(80, &[]);
    assert_eq!(story.watch.drift_permille(story.ids[0], &story.settings), Some(150));
}

#[test]
fn a_hook_that_failed_and_one_that_never_worked_let_the_worker_back_in() {
    let mut story = Story::drifted(&[0, 0]);
    story.check(80, &[(0, DRAIN), (0, Step::Restart)]);
    story.watch.hooked(story.ids[0], Hooked::Failed);
    story.check(81, &[(0, rejoin(Outcome::HookFailed))]);

    let mut story = Story::drifted(&[0, 0]);
    story.check(80, &[(0, DRAIN), (0, Step::Restart)]);
    story.watch.hooked(story.ids[0], Hooked::Accepted);
    story.check(279, &[]);
    story.check(280, &[(0, rejoin(Outcome::TimedOut))]);
}

#[test]
fn a_hook_that_knows_the_old_process_gone_need_not_be_seen_at_work() {
    let mut story = Story::drifted(&[0, 0]);
    story.check(80, &[(0, DRAIN), (0, Step::Restart)]);
    story.watch.hooked(story.ids[0], Hooked::Gone);
    story.check(81, &[(0, rejoin(Outcome::Restarted))]);
}

#[test]
fn a_worker_that_drifts_again_waits_longer_each_time() {
    let mut story = Story::drifted(&[0, 0]);
    let mut begun = Vec::new();
    story.check(80, &[(0, DRAIN), (0, Step::Restart)]);
    story.watch.hooked(story.ids[0], Hooked::Failed);
    story.check(80, &[(0, rejoin(Outcome::HookFailed))]);
    for second in 81..3_000 {
        story.read(0, second, 650);
        if !story.look(second).is_empty() {
            begun.push(second);
            story.watch.hooked(story.ids[0], Hooked::Failed);
            story.check(second, &[(0, rejoin(Outcome::HookFailed))]);
        }
    }
    assert_eq!(begun, [680, 1_880], "600 s after the first repair, 1,200 s after the second");
}

#[test]
fn a_place_that_another_worker_took_begins_anew() {
    let mut story = Story::drifted(&[0, 0]);
    let id = story.ids[0];
    story.fleet.leave(id);
    story.check(80, &[]);
    assert_eq!(story.watch.drift_permille(id, &story.settings), None);
}
