//! What the loop tells of its cache, and to whom.

use std::sync::{Arc, Mutex};

use overdraft_engine::echo::Noise;
use overdraft_engine::{CacheChanges, Observation, Observer};
use overdraft_scheduler::batch::{CacheChange, PageParent};
use overdraft_units::{CacheSalt, TokenId};

use crate::support::{ask, echo, observed, request, settings};

/// Keeps what it is told of the cache.
#[derive(Clone, Default)]
struct Watcher(Arc<Mutex<Vec<CacheChange>>>);

impl Watcher {
    fn taken(&self) -> Vec<CacheChange> {
        std::mem::take(&mut *self.0.lock().expect("nobody panics with it"))
    }
}

impl Observer for Watcher {
    fn observe(&mut self, _observation: &Observation) {}

    fn watches_cache(&self) -> bool {
        true
    }

    fn observe_cache(&mut self, changes: CacheChanges) {
        let CacheChanges::Pages(changes) = changes else { panic!("nothing broke down") };
        assert!(!changes.is_empty());
        self.0.lock().expect("nobody panics with it").extend(changes);
    }
}

/// The tokens of all pages told of as stored, and the salts of those that begin a prompt.
fn stored(changes: &[CacheChange]) -> (Vec<TokenId>, Vec<CacheSalt>) {
    let (mut tokens, mut salts) = (Vec::new(), Vec::new());
    for change in changes {
        let CacheChange::Stored(stored) = change else { panic!("nothing was given up") };
        tokens.extend_from_slice(&stored.tokens);
        if let PageParent::Root(salt) = stored.after {
            salts.push(salt);
        }
    }
    (tokens, salts)
}

#[test]
fn whoever_hears_of_an_end_finds_the_cache_told_of() {
    let watcher = Watcher::default();
    let engine = observed(echo(64, Noise::Quiet), settings(), watcher.clone());
    let mut asked = request("sixteen letters!");
    asked.salt = CacheSalt(9);
    let prompt = asked.prompt.clone();
    let first = ask(&engine, asked.clone());
    let (tokens, salts) = stored(&watcher.taken());
    let known = [prompt.as_slice(), &first.tokens].concat();
    // Pages of four tokens; the last token of all was never computed.
    let full = (known.len() - 1) / 4 * 4;
    assert_eq!((tokens.as_slice(), salts.as_slice()), (&known[..full], &[CacheSalt(9)][..]));

    let second = ask(&engine, asked);
    assert_eq!(second.tokens, first.tokens);
    assert_eq!(watcher.taken(), [], "all of it was there already");
}

#[test]
fn what_is_given_up_is_told() {
    let watcher = Watcher::default();
    let engine = observed(echo(24, Noise::Quiet), settings(), watcher.clone());
    ask(&engine, request("a first prompt of some length"));
    watcher.taken();
    for number in 0..4 {
        ask(&engine, request(&format!("{number}: another prompt of some length")));
    }
    let changes = watcher.taken();
    assert!(changes.iter().any(|change| matches!(change, CacheChange::Removed(_))));
}
