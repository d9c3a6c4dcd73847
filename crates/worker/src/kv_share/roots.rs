//! Prefix roots: maps the engine's salt numbers to the hashes by which peers name a tenant.
//!
//! The engine identifies salts by numbers of its own, seeded anew in each process; workers name a
//! tenant to each other by a hash that cannot be computed without the salt. Only the last salts are
//! kept; blocks under an older one are neither offered nor fetched.
//!
//! **Invariant:** at most [`SALTS_MAX`] are held, both ways the same.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use overdraft_units::CacheSalt;
use overdraft_wire::kv_blocks::{KvModel, PrefixRoot};

/// Maximum salts that are known.
const SALTS_MAX: usize = 4_096;

/// The salt of requests that have none.
const UNSALTED: CacheSalt = CacheSalt(0);

/// The roots of the salts that were used last.
#[derive(Debug)]
pub(super) struct Roots {
    model: KvModel,
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    roots: BTreeMap<CacheSalt, PrefixRoot>,
    salts: BTreeMap<PrefixRoot, CacheSalt>,
    /// In the order in which they came; the unsalted one stays.
    order: VecDeque<CacheSalt>,
}

impl Roots {
    pub(super) fn new(model: KvModel) -> Self {
        let root = model.root(None);
        let known = Known {
            roots: BTreeMap::from([(UNSALTED, root)]),
            salts: BTreeMap::from([(root, UNSALTED)]),
            order: VecDeque::new(),
        };
        Self { model, known: Mutex::new(known) }
    }

    /// Remembers a text.
    pub(super) fn note(&self, salt: CacheSalt, text: &str) {
        let mut known = self.known();
        if known.roots.contains_key(&salt) {
            return;
        }
        if known.order.len() == SALTS_MAX
            && let Some(oldest) = known.order.pop_front()
            && let Some(root) = known.roots.remove(&oldest)
        {
            known.salts.remove(&root);
        }
        let root = self.model.root(Some(text));
        known.roots.insert(salt, root);
        known.salts.insert(root, salt);
        known.order.push_back(salt);
    }

    pub(super) fn root_of(&self, salt: CacheSalt) -> Option<PrefixRoot> {
        self.known().roots.get(&salt).copied()
    }

    pub(super) fn salt_of(&self, root: PrefixRoot) -> Option<CacheSalt> {
        self.known().salts.get(&root).copied()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_salts_are_known_both_ways() {
        let model = KvModel::read(&b"weights"[..], "f16").unwrap();
        let roots = Roots::new(model);
        for number in 1..=5_000 {
            roots.note(CacheSalt(number), &format!("tenant {number}"));
        }
        for (number, known) in [(1, false), (904, false), (905, true), (5_000, true)] {
            let root = model.root(Some(&format!("tenant {number}")));
            assert_eq!(roots.root_of(CacheSalt(number)), known.then_some(root));
            assert_eq!(roots.salt_of(root), known.then_some(CacheSalt(number)));
        }
        assert_eq!(roots.salt_of(model.root(None)), Some(UNSALTED));
    }
}
