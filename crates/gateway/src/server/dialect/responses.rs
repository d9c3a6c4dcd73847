//! `/v1/responses`: an `OpenAI` request asked as a chat completion, and what is kept of it.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use overdraft_http::{Body, RequestBody, reply};
use overdraft_telemetry::{Delivery, unix_seconds};
use overdraft_wire::dialect::responses::{self, Course, Identity, Keeping, Request, Writer};
use overdraft_wire::dialect::{Dialect, Prompt, StreamTranslator};
use overdraft_wire::{ApiError, Endpoint, ErrorKind};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::super::Gateway;
use super::super::forward::enter_beside;
use super::answer::{fresh_id, tell_left_out, translated};
use super::asking::{self, Asking, Incoming};
use super::background::Identified;
use super::live::Live;
use super::passing;
use super::stream::{AfterFailure, Pacing, Translated};

/// Responses that one may follow at most.
const CHAIN_MAX: usize = 1_000;

/// Characters of an id in a message at most.
const ID_SHOWN: usize = 80;

/// Items of a list unless the client says otherwise, and at most.
const PAGE_ITEMS: usize = 20;
const PAGE_ITEMS_MAX: usize = 100;

/// Answers one request.
pub(super) async fn create(
    gateway: &Arc<Gateway>,
    incoming: Incoming,
    body: RequestBody,
) -> Response<Body> {
    let (asking, body) = match asking::read(gateway, incoming, body).await {
        Ok(read) => read,
        Err(refused) => return refused,
    };
    if passing::passes(gateway, &asking.caller, Dialect::Responses, &body) {
        let seal = gateway.responses.seals.of(asking.caller.realm());
        let chat = Request::parse(&body).and_then(|request| request.translate(&[], &seal));
        let chat = chat.ok().map(|translated| translated.chat.body);
        return passing::create(asking, body, Dialect::Responses, chat).await;
    }
    let prepared = prepare(gateway, &asking, &body).await;
    drop(body);
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return asking.refuse(&error),
    };
    let id = asking.incoming.exchange.id.clone();
    let left_out = prepared.left_out.clone();
    let mut response = answer(gateway, asking, prepared).await;
    tell_left_out(response.headers_mut(), &left_out, &id);
    response
}

/// A request that can be asked.
struct Prepared {
    of: Identified,
    writer: Writer,
    body: Vec<u8>,
    left_out: Vec<String>,
    streams: bool,
    keeping: Keeping,
    course: Course,
}

async fn prepare(
    gateway: &Arc<Gateway>,
    asking: &Asking,
    body: &Bytes,
) -> Result<Prepared, ApiError> {
    let tenant = asking.caller.realm();
    let request = Request::parse(body)?;
    let (streams, keeping, course) = (request.streams, request.keeping, request.course);
    if course == Course::Background {
        asking.known_model(request.model.as_deref()).await?;
    }
    let previous = request.previous.clone();
    let history = history(asking, previous.as_deref()).await?;
    let identity = fresh_identity(request.model.clone());
    let input = match keeping {
        Keeping::Stored => request.input_items(&identity.id),
        Keeping::Forgotten => Vec::new(),
    };
    let seal = gateway.responses.seals.of(tenant);
    let mut translated = request.translate(&history, &seal)?;
    let body = std::mem::take(&mut translated.chat.body);
    let left_out = std::mem::take(&mut translated.chat.left_out);
    let of = Identified { tenant, id: identity.id.clone(), input, previous };
    let writer = Writer::new(identity, translated, Arc::new(seal));
    Ok(Prepared { of, writer, body, left_out, streams, keeping, course })
}

/// What of a request makes its prompt, with the responses that it follows.
pub(super) async fn prompt(
    gateway: &Arc<Gateway>,
    asking: &Asking,
    body: &Bytes,
) -> Result<Prompt, ApiError> {
    let tenant = asking.caller.realm();
    let request = Request::parse(body)?;
    let history = history(asking, request.previous.as_deref()).await?;
    request.prompt(&history, &gateway.responses.seals.of(tenant))
}

/// What a new response is called, and when it was made.
pub(super) fn fresh_identity(model: Option<String>) -> Identity {
    Identity { id: fresh_id("resp_"), created_at: unix_seconds(), model }
}

/// All items of the response `previous` and of those before it, the oldest first; none where nothing is followed. Their
/// bytes count like those of a body: a request of a hundred bytes may bring them all into memory.
pub(super) async fn history(
    asking: &Asking,
    previous: Option<&str>,
) -> Result<Vec<Box<RawValue>>, ApiError> {
    let Some(last) = previous else { return Ok(Vec::new()) };
    let (tenant, owner) = (asking.caller.realm(), &asking.gateway.responses.kept);
    let (mut links, mut bytes) = (Vec::new(), 0);
    let mut next = Some(last.to_owned());
    while let Some(id) = next.take() {
        let found = owner.find(tenant, &id).await;
        let kept = found.filter(|_| links.len() < CHAIN_MAX).ok_or_else(|| {
            let message = format!("the previous response `{}` is not kept here", shown(&id));
            ApiError::new(ErrorKind::PreviousResponseNotFound, message)
                .with_param("previous_response_id")
        })?;
        if !kept.is_over() {
            let message = format!(
                "the previous response `{}` is under way; expected one that has ended: wait until \
                 its `status` says so, or cancel it",
                shown(&id)
            );
            return Err(ApiError::invalid("previous_response_id", message));
        }
        bytes += kept.bytes();
        if owner.chain_bytes < bytes {
            return Err(too_long(last, owner.chain_bytes));
        }
        asking.incoming.exchange.hold(kept.bytes())?;
        next.clone_from(&kept.previous);
        links.push(kept);
    }
    let items = links.iter().rev().flat_map(|kept| kept.input.iter().cloned().chain(kept.output()));
    Ok(items.collect())
}

async fn answer(gateway: &Arc<Gateway>, asking: Asking, prepared: Prepared) -> Response<Body> {
    let Prepared { of, writer, body, streams, keeping, course, .. } = prepared;
    let owner = Arc::clone(&gateway.responses);
    let place = if course == Course::Background && streams {
        // Who follows from the start may outlast the request that makes the response, so has a place beside it.
        match enter_beside(gateway) {
            Ok(place) => Some(place),
            Err(refused) => return asking.incoming.turn_away(gateway, refused),
        }
    } else {
        None
    };
    let question = asking.ask(body, Endpoint::ChatCompletions);
    if course == Course::Foreground && !streams {
        let mut made = None;
        let response = translated(question.await, |answer| {
            let object = responses::object(answer, writer)?;
            made = Some(object.clone());
            Ok(object)
        });
        let response = response.await;
        if let (Keeping::Stored, Some(object)) = (keeping, made) {
            owner.keep(&of, &object);
        }
        return response;
    }
    let translator = StreamTranslator::new(&of.id, writer);
    let pacing = Pacing::of(&gateway.pipeline.settings());
    let stream = Translated::new(question, translator, pacing, AfterFailure::End);
    if course == Course::Background {
        let Some(live) = owner.start(of, stream) else {
            let message = "the limit of background responses is reached, yours or the gateway's; \
                           wait until one has ended, or cancel one";
            return reply::error(&ApiError::rate_limited(message));
        };
        return match place.and_then(|place| Some(live.follow(0)?.into_body(place))) {
            Some(events) => reply::event_stream(events),
            None => reply::json(StatusCode::OK, live.object()),
        };
    }
    let stream = match keeping {
        Keeping::Forgotten => stream,
        Keeping::Stored => stream.then(Box::new(move |writer: &Writer| {
            if let Some(object) = writer.object() {
                owner.keep(&of, object);
            }
        })),
    };
    stream.respond().await
}

/// A kept response, or the events of one in the background.
pub(super) async fn retrieve(gateway: &Gateway, incoming: Incoming, id: &str) -> Response<Body> {
    let wants_events = query(&incoming, "stream").as_deref() == Some("true");
    let delivery = if wants_events { Delivery::Streamed } else { Delivery::Whole };
    let (incoming, caller) = match incoming.enter(gateway, delivery).await {
        Ok(entered) => entered,
        Err(refused) => return refused,
    };
    match gateway.responses.find_undeleted(caller.realm(), id).await {
        Some(live) if wants_events => follow(incoming, &live),
        Some(live) => incoming.answer_kept(live.object()),
        None => match gateway.responses.kept.find(caller.realm(), id).await {
            None => incoming.refuse(&unknown(id)),
            Some(_) if wants_events => incoming.refuse(&no_events()),
            Some(kept) => incoming.answer_kept(kept.object.get().to_owned()),
        },
    }
}

/// The events of a response, from where its client goes on.
fn follow(mut incoming: Incoming, live: &Arc<Live>) -> Response<Body> {
    let after = query(&incoming, "starting_after");
    let from = match after.as_deref().map(str::parse::<usize>) {
        None => 0,
        Some(Ok(after)) => after.saturating_add(1),
        Some(Err(_)) => {
            let message = "`starting_after` is not a sequence number";
            return incoming.refuse(&ApiError::invalid("starting_after", message));
        }
    };
    let Some(following) = live.follow(from) else { return incoming.refuse(&no_events()) };
    incoming.guard.answered(StatusCode::OK);
    reply::event_stream(following.into_body(incoming))
}

/// Deletes a response.
pub(super) async fn delete(gateway: &Gateway, incoming: Incoming, id: &str) -> Response<Body> {
    let caller = match incoming.identify(gateway).await {
        Ok(caller) => caller,
        Err(error) => return incoming.refuse(&error),
    };
    gateway.responses.forget_live(caller.realm(), id);
    if !gateway.responses.kept.forget(caller.realm(), id).await {
        return incoming.refuse(&unknown(id));
    }
    let object = json!({"id": id, "object": "response", "deleted": true});
    incoming.answer_with(reply::json(StatusCode::OK, object.to_string()))
}

/// Gives up a response in the background.
pub(super) async fn cancel(gateway: &Gateway, incoming: Incoming, id: &str) -> Response<Body> {
    let caller = match incoming.identify(gateway).await {
        Ok(caller) => caller,
        Err(error) => return incoming.refuse(&error),
    };
    let tenant = caller.realm();
    if let Some(live) = gateway.responses.find_undeleted(tenant, id).await {
        let object = live.cancel().await;
        return incoming.answer_kept(object);
    }
    let kept = &gateway.responses.kept;
    let ended = match kept.find(tenant, id).await {
        None => return incoming.refuse(&unknown(id)),
        Some(found) if !found.background => {
            let message = "only a response with `background` can be cancelled";
            return incoming.refuse(&ApiError::new(ErrorKind::InvalidRequest, message));
        }
        Some(found) if found.is_over() => Some(found),
        Some(_) => kept.cancel_elsewhere(tenant, id).await,
    };
    let Some(ended) = ended else {
        let message = format!(
            "the gateway that makes the response `{}` has not given it up in time, or cannot \
             reach the shared store; ask how the response stands, and cancel it again",
            shown(id)
        );
        return incoming.refuse(&ApiError::timeout(message));
    };
    incoming.answer_kept(ended.object.get().to_owned())
}

/// The input of a response as a list, the newest item first.
pub(super) async fn input_items(gateway: &Gateway, incoming: Incoming, id: &str) -> Response<Body> {
    let (incoming, caller) = match incoming.enter(gateway, Delivery::Whole).await {
        Ok(entered) => entered,
        Err(refused) => return refused,
    };
    let Some(kept) = gateway.responses.kept.find(caller.realm(), id).await else {
        return incoming.refuse(&unknown(id));
    };
    let mut items: Vec<(String, &RawValue)> =
        kept.input.iter().map(|item| (id_of(item), &**item)).collect();
    if query(&incoming, "order").as_deref() != Some("asc") {
        items.reverse();
    }
    if let Some(after) = query(&incoming, "after") {
        let behind = items.iter().position(|(id, _)| *id == after).map_or(0, |at| at + 1);
        items.drain(..behind);
    }
    let limit = query(&incoming, "limit").and_then(|limit| limit.parse().ok());
    let limit = limit.unwrap_or(PAGE_ITEMS).clamp(1, PAGE_ITEMS_MAX);
    let has_more = limit < items.len();
    items.truncate(limit);
    let end = |item: Option<&(String, &RawValue)>| item.map(|(id, _)| id.clone());
    let list = ItemList {
        object: "list",
        data: items.iter().map(|(_, item)| *item).collect(),
        first_id: end(items.first()),
        last_id: end(items.last()),
        has_more,
    };
    let list = serde_json::to_vec(&list).expect("it has string keys");
    incoming.answer_kept(list)
}

/// A page of items, as they were sent.
#[derive(Serialize)]
struct ItemList<'a> {
    object: &'static str,
    data: Vec<&'a RawValue>,
    first_id: Option<String>,
    last_id: Option<String>,
    has_more: bool,
}

fn id_of(item: &RawValue) -> String {
    let item: Option<serde_json::Value> = serde_json::from_str(item.get()).ok();
    let id = item.as_ref().and_then(|item| item.get("id")?.as_str());
    id.unwrap_or_default().to_owned()
}

/// A parameter of the query.
fn query(incoming: &Incoming, name: &str) -> Option<String> {
    let pairs = incoming.head.uri.query()?.split('&');
    let mut values = pairs.filter_map(|pair| pair.split_once('=')).filter(|(key, _)| *key == name);
    values.next().map(|(_, value)| super::super::percent::unescaped(value))
}

fn unknown(id: &str) -> ApiError {
    ApiError::new(ErrorKind::NotFound, format!("the response `{}` is not kept here", shown(id)))
}

/// What is kept of a conversation is more than a request may have.
fn too_long(last: &str, limit: usize) -> ApiError {
    let message = format!(
        "the previous response `{}` and those before it have more than {limit} bytes, the most that \
         one request may have; send the items that still matter as `input`, without \
         `previous_response_id`",
        shown(last)
    );
    ApiError::new(ErrorKind::RequestTooLarge, message).with_param("previous_response_id")
}

/// As much of an id as a message holds.
fn shown(id: &str) -> String {
    id.chars().take(ID_SHOWN).collect()
}

fn no_events() -> ApiError {
    let message = "the events of this response are not kept; get it without `stream`";
    ApiError::invalid("stream", message)
}
