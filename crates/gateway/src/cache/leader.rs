//! Leader of a single flight: looks in the shared store, asks a worker, and stores the answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::request::Parts;
use http::{HeaderValue, Response, Uri};
use http_body::Body as _;
use http_body_util::BodyExt;
use overdraft_core::response_cache::{Answered, Finish, Unkept, Wanted, unkept};
use overdraft_http::{Body, Exchange};
use overdraft_store::{Looked, Ticket};
use overdraft_telemetry::unix_milliseconds;
use overdraft_units::{Micros, Tokens};
use overdraft_wire::Endpoint;
use overdraft_wire::response::Usage;
use overdraft_wire::response::replay::{self as forms, Finished};
use tokio::sync::watch;
use tokio::time::Instant;

use super::entry::{Entry, Kept, Made};
use super::request::{Form, Sought};
use super::single_flight::{Begun, Ended, Flight, Opening};
use super::{Cache, Term, replay};
use crate::dispatch::Explanation;
use crate::pipeline::context::RequestContext;
use crate::pipeline::facts::{RequestFacts, SharedFacts};
use crate::pipeline::keys::{Bill, Charge};
use crate::pipeline::question::Question;
use crate::pipeline::request_info::RequestInfo;
use crate::pipeline::{bounds, fallback, prompt_tokens, refusal, resume};
use crate::settings::CacheMode;

/// What one question needs of the request that asked first.
pub(crate) struct Leading {
    pub(crate) sought: Box<Sought>,
    pub(crate) info: RequestInfo,
    pub(crate) head: Parts,
    pub(crate) endpoint: Endpoint,
    /// The leader's facts are its own: the first to ask may be gone before the answer is.
    pub(crate) exchange: Exchange,
    pub(crate) charge: Option<Charge>,
    /// What becomes known of it.
    pub(crate) facts: SharedFacts,
    /// Where its decisions are kept, if they are.
    pub(crate) explanation: Explanation,
    /// Who wants to hear whether it is held until a worker is up.
    pub(crate) held: Option<watch::Sender<bool>>,
}

/// Sees to it that a flight ends, however its task does.
struct Guard {
    cache: Arc<Cache>,
    flight: Arc<Flight>,
    charge: Option<Charge>,
    facts: SharedFacts,
    /// Events of its answer that were shown.
    events: u64,
}

impl Guard {
    fn settle(&mut self, bill: Bill) {
        if let Some(charge) = self.charge.take() {
            charge.settle(bill, self.cache.pipeline.dispatcher.clock.now());
        }
    }

    fn end(mut self, end: Ended, bill: Bill, facts: Option<RequestFacts>) {
        self.settle(bill);
        self.flight.end(end, facts);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Everybody has left. A worker that was asked has computed for them.
        let bill = match self.events {
            _ if self.facts.known().worker.is_none() => Bill::Nothing,
            0 => Bill::AsExpected,
            events => Bill::Streamed(events),
        };
        self.settle(bill);
        self.flight.end(Ended::Broken, None);
    }
}

/// Starts; the flight ends it when nobody waits any more.
pub(crate) fn start(cache: &Arc<Cache>, flight: &Arc<Flight>, mut leading: Leading) {
    let charge = leading.charge.take();
    let (cache, flight) = (Arc::clone(cache), Arc::clone(flight));
    let guard = Guard {
        cache: Arc::clone(&cache),
        flight: Arc::clone(&flight),
        charge,
        facts: leading.facts.clone(),
        events: 0,
    };
    let leaders = cache.leaders.clone();
    let task = leaders.spawn(lead(cache, guard, leading));
    flight.led_by(task.abort_handle());
}

async fn lead(cache: Arc<Cache>, mut guard: Guard, leading: Leading) {
    let begun = Instant::now();
    let flight = Arc::clone(&guard.flight);
    let purges = cache.purges();
    let ticket = match look_up(&cache, &leading.sought, purges).await {
        Ok((entry, told)) => {
            flight.open(Opening::Found(entry, told));
            guard.end(Ended::Whole, Bill::Nothing, None);
            return;
        }
        Err(ticket) => ticket,
    };
    let Leading { sought, mut info, head, endpoint, exchange, facts, explanation, held, .. } =
        leading;
    prompt_tokens::count(&cache.pipeline, &mut info, &sought.content.body, endpoint).await;
    let mut context = RequestContext::new(&exchange, &head, endpoint).noted_in(facts);
    context.explanation = explanation;
    if let Some(held) = held {
        context = context.told(held);
    }
    let response = ask(&cache, &mut context, &info, &sought).await;
    let is_success = response.status().is_success();
    if is_success {
        cache.openings().note(wanted(&sought, &info), Micros::from(begun.elapsed()));
    }
    let served_by = context.served_by();
    let worker = served_by.map(|member| member.upstream.name().to_owned());
    let pool = served_by.map(|member| member.settings.pool);
    let (head, body) = response.into_parts();
    let length = body.size_hint().exact();
    let has_fallen_back = context.facts.known().has_fallen_back();
    let trail = context.explanation.take_trail();
    let opening = Begun { head, length, worker, pool, has_fallen_back, trail };
    flight.open(Opening::Begun(Arc::new(opening)));
    let entry_bytes = cache.pipeline.settings().cache.entry_bytes;
    let mut pump = Pump { form: sought.form, held: Vec::new(), bytes: 0, bytes_max: entry_bytes };
    let is_whole = pump.run(&cache, &flight, body, &mut guard.events).await;
    let facts = context.facts.known();
    let bytes = u64::try_from(pump.bytes).unwrap_or(u64::MAX);
    let came = Came { is_success, is_whole, bytes, took: begun.elapsed(), purges };
    // What was put together from two answers is nobody else's, and neither is what another model said.
    let is_kept = facts.resumed.is_none() && !facts.has_fallen_back();
    let kept = if is_kept { keep(&cache, &sought, pump, came) } else { None };
    let bill = bill(&facts, is_success, guard.events);
    guard.end(if is_whole { Ended::Whole } else { Ended::Broken }, bill, Some(facts));
    // The clients have their answer; that others may have it too keeps nobody waiting.
    if let (Some(entry), Some(ticket)) = (kept, ticket) {
        share(&cache, &sought, &entry, ticket).await;
    }
}

/// What an answer costs its key, of which so many events were shown. Where no worker told of the prompt, as of a stream
/// that broke off, that is as was estimated. The event that says why it broke off is no token.
fn bill(facts: &RequestFacts, is_success: bool, events: u64) -> Bill {
    let count = |count: Tokens| u64::from(count.get());
    match (facts.prompt, facts.completion) {
        (None, None) if !is_success => Bill::Nothing,
        (None, completion) if 0 < events => Bill::Streamed(completion.map_or(events, count)),
        (None, None) => Bill::AsExpected,
        (prompt, completion) => {
            let [prompt, completion] = [prompt, completion].map(|told| told.map_or(0, count));
            Bill::Counted(prompt.saturating_add(completion))
        }
    }
}

/// Looks again in memory, for the answer may have come meanwhile, and then where others keep theirs.
async fn look_up(
    cache: &Arc<Cache>,
    sought: &Sought,
    purges: u64,
) -> Result<(Arc<Entry>, Bytes), Option<Ticket>> {
    let settings = Arc::clone(&cache.pipeline.settings());
    if sought.looks_up
        && settings.cache.mode == CacheMode::On
        && let Some(entry) = cache.recall(&sought.name, cache.pipeline.dispatcher.clock.now())
        && let Some(told) = replay::told(&entry, sought.form)
    {
        return Ok((entry, told));
    }
    let Some(response_store) = cache.response_store() else { return Err(None) };
    let looked = response_store.get(&sought.name).await;
    match looked {
        Err(_) => {
            cache.metrics.looked_up("shared", "error");
            Err(None)
        }
        Ok(Looked::Missing(ticket)) => {
            cache.metrics.looked_up("shared", "miss");
            Err(Some(ticket))
        }
        Ok(Looked::Found(bytes, ticket)) => {
            let answer_max = settings.cache.entry_bytes;
            let entry = Entry::decode(bytes, &sought.name, answer_max);
            let alive = entry.filter(|entry| entry.age(unix_milliseconds()) < settings.cache.life);
            let told = alive.as_ref().and_then(|entry| replay::told(entry, sought.form));
            let (Some(entry), Some(told)) = (alive, told) else {
                cache.metrics.looked_up("shared", "unusable");
                return Err(Some(ticket));
            };
            cache.metrics.looked_up("shared", if sought.looks_up { "hit" } else { "passed" });
            if !sought.looks_up {
                return Err(Some(ticket));
            }
            let entry = Arc::new(entry);
            let left = settings.cache.life.saturating_sub(entry.age(unix_milliseconds()));
            let term = Term { bytes: entry.bytes(), life: left, purges };
            cache.put(
                &sought.name,
                Arc::clone(&entry),
                term,
                cache.pipeline.dispatcher.clock.now(),
            );
            Ok((entry, told))
        }
    }
}

/// Asks workers, as any other request would be.
async fn ask(
    cache: &Cache,
    context: &mut RequestContext<'_>,
    info: &RequestInfo,
    sought: &Sought,
) -> Response<Body> {
    let mut question = Question {
        content: sought.content.clone(),
        path: Uri::from_static(context.endpoint.path()),
        endpoint: Some(context.endpoint),
        request_id: HeaderValue::from_str(context.exchange.id.as_str())
            .expect("a request's name is printable"),
        head: context.head,
        begun: Instant::now(),
        trace: context.facts.trace().clone(),
    };
    if resume::is_wanted(&context.head.headers).unwrap_or(true) {
        resume::prepare(&cache.pipeline, context, info, &mut question);
    }
    let asked = match bounds::check_prompt(&cache.pipeline, info) {
        Ok(()) => fallback::ask(&cache.pipeline, context, info, &question).await,
        Err(error) => Err(error.into()),
    };
    asked.unwrap_or_else(|refused| {
        if let Some(reason) = refused.reason {
            cache.pipeline.admission.rejected(reason, info.priority.name());
        }
        let mut response = refused.into_response();
        refusal::tell_priority(response.headers_mut(), info.priority);
        response
    })
}

/// What a question wants, as far as it says how long its answer takes to begin.
pub(crate) fn wanted(sought: &Sought, info: &RequestInfo) -> Wanted {
    let bytes = u64::try_from(sought.content.body.len()).unwrap_or(u64::MAX);
    Wanted { whole: sought.form == Form::Whole, bytes, limit: info.limit }
}

/// Bytes of an answer after which kept ones make room for it.
const ROOM_BYTES: usize = 64 * 1024;

/// How an answer came.
#[derive(Clone, Copy, Debug)]
struct Came {
    is_success: bool,
    is_whole: bool,
    bytes: u64,
    took: Duration,
    /// Purges before it was asked for.
    purges: u64,
}

/// Gives an answer to the flight and holds it back for keeping.
struct Pump {
    form: Form,
    held: Vec<Bytes>,
    bytes: usize,
    bytes_max: usize,
}

impl Pump {
    /// Whether the answer came to its clean end.
    async fn run(
        &mut self,
        cache: &Cache,
        flight: &Flight,
        mut body: Body,
        events: &mut u64,
    ) -> bool {
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return false };
            let Ok(data) = frame.into_data() else { continue };
            let before = self.bytes;
            self.bytes += data.len();
            if before / ROOM_BYTES < self.bytes / ROOM_BYTES {
                cache.make_room(cache.pipeline.dispatcher.clock.now());
            }
            // Readers are given the same bytes: as long as the flight holds all of them, this holds none of its own.
            if flight.is_cut() {
                self.bytes_max = 0;
            }
            if self.bytes <= self.bytes_max {
                self.held.push(data.clone());
            } else {
                self.held = Vec::new();
            }
            // Who did not ask for the usage does not see that it was asked for.
            let shown = if self.form == Form::Events && tells_usage(&data) {
                forms::without_usage(&data).into()
            } else {
                data
            };
            if !shown.is_empty() {
                *events += match self.form {
                    Form::Whole => 0,
                    Form::Events | Form::EventsWithUsage => told_events(&shown),
                };
                flight.push(shown).await;
            }
        }
        true
    }

    fn answer(self) -> BytesMut {
        let mut answer = BytesMut::with_capacity(self.bytes);
        self.held.iter().for_each(|data| answer.extend_from_slice(data));
        answer
    }
}

/// Events in what is shown.
pub(super) fn told_events(data: &[u8]) -> u64 {
    u64::try_from(memchr::memmem::find_iter(data, b"data:").count()).unwrap_or(u64::MAX)
}

fn tells_usage(data: &[u8]) -> bool {
    memchr::memmem::find(data, b"\"usage\"").is_some()
}

/// Keeps an answer in memory, where it may be kept; what others may have of it.
fn keep(cache: &Cache, sought: &Sought, pump: Pump, came: Came) -> Option<Arc<Entry>> {
    let Came { is_success, is_whole, bytes, took, purges } = came;
    let settings = cache.pipeline.settings();
    let bytes_max = u64::try_from(pump.bytes_max).unwrap_or(u64::MAX);
    let mut answered = Answered { finish: Finish::Complete, is_whole, is_success, bytes };
    let mut summary = None;
    if unkept(answered, bytes_max).is_none() {
        let is_whole_form = pump.form == Form::Whole;
        let answer = pump.answer();
        let told = if is_whole_form {
            forms::summary_of_whole(&answer, sought.choices)
        } else {
            forms::summary_of_events(&answer, sought.choices)
        };
        answered.finish = match told.map(|told| told.finished) {
            Some(Finished::Complete) => Finish::Complete,
            Some(Finished::Calls) => Finish::Calls,
            Some(Finished::Otherwise) | None => Finish::Otherwise,
        };
        let kept = if is_whole_form { Kept::Whole } else { Kept::Events };
        summary = told.map(|told| (kept, answer, told.usage.unwrap_or_default()));
    }
    if let Some(why) = unkept(answered, bytes_max) {
        cache.metrics.unkept(why.name());
        return None;
    }
    let (kept, answer, usage): (Kept, BytesMut, Usage) = summary?;
    let Some(entry) =
        Entry::new(&sought.name, Made { kept, usage, born_ms: unix_milliseconds(), took }, &answer)
    else {
        cache.metrics.unkept(Unkept::TooLarge.name());
        return None;
    };
    let observes = settings.cache.mode == CacheMode::Observe;
    let size = entry.bytes();
    let entry = Arc::new(if observes { entry.hollow() } else { entry });
    let now = cache.pipeline.dispatcher.clock.now();
    let term = Term { bytes: size, life: settings.cache.life, purges };
    cache.put(&sought.name, Arc::clone(&entry), term, now);
    // At the store the ticket says that it is of before a purge.
    (!observes).then_some(entry)
}

/// Puts an answer where other gateways find it.
async fn share(cache: &Cache, sought: &Sought, entry: &Entry, ticket: Ticket) {
    let Some(response_store) = cache.response_store() else { return };
    let life = cache.pipeline.settings().cache.life;
    let put = response_store.put(&sought.name, ticket, &entry.encode(), life).await;
    cache.metrics.put(if put.is_ok() { "stored" } else { "error" });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_broke_off_costs_its_prompt_as_well() {
        let counted = |prompt: Option<u32>, completion: Option<u32>| RequestFacts {
            prompt: prompt.map(Tokens::new),
            completion: completion.map(Tokens::new),
            ..RequestFacts::default()
        };
        // As many tokens are noted as events were relayed before the error's, and nobody told of the prompt.
        assert_eq!(bill(&counted(None, Some(3)), true, 4), Bill::Streamed(3));
        assert_eq!(bill(&counted(None, None), true, 3), Bill::Streamed(3));
        assert_eq!(bill(&counted(Some(7), Some(3)), true, 4), Bill::Counted(10));
        assert_eq!(bill(&counted(None, None), true, 0), Bill::AsExpected);
        assert_eq!(bill(&counted(None, None), false, 0), Bill::Nothing);
    }
}
