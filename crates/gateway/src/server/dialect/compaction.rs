//! `/v1/responses/compact`: a conversation made shorter by a summary that its own model writes.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use overdraft_http::{Body, RequestBody};
use overdraft_wire::dialect::Chat;
use overdraft_wire::dialect::responses::{Compaction, Summary};
use overdraft_wire::{ApiError, Endpoint};

use super::super::Gateway;
use super::answer::{tell_left_out, translated};
use super::asking::{self, Asking, Incoming};
use super::responses;

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
    let prepared = prepare(gateway, &asking, &body).await;
    drop(body);
    let (chat, summary) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return asking.refuse(&error),
    };
    let id = asking.incoming.exchange.id.clone();
    let seal = gateway.responses.seals.of(asking.caller.realm());
    let question = asking.ask(chat.body, Endpoint::ChatCompletions);
    let mut response = translated(question.await, |answer| summary.object(answer, &seal)).await;
    tell_left_out(response.headers_mut(), &chat.left_out, &id);
    response
}

async fn prepare(
    gateway: &Arc<Gateway>,
    asking: &Asking,
    body: &Bytes,
) -> Result<(Chat, Summary), ApiError> {
    let tenant = asking.caller.realm();
    let compaction = Compaction::parse(body)?;
    let history = responses::history(asking, compaction.previous()).await?;
    let identity = responses::fresh_identity(compaction.model().map(str::to_owned));
    compaction.translate(identity, &history, &gateway.responses.seals.of(tenant))
}
