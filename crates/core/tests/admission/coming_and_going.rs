//! Workers that come up and go down while requests wait.

use overdraft_core::admit::{Mode, Priority, Ticket, Wait, WaitTime};
use overdraft_core::breaker::{BreakerSettings, Grants};
use overdraft_core::fleet::{Ending, Failure, Probe};
use overdraft_core::route::{Choice, Outcome, Request};
use overdraft_units::Micros;

use super::{SECOND, Story, request, scrape};

#[test]
fn one_that_has_just_come_up_gets_no_more_than_many_until_it_tells_what_it_has_room_for() {
    let mut story = Story::new(1, None, Mode::Peak);
    let (taken, _) = story.fill(request(100, Some(1), Priority::Default));
    assert_eq!(taken, 64);
    story.router.scraped(story.ids[0], scrape(0, 1_000_000, story.now));
    assert!(story.send(request(100, Some(1), Priority::Default)).is_ok(), "it has told");
}

#[test]
fn one_that_is_silent_for_a_while_has_the_room_that_it_had() {
    let mut story = Story::new(1, Some(10_000), Mode::Peak);
    let asked = request(4_000, Some(1), Priority::Default);
    let (taken, _) = story.fill(asked);
    for _ in 0..3 {
        story.router.probed(story.ids[0], Probe::Silent, story.now);
    }
    assert!(!story.router.fleet().worker(story.ids[0]).health().is_up());
    assert!(story.send(asked).is_err(), "nothing has ended there: {taken}");
    // A process that is gone has nothing in its cache, and may have another one.
    story.router.probed(story.ids[0], Probe::Unreachable, story.now);
    assert_eq!(story.router.fleet().worker(story.ids[0]).kv_capacity(), None);
}

#[test]
fn all_who_wait_for_a_worker_that_goes_down_go_elsewhere() {
    const WAITING: u64 = 40;
    let mut story = Story::new(2, Some(10_000), Mode::Peak);
    let asked = request(9_000, Some(1), Priority::Default);
    for _ in 0..2 {
        story.send(asked).unwrap();
    }
    let time = WaitTime::exactly(Micros::new(60 * SECOND));
    let gone = story.ids[0];
    let waiting = |dice| Request { dice, ..asked };
    let dices: Vec<_> = (0..WAITING).collect();
    let mut tickets: Vec<_> = dices
        .iter()
        .map(|dice| {
            (
                story.router.wait(waiting(*dice), Wait::for_room(gone, time), story.now).unwrap(),
                *dice,
            )
        })
        .collect();
    let call = |story: &mut Story, tickets: &[(Ticket, u64)]| {
        let mut moved = 0;
        while let Some(ticket) = story.router.call(story.now) {
            let dice = tickets.iter().find(|(one, _)| *one == ticket).unwrap().1;
            let (asked, settings) = (waiting(dice), story.settings);
            match story.router.place_called(ticket, asked, &settings, story.now) {
                Err(Choice::Saturated { at, .. }) => moved += usize::from(at != gone),
                told => panic!("both are full: {told:?}"),
            }
        }
        moved
    };
    call(&mut story, &tickets);
    // A request finds that it is gone.
    let place = story.placed.iter().position(|placed| placed.worker() == gone).unwrap();
    let placed = story.placed.remove(place);
    let outcome = Outcome::of(Ending::Failed(Failure::Unreachable));
    assert!(story.router.end(placed, outcome, story.now).is_some(), "it went down");
    let moved = call(&mut story, &tickets);
    assert!(36 <= moved, "{moved} of {WAITING} wait where somebody may serve them");
    for (ticket, _) in tickets.drain(..) {
        assert!(story.router.leave_queue(ticket));
    }
}

/// Whether a request that is held while the only worker is `out` is called once it is `back`, and sent there.
#[track_caller]
fn check_called(out: impl FnOnce(&mut Story), back: impl FnOnce(&mut Story)) {
    let mut story = Story::new(1, Some(10_000), Mode::Peak);
    out(&mut story);
    let asked = request(100, Some(1), Priority::Default);
    assert_eq!(story.send(asked), Err(Choice::NoneUp));
    let time = Micros::new(60 * SECOND);
    let ticket = story.router.hold(asked, time, story.now).expect("the queue is empty");
    let settings = story.settings;
    assert_eq!(story.router.call(story.now), Some(ticket));
    let placed = story.router.place_called(ticket, asked, &settings, story.now);
    assert_eq!(placed.err(), Some(Choice::NoneUp));
    assert_eq!(story.router.call(story.now), None, "nothing has changed");
    back(&mut story);
    assert_eq!(story.router.call(story.now), Some(ticket));
    let placed = story.router.place_called(ticket, asked, &settings, story.now);
    let placed = placed.expect("the worker may be asked");
    story.router.end(placed, Outcome::of(Ending::Answered), story.now);
}

#[test]
fn who_is_held_is_called_when_its_worker_tells_its_load_again_or_rejoins() {
    let measured = |story: &mut Story, told: bool| {
        story.router.measured(story.ids[0], told, story.now);
    };
    check_called(|story| measured(story, false), |story| measured(story, true));
    check_called(
        |story| story.router.drain(story.ids[0]),
        |story| story.router.rejoin(story.ids[0]),
    );
}

#[test]
fn who_is_held_is_called_when_a_trial_is_due_or_granted() {
    // Who is out is not asked, whoever else there is.
    let settings = BreakerSettings { panic_permille: 0, ..BreakerSettings::default() };
    let open = |story: &mut Story, grants: Grants| {
        story.router.set_breakers(settings);
        story.router.set_grants(grants);
        for _ in 0..5 {
            story.send(request(100, Some(1), Priority::Default)).expect("it is up");
            let placed = story.placed.pop().expect("it was sent");
            let failed = Outcome::of(Ending::Failed(Failure::Faulty));
            story.router.end(placed, failed, story.now);
        }
    };
    let later = |story: &mut Story| story.now = story.now + Micros::new(13 * SECOND);
    check_called(
        |story| open(story, Grants::Own),
        |story| {
            later(story);
            story.router.tick(story.now);
        },
    );
    check_called(
        |story| open(story, Grants::Shared),
        |story| {
            later(story);
            assert!(story.router.grant_probe(story.ids[0], story.now).is_some());
        },
    );
}
