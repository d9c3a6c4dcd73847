//! `/v1/messages`: an Anthropic request asked as a chat completion.

use std::sync::Arc;

use http::Response;
use overdraft_http::{Body, RequestBody};
use overdraft_wire::Endpoint;
use overdraft_wire::dialect::messages::{self, Identity, Writer};
use overdraft_wire::dialect::{Dialect, StreamTranslator};

use super::super::Gateway;
use super::answer::{fresh_id, tell_left_out, translated};
use super::asking::{self, Incoming};
use super::passing;
use super::stream::{AfterFailure, Pacing, Translated};

/// Answers one message.
pub(super) async fn create(
    gateway: &Arc<Gateway>,
    incoming: Incoming,
    body: RequestBody,
) -> Response<Body> {
    let (asking, body) = match asking::read(gateway, incoming, body).await {
        Ok(read) => read,
        Err(refused) => return refused,
    };
    let request = messages::translate(&body);
    if passing::passes(gateway, &asking.caller, Dialect::Messages, &body) {
        let chat = request.ok().map(|request| request.chat.body);
        return passing::create(asking, body, Dialect::Messages, chat).await;
    }
    let request = match request {
        Ok(request) => request,
        Err(error) => return asking.refuse(&error),
    };
    drop(body);
    let id = asking.incoming.exchange.id.clone();
    let identity = Identity { id: fresh_id("msg_"), model: request.model };
    let question = asking.ask(request.chat.body, Endpoint::ChatCompletions);
    let mut response = if request.streams {
        let seed = identity.id.clone();
        let writer = Writer::new(identity, id.as_str().to_owned(), request.told);
        let translator = StreamTranslator::new(&seed, writer);
        let pacing = Pacing::of(&gateway.pipeline.settings());
        Translated::new(question, translator, pacing, AfterFailure::Abort).respond().await
    } else {
        let told = request.told;
        translated(question.await, |answer| messages::object(answer, &identity, told)).await
    };
    tell_left_out(response.headers_mut(), &request.chat.left_out, &id);
    response
}
