//! Series cache: metric series of a family, found without formatting their labels.
//!
//! A family finds a series by the text of its labels: they have to be put together, most of them
//! allocated, and hashed, several hundred instructions each time. What every request counts is
//! therefore also remembered by what the labels are made of, which is compared in a few.

use std::sync::{PoisonError, RwLock};

/// Series remembered at most; what comes later is found by its labels. Few enough to look through.
const SERIES_MAX: usize = 32;

/// Some of a family's series, by a short key.
#[derive(Debug)]
pub(super) struct SeriesCache<K, M>(RwLock<Vec<(K, M)>>);

impl<K, M> Default for SeriesCache<K, M> {
    fn default() -> Self {
        Self(RwLock::new(Vec::new()))
    }
}

impl<K, M: Clone> SeriesCache<K, M> {
    /// Lets `count` have the series whose key `is` the one; `find` finds it in its family the first
    /// time.
    pub(super) fn with(
        &self,
        is: impl Fn(&K) -> bool,
        find: impl FnOnce() -> (K, M),
        count: impl FnOnce(&M),
    ) {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, series)) = known.iter().find(|(key, _)| is(key)) {
            return count(series);
        }
        drop(known);
        let (key, series) = find();
        count(&series);
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        // Another may have found it meanwhile.
        if known.len() < SERIES_MAX && !known.iter().any(|(key, _)| is(key)) {
            known.push((key, series));
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::family::Family;

    use super::*;

    #[test]
    fn what_is_counted_is_the_family_s_own_series_however_many_there_are() {
        let family = Family::<[(&'static str, String); 1], Counter>::default();
        let known = SeriesCache::<u64, Counter>::default();
        let label = |which: u64| [("which", which.to_string())];
        let all = u64::try_from(SERIES_MAX).unwrap() + 8;
        for _ in 0..3 {
            for which in 0..all {
                let find = || (which, family.get_or_create_owned(&label(which)));
                known.with(
                    |key| *key == which,
                    find,
                    |counter| {
                        counter.inc();
                    },
                );
            }
        }
        assert!((0..all).all(|which| family.get_or_create(&label(which)).get() == 3));
        assert_eq!(known.0.read().unwrap().len(), SERIES_MAX);
    }
}
