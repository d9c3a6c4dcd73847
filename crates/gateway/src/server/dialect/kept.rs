//! Kept responses: what clients of Responses may ask for later, by id, for their tenant alone.
//!
//! They are kept in this gateway's memory, and in the store that gateways share where there is one; then that
//! store has the say, for another gateway may have deleted what this one still remembers. A response that is
//! under way in the store and has ended here has ended: the store missed the last write.
//!
//! A client may cancel or delete a response at a gateway that does not make it. Marks beside the response tell
//! its maker: a mark that it is deleted outlasts every write, and one that asks for its end is looked for.
//!
//! **Invariant:** the key of a response has the tenant in it, so that another tenant's id is as unknown as one
//! that never was.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use overdraft_core::response_cache::RecencyShelf;
use overdraft_store::{Fault, Looked, Name, Namespace, OpenError, ResponseStore};
use overdraft_telemetry::Clock;
use overdraft_units::Micros;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use tokio::time::{sleep, timeout};

use crate::pipeline::keys::Realm;
use crate::settings::GatewaySettings;

/// Where kept responses lie apart from cached answers.
const NAMESPACE_SUFFIX: &str = ".responses";

/// What lies in the place of a response that was deleted.
const TOMBSTONE: &[u8] = b"deleted";

/// How often a gateway looks whether another was asked to cancel what it makes.
const CANCEL_POLL: Duration = Duration::from_secs(1);

/// How long a gateway waits until another has given up a response.
const CANCEL_WAIT: Duration = Duration::from_secs(5);

/// How often it looks meanwhile.
const CANCELLED_POLL: Duration = Duration::from_millis(250);

/// Characters of an id at most; longer ones are none of ours.
const ID_LENGTH_MAX: usize = 128;

/// A response that is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    /// The object of its last event.
    pub(super) object: Box<RawValue>,
    /// The input items, each with an id.
    pub(super) input: Vec<Box<RawValue>>,
    /// The response that it follows.
    pub(super) previous: Option<String>,
    /// Whether nobody waited for it.
    pub(super) background: bool,
}

impl Kept {
    /// Whether nothing will be added to it.
    pub(super) fn is_over(&self) -> bool {
        #[derive(Deserialize)]
        struct Standing {
            status: String,
        }
        // Only responses that nobody waits for are kept before their end.
        if !self.background {
            return true;
        }
        let standing = serde_json::from_str::<Standing>(self.object.get());
        !standing.is_ok_and(|told| matches!(told.status.as_str(), "in_progress" | "queued"))
    }

    /// Bytes of its parts, which are nearly all that it takes.
    pub(super) fn bytes(&self) -> usize {
        let input = self.input.iter().map(|item| item.get().len());
        self.object.get().len() + input.sum::<usize>()
    }

    /// What it said.
    pub(super) fn output(&self) -> Vec<Box<RawValue>> {
        #[derive(Deserialize)]
        struct Said {
            output: Vec<Box<RawValue>>,
        }
        serde_json::from_str::<Said>(self.object.get())
            .map_or_else(|_| Vec::new(), |said| said.output)
    }
}

/// What a client asked of one gateway and the others have to know; it lies beside the response in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// Its maker is to give it up.
    CancelAsked,
    /// It is never to be written again.
    Deleted,
}

impl Mark {
    /// Where it lies.
    fn name(self, tenant: Realm, id: &str) -> Name {
        let word = match self {
            Self::CancelAsked => "cancel asked",
            Self::Deleted => "deleted",
        };
        let key = Sha256::new().chain_update(word).chain_update(tenant).chain_update(id);
        Name { key: key.finalize().into(), ..name(tenant, id) }
    }
}

/// All kept responses.
#[derive(Debug)]
pub(super) struct KeptResponses {
    clock: Clock,
    shelf: Mutex<RecencyShelf<Arc<Kept>>>,
    shared: Option<ResponseStore>,
    entry_bytes: usize,
    life: Duration,
    /// Bytes at most of responses that one request goes on from.
    pub(super) chain_bytes: usize,
}

impl KeptResponses {
    /// Kept where `settings` say.
    ///
    /// # Errors
    /// [`OpenError`] where the store's certificates cannot be used.
    pub(super) fn new(settings: &GatewaySettings, clock: Clock) -> Result<Self, OpenError> {
        let own = &settings.responses;
        let mut store = settings.store.clone();
        let namespace = format!("{}{NAMESPACE_SUFFIX}", store.namespace);
        store.namespace = Namespace::parse(&namespace).unwrap_or(store.namespace);
        let secret = settings.cache.encryption_key.clone();
        Ok(Self {
            clock,
            shelf: Mutex::new(RecencyShelf::new(own.memory_bytes)),
            shared: ResponseStore::open(&store, secret, own.entry_bytes)?,
            entry_bytes: own.entry_bytes,
            life: own.life,
            // A client may go on from what it could have sent.
            chain_bytes: settings.listen.body_bytes,
        })
    }

    /// Keeps a response here at once; what is to be written to the shared store, if there is one.
    pub(super) fn keep(&self, tenant: Realm, id: &str, kept: Kept) -> Option<Vec<u8>> {
        let entry = serde_json::to_vec(&kept).expect("a kept response has string keys");
        if self.entry_bytes < entry.len() {
            tracing::warn!(response = id, bytes = entry.len(), "response is too large to be kept");
            return None;
        }
        let bytes = u64::try_from(entry.len()).unwrap_or(u64::MAX);
        let until = self.clock.now() + Micros::from(self.life);
        self.shelf().insert(name(tenant, id).key, Arc::new(kept), bytes, until);
        self.shared.as_ref().map(|_| entry)
    }

    /// Writes what [`KeptResponses::keep`] returned to the shared store, unless the response was deleted.
    pub(super) async fn share(&self, tenant: Realm, id: &str, entry: &[u8]) {
        let Some(shared) = &self.shared else { return };
        let (place, deleted) = (name(tenant, id), Mark::Deleted.name(tenant, id));
        let written = async {
            // A ticket holds for all names of a tenant.
            let Looked::Missing(ticket) = shared.get(&deleted).await? else { return Ok(()) };
            shared.put(&place, ticket, entry, self.life).await?;
            // Who deletes it marks that first, so a tombstone that this overwrote has its mark by now.
            if let Looked::Found(..) = shared.get(&deleted).await? {
                shared.put(&place, ticket, TOMBSTONE, self.life).await?;
            }
            Ok::<(), Fault>(())
        };
        if let Err(error) = written.await {
            tracing::warn!(response = id, %error, "response is kept by this gateway alone: the store did not take it");
        }
    }

    /// The response of that id, where it is the tenant's.
    pub(super) async fn find(&self, tenant: Realm, id: &str) -> Option<Arc<Kept>> {
        if ID_LENGTH_MAX < id.len() {
            return None;
        }
        let name = name(tenant, id);
        let Some(shared) = &self.shared else { return self.remembered(&name) };
        let stored = match shared.get(&name).await {
            Ok(Looked::Found(entry, _)) if entry == TOMBSTONE => {
                self.shelf().remove(&name.key);
                return None;
            }
            Ok(Looked::Found(entry, _)) => serde_json::from_slice::<Kept>(&entry).ok()?,
            // It may not have been written yet: what this gateway remembers counts.
            Ok(Looked::Missing(_)) | Err(_) => return self.remembered(&name),
        };
        if !stored.is_over() {
            // A last write that failed leaves the first entry there; its maker knows how it ended.
            let ended = self.remembered(&name).filter(|own| own.is_over());
            return Some(ended.unwrap_or_else(|| Arc::new(stored)));
        }
        Some(Arc::new(stored))
    }

    /// What this gateway remembers of a response.
    fn remembered(&self, name: &Name) -> Option<Arc<Kept>> {
        self.shelf().get(&name.key, self.clock.now()).cloned()
    }

    /// Lets go of a response; whether it was there.
    pub(super) async fn forget(&self, tenant: Realm, id: &str) -> bool {
        let Some(kept) = self.find(tenant, id).await else { return false };
        let place = name(tenant, id);
        self.shelf().remove(&place.key);
        // A write that is under way looks for the mark once it has written.
        self.tell(&Mark::Deleted.name(tenant, id), TOMBSTONE).await;
        if !kept.is_over() {
            self.tell(&Mark::CancelAsked.name(tenant, id), TOMBSTONE).await;
        }
        self.tell(&place, TOMBSTONE).await;
        true
    }

    /// Whether a client of any gateway has deleted the response.
    pub(super) async fn is_deleted(&self, tenant: Realm, id: &str) -> bool {
        self.has_mark(&Mark::Deleted.name(tenant, id)).await
    }

    /// Resolves once a client of another gateway wants the response given up.
    pub(super) async fn cancel_asked(&self, tenant: Realm, id: &str) {
        if self.shared.is_none() {
            return std::future::pending().await;
        }
        let mark = Mark::CancelAsked.name(tenant, id);
        loop {
            sleep(CANCEL_POLL).await;
            if self.has_mark(&mark).await {
                return;
            }
        }
    }

    /// Has the gateway that makes a response give it up; how it ended, or nothing where it did not in time.
    pub(super) async fn cancel_elsewhere(&self, tenant: Realm, id: &str) -> Option<Arc<Kept>> {
        if !self.tell(&Mark::CancelAsked.name(tenant, id), b"cancel").await {
            return None;
        }
        let ended = async {
            loop {
                sleep(CANCELLED_POLL).await;
                let kept = self.find(tenant, id).await;
                if let Some(ended) = kept.filter(|kept| kept.is_over()) {
                    return ended;
                }
            }
        };
        timeout(CANCEL_WAIT, ended).await.ok()
    }

    async fn has_mark(&self, mark: &Name) -> bool {
        let Some(shared) = &self.shared else { return false };
        matches!(shared.get(mark).await, Ok(Looked::Found(..)))
    }

    /// Puts a word for the other gateways where it belongs, whatever lies there; whether the store took it.
    async fn tell(&self, place: &Name, word: &[u8]) -> bool {
        let Some(shared) = &self.shared else { return false };
        let written = async {
            let (Looked::Found(_, ticket) | Looked::Missing(ticket)) = shared.get(place).await?;
            shared.put(place, ticket, word, self.life).await
        };
        let written = written.await;
        if let Err(error) = &written {
            tracing::warn!(%error, "other gateways are not told what became of a response: the store did not take it");
        }
        written.is_ok()
    }

    fn shelf(&self) -> MutexGuard<'_, RecencyShelf<Arc<Kept>>> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn name(tenant: Realm, id: &str) -> Name {
    let key = Sha256::new().chain_update(tenant).chain_update(id).finalize().into();
    let model = Sha256::digest(NAMESPACE_SUFFIX).into();
    Name { key, tenant, model }
}
