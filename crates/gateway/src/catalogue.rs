//! Which models can be asked for?
//!
//! The union of what the workers that are up list, each model told once and in the worker's own
//! words. The list is put together when a worker's list or standing changes, not when it is read.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use overdraft_core::fleet::{WORKER_MODELS_MAX, WorkerId};
use serde::Deserialize;
use serde_json::value::RawValue;

/// One model as a worker describes it.
#[derive(Clone, Debug)]
struct Card {
    id: String,
    /// The JSON object.
    text: Box<RawValue>,
}

/// What one worker listed when it was last asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listing {
    cards: Vec<Card>,
}

impl Listing {
    /// Reads a worker's answer to `GET /v1/models`; `None` if it is not such an answer.
    pub(crate) fn parse(answer: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct List {
            data: Vec<Box<RawValue>>,
        }
        #[derive(Deserialize)]
        struct Named {
            id: String,
        }
        let list: List = serde_json::from_slice(answer).ok()?;
        let cards = list.data.into_iter().take(WORKER_MODELS_MAX).map(|text| {
            let named: Named = serde_json::from_str(text.get()).ok()?;
            Some(Card { id: named.id, text })
        });
        Some(Self { cards: cards.collect::<Option<_>>()? })
    }

    /// The models' names.
    pub(crate) fn names(&self) -> Vec<String> {
        self.cards.iter().map(|card| card.id.clone()).collect()
    }
}

/// The models of all workers.
#[derive(Debug)]
pub(crate) struct Catalogue(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    /// By worker; `None` while it is not up.
    listings: Vec<Option<Listing>>,
    cards: BTreeMap<String, Bytes>,
    document: Bytes,
}

impl Catalogue {
    /// Of `workers` workers, none of which has listed anything.
    pub(crate) fn new(workers: usize) -> Self {
        let cards = BTreeMap::new();
        let document = document(&cards);
        Self(Mutex::new(Inner { listings: vec![None; workers], cards, document }))
    }

    /// Notes what `worker` serves now; `None` when it serves nothing.
    pub(crate) fn note(&self, worker: WorkerId, listing: Option<Listing>) {
        let mut inner = self.inner();
        inner.listings[worker.index()] = listing;
        let mut cards = BTreeMap::new();
        for card in inner.listings.iter().flatten().flat_map(|listing| &listing.cards) {
            // The worker named first describes it.
            cards
                .entry(card.id.clone())
                .or_insert_with(|| Bytes::copy_from_slice(card.text.get().as_bytes()));
        }
        inner.document = document(&cards);
        inner.cards = cards;
    }

    /// The answer to `GET /v1/models`.
    pub(crate) fn list(&self) -> Bytes {
        self.inner().document.clone()
    }

    /// The answer to `GET /v1/models/{id}`.
    pub(crate) fn card(&self, id: &str) -> Option<Bytes> {
        self.inner().cards.get(id).cloned()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn document(cards: &BTreeMap<String, Bytes>) -> Bytes {
    let mut text = br#"{"object":"list","data":["#.to_vec();
    for (index, card) in cards.values().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        text.extend_from_slice(card);
    }
    text.extend_from_slice(b"]}");
    text.into()
}
