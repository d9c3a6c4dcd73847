//! Look-ups at a worker: the text of token ids, and how long its context is.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, Uri};
use overdraft_wire::resume::{detokenize, text_of_detokenized};
use serde::Deserialize;
use tokio::time::timeout;

use crate::pipeline::relay::whole::{Whole, collect};
use crate::upstream::fetch::fetch;
use crate::upstream::{AnswerBody, Outgoing, Upstream};

/// How long a look-up may take: a client waits in mid-sentence.
const PATIENCE: Duration = Duration::from_secs(2);

/// Bytes of an answer to a look-up.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// A worker that was asked has not answered: it may be gone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unanswered;

/// The text of `ids`, asked for with the fields of `head`; nothing where the worker does not say.
///
/// # Errors
/// [`Unanswered`], which says nothing of what it could have said.
pub(super) async fn text(
    upstream: &Arc<Upstream>,
    head: &HeaderMap,
    model: &str,
    ids: &[u32],
) -> Result<Option<String>, Unanswered> {
    let body = bytes::Bytes::from(detokenize(model, ids));
    let make = || {
        let mut request = Outgoing::new(body.clone().into());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = Uri::from_static("/detokenize");
        request.headers_mut().clone_from(head);
        request
    };
    let asking = async {
        let (response, connection) = upstream.exchange(make).await.map_err(|_| Unanswered)?;
        let (head, incoming) = response.into_parts();
        let body = AnswerBody::new(incoming, connection, Arc::clone(upstream));
        match collect(body, ANSWER_BYTES_MAX, None).await.map_err(|_| Unanswered)? {
            Whole::Collected(bytes) if head.status.is_success() => Ok(text_of_detokenized(&bytes)),
            _ => Ok(None),
        }
    };
    timeout(PATIENCE, asking).await.unwrap_or(Err(Unanswered))
}

/// Tokens that fit the context of `model`; nothing where the worker does not say.
///
/// # Errors
/// [`Unanswered`], which says nothing of what it could have said.
pub(super) async fn context(
    upstream: &Arc<Upstream>,
    model: &str,
) -> Result<Option<u32>, Unanswered> {
    #[derive(Deserialize)]
    struct List {
        data: Vec<Card>,
    }
    #[derive(Deserialize)]
    struct Card {
        id: String,
        max_model_len: Option<u32>,
    }
    let fetched = timeout(PATIENCE, fetch(upstream, "/v1/models", ANSWER_BYTES_MAX)).await;
    let (_, page) = fetched.map_err(|_| Unanswered)?.map_err(|_| Unanswered)?;
    let list: Option<List> = serde_json::from_slice(&page).ok();
    let card = list.and_then(|list| list.data.into_iter().find(|card| card.id == model));
    Ok(card.and_then(|card| card.max_model_len))
}
