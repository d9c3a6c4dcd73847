//! Dialect endpoints: Anthropic Messages and OpenAI Responses before workers that speak chat completions.
//!
//! A request is translated, takes the path of a chat completion (cache, cascade, queue, attempts), and its
//! answer is translated on the way out. Where its model says so, it passes to workers that speak its dialect.
//!
//! | subject                                      | file              |
//! |----------------------------------------------|-------------------|
//! | Routes                                       | `route.rs`        |
//! | Reading a request, asking as a chat          | `asking.rs`       |
//! | Requests that pass as they came              | `passing.rs`      |
//! | `/v1/messages`                               | `messages.rs`     |
//! | Token counts of both                         | `count_tokens.rs` |
//! | `/v1/responses`                              | `responses.rs`    |
//! | Conversations made shorter                   | `compaction.rs`   |
//! | Responses that nobody waits for              | `background.rs`   |
//! | Their events, for who follows                | `live.rs`         |
//! | Kept responses                               | `kept.rs`         |
//! | Handing them over, as fast as clients read   | `paced.rs`        |
//! | Sealed reasoning                             | `seal.rs`         |
//! | Model list in the dialect of Messages        | `models.rs`       |
//! | Answers on their way out: whole, and streams | `answer.rs`, `stream.rs` |

mod answer;
mod asking;
mod background;
mod compaction;
mod count_tokens;
mod kept;
mod live;
mod messages;
pub(super) mod models;
mod paced;
mod passing;
mod responses;
mod route;
mod seal;
mod stream;
mod uncounted;

use std::sync::Arc;

use http::{Method, Response};
use overdraft_http::{Body, RequestBody, reply};
use overdraft_wire::dialect::Dialect;

pub(super) use self::asking::Incoming;
pub(crate) use self::background::Responses;
pub(super) use self::route::DialectRoute;
pub(super) use self::uncounted::Uncounted;
use super::Gateway;

/// Answers a request of a dialect; every error has the dialect's own shape.
pub(super) async fn answer(
    gateway: &Arc<Gateway>,
    route: DialectRoute,
    incoming: Incoming,
    body: RequestBody,
) -> Response<Body> {
    let (dialect, id) = (route.dialect(), incoming.exchange.id.clone());
    let method = incoming.head.method.clone();
    let response = match (&route, &method) {
        (DialectRoute::Messages, &Method::POST) => messages::create(gateway, incoming, body).await,
        (DialectRoute::CountTokens, &Method::POST) => {
            count_tokens::of_messages(gateway, incoming, body).await
        }
        (DialectRoute::InputTokens, &Method::POST) => {
            count_tokens::of_responses(gateway, incoming, body).await
        }
        (DialectRoute::Responses, &Method::POST) => {
            responses::create(gateway, incoming, body).await
        }
        (DialectRoute::Compact, &Method::POST) => compaction::create(gateway, incoming, body).await,
        (DialectRoute::Response(of), &Method::GET) => {
            responses::retrieve(gateway, incoming, of).await
        }
        (DialectRoute::Response(of), &Method::DELETE) => {
            responses::delete(gateway, incoming, of).await
        }
        (DialectRoute::Cancel(of), &Method::POST) => responses::cancel(gateway, incoming, of).await,
        (DialectRoute::InputItems(of), &Method::GET) => {
            responses::input_items(gateway, incoming, of).await
        }
        _ => {
            incoming.answer_with(reply::method_not_allowed(&method, route.path(), route.allowed()))
        }
    };
    answer::signed(response, dialect, id.as_str()).await
}

/// An answer of a path that both SDKs ask, as Anthropic's reads it: the shape of errors and the request's name.
pub(super) async fn signed_for_anthropic(response: Response<Body>, id: &str) -> Response<Body> {
    answer::signed(response, Dialect::Messages, id).await
}
