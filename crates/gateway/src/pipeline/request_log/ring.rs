//! Ring of the last requests, numbered in the order in which they ended.

use std::collections::VecDeque;
use std::sync::Arc;

use super::entry::Logged;

/// The last requests.
#[derive(Debug, Default)]
pub(super) struct Ring {
    entries: VecDeque<Arc<Logged>>,
    kept_max: usize,
    /// The number of the next request.
    next: u64,
}

impl Ring {
    /// Keeps so many from now on; the oldest go.
    pub(super) fn resize(&mut self, kept_max: usize) {
        self.kept_max = kept_max;
        let surplus = self.entries.len().saturating_sub(kept_max);
        self.entries.drain(..surplus);
        self.entries.shrink_to(kept_max);
    }

    /// Adds a request; returns the one that made room for it.
    pub(super) fn push(&mut self, logged: Arc<Logged>) -> Option<Arc<Logged>> {
        let forgotten =
            (self.kept_max <= self.entries.len()).then(|| self.entries.pop_front()).flatten();
        self.next += 1;
        if 0 < self.kept_max {
            self.entries.push_back(logged);
        }
        forgotten
    }

    /// The number that the next request gets.
    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// Those with a number from `from` on, the newest first.
    pub(super) fn since(&self, from: u64) -> impl Iterator<Item = &Arc<Logged>> {
        let count = usize::try_from(self.next.saturating_sub(from)).unwrap_or(usize::MAX);
        self.entries.iter().rev().take(count)
    }

    /// The latest of that name with its number.
    pub(super) fn find(&self, id: &str) -> Option<(u64, &Arc<Logged>)> {
        let mut numbered = (0..self.next).rev().zip(self.entries.iter().rev());
        numbered.find(|(_, logged)| &*logged.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(id: &str) -> Arc<Logged> {
        Arc::new(Logged { id: id.into(), ..Logged::default() })
    }

    fn ids(ring: &Ring, from: u64) -> Vec<&str> {
        ring.since(from).map(|logged| &*logged.id).collect()
    }

    fn filled(kept_max: usize, names: &[&str]) -> Ring {
        let mut ring = Ring::default();
        ring.resize(kept_max);
        for name in names {
            ring.push(logged(name));
        }
        ring
    }

    #[test]
    fn the_oldest_makes_room_for_the_newest() {
        let mut ring = filled(3, &["a", "b", "c"]);
        assert_eq!(ring.push(logged("d")).unwrap().id.as_ref(), "a");
        assert_eq!((ids(&ring, 0), ring.next()), (vec!["d", "c", "b"], 4));
        assert_eq!(ring.find("b").map(|(number, _)| number), Some(1));
        assert!(ring.find("a").is_none());
    }

    #[test]
    fn only_what_is_new_is_read() {
        let ring = filled(3, &["a", "b", "c", "d"]);
        assert_eq!(ids(&ring, 3), ["d"]);
        assert!(ids(&ring, 4).is_empty() && ids(&ring, 9).is_empty());
    }

    #[test]
    fn of_two_of_one_name_the_latest_is_found() {
        let ring = filled(3, &["a", "b", "a"]);
        assert_eq!(ring.find("a").map(|(number, _)| number), Some(2));
    }

    #[test]
    fn a_smaller_ring_keeps_the_newest_and_none_keeps_nothing() {
        let mut ring = filled(3, &["a", "b", "c"]);
        ring.resize(1);
        assert_eq!(ids(&ring, 0), ["c"]);
        ring.resize(0);
        ring.push(logged("d"));
        assert!(ids(&ring, 0).is_empty());
        assert_eq!(ring.next(), 4, "numbers go on");
    }
}
