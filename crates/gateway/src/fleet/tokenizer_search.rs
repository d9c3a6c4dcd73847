//! Tokenizer search: finds the tokenizers that are wanted, in the configured folder or at a worker.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use overdraft_tokenizer::{PromptBound, Prompter, TOKENIZER_DOCUMENT_BYTES_MAX};
use overdraft_units::Tokens;
use tokio::time::timeout;

use super::Fleet;
use super::tokenizers::Wanted;
use crate::settings::{Routes, TokenizerPlace, Tokenizing};
use crate::upstream::Upstream;
use crate::upstream::fetch::fetch;

/// Looks for the tokenizers that are wanted, one after the other; the background owns this.
pub(crate) async fn find_wanted_tokenizers(fleet: Arc<Fleet>) {
    let Some(mut wanted) = fleet.tokenizers.take_wanted() else { return };
    while let Some(Wanted { upstream, model }) = wanted.recv().await {
        let routes = Arc::clone(&fleet.dispatcher.routes());
        let found = find(&fleet, &routes, &upstream, &model).await;
        // What was found under settings that are no more may be another's by now.
        if !Arc::ptr_eq(&routes, &fleet.dispatcher.routes()) {
            continue;
        }
        match found {
            Search::Found(prompter) => fleet.tokenizers.found(&model, prompter),
            Search::NotHandedOut => fleet.tokenizers.not_handed_out(&model),
            Search::Unwanted => {}
        }
    }
}

/// What came of a search.
enum Search {
    Found(Arc<Prompter>),
    /// The worker keeps it to itself, or it cannot be used here.
    NotHandedOut,
    Unwanted,
}

async fn find(
    fleet: &Arc<Fleet>,
    routes: &Routes,
    upstream: &Arc<Upstream>,
    model: &str,
) -> Search {
    if routes.settings.tokenizing == Tokenizing::Never {
        return Search::Unwanted;
    }
    let place = routes.tokenizer(model);
    if place == TokenizerPlace::Off {
        return Search::Unwanted;
    }
    let pieces = Arc::clone(fleet.tokenizers.pieces());
    let fetching = fetch(upstream, SOURCE, TOKENIZER_DOCUMENT_BYTES_MAX);
    let document = match timeout(FETCH_PATIENCE, fetching).await {
        Ok(Ok((StatusCode::OK, document))) => Some(document),
        _ => None,
    };
    let opening = match (place, document) {
        (TokenizerPlace::Folder(path), document) => tokio::task::spawn_blocking(move || {
            let prompter = Prompter::from_folder(&path, pieces)?;
            // Only workers of ours hand their tokenizers out.
            Ok(if document.is_some() { prompter } else { prompter.of_stock_engine() })
        }),
        (_, Some(document)) => {
            tokio::task::spawn_blocking(move || Prompter::from_document(&document, pieces))
        }
        (_, None) => return Search::NotHandedOut,
    };
    match opening.await {
        Ok(Ok(prompter)) => {
            tracing::info!(model, "tokenizer of the model is known");
            Search::Found(Arc::new(prompter.within(TOKENISED)))
        }
        Ok(Err(error)) => {
            tracing::warn!(model, %error, "tokenizer of the model cannot be used");
            Search::NotHandedOut
        }
        Err(_ended) => Search::Unwanted,
    }
}

/// A prompt with more bytes than this that have no place to cut is routed by its text: tokenising
/// them takes some 100 MiB of memory, for each prompt that is tokenised at once.
const UNCUT_BYTES_MAX: usize = 256 * 1024;

/// What is tokenised here.
const TOKENISED: PromptBound = PromptBound { tokens: Tokens::ZERO, uncut_bytes: UNCUT_BYTES_MAX };

/// How long a worker may take to hand its tokenizer out.
const FETCH_PATIENCE: Duration = Duration::from_secs(10);

const SOURCE: &str = "/tokenizer_source";
