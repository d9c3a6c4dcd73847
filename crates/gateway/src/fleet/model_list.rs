//! Model list: the models that can be asked for.
//!
//! The list is the union of the lists of all workers that are up, each model once and in the
//! worker's own words. It is rebuilt when a worker's list or health changes, not when it is read.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use overdraft_core::fleet::{WORKER_MODELS_MAX, WorkerId};
use overdraft_core::route::model_number;
use overdraft_wire::json::{Object, Patch};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::settings::{Pool, Routes};

/// Models that are remembered at most once their workers have gone.
const SEEN_MAX: usize = 1_024;

/// One model as a worker describes it.
#[derive(Clone, Debug)]
struct Card {
    id: String,
    /// The model that it is an adapter of.
    parent: Option<String>,
    /// The JSON object.
    text: Box<RawValue>,
}

/// What one worker listed when it was last asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listing {
    cards: Vec<Card>,
}

impl Listing {
    /// Reads a worker's answer to `GET /v1/models`; `None` if it is not such an answer. Only those of `serves` are
    /// kept, where it names any.
    pub(crate) fn parse(answer: &[u8], serves: &[String]) -> Option<Self> {
        #[derive(Deserialize)]
        struct List {
            data: Vec<Box<RawValue>>,
        }
        #[derive(Deserialize)]
        struct Named {
            id: String,
            parent: Option<String>,
        }
        let list: List = serde_json::from_slice(answer).ok()?;
        let mut cards = Vec::new();
        for text in list.data {
            let Named { id, parent } = serde_json::from_str(text.get()).ok()?;
            if serves.is_empty() || serves.contains(&id) {
                cards.push(Card { id, parent, text });
            }
            if cards.len() == WORKER_MODELS_MAX {
                break;
            }
        }
        Some(Self { cards })
    }

    /// The models' names.
    pub(crate) fn names(&self) -> Vec<String> {
        self.cards.iter().map(|card| card.id.clone()).collect()
    }
}

/// The models of all workers.
#[derive(Debug)]
pub(crate) struct ModelList(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    /// By worker; `None` while it is not up.
    listings: Vec<Option<Listing>>,
    /// Alias and model, for the aliases of models that are served.
    aliases: Vec<(String, String)>,
    /// Adapters, and the models that they adapt.
    parents: BTreeMap<String, String>,
    cards: BTreeMap<String, Bytes>,
    document: Bytes,
    /// Models that a worker has ever listed, as numbers, so that one whose workers are all away is not taken for none;
    /// and the pools of those workers.
    seen: BTreeMap<u64, BTreeSet<Pool>>,
}

impl Default for ModelList {
    /// Nobody has listed anything.
    fn default() -> Self {
        let cards = BTreeMap::new();
        let document = document(&cards);
        let (listings, aliases) = (Vec::new(), Vec::new());
        let seen = BTreeMap::new();
        let parents = BTreeMap::new();
        Self(Mutex::new(Inner { listings, aliases, parents, cards, document, seen }))
    }
}

impl ModelList {
    /// Notes what `worker` serves now; `None` when it serves nothing.
    pub(crate) fn note(&self, worker: WorkerId, listing: Option<Listing>) {
        let mut inner = self.inner();
        if inner.listings.len() <= worker.index() {
            inner.listings.resize(worker.index() + 1, None);
        }
        inner.listings[worker.index()] = listing;
        inner.list();
    }

    /// Remembers that a worker of this pool has listed these.
    pub(crate) fn saw(&self, models: &[String], pool: Pool) {
        let mut inner = self.inner();
        for model in models {
            if let Some(pools) = inner.remember(model) {
                pools.insert(pool);
            }
        }
    }

    /// Notes which models have other names as well.
    pub(crate) fn rename(&self, routes: &Routes) {
        let mut inner = self.inner();
        let owned = |(alias, model): (&str, &str)| (alias.to_owned(), model.to_owned());
        inner.aliases = routes.aliases().map(owned).collect();
        inner.list();
    }

    /// The answer to `GET /v1/models`.
    pub(crate) fn list(&self) -> Bytes {
        self.inner().document.clone()
    }

    /// The same for somebody who may not ask for all of them.
    pub(crate) fn list_of(&self, may_ask: impl Fn(&str) -> bool) -> Bytes {
        let inner = self.inner();
        let cards = inner.cards.iter().filter(|(id, _)| may_ask(id));
        document(&cards.map(|(id, card)| (id.clone(), card.clone())).collect())
    }

    /// The answer to `GET /v1/models/{id}`.
    pub(crate) fn card(&self, id: &str) -> Option<Bytes> {
        self.inner().cards.get(id).cloned()
    }

    /// The card of `model` under a name that stands for it and is not listed.
    pub(crate) fn card_as(&self, model: &str, name: &str) -> Option<Bytes> {
        renamed(&self.card(model)?, name)
    }

    /// The model that `id` is an adapter of, if it is one.
    pub(crate) fn parent(&self, id: &str) -> Option<String> {
        self.inner().parents.get(id).cloned()
    }

    /// Whether a worker has ever listed a model.
    pub(crate) fn has_seen(&self, id: &str) -> bool {
        self.inner().seen.contains_key(&model_number(id))
    }

    /// The pools of the workers that have ever listed a model, which is given as a number.
    pub(crate) fn seen_in(&self, model: u64) -> BTreeSet<Pool> {
        self.inner().seen.get(&model).cloned().unwrap_or_default()
    }

    /// Whether no worker has ever listed any.
    pub(crate) fn has_seen_none(&self) -> bool {
        self.inner().seen.is_empty()
    }

    /// Tokens that a model has room for, if a worker says.
    pub(crate) fn context(&self, id: &str) -> Option<u32> {
        #[derive(Deserialize)]
        struct Room {
            max_model_len: Option<u32>,
        }
        let card = self.card(id)?;
        serde_json::from_slice::<Room>(&card).ok()?.max_model_len
    }

    /// What a worker tells of the weights behind a model's name.
    pub(crate) fn revision(&self, id: &str) -> Option<String> {
        #[derive(Deserialize)]
        struct Told<'a> {
            #[serde(borrow)]
            root: Option<&'a RawValue>,
            #[serde(borrow)]
            parent: Option<&'a RawValue>,
            #[serde(borrow)]
            max_model_len: Option<&'a RawValue>,
            #[serde(borrow)]
            digest: Option<&'a RawValue>,
            #[serde(borrow)]
            revision: Option<&'a RawValue>,
        }
        let card = self.card(id)?;
        let told: Told<'_> = serde_json::from_slice(&card).ok()?;
        let parts = [told.root, told.parent, told.max_model_len, told.digest, told.revision];
        Some(parts.map(|part| part.map_or("", RawValue::get)).join("\n"))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Puts the list together anew.
    fn list(&mut self) {
        let mut cards = BTreeMap::new();
        self.parents.clear();
        for card in self.listings.iter().flatten().flat_map(|listing| &listing.cards) {
            if let Some(parent) = &card.parent {
                self.parents.entry(card.id.clone()).or_insert_with(|| parent.clone());
            }
            // The worker named first describes it.
            cards
                .entry(card.id.clone())
                .or_insert_with(|| Bytes::copy_from_slice(card.text.get().as_bytes()));
        }
        for (alias, model) in &self.aliases {
            let renamed = cards.get(model).and_then(|card| renamed(card, alias));
            if let Some(card) = renamed {
                cards.entry(alias.clone()).or_insert(card);
            }
        }
        for id in cards.keys() {
            self.remember(id);
        }
        self.document = document(&cards);
        self.cards = cards;
    }

    /// Remembers a model, and gives the pools that it was seen in; `None` where too many are remembered already.
    fn remember(&mut self, id: &str) -> Option<&mut BTreeSet<Pool>> {
        let has_room = self.seen.len() < SEEN_MAX;
        match self.seen.entry(model_number(id)) {
            Entry::Occupied(seen) => Some(seen.into_mut()),
            Entry::Vacant(place) => has_room.then(|| place.insert(BTreeSet::new())),
        }
    }
}

/// The card of a model under another name.
fn renamed(card: &[u8], alias: &str) -> Option<Bytes> {
    let object = Object::parse(card).ok()?;
    Some(Patch::new().set("id", &alias).apply(&object).into())
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
