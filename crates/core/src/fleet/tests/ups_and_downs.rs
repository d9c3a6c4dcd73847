//! What probes, connections and scrapes say of whether a worker is up.

use super::*;

#[test]
fn a_worker_is_unproven_until_a_probe_finds_it_ready() {
    let mut story = Story::new();
    story.check("silent", "unproven");
    story.check("unready", "unproven");
    story.check("ready", "up 0");
}

#[test]
fn a_refused_connection_takes_a_worker_out_at_once_and_a_good_probe_brings_it_back() {
    let mut story = Story::new();
    story.check("ready", "up 0");
    story.check("connection refused", "unreachable");
    story.check("silent", "unreachable");
    story.check("ready", "up 0");
    story.check("refused", "unreachable");
    story.check("ready", "up 0");
}

#[test]
fn a_connection_that_does_not_come_about_takes_a_worker_out_at_once_and_forgets_nothing() {
    let mut story = Story::new();
    let open = |story: &Story| !story.fleet.worker(story.worker).breaker().is_closed();
    for report in ["no connection", "not reached"] {
        story.check("ready", if open(&story) { "open" } else { "up 0" });
        for _ in 0..5 {
            story.attempt(Ending::Failed(Failure::Broken));
        }
        story.check(report, "noconnection");
        assert!(open(&story), "it may be the same process");
    }
    // A connection that is refused after all is proof, and no silence takes that back.
    story.check("refused", "unreachable");
    assert!(!open(&story));
    story.check("not reached", "unreachable");
    story.check("ready", "up 0");
}

#[test]
fn what_this_gateway_could_not_try_says_nothing_of_a_worker() {
    let mut story = Story::new();
    story.check("ready", "up 0");
    for _ in 0..10 {
        story.check("could not try", "up 0");
    }
}

#[test]
fn who_does_not_tell_its_load_is_passed_over_until_it_does() {
    let mut story = Story::new();
    let (id, now) = (story.worker, Instant::ORIGIN);
    assert_eq!(story.fleet.measured(id, false, now), None, "it was never up");
    story.check("ready", "up 0");
    assert_eq!(story.fleet.measured(id, true, now), None);
    let down = Some(Change::WentDown(id, Cause::Unmeasured));
    assert_eq!(story.fleet.measured(id, false, now), down);
    story.check("ready", "unmeasured");
    story.check("answered", "unmeasured");
    assert_eq!(story.fleet.measured(id, false, now), None);
    assert_eq!(story.fleet.measured(id, true, now), Some(Change::CameUp(id)));
    // What a probe proves is another matter.
    story.fleet.measured(id, false, now);
    story.check("refused", "unreachable");
    assert_eq!(story.fleet.measured(id, true, now), None);
    story.check("ready", "up 0");
}

#[test]
fn unanswered_probes_must_repeat_and_an_answered_one_forgives_them() {
    let mut story = Story::new();
    story.check("ready", "up 0");
    story.check("silent", "up 1");
    story.check("silent", "up 2");
    story.check("ready", "up 0");
    for missed in 1..MISSED_PROBES_MAX {
        story.check("silent", &format!("up {missed}"));
    }
    story.check("silent", "silent");
    story.check("answered", "up 0");
}

#[test]
fn the_last_answers_of_a_worker_that_drains_do_not_bring_it_back() {
    let mut story = Story::new();
    story.check("ready", "up 0");
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
fn a_worker_with_the_wrong_model_is_told_of_once_and_kept_out() {
    let mut story = Story::new();
    let change = story.fleet.probed(story.worker, Probe::WrongModel, story.now);
    assert_eq!(change, Some(Change::WentDown(story.worker, Cause::WrongModel)));
    assert_eq!(story.fleet.probed(story.worker, Probe::WrongModel, story.now), None);
    assert_eq!(story.probe("ready"), Some(Change::CameUp(story.worker)));
}
