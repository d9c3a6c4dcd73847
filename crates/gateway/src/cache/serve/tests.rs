//! What one reader of a flight is told where it gets no more of it.

use overdraft_core::admit::Priority;

use super::*;
use crate::cache::single_flight::Flights;

/// The reader that a client has of a flight.
fn reader(seat: Seat, passes: Passes) -> Reader {
    let facts = SharedFacts::default();
    Reader { seat, facts, deadline: None, passes, events: 0, _guard: None }
}

/// What a worker counted of a whole answer.
fn counted() -> RequestFacts {
    let (prompt, completion) = (Some(Tokens::new(7)), Some(Tokens::new(901)));
    RequestFacts { prompt, completion, end: EndCode::WHOLE, ..RequestFacts::default() }
}

#[tokio::test]
async fn who_falls_behind_is_told_so_in_band_and_has_used_nothing() {
    for passes in [Passes::Events, Passes::Bytes] {
        let flights = Arc::new(Flights::new(1_000));
        let key = FlightKey { key: [1; 32], form: Form::Events, priority: Priority::Default };
        let bounds = Bounds { bytes_max: 4, due: Instant::now() + Duration::from_mins(1) };
        let (mut fast, _) = flights.join(key, bounds);
        let (slow, _) = flights.join(key, bounds);
        for text in ["aa", "bb", "cc"] {
            fast.flight().push(Bytes::from_static(text.as_bytes())).await;
            assert_eq!(fast.next().await, Next::Frame(Bytes::from_static(text.as_bytes())));
        }
        fast.flight().end(Ended::Whole, Some(counted()));
        let mut slow = reader(slow, passes);
        let facts = slow.facts.clone();
        if passes == Passes::Events {
            let (event, rest) = slow.step().await.unwrap().unwrap();
            assert!(event.starts_with(b"data: {\"error\":"), "{event:?}");
            slow = rest;
        }
        assert!(slow.step().await.is_err(), "its connection is aborted");
        let known = facts.known();
        let end = EndCode { ender: Ender::ClientStalled, phase: Phase::Data };
        assert_eq!((known.end, known.reused, known.completion), (end, None, None));
    }
}

#[tokio::test]
async fn an_answer_that_nobody_leads_any_more_ends_with_an_error_and_never_cleanly() {
    let flights = Arc::new(Flights::new(1_000));
    let bounds = Bounds { bytes_max: 4, due: Instant::now() + Duration::from_mins(1) };
    let seat = flights.start(bounds);
    seat.flight().end(Ended::Broken, None);
    let lost = reader(seat, Passes::Events);
    let facts = lost.facts.clone();
    let (event, lost) = lost.step().await.unwrap().unwrap();
    assert!(event.starts_with(b"data: {\"error\":"), "{event:?}");
    assert!(lost.step().await.is_err());
    assert_eq!(facts.known().end.ender, Ender::Defect);
}

#[tokio::test]
async fn the_last_reader_that_leaves_has_as_many_tokens_as_it_was_shown() {
    let flights = Arc::new(Flights::new(1_000));
    let key = FlightKey { key: [1; 32], form: Form::Events, priority: Priority::Default };
    let bounds = Bounds { bytes_max: 100, due: Instant::now() + Duration::from_mins(1) };
    let seats = [flights.join(key, bounds).0, flights.join(key, bounds).0];
    let flight = Arc::clone(seats[0].flight());
    flight.push(Bytes::from_static(b"data: a\n\ndata: b\n\n")).await;
    let mut told = Vec::new();
    for seat in seats {
        let reader = reader(seat, Passes::Events);
        let facts = reader.facts.clone();
        let (_events, reader) = reader.step().await.unwrap().unwrap();
        drop(reader);
        let known = facts.known();
        told.push((known.prompt, known.completion));
    }
    // The first leaves while the other reads on.
    assert_eq!(told, [(None, None), (None, Some(Tokens::new(2)))]);
}

#[tokio::test]
async fn a_reader_that_leaves_what_its_worker_has_ended_has_all_of_its_tokens() {
    let flights = Arc::new(Flights::new(1_000));
    let bounds = Bounds { bytes_max: 100, due: Instant::now() + Duration::from_mins(1) };
    let seat = flights.start(bounds);
    seat.flight().push(Bytes::from_static(b"data: a\n\n")).await;
    seat.flight().end(Ended::Whole, Some(counted()));
    let reader = reader(seat, Passes::Events);
    let facts = reader.facts.clone();
    let end = EndCode { ender: Ender::Nobody, phase: Phase::Data };
    facts.note(|record| record.end = end);
    let (_events, reader) = reader.step().await.unwrap().unwrap();
    drop(reader);
    let known = facts.known();
    assert_eq!((known.end, known.completion), (end, Some(Tokens::new(901))));
}
