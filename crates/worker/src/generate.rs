//! Generation: submits a plan to the engine and relays its events to the client.
//!
//! All completions of a request are asked for at once and listened to together. The listener owns
//! them: when the client goes away the answer is dropped, with it the engine's streams, and the
//! engine frees their blocks. **Invariant:** either every completion is taken by the engine or the
//! request is refused.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use overdraft_engine::{EngineHandle, Event, Request, RequestStream, SubmitError};
use overdraft_http::{Body, BoxError, Exchange, reply};
use overdraft_telemetry::{Delivery as Told, EndCode, Ender, Phase, unix_seconds};
use overdraft_units::Instant;
use overdraft_wire::Generation;
use overdraft_wire::request::Delivery;
use overdraft_wire::{ApiError, ErrorKind};

use crate::choice_order::ChoiceOrder;
use crate::fault_injection::{self, FaultInjector, InjectedFault};
use crate::kv_share::Peer;
use crate::meter::Meter;
use crate::piece::{Choice, Piece, Step};
use crate::plan::Plan;
use crate::refusal;
use crate::render::Heading;
use crate::stream::{Progress, StreamState};
use crate::worker::{Loading, Worker};
use crate::{chat, completions};

/// Prompts of one request whose blocks are fetched, one after the other; with more, none are.
const PROMPTS_FETCHED_MAX: usize = 4;

/// Why a connection ends that was to be cut.
const CUT: &str = "the connection was cut, as was asked for";

/// Answers a chat or a completion request.
pub(crate) async fn answer(
    worker: &Arc<Worker>,
    exchange: &Exchange,
    source: Option<Peer>,
    body: Bytes,
    generation: Generation,
) -> Result<Response<Body>, ApiError> {
    let planner = Arc::clone(worker);
    let plan = worker
        .parse_pool
        .prepare(body, move |body| match generation {
            Generation::Chat => chat::plan(&planner, body),
            Generation::Completion => completions::plan(&planner, body),
        })
        .await?;
    plan.check_queue(worker.engine.waiting_max())?;
    plan.check_logprobs()?;
    let fault = worker.fault_injection.as_ref().map_or(InjectedFault::None, FaultInjector::next);
    if let Some(error) = fault.error() {
        return Err(error);
    }
    let loading = worker.load.begin();
    worker.metrics.catalogue().request_begun(plan.n);
    note_plan(worker, exchange, &plan);
    let arrived = worker.clock.now();
    fetch(worker, &plan, source).await;
    let streams = submit(worker, &plan, arrived).await?;
    exchange.access.note(|record| record.end.phase = Phase::FirstToken);
    let heading = heading(worker, exchange, &plan);
    let (owner, exchange) = (Arc::clone(worker), exchange.clone());
    let job = Job { worker: owner, exchange, streams, loading, fault };
    match plan.delivery {
        Delivery::Whole => job.whole(&plan, &heading).await,
        Delivery::Stream(_) => Ok(job.streamed(&plan, heading)),
    }
}

fn note_plan(worker: &Worker, exchange: &Exchange, plan: &Plan) {
    exchange.access.note(|record| {
        record.model = Some(worker.name().to_owned());
        record.prompt = Some(plan.prompt_tokens());
        record.end.phase = Phase::Queue;
        record.delivery = match plan.delivery {
            Delivery::Whole => Told::Whole,
            Delivery::Stream(_) => Told::Streamed,
        };
    });
}

fn heading(worker: &Worker, exchange: &Exchange, plan: &Plan) -> Heading {
    let name = exchange.id.as_str();
    let bare = name.strip_prefix("req_").unwrap_or(name);
    let kind = match plan.generation {
        Generation::Chat => "chatcmpl",
        Generation::Completion => "cmpl",
    };
    Heading {
        id: format!("{kind}-{bare}"),
        created: unix_seconds(),
        model: worker.name().to_owned(),
        generation: plan.generation,
        form: plan.form,
    }
}

/// Gets what others have computed of the prompts, where that is sooner over than computing it.
async fn fetch(worker: &Worker, plan: &Plan, source: Option<Peer>) {
    let Some(share) = &worker.kv_share else { return };
    // Prompt log probabilities need every position computed.
    if plan.prompt_logprobs.is_some() || plan.prompts.len() > PROMPTS_FETCHED_MAX {
        return;
    }
    for prompt in &plan.prompts {
        share.bring(&worker.engine, &prompt.tokens, plan.salt, source.clone()).await;
    }
}

async fn submit(worker: &Worker, plan: &Plan, arrived: Instant) -> Result<Streams, ApiError> {
    let requests: Vec<Request> = plan.requests().collect();
    let taken = submit_all(&worker.engine, requests, arrived).await;
    let streams = taken.map_err(|error| {
        if matches!(error, SubmitError::Overloaded { .. }) {
            worker.metrics.catalogue().rejected();
        }
        let field = match plan.generation {
            Generation::Chat => "messages",
            Generation::Completion => "prompt",
        };
        refusal::explain(&error, field)
    })?;
    Ok(Streams::new(plan, streams))
}

/// Submits all at once, so that they start in the same step. If one is refused, the others are
/// cancelled.
async fn submit_all(
    engine: &EngineHandle,
    requests: Vec<Request>,
    arrived: Instant,
) -> Result<Vec<RequestStream>, SubmitError> {
    let mut verdicts: Vec<_> = requests
        .into_iter()
        .map(|request| Box::pin(engine.submit_since(request, arrived)))
        .collect();
    let mut streams: Vec<Option<RequestStream>> = verdicts.iter().map(|_| None).collect();
    poll_fn(|cx| {
        let mut missing = false;
        for (verdict, stream) in verdicts.iter_mut().zip(&mut streams) {
            if stream.is_some() {
                continue;
            }
            match verdict.as_mut().poll(cx) {
                Poll::Ready(Ok(taken)) => *stream = Some(taken),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => missing = true,
            }
        }
        if missing { Poll::Pending } else { Poll::Ready(Ok(())) }
    })
    .await?;
    Ok(streams.into_iter().flatten().collect())
}

/// The engine's streams of one request, listened to together.
#[derive(Debug)]
struct Streams {
    live: Vec<(usize, RequestStream)>,
    order: ChoiceOrder,
}

impl Streams {
    fn new(plan: &Plan, streams: Vec<RequestStream>) -> Self {
        Self {
            live: streams.into_iter().enumerate().collect(),
            order: ChoiceOrder::new(plan.prompts.len(), plan.per_prompt()),
        }
    }

    /// The next event of any choice that may begin. A choice whose stream ends without a last event is lost with
    /// the engine.
    async fn next(&mut self) -> (usize, Event) {
        let Self { live, order } = self;
        let (place, event) = poll_fn(|cx| {
            for (place, (choice, stream)) in live.iter_mut().enumerate() {
                if !order.admits(*choice) {
                    continue;
                }
                if let Poll::Ready(event) = pin!(stream.recv()).poll(cx) {
                    return Poll::Ready((place, event));
                }
            }
            Poll::Pending
        })
        .await;
        let choice = live[place].0;
        order.note(choice);
        let event = event.unwrap_or_else(|| Event::Failed("the engine has stopped".to_owned()));
        if matches!(event, Event::Finished { .. } | Event::Failed(_)) {
            live.remove(place);
        } else {
            // The others come first next time.
            live.rotate_left(place + 1);
        }
        (choice, event)
    }
}

/// A request that the engine has taken.
struct Job {
    worker: Arc<Worker>,
    exchange: Exchange,
    streams: Streams,
    loading: Loading,
    /// What befalls it on purpose.
    fault: InjectedFault,
}

impl Job {
    async fn whole(mut self, plan: &Plan, heading: &Heading) -> Result<Response<Body>, ApiError> {
        if self.befallen().await {
            return Ok(broken_off());
        }
        let mut choices: Vec<_> =
            (0..plan.choices()).map(|index| (Choice::new(plan, index), Piece::default())).collect();
        let mut meter = Meter::new(plan);
        let mut unfinished = choices.len();
        while unfinished > 0 {
            let (index, event) = tokio::select! {
                biased;
                next = self.streams.next() => next,
                () = self.exchange.drain.cut() => return Err(leaving()),
            };
            meter.note(index, &event);
            self.note(EventKind::of(&event), &meter);
            let (choice, told) = &mut choices[index];
            match choice.take(event, &self.worker.tokenizer) {
                Step::Piece(piece) => append(told, piece),
                Step::Last(piece) => {
                    append(told, piece);
                    unfinished -= 1;
                }
                Step::Lost(sentence) => return Err(self.lost(sentence)),
            }
        }
        let pieces = choices.into_iter().map(|(_, told)| told).collect();
        let answer = heading.whole(pieces, meter.usage(), &self.worker.tokenizer);
        drop(self.loading);
        Ok(reply::json(StatusCode::OK, answer))
    }

    /// Waits while the answer stalls, if that befalls it; says whether it is to be cut.
    async fn befallen(&mut self) -> bool {
        match std::mem::replace(&mut self.fault, InjectedFault::None) {
            InjectedFault::None | InjectedFault::Error(_) => false,
            InjectedFault::Stall(_, lasts) => {
                let drain = self.exchange.drain.clone();
                tokio::select! {
                    () = fault_injection::stall(lasts) => {}
                    () = drain.cut() => {}
                }
                false
            }
            InjectedFault::Cut(_) => {
                self.exchange.access.note(|record| {
                    record.end = EndCode { ender: Ender::Server, phase: Phase::Data };
                });
                true
            }
        }
    }

    fn streamed(self, plan: &Plan, heading: Heading) -> Response<Body> {
        let state = StreamState::new(plan, heading, Arc::clone(&self.worker.tokenizer));
        let drain = self.exchange.drain.clone();
        let cut = Box::pin(async move { drain.cut().await });
        reply::event_stream(Body::unfold(Streaming { job: self, state, cut }, Streaming::step))
    }

    /// Keeps the access line up to date.
    fn note(&self, kind: EventKind, meter: &Meter) {
        let now = self.worker.clock.now();
        self.exchange.access.note(|record| match kind {
            EventKind::Start => {}
            EventKind::Tokens => {
                record.first_token.get_or_insert(now.since(self.exchange.begun));
                record.completion = Some(meter.completion());
                record.end.phase = Phase::Data;
            }
            EventKind::Loss => record.end.ender = Ender::Server,
            EventKind::Cut => record.end.ender = Ender::Drain,
        });
    }

    fn lost(&self, sentence: String) -> ApiError {
        if self.worker.engine.health().is_serving() {
            ApiError::server_error(sentence)
        } else {
            ApiError::overloaded(sentence)
        }
    }
}

/// What an event means for the access line.
#[derive(Clone, Copy)]
enum EventKind {
    Start,
    Tokens,
    Loss,
    Cut,
}

impl EventKind {
    fn of(event: &Event) -> Self {
        match event {
            Event::Started { .. } => Self::Start,
            Event::Tokens(_) | Event::Finished { .. } => Self::Tokens,
            Event::Failed(_) => Self::Loss,
        }
    }
}

/// A head, and a connection that is cut behind it.
fn broken_off() -> Response<Body> {
    let body = Body::unfold((), |()| async { Err::<Option<(Bytes, ())>, BoxError>(CUT.into()) });
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn append(told: &mut Piece, next: Piece) {
    if told.opening.is_none() && next.opening.is_some() {
        *told = next;
    } else {
        told.append(next);
    }
}

fn leaving() -> ApiError {
    ApiError::new(ErrorKind::Overloaded, "the worker is shutting down; send the request elsewhere")
}

/// A streamed answer and what feeds it.
struct Streaming {
    job: Job,
    state: StreamState,
    cut: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Streaming {
    /// The next bytes for the client.
    async fn step(mut self) -> Result<Option<(Bytes, Self)>, BoxError> {
        match self.state.progress() {
            Progress::GoesOn => {}
            Progress::Done => return Ok(None),
            Progress::Lost => return Err("the stream was lost".into()),
        }
        if self.job.fault.is_due(self.state.meter().completion()) && self.job.befallen().await {
            // What was handed over before has to leave before the connection does.
            tokio::task::yield_now().await;
            return Err(CUT.into());
        }
        let mut out = Vec::with_capacity(512);
        while out.is_empty() {
            tokio::select! {
                biased;
                (choice, event) = self.job.streams.next() => {
                    let kind = EventKind::of(&event);
                    self.state.take(choice, event, &mut out);
                    self.job.note(kind, self.state.meter());
                }
                () = &mut self.cut => {
                    self.state.lose(&leaving(), &mut out);
                    self.job.note(EventKind::Cut, self.state.meter());
                }
            }
        }
        Ok(Some((Bytes::from(out), self)))
    }
}
