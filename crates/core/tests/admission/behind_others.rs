//! The wait of a request that does not start before those that wait already.

use overdraft_core::admit::{Mode, Priority, Wait, WaitTime};
use overdraft_core::route::Request;
use overdraft_units::{Instant, Micros};

use super::{SECOND, Story, request, saturated};

/// The wait that a request is told, before and while eight like it wait for the same worker.
#[track_caller]
fn waits(story: &mut Story, asked: Request<'_>) -> [Micros; 2] {
    let told = |story: &mut Story| {
        let (_, _, retry_after) = saturated(story.send(asked).expect_err("it is full"));
        retry_after
    };
    let alone = told(story);
    let time = WaitTime::exactly(Micros::new(60 * SECOND));
    for _ in 0..8 {
        story
            .router
            .wait(asked, Wait::for_room(story.ids[0], time), story.now)
            .expect("the queue has room");
    }
    [alone, told(story)]
}

#[test]
fn prompts_of_those_before_it_are_computed_before_its_own() {
    let mut story = Story::new(1, None, Mode::Peak);
    story.now = Instant::ORIGIN + Micros::new(5 * SECOND);
    story.settings.admission.prefill_backlog = Micros::new(SECOND);
    story.send(request(1_000, None, Priority::Priority)).expect("nobody is there");
    let asked = request(1_000, None, Priority::Default);
    let (taken, _) = story.fill(asked);
    assert_eq!(taken, 4, "a second's work, at 4,000 tokens a second");
    let [alone, behind] = waits(&mut story, asked);
    assert_eq!(alone, Micros::new(SECOND), "a quarter of a second, and none is told less than one");
    assert!(Micros::new(2 * SECOND) <= behind, "{behind}: eight prompts take two seconds");
}

#[test]
fn those_before_it_need_seats_as_well() {
    let mut story = Story::new(1, Some(1_000_000), Mode::Static(64));
    let asked = request(100, Some(4_000), Priority::Default);
    assert_eq!(story.fill(asked).0, 64);
    let [alone, behind] = waits(&mut story, asked);
    assert!(alone < behind, "{alone} {behind}: the first seat is for others");
}
