//! Who goes away, who is slow, who comes too late: the loop's manners.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use overdraft_engine::echo::Noise;
use overdraft_engine::{
    End, EngineHandle, EngineSettings, Event, Observation, Request, RequestRecord, RequestStream,
    SubmitError,
};
use overdraft_units::{Blocks, Micros, TokenId, Tokens};

use crate::support::{
    Notes, ask, chat, echo, gated, observed, outcome, read, request, settings, start, submit, wait,
};

/// The counts once nothing is left; takes no more requests afterwards.
fn drained(engine: &EngineHandle) -> (u32, u32, Blocks) {
    engine.drain();
    wait(engine.drained());
    let batch = engine.stats().batch;
    (batch.running, batch.waiting, batch.blocks_held)
}

/// Sixteen tokens per step, so that a long prompt takes several.
fn small_steps() -> EngineSettings {
    EngineSettings { step_tokens: Tokens::new(16), ..settings() }
}

/// A submission that lies in the inbox while its verdict is still out.
type Submitted = Pin<Box<dyn Future<Output = Result<RequestStream, SubmitError>>>>;

/// Submits while a step is held; the verdict comes after it.
fn submit_behind(engine: &EngineHandle, request: Request) -> Submitted {
    let engine = engine.clone();
    let mut submission: Submitted = Box::pin(async move { engine.submit(request).await });
    let mut context = Context::from_waker(Waker::noop());
    assert!(submission.as_mut().poll(&mut context).is_pending(), "the step is held");
    submission
}

#[test]
fn a_reader_that_leaves_during_prefill_frees_its_blocks_within_the_step() {
    let (backend, gate) = gated(echo(64, Noise::Quiet));
    let engine = start(backend, small_steps());
    let stream = submit(&engine.handle(), request(&"x".repeat(100))).unwrap();
    gate.steps(2);
    gate.await_step();
    assert_ne!(engine.handle().stats().batch.blocks_held, Blocks::ZERO);
    drop(stream);
    gate.permit();
    assert_eq!(drained(&engine.handle()), (0, 0, Blocks::ZERO));
    assert_eq!(gate.begun(), 0, "no step was computed for nobody");
    assert_eq!(engine.handle().stats().generation_tokens, 0);
}

#[test]
fn a_reader_that_leaves_during_decode_frees_its_blocks_within_the_step() {
    let (backend, gate) = gated(echo(64, Noise::Quiet));
    let notes = Notes::default();
    let engine = observed(backend, settings(), notes.clone());
    let mut stream = submit(&engine.handle(), request("short")).unwrap();
    gate.steps(3);
    assert!(matches!(stream.blocking_recv(), Some(Event::Started { .. })));
    assert!(matches!(stream.blocking_recv(), Some(Event::Tokens(_))));
    gate.await_step();
    drop(stream);
    gate.permit();
    assert_eq!(drained(&engine.handle()), (0, 0, Blocks::ZERO));
    assert_eq!(gate.begun(), 0, "no step was computed for nobody");
    let ends: Vec<End> = records(&notes).iter().map(|record| record.end).collect();
    assert_eq!(ends, [End::Abort]);
}

#[test]
fn who_waits_and_leaves_never_runs() {
    let (backend, gate) = gated(echo(64, Noise::Quiet));
    let engine = start(backend, EngineSettings { running_max: 1, ..settings() });
    let first = submit(&engine.handle(), request("first")).unwrap();
    gate.await_step();
    let second = submit_behind(&engine.handle(), request("second"));
    gate.permit();
    drop(wait(second).unwrap());
    drop(gate);
    read(first);
    assert_eq!(drained(&engine.handle()), (0, 0, Blocks::ZERO));
    assert_eq!(engine.handle().stats().prompt_tokens, 5, "only the first one's prompt");
}

#[test]
fn a_slow_reader_holds_up_nobody_and_misses_nothing() {
    let engine = start(echo(1024, Noise::Quiet), settings());
    let mut long = request("slow. ");
    long.sampling.max_tokens = Tokens::new(3000);
    let slow = submit(&engine.handle(), long).unwrap();
    for _ in 0..20 {
        assert_eq!(ask(&engine, chat("quick")).text, "quick");
    }
    engine.handle().drain();
    wait(engine.handle().drained());
    let answer = read(slow);
    assert_eq!(answer.tokens.len(), 3000);
    assert_eq!(answer.text, "slow. ".repeat(500));
}

#[test]
fn a_draining_engine_finishes_what_it_has_and_takes_nothing_new() {
    let (backend, gate) = gated(echo(64, Noise::Quiet));
    let engine = start(backend, settings());
    let running = submit(&engine.handle(), chat("to the end")).unwrap();
    gate.steps(2);
    engine.handle().drain();
    let late = submit(&engine.handle(), chat("late"));
    assert_eq!(late.unwrap_err(), SubmitError::Draining);
    drop(gate);
    assert_eq!(read(running).text, "to the end");
    wait(engine.handle().drained());
}

#[test]
fn a_shut_down_engine_tells_whoever_is_left() {
    let (backend, gate) = gated(echo(64, Noise::Quiet));
    let engine = start(backend, settings());
    let handle = engine.handle();
    let stream = submit(&handle, chat("cut short")).unwrap();
    gate.await_step();
    let stopper = std::thread::spawn(move || engine.shutdown());
    // The phase is set before the thread is joined; the engine sees it after this step.
    while !is_closed(&handle) {
        std::thread::yield_now();
    }
    gate.permit();
    stopper.join().unwrap();
    assert_eq!(outcome(stream).unwrap_err(), "the engine was shut down");
    assert_eq!(submit(&handle, chat("after")).unwrap_err(), SubmitError::Draining);
}

/// Whether the engine refuses at the door.
fn is_closed(engine: &EngineHandle) -> bool {
    let mut submission = Box::pin(engine.submit(chat("probe")));
    let mut context = Context::from_waker(Waker::noop());
    matches!(submission.as_mut().poll(&mut context), Poll::Ready(Err(SubmitError::Draining)))
}

#[test]
fn a_full_queue_refuses_and_recovers() {
    let (backend, gate) = gated(echo(64, Noise::Quiet));
    let engine = start(backend, EngineSettings { running_max: 1, waiting_max: 1, ..settings() });
    let running = submit(&engine.handle(), request("running")).unwrap();
    gate.await_step();
    let waiting = submit_behind(&engine.handle(), request("waiting"));
    gate.permit();
    let waiting = wait(waiting).unwrap();
    gate.await_step();
    let refused = submit_behind(&engine.handle(), request("refused"));
    gate.permit();
    assert_eq!(wait(refused).unwrap_err(), SubmitError::Overloaded { waiting_max: 1 });
    drop(gate);
    read(running);
    read(waiting);
    assert_eq!(ask(&engine, chat("again")).text, "again");
}

#[test]
fn what_can_never_run_is_refused_with_the_figures() {
    let context = Some(Tokens::new(32));
    let engine = start(echo(64, Noise::Quiet), EngineSettings { context, ..settings() });
    let refuse = |request| submit(&engine.handle(), request).unwrap_err();
    assert_eq!(refuse(request("")), SubmitError::EmptyPrompt);
    let (asked, context) = (Tokens::new(32), Tokens::new(32));
    assert_eq!(refuse(request(&"x".repeat(32))), SubmitError::LongerThanContext { asked, context });
    let mut unknown = request("x");
    unknown.prompt.push(TokenId(258));
    assert_eq!(refuse(unknown), SubmitError::UnknownToken { token: TokenId(258), vocabulary: 258 });
    let mut hot = request("x");
    hot.sampling.temperature = -1.0;
    assert_eq!(
        refuse(hot).to_string(),
        "`-1` is not a valid `temperature`; expected a number of at least 0"
    );
    let mut curious = request("x");
    curious.prompt_logprobs = Some(21);
    assert_eq!(refuse(curious), SubmitError::PromptLogprobs { asked: 21 });
}

#[test]
fn the_observer_can_add_it_all_up() {
    let notes = Notes::default();
    let engine = observed(echo(64, Noise::Quiet), settings(), notes.clone());
    ask(&engine, chat("one"));
    ask(&engine, request("two"));
    let stats = engine.handle().stats();
    engine.shutdown();

    let seen = notes.0.lock().unwrap().clone();
    let count = |wanted: fn(&Observation) -> bool| seen.iter().filter(|seen| wanted(seen)).count();
    assert_eq!(count(|seen| matches!(seen, Observation::FirstToken { .. })), 2);
    assert_eq!(count(|seen| matches!(seen, Observation::NextToken { .. })), 3 + 31);
    let computed: u32 = seen
        .iter()
        .map(|seen| match seen {
            Observation::StepRan { tokens, .. } => tokens.get(),
            _ => 0,
        })
        .sum();
    assert_eq!(u64::from(computed), stats.batch.positions_computed);

    let records = records(&notes);
    assert_eq!(
        records.iter().map(|record| record.end).collect::<Vec<_>>(),
        [End::Stop, End::Length]
    );
    let usage = |of: fn(&RequestRecord) -> Tokens| -> u64 {
        records.iter().map(|record| u64::from(of(record).get())).sum()
    };
    assert_eq!(usage(|record| record.usage.prompt), stats.prompt_tokens);
    assert_eq!(usage(|record| record.usage.completion), stats.generation_tokens);
    for record in records {
        let parts = [record.queued, record.prefill, record.decode];
        let sum = parts.into_iter().fold(Micros::ZERO, |sum, part| sum + part);
        assert!(sum <= record.total, "{record:?}");
    }
}

fn records(notes: &Notes) -> Vec<RequestRecord> {
    let record = |seen: &Observation| match seen {
        Observation::Ended(record) => Some(*record),
        _ => None,
    };
    notes.0.lock().expect("nobody panics with it").iter().filter_map(record).collect()
}
