//! Succession of discovery sources: which source of changed settings goes on with what another one had found.
//!
//! A reload that changes the discovery ends every source and starts those of the new settings. An edit of an entry says
//! nothing about its workers, so what the source before found last stands until its successor has spoken, described by
//! the successor's settings. **Invariant:** a source has one successor at most, and only one that has none takes its
//! workers along.

use std::collections::BTreeMap;

use super::found::FoundWorker;
use super::report::settle;
use crate::settings::{Source, WorkerSettings};

/// The successor of each source of `before` among those of `now`, both by their positions: its equal, else the one of
/// its kind and place, else the one that stands where it stood.
pub(crate) fn successors(before: &[Source], now: &[Source]) -> BTreeMap<usize, usize> {
    let both = |old: usize, new: usize| before.get(old).zip(now.get(new));
    let mut found = Successors { before: before.len(), now: now.len(), pairs: BTreeMap::new() };
    found.pair(|old, new| both(old, new).is_some_and(|(old, new)| old == new));
    found.pair(|old, new| both(old, new).is_some_and(|(old, new)| old.is_where(new)));
    found.pair(|old, new| old == new);
    found.pairs
}

/// Who succeeds whom, so far.
struct Successors {
    /// How many sources there were, ...
    before: usize,
    /// ... and are.
    now: usize,
    pairs: BTreeMap<usize, usize>,
}

impl Successors {
    /// Gives each source that has no successor yet the first that succeeds nobody and fits.
    fn pair(&mut self, fits: impl Fn(usize, usize) -> bool) {
        for old in 0..self.before {
            if self.pairs.contains_key(&old) {
                continue;
            }
            let is_free = |new: &usize| !self.pairs.values().any(|taken| taken == new);
            let successor = (0..self.now).filter(is_free).find(|new| fits(old, *new));
            if let Some(new) = successor {
                self.pairs.insert(old, new);
            }
        }
    }
}

/// The workers that a predecessor of `source` found, as `source` describes them; or why the gateway would refuse them.
pub(crate) fn settle_anew(
    source: &Source,
    found: &[FoundWorker],
) -> Result<Vec<WorkerSettings>, String> {
    let found: Vec<FoundWorker> =
        found.iter().map(|worker| described(worker.clone(), source)).collect();
    settle(&found, &source.each())
}

/// The worker as a source that found it would tell it.
fn described(worker: FoundWorker, source: &Source) -> FoundWorker {
    let (pool, model) = match source {
        // They say that of each worker.
        Source::Static(_) | Source::File(_) => return worker,
        Source::Dns(settings) => (settings.pool, settings.model.clone()),
        Source::Kubernetes(settings) => (settings.pool, settings.model.clone()),
    };
    FoundWorker { pool, model, ..worker }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::slice;

    use super::*;
    use crate::settings::{DnsSettings, FileSettings, KubernetesSettings, Pool, ServicePort};

    fn dns(name: &str, port: u16) -> Source {
        Source::Dns(DnsSettings::new(name, port))
    }

    fn file(path: &str) -> Source {
        Source::File(FileSettings::new(path))
    }

    fn service(namespace: &str, port: u16) -> Source {
        let mut settings = KubernetesSettings::new("vllm", ServicePort::Number(port));
        settings.namespace = Some(namespace.to_owned());
        Source::Kubernetes(settings)
    }

    #[track_caller]
    fn check(before: &[Source], now: &[Source], expected: &[(usize, usize)]) {
        let found: Vec<(usize, usize)> = successors(before, now).into_iter().collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_source_is_succeeded_by_its_equal_then_by_its_place_then_by_its_position() {
        let (a, b, changed) = (dns("a", 1), dns("b", 1), dns("a", 2));
        check(&[a.clone(), b.clone()], &[b.clone(), a.clone()], &[(0, 1), (1, 0)]);
        check(&[a.clone(), b.clone()], &[b.clone(), changed.clone()], &[(0, 1), (1, 0)]);
        check(&[a.clone(), changed.clone()], &[changed, a.clone()], &[(0, 1), (1, 0)]);
        check(&[service("one", 1), service("two", 1)], &[service("two", 2)], &[(1, 0)]);
        check(slice::from_ref(&a), &[file("a")], &[(0, 0)]);
        check(&[a.clone(), b.clone()], slice::from_ref(&b), &[(1, 0)]);
        check(slice::from_ref(&a), &[b, a.clone()], &[(0, 1)]);
        check(&[a], &[], &[]);
    }

    #[test]
    fn what_was_found_before_is_described_by_the_settings_now() {
        let mut settings = DnsSettings::new("a", 8000);
        settings.pool = Pool::Draft;
        settings.model = Some("m".to_owned());
        settings.each.is_encrypted = true;
        settings.each.traits.sequences_max = NonZeroU32::new(7);
        let found = [FoundWorker::at("10.0.0.1", 8000)];
        let settled = settle_anew(&Source::Dns(settings), &found).unwrap();
        let [worker] = settled.as_slice() else { panic!("there is one") };
        assert_eq!((worker.url.as_str(), worker.pool), ("https://10.0.0.1:8000", Pool::Draft));
        assert_eq!(worker.model.as_deref(), Some("m"));
        assert_eq!(worker.traits.sequences_max, NonZeroU32::new(7));
    }
}
