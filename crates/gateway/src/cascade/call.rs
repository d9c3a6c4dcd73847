//! Calls to workers: internal requests for drafts, scores and comparisons.
//!
//! A draft, a score or the rest of an answer is routed, booked on the ledger and counted by circuit
//! breakers like any request, and checked for completeness like any answer. Dropping a call cancels
//! it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Uri};
use http_body_util::BodyExt;
use overdraft_core::fleet::{Ending, Failure, Turn};
use overdraft_core::route::Strictness;
use overdraft_core::route::{Choice, Tried};
use overdraft_http::Drain;
use overdraft_telemetry::Clock;
use overdraft_units::{Instant as Moment, Tokens};
use overdraft_wire::Endpoint;
use overdraft_wire::sse::{Event, Splitter};
use tokio::time::Instant;

use super::CascadeLayer;
use crate::dispatch::Lease;
use crate::dispatch::{Explanation, Used};
use crate::pipeline::attempt::{Answer, converse};
use crate::pipeline::failed_attempt::Failed;
use crate::pipeline::question::Question;
use crate::pipeline::relay::whole;
use crate::pipeline::relay::{Fault, Opened, TimeLimits, Watch};
use crate::pipeline::request_guard::PoolTimes;
use crate::pipeline::request_info::RequestInfo;
use crate::pipeline::upstream_body::{Content, Front};
use crate::settings::Pool;
use crate::trace::RequestTrace;
use crate::upstream::AnswerBody;

/// Events after which the core is told how far a stream has come.
const PROGRESS_EVENTS: u32 = 32;

/// Bytes of an answer in one piece at most.
const LONG_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What every request upstream on behalf of one client's has in common.
#[derive(Clone, Debug)]
pub(super) struct CallContext {
    pub(super) layer: Arc<CascadeLayer>,
    pub(super) head: Arc<Parts>,
    pub(super) request_id: HeaderValue,
    /// None where no client waits for it.
    pub(super) drain: Option<Drain>,
    /// When all of it began.
    pub(super) begun: Instant,
    /// When all of it must have ended.
    pub(super) last: Instant,
    /// What each pool has taken so far.
    pub(super) times: PoolTimes,
    /// The trace of the client's request.
    pub(super) trace: RequestTrace,
}

/// A worker is asked until this is dropped; what it took is its pool's time.
#[derive(Debug)]
struct Spending {
    times: PoolTimes,
    pool: Pool,
    clock: Clock,
    began: Moment,
}

impl Drop for Spending {
    fn drop(&mut self) {
        self.times.add(self.pool, self.clock.now().since(self.began));
    }
}

/// Why nothing came of it.
#[derive(Debug)]
pub(super) enum CallError {
    /// Nobody could be asked.
    NoPlace(Choice),
    /// It went wrong at a worker.
    Failed(Box<Failed>),
    /// The worker refuses the request itself.
    Refused,
    /// What came is not what was asked for.
    Strange,
}

impl CallError {
    /// As metrics call it.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::NoPlace(Choice::Saturated { .. } | Choice::NoRoom { .. }) => "saturated",
            Self::NoPlace(_) => "none_up",
            Self::Failed(failed) => failed.kind(),
            Self::Refused => "refused",
            Self::Strange => "strange",
        }
    }
}

/// Something to ask.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) info: RequestInfo,
    pub(super) path: &'static str,
    pub(super) body: Bytes,
}

impl CallContext {
    /// Asks for a worker; nobody waits for one here.
    pub(super) fn place(
        &self,
        call: &Call,
        tried: &Tried,
        strictness: Strictness,
    ) -> Result<Lease, CallError> {
        self.place_explained(call, tried, strictness, &mut Explanation::default())
    }

    fn place_explained(
        &self,
        call: &Call,
        tried: &Tried,
        strictness: Strictness,
        explanation: &mut Explanation,
    ) -> Result<Lease, CallError> {
        let turn = if tried.attempts() == 0 { Turn::First } else { Turn::Again };
        let placing = call.info.placing(tried, turn, strictness);
        let dispatcher = &self.layer.pipeline.dispatcher;
        dispatcher.place(placing, explanation).map_err(CallError::NoPlace)
    }

    fn spend(&self, lease: &Lease) -> Spending {
        let clock = self.layer.pipeline.dispatcher.clock;
        let pool = self.layer.pipeline.dispatcher.pool(lease.worker());
        Spending { times: self.times.clone(), pool, clock, began: clock.now() }
    }

    /// Asks for a worker to draft: one that is out for failing its requests is asked by its trials alone, also where all
    /// are out, for the target can be asked instead. Where none is up, the draft's pool is told that one was missed.
    pub(super) fn place_draft(
        &self,
        call: &Call,
        explanation: &mut Explanation,
    ) -> Result<Lease, CallError> {
        let tried = Tried::default();
        let placed = self.place_explained(call, &tried, Strictness::Judged, explanation);
        if let Err(CallError::NoPlace(Choice::NoneUp | Choice::UnknownModel)) = placed {
            self.layer.pipeline.dispatcher.note_miss(&call.info.model);
        }
        let lease = placed?;
        if lease.is_out() { Err(CallError::NoPlace(Choice::NoneUp)) } else { Ok(lease) }
    }

    /// Asks for an answer in pieces.
    pub(super) async fn stream(
        &self,
        mut lease: Lease,
        call: &Call,
    ) -> Result<AnswerStream, CallError> {
        let (spending, sent) = (self.spend(&lease), Instant::now());
        match self.ask(&mut lease, call).await? {
            Answer::Stream { opened, .. } if opened.watch.has_events() => {
                lease.first_token();
                let deadlines = self.layer.pipeline.routes().route(&call.info.model).deadlines;
                let total = lease.limits(deadlines).total;
                let last = self.last.min(sent + Duration::from(total.after));
                let limits = TimeLimits::new(deadlines, total, last, None);
                Ok(AnswerStream::new(self, limits, lease, spending, *opened))
            }
            Answer::Stream { .. } => {
                lease.end(Ending::Declined, None);
                Err(CallError::Strange)
            }
            // A refusal comes whole, and so does the answer of who cannot stream.
            Answer::Whole { head, used, .. } => {
                let is_result = head.status.is_success();
                lease.end(if is_result { Ending::Answered } else { Ending::Declined }, used);
                Err(if is_result { CallError::Strange } else { CallError::Refused })
            }
        }
    }

    /// Asks for an answer in one piece.
    pub(super) async fn whole(&self, mut lease: Lease, call: &Call) -> Result<Bytes, CallError> {
        let _spending = self.spend(&lease);
        match self.ask(&mut lease, call).await? {
            Answer::Whole { head, body, used, .. } => {
                if !head.status.is_success() {
                    lease.end(Ending::Declined, used);
                    return Err(CallError::Refused);
                }
                lease.end(Ending::Answered, used);
                let collected = body.collect().await.map_err(|_| CallError::Strange)?;
                Ok(collected.to_bytes())
            }
            Answer::Stream { opened, .. } if opened.watch.has_events() => Err(CallError::Strange),
            // What the target thinks of each token of a long prompt is long.
            Answer::Stream { opened, .. } => {
                let collected = whole::rest(*opened, LONG_BYTES_MAX).await;
                let ending =
                    |fault: &Fault| fault.failure().map_or(Ending::Abandoned, Ending::Failed);
                lease.end(collected.as_ref().map_or_else(ending, |_| Ending::Answered), None);
                collected.map_err(|_| CallError::Strange)
            }
        }
    }

    async fn ask(&self, lease: &mut Lease, call: &Call) -> Result<Answer, CallError> {
        let question = Question {
            content: Content {
                body: call.body.clone(),
                front: Front::Unknown { counts: false },
                tracked: None,
            },
            path: Uri::from_static(call.path),
            endpoint: Endpoint::of_path(call.path),
            request_id: self.request_id.clone(),
            head: &self.head,
            begun: self.begun,
            trace: self.trace.clone(),
        };
        let asked = converse(&self.layer.pipeline, &call.info, &question, lease);
        let answered = tokio::time::timeout_at(self.last, asked).await;
        match answered {
            Ok(Ok(answer)) => Ok(answer),
            // Not every engine has every path that a cascade knows: that is for it to remember.
            Ok(Err(failed)) if failed.failure == Failure::Disputed => {
                lease.decline();
                Err(CallError::Refused)
            }
            Ok(Err(failed)) => {
                self.layer.pipeline.requests.upstream_failed(failed.kind());
                lease.fail(failed.failure);
                Err(CallError::Failed(Box::new(failed)))
            }
            Err(_elapsed) => Err(CallError::Strange),
        }
    }
}

/// An answer that comes in pieces.
#[derive(Debug)]
pub(super) struct AnswerStream {
    /// Until it has ended.
    lease: Option<(Lease, Spending)>,
    answer: AnswerBody,
    watch: Watch,
    splitter: Splitter,
    events: VecDeque<Event>,
    /// Why nothing follows those.
    fault: Option<Fault>,
    listened: u32,
    limits: TimeLimits,
    drain: Option<Drain>,
}

impl AnswerStream {
    fn new(
        calls: &CallContext,
        limits: TimeLimits,
        lease: Lease,
        spending: Spending,
        opened: Opened,
    ) -> Self {
        let settings = calls.layer.pipeline.settings();
        let Opened { answer, watch, first } = opened;
        let mut stream = Self {
            lease: Some((lease, spending)),
            answer,
            watch,
            splitter: Splitter::new(settings.limits.event_bytes),
            events: VecDeque::new(),
            fault: None,
            listened: 0,
            limits,
            drain: calls.drain.clone(),
        };
        // The watch has let it through, so it is a sequence of whole events.
        let _whole = stream.cut(&first);
        stream
    }

    /// From now on its next words are waited for no longer than this.
    pub(super) fn hurry(&mut self, idle: Duration) {
        self.limits.hurry(idle);
    }

    /// Which worker speaks.
    pub(super) fn worker(&self) -> Option<overdraft_core::fleet::WorkerId> {
        self.lease.as_ref().map(|(lease, _)| lease.worker())
    }

    /// The token counts that were told.
    pub(super) fn used(&self) -> Option<Used> {
        self.watch.used()
    }

    /// The data of the next event; `None` at the end of a whole answer.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        self.limits.await_event();
        loop {
            while let Some(event) = self.events.pop_front() {
                if event.is_done() {
                    break;
                }
                if let Some(data) = event.data() {
                    self.progress();
                    return Ok(Some(data.into_owned()));
                }
            }
            if let Some(fault) = self.fault.take() {
                return Err(self.fail(fault));
            }
            if self.watch.is_done() {
                self.end(Ending::Answered);
                return Ok(None);
            }
            let drain = &self.drain;
            let read = tokio::select! {
                biased;
                read = poll_fn(|cx| self.answer.poll_data(cx)) => read,
                event = poll_fn(|cx| self.watch.poll_rest(cx)) => {
                    self.fault = self.cut(&event);
                    continue;
                }
                () = poll_fn(|cx| self.limits.poll_due(cx)) => {
                    let lease = self.lease.as_ref().map(|(lease, _)| lease);
                    self.fault = self.limits.overdue(lease);
                    continue;
                }
                () = cut(drain.as_ref()) => return Err(self.fail(Fault::Drained)),
            };
            match read {
                Some(Ok(chunk)) => {
                    self.limits.await_event();
                    let seen = self.watch.take(chunk);
                    let cut = self.cut(&seen.relay);
                    self.fault = seen.fault.or(cut);
                }
                // All has been said and only the formality is missing, however its connection ended.
                Some(Err(_)) | None if self.watch.is_whole() => {
                    let Some(event) = self.watch.rest() else {
                        self.end(Ending::Answered);
                        return Ok(None);
                    };
                    self.fault = self.cut(&event);
                }
                Some(Err(error)) => return Err(self.fail(Fault::Broken(error.to_string()))),
                None => {
                    let why = "it ended without a finish reason".to_owned();
                    return Err(self.fail(Fault::Broken(why)));
                }
            }
        }
    }

    fn cut(&mut self, chunk: &Bytes) -> Option<Fault> {
        self.splitter.push(chunk);
        loop {
            match self.splitter.next_event() {
                Ok(Some(event)) => self.events.push_back(event),
                Ok(None) => return None,
                Err(error) => return Some(Fault::Broken(error.to_string())),
            }
        }
    }

    fn progress(&mut self) {
        self.listened = self.listened.saturating_add(1);
        if self.listened.is_multiple_of(PROGRESS_EVENTS)
            && let Some((lease, _)) = &mut self.lease
        {
            lease.progress(Tokens::new(self.listened));
        }
    }

    fn end(&mut self, ending: Ending) {
        let used = self.watch.used();
        if let Some((lease, _spending)) = self.lease.take() {
            lease.end(ending, used);
        }
    }

    fn fail(&mut self, fault: Fault) -> Fault {
        self.end(fault.failure().map_or(Ending::Abandoned, Ending::Failed));
        fault
    }
}

/// Resolves when the client that waits for the answer is cut off.
async fn cut(drain: Option<&Drain>) {
    match drain {
        Some(drain) => drain.cut().await,
        None => std::future::pending().await,
    }
}
