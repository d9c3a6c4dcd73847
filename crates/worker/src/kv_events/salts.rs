//! Cache salt names: maps the engine's salt numbers back to the clients' `cache_salt`.
//!
//! The engine identifies salts by numbers of its own, seeded anew in each process. Events must
//! contain the text, as vLLM's do, or a gateway could not match the block with requests. Only the
//! texts of the last salts are kept; events of blocks under an older one carry a name that no
//! request has, which costs a routing hint.
//!
//! **Invariant:** at most [`SALTS_MAX`] texts are held.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use overdraft_units::CacheSalt;
use overdraft_wire::kv_events::SaltText;

/// Maximum salts whose text is known.
const SALTS_MAX: usize = 4_096;

/// The texts of the salts that were used last.
#[derive(Debug, Default)]
pub(super) struct Salts(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    texts: BTreeMap<CacheSalt, SaltText>,
    /// In the order in which they came.
    order: VecDeque<CacheSalt>,
}

impl Salts {
    /// Remembers a text.
    pub(super) fn note(&self, salt: CacheSalt, text: &str) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.texts.contains_key(&salt) {
            return;
        }
        if known.order.len() == SALTS_MAX
            && let Some(oldest) = known.order.pop_front()
        {
            known.texts.remove(&oldest);
        }
        known.texts.insert(salt, SaltText::new(text));
        known.order.push_back(salt);
    }

    /// The text of a salt, or one that no client is likely to use.
    pub(super) fn text(&self, salt: CacheSalt) -> SaltText {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.texts.get(&salt).cloned();
        found.unwrap_or_else(|| SaltText::new(&format!("\u{0}{:016x}", salt.0)))
    }
}
