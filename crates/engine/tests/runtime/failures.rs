//! A backend that fails, panics or talks nonsense takes its step down, not the engine.

use overdraft_engine::echo::Noise;
use overdraft_engine::{Backend, BackendError, Event, Health, Observation, Observer, SubmitError};

use crate::support::{altered, ask, chat, echo, observed, outcome, settings, start, submit, wait};

/// What a step is to come to.
#[derive(Clone, Copy)]
enum Fate {
    Fails,
    Panics,
    SaysNothing,
    SaysTooLittle,
    Succeeds,
}

/// An echo whose first steps have a fate.
fn fated(fates: &[Fate]) -> impl Backend + 'static {
    let mut fates = Vec::from(fates).into_iter();
    altered(echo(64, Noise::Quiet), move |echo, batch, logits| {
        let result = echo.forward(batch, logits);
        match fates.next().unwrap_or(Fate::Succeeds) {
            Fate::Succeeds => result,
            Fate::Fails => Err(BackendError { reason: "out of luck".to_owned() }),
            Fate::Panics => panic!("the test's backend panics, as it should"),
            Fate::SaysNothing => {
                logits.fill(f32::NAN);
                result
            }
            Fate::SaysTooLittle => {
                logits.pop();
                result
            }
        }
    })
}

#[test]
fn a_failed_step_fails_its_requests_and_the_engine_goes_on() {
    let engine = start(fated(&[Fate::Fails]), settings());
    let stream = submit(&engine.handle(), chat("lost")).unwrap();
    assert_eq!(outcome(stream).unwrap_err(), "the backend failed in a step: out of luck");
    assert_eq!(engine.handle().health(), Health::Failing { consecutive: 1 });
    assert!(engine.handle().health().is_serving());
    assert_eq!(ask(&engine, chat("found")).text, "found");
    assert_eq!(engine.handle().health(), Health::Ready);
    assert_eq!(engine.handle().stats().steps_failed, 1);
}

#[test]
fn three_failures_in_a_row_are_unhealthy_until_one_step_succeeds() {
    let engine = start(fated(&[Fate::Fails; 3]), settings());
    for _ in 0..3 {
        let stream = submit(&engine.handle(), chat("lost")).unwrap();
        outcome(stream).unwrap_err();
    }
    assert!(!engine.handle().health().is_serving());
    assert_eq!(ask(&engine, chat("found")).text, "found");
    assert!(engine.handle().health().is_serving());
}

#[test]
fn a_panic_is_reported_and_the_backend_is_never_called_again() {
    let engine = start(fated(&[Fate::Succeeds, Fate::Panics]), settings());
    let stream = submit(&engine.handle(), chat("lost")).unwrap();
    assert!(outcome(stream).unwrap_err().contains("failed for good"));
    assert_eq!(engine.handle().health(), Health::Broken);
    assert_eq!(engine.handle().stats().batch.running, 0);
    assert_eq!(submit(&engine.handle(), chat("late")).unwrap_err(), SubmitError::Broken);
}

/// Panics at whatever it is told, also when it is told of a panic.
struct Fainting;

impl Observer for Fainting {
    fn observe(&mut self, observation: &Observation) {
        panic!("the test's observer panics, as it should, at {observation:?}");
    }
}

#[test]
fn an_engine_whose_thread_panics_is_broken_and_keeps_nobody_waiting() {
    let engine = observed(echo(64, Noise::Quiet), settings(), Fainting);
    let mut stream = submit(&engine.handle(), chat("lost")).unwrap();
    while let Some(event) = stream.blocking_recv() {
        assert!(matches!(event, Event::Started { .. }), "{event:?}");
    }
    assert_eq!(engine.handle().health(), Health::Broken);
    assert_eq!(engine.handle().stats().batch.running, 0);
    assert_eq!(submit(&engine.handle(), chat("late")).unwrap_err(), SubmitError::Broken);
    wait(engine.handle().drained());
}

#[test]
fn logits_without_a_number_fail_their_request_only() {
    let engine = start(fated(&[Fate::SaysNothing]), settings());
    let stream = submit(&engine.handle(), chat("lost")).unwrap();
    assert!(outcome(stream).unwrap_err().contains("no usable logits"));
    assert_eq!(ask(&engine, chat("found")).text, "found");
}

#[test]
fn a_backend_that_gives_too_few_logits_has_failed() {
    let engine = start(fated(&[Fate::SaysTooLittle]), settings());
    let stream = submit(&engine.handle(), chat("lost")).unwrap();
    let sentence = outcome(stream).unwrap_err();
    assert!(sentence.contains("`257` logits; expected 258"), "{sentence}");
}
