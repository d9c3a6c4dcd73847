//! Who shares a question, for how long, and what that holds.
#![expect(clippy::disallowed_methods, reason = "a test ends what it spawns with its runtime")]

use std::task::{Context, Poll};
use std::time::Duration;

use super::*;

fn frame(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

async fn read(seat: &mut Seat) -> String {
    match seat.next().await {
        Next::Frame(frame) => String::from_utf8(frame.to_vec()).unwrap(),
        Next::End(end) => format!("{end:?}"),
        Next::CutOff(why) => format!("{why:?}"),
    }
}

fn flights(memory: u64) -> Arc<Flights> {
    Arc::new(Flights::new(memory))
}

/// So many bytes, due in a minute.
fn bounds(bytes_max: usize) -> Bounds {
    Bounds { bytes_max, due: Instant::now() + Duration::from_mins(1) }
}

fn key() -> FlightKey {
    FlightKey { key: [1; 32], form: Form::Whole, priority: Priority::Default }
}

#[tokio::test]
async fn who_joins_late_gets_all_of_it() {
    let flights = flights(1_000);
    let (mut leader, role) = flights.join(key(), bounds(100));
    assert_eq!(role, Role::Leader);
    leader.flight().push(frame("a")).await;
    assert_eq!(read(&mut leader).await, "a");
    let (mut follower, role) = flights.join(key(), bounds(100));
    assert_eq!(role, Role::Follower);
    leader.flight().push(frame("b")).await;
    leader.flight().end(Ended::Whole, None);
    for expected in ["a", "b", "Whole"] {
        assert_eq!(read(&mut follower).await, expected);
    }
    assert_eq!(flights.join(key(), bounds(100)).1, Role::Leader, "what has ended is not joined");
}

#[tokio::test]
async fn the_question_is_called_off_when_the_last_one_leaves() {
    let flights = flights(1_000);
    let (leader, _) = flights.join(key(), bounds(100));
    let (follower, _) = flights.join(key(), bounds(100));
    let task = tokio::spawn(std::future::pending::<()>());
    leader.flight().led_by(task.abort_handle());
    drop(leader);
    tokio::task::yield_now().await;
    assert!(!task.is_finished());
    drop(follower);
    assert!(task.await.unwrap_err().is_cancelled());
    assert_eq!(flights.join(key(), bounds(100)).1, Role::Leader);
}

#[tokio::test]
async fn beyond_the_bound_the_fastest_sets_the_pace_and_who_is_too_slow_is_cut_off() {
    let flights = flights(1_000);
    let (mut fast, _) = flights.join(key(), bounds(4));
    let (mut slow, _) = flights.join(key(), bounds(4));
    let flight = Arc::clone(fast.flight());
    flight.push(frame("aa")).await;
    flight.push(frame("bb")).await;
    let mut third = Box::pin(flight.push(frame("cc")));
    let waits = std::future::poll_fn(|cx| Poll::Ready(third.as_mut().poll(cx).is_pending()));
    assert!(waits.await, "nobody has read anything");
    assert_eq!((read(&mut fast).await, read(&mut fast).await), ("aa".into(), "bb".into()));
    third.await;
    assert_eq!(read(&mut fast).await, "cc");
    assert_eq!(read(&mut slow).await, "Behind");
    assert_eq!(flights.join(key(), bounds(4)).1, Role::Leader, "its beginning is gone");
}

#[tokio::test]
async fn a_flight_that_ends_without_an_answer_has_failed() {
    let seat = flights(1_000).start(bounds(10));
    seat.flight().end(Ended::Broken, None);
    assert!(matches!(seat.opening().await, Opening::Failed));
}

#[tokio::test]
async fn who_reads_what_nobody_leads_any_more_is_cut_off_behind_what_was_told() {
    let mut seat = flights(1_000).start(bounds(10));
    seat.flight().push(frame("a")).await;
    seat.flight().end(Ended::Broken, None);
    assert_eq!(read(&mut seat).await, "a");
    assert_eq!(read(&mut seat).await, "Unled");
}

#[tokio::test]
async fn who_gave_up_and_asks_again_joins_nothing_that_failed_it() {
    let flights = flights(1_000);
    let (_leader, _) = flights.join(key(), bounds(10));
    let (impatient, role) = flights.join(key(), bounds(10));
    assert_eq!(role, Role::Follower);
    drop(impatient);
    let (second, role) = flights.join(key(), bounds(10));
    assert_eq!(role, Role::Leader, "it asks anew");
    second.flight().open(Opening::Failed);
    let (third, role) = flights.join(key(), bounds(10));
    assert_eq!(role, Role::Follower);
    drop(third);
    assert_eq!(flights.join(key(), bounds(10)).1, Role::Follower, "its answer has begun");
}

#[tokio::test]
async fn of_those_who_leave_at_once_one_is_the_last_and_nobody_joins_behind_it() {
    let flights = flights(1_000);
    let seats = [flights.join(key(), bounds(100)).0, flights.join(key(), bounds(100)).0];
    seats[0].flight().open(Opening::Failed);
    // Neither seat has been dropped yet.
    assert_eq!(seats.each_ref().map(Seat::leave), [false, true]);
    assert_eq!(flights.join(key(), bounds(100)).1, Role::Leader);
    let ended = flights.start(bounds(100));
    ended.flight().end(Ended::Whole, None);
    assert!(!ended.leave(), "its end is told by who counts it");
}

#[tokio::test(start_paused = true)]
async fn what_is_overdue_is_neither_waited_for_nor_joined() {
    let flights = flights(1_000);
    let (_leader, _) = flights.join(key(), bounds(10));
    let (follower, _) = flights.join(key(), bounds(10));
    let begun = Instant::now();
    assert!(follower.opening_in_time().await.is_none());
    assert_eq!(begun.elapsed(), Duration::from_mins(1));
    assert_eq!(flights.join(key(), bounds(10)).1, Role::Leader);
}

async fn push_ten(flight: Arc<Flight>) {
    for _ in 0..10 {
        flight.push(frame("aa")).await;
    }
}

#[tokio::test]
async fn all_flights_together_hold_a_quarter_of_the_memory_and_a_frame_each() {
    let flights = flights(40);
    let mut seats: Vec<Seat> = (0..8).map(|_| flights.start(bounds(100))).collect();
    let mut waiting = 0;
    for seat in &seats {
        let mut pushes = Box::pin(push_ten(Arc::clone(seat.flight())));
        let poll = |cx: &mut Context<'_>| Poll::Ready(pushes.as_mut().poll(cx).is_pending());
        waiting += usize::from(std::future::poll_fn(poll).await);
    }
    assert_eq!(waiting, 8, "none holds all of its answer");
    assert!(flights.held() <= 10 + 8 * 2, "{}", flights.held());
    assert!(seats.iter().all(|seat| seat.flight().is_cut()));
    assert_eq!(read(&mut seats[7]).await, "aa", "everybody goes on");
    drop(seats);
    assert_eq!(flights.held(), 0);
}

#[tokio::test]
async fn after_a_purge_nobody_joins_what_was_under_way() {
    let flights = flights(1_000);
    let (_leader, _) = flights.join(key(), bounds(10));
    flights.close_all();
    assert_eq!(flights.join(key(), bounds(10)).1, Role::Leader);
}
