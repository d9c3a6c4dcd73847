//! Tokenizer search: finds the tokenizers that are wanted, in the configured folder or at a worker.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use overdraft_tokenizer::{Prompter, TOKENIZER_DOCUMENT_BYTES_MAX};
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
        if let Some(prompter) = found
            && Arc::ptr_eq(&routes, &fleet.dispatcher.routes())
        {
            fleet.tokenizers.found(&model, prompter);
        }
    }
}

async fn find(
    fleet: &Arc<Fleet>,
    routes: &Routes,
    upstream: &Arc<Upstream>,
    model: &str,
) -> Option<Arc<Prompter>> {
    if routes.settings.tokenizing == Tokenizing::Never {
        return None;
    }
    let pieces = Arc::clone(fleet.tokenizers.pieces());
    let opening = match routes.tokenizer(model) {
        TokenizerPlace::Off => return None,
        TokenizerPlace::Folder(path) => {
            tokio::task::spawn_blocking(move || Prompter::from_folder(&path, pieces))
        }
        TokenizerPlace::Worker => {
            let fetching = fetch(upstream, SOURCE, TOKENIZER_DOCUMENT_BYTES_MAX);
            let (status, document) = timeout(FETCH_PATIENCE, fetching).await.ok()?.ok()?;
            if status != StatusCode::OK {
                return None;
            }
            tokio::task::spawn_blocking(move || Prompter::from_document(&document, pieces))
        }
    };
    match opening.await.ok()? {
        Ok(prompter) => {
            tracing::info!(model, "its tokenizer is known");
            Some(Arc::new(prompter))
        }
        Err(error) => {
            tracing::warn!(model, %error, "its tokenizer cannot be used; prompts are estimated");
            None
        }
    }
}

/// How long a worker may take to hand its tokenizer out.
const FETCH_PATIENCE: Duration = Duration::from_secs(10);

const SOURCE: &str = "/tokenizer_source";
