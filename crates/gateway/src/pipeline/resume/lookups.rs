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

/// How long a look-up may take: somebody waits in mid-sentence.
const PATIENCE: Duration = Duration::from_secs(2);

/// Bytes of an answer to a look-up.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// The text of `ids`, asked for with the fields of `head`; nothing where the worker does not say.
pub(super) async fn text(
    upstream: &Arc<Upstream>,
    head: &HeaderMap,
    model: &str,
    ids: &[u32],
) -> Option<String> {
    let body = bytes::Bytes::from(detokenize(model, ids));
    let make = || {
        let mut request = Outgoing::new(body.clone().into());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = Uri::from_static("/detokenize");
        request.headers_mut().clone_from(head);
        request
    };
    let asking = async {
        let (response, connection) = upstream.exchange(make).await.ok()?;
        let (head, incoming) = response.into_parts();
        let body = AnswerBody::new(incoming, connection, Arc::clone(upstream));
        match collect(body, ANSWER_BYTES_MAX).await.ok()? {
            Whole::Collected(bytes) if head.status.is_success() => text_of_detokenized(&bytes),
            _ => None,
        }
    };
    timeout(PATIENCE, asking).await.ok().flatten()
}

/// Tokens that fit the context of `model`; nothing where the worker does not say.
pub(super) async fn context(upstream: &Arc<Upstream>, model: &str) -> Option<u32> {
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
    let (_, page) = fetched.ok()?.ok()?;
    let list: List = serde_json::from_slice(&page).ok()?;
    list.data.into_iter().find(|card| card.id == model)?.max_model_len
}
