//! Workers that come up and go down while requests wait.

use overdraft_core::admit::{Mode, Priority, Ticket, WaitTime};
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
        .map(|dice| (story.router.wait(waiting(*dice), gone, time, story.now).unwrap(), *dice))
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
