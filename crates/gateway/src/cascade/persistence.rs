//! Persistence: saves a cascade's learnt state, so that it survives a restart.
//!
//! The state is the core's row of numbers, in a file if one is configured and in the shared store
//! if there is one. A task writes it now and then and once at the end; it is read when a cascade
//! appears. Gateways that share a store exchange their labels there, and none overwrites another's.
//! An unreadable or invalid state is logged and ignored.
//!
//! Invariant: a file is replaced as a whole or not at all.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use overdraft_core::cascade::Journal;
use overdraft_store::Store;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::CascadeLayer;
use super::state::CascadeState;

/// How often what was learnt is kept.
const KEEP_EVERY: Duration = Duration::from_secs(10);

/// How often gateways tell each other what they learnt.
const TELL_EVERY: Duration = Duration::from_secs(4);

/// How often it is looked for new cascades.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How long the last keeping may take.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

/// Bytes of a file that is read.
const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The form of the file.
const VERSION: u32 = 1;

/// What a file holds: rows by the names of cascades and their models.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Document {
    version: u32,
    cascades: BTreeMap<String, Vec<i64>>,
}

/// Recalls what was learnt, and keeps what is learnt; the background owns this.
pub(crate) async fn remember(layer: Arc<CascadeLayer>) {
    let (mut since, mut told) = (Duration::ZERO, Duration::ZERO);
    loop {
        let new: Vec<Arc<CascadeState>> =
            layer.cascades.all().into_iter().filter(|state| state.take_recall()).collect();
        if !new.is_empty() {
            recall(&layer, &new).await;
        }
        tokio::time::sleep(LOOK_EVERY).await;
        since += LOOK_EVERY;
        told += LOOK_EVERY;
        if TELL_EVERY <= told {
            told = Duration::ZERO;
            exchange(&layer).await;
        }
        if KEEP_EVERY <= since {
            since = Duration::ZERO;
            keep(&layer).await;
        }
    }
}

/// Keeps what was learnt since it was kept last, at the end.
pub(crate) async fn save(layer: &Arc<CascadeLayer>) {
    let last = async {
        exchange(layer).await;
        keep(layer).await;
    };
    if timeout(LAST_PATIENCE, last).await.is_err() {
        tracing::warn!("what cascades learnt last could not be kept in time");
    }
}

async fn recall(layer: &Arc<CascadeLayer>, states: &[Arc<CascadeState>]) {
    let settings = layer.pipeline.settings();
    let mut known = Document::default();
    if let Some(path) = settings.cascade_state.clone() {
        let read = tokio::task::spawn_blocking(move || read(&path)).await;
        known = read.ok().flatten().unwrap_or_default();
    }
    let mut store = Store::open(&settings.store).ok().filter(Store::is_shared);
    for state in states {
        let shared = match &mut store {
            Some(store) => kept(store, state).await,
            None => None,
        };
        let parts = [known.cascades.remove(&name(state)), shared];
        let read = parts.iter().flatten().filter(|parts| state.restore(parts)).count();
        if 0 < read {
            let labels = state.report().labels;
            tracing::info!(cascade = state.name, labels, "the cascade goes on from what it learnt");
        }
    }
}

/// What is kept of a cascade in the store.
async fn kept(store: &mut Store, state: &CascadeState) -> Option<Vec<i64>> {
    store.kept(state.key()).await.ok().flatten().and_then(|bytes| row(&bytes))
}

/// Tells the other gateways what was learnt here, and learns what they did.
async fn exchange(layer: &Arc<CascadeLayer>) {
    let states = layer.cascades.all();
    let store = || Store::open(&layer.pipeline.settings().store).ok().filter(Store::is_shared);
    let Some(mut store) = (!states.is_empty()).then(store).flatten() else { return };
    for state in states {
        let journal = state.journal();
        let ours = text(&journal.to_parts());
        let told = store.exchange_journals(state.key(), journal.gateway(), &ours).await;
        // The store's own board tells of its faults.
        for text in told.unwrap_or_default() {
            let read = numbers(&text).and_then(|parts| Journal::from_parts(&parts).ok());
            if let Some(journal) = read {
                state.hear(&journal);
            } else {
                tracing::debug!(cascade = state.name, "what a gateway told is no journal");
            }
        }
    }
}

async fn keep(layer: &Arc<CascadeLayer>) {
    let states = layer.cascades.all();
    let learnt: Vec<&Arc<CascadeState>> = states.iter().filter(|it| it.take_lessons()).collect();
    if learnt.is_empty() {
        return;
    }
    let settings = layer.pipeline.settings();
    if let Some(mut store) = Store::open(&settings.store).ok().filter(Store::is_shared) {
        for state in &learnt {
            // Whoever has learnt more meanwhile is not written over.
            if let Some(parts) = kept(&mut store, state).await {
                state.restore(&parts);
            }
            if let Err(fault) = store.keep(state.key(), &bytes(&state.to_parts())).await {
                tracing::warn!(cascade = state.name, %fault, "the store keeps nothing of what the cascade learnt");
            }
        }
    }
    let Some(path) = settings.cascade_state.clone() else { return };
    let rows = states.iter().map(|state| (name(state), state.to_parts())).collect();
    let document = Document { version: VERSION, cascades: rows };
    let wrote = tokio::task::spawn_blocking(move || write(&path, &document)).await;
    if let Ok(Err((path, error))) = wrote {
        tracing::warn!(path = %path.display(), %error, "what cascades learnt cannot be kept");
    }
}

/// By which a file tells cascades apart: those of other models learn anew.
fn name(state: &CascadeState) -> String {
    format!("{} {:016x}", state.name, state.key())
}

fn read(path: &Path) -> Option<Document> {
    let length = std::fs::metadata(path).ok()?.len();
    let told = |error: &dyn std::fmt::Display| {
        tracing::warn!(path = %path.display(), %error, "what cascades learnt before cannot be used; they begin anew");
    };
    if FILE_BYTES_MAX < length {
        told(&format_args!("`{length}` bytes; expected at most {FILE_BYTES_MAX}"));
        return None;
    }
    let bytes = std::fs::read(path).inspect_err(|error| told(error)).ok()?;
    let document: Document =
        serde_json::from_slice(&bytes).inspect_err(|error| told(error)).ok()?;
    if document.version != VERSION {
        told(&format_args!("version `{}`; expected {VERSION}", document.version));
        return None;
    }
    Some(document)
}

fn write(path: &Path, document: &Document) -> Result<(), (PathBuf, std::io::Error)> {
    let attempt = || {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let new = folder.unwrap_or(Path::new(".")).join(name);
        let mut file = std::fs::File::create(&new)?;
        serde_json::to_writer(&mut file, document)?;
        file.flush()?;
        file.sync_all()?;
        std::fs::rename(&new, path)
    };
    attempt().map_err(|error| (path.to_owned(), error))
}

/// Numbers as the store's scripts take them.
fn text(parts: &[i64]) -> String {
    let numbers: Vec<String> = parts.iter().map(i64::to_string).collect();
    numbers.join(" ")
}

fn numbers(text: &str) -> Option<Vec<i64>> {
    text.split(' ').map(|number| number.parse().ok()).collect()
}

fn bytes(parts: &[i64]) -> Vec<u8> {
    parts.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn row(bytes: &[u8]) -> Option<Vec<i64>> {
    let (numbers, rest) = bytes.as_chunks();
    rest.is_empty().then(|| numbers.iter().map(|number| i64::from_le_bytes(*number)).collect())
}
