//! Step time cache: memoises the costly part of a profile's step time.
//!
//! Most of the cost of computing a step's time is in the powers that join reading weights to
//! multiplying by them. Those depend on the number of rows alone, and a busy worker repeats the
//! same few numbers. **Invariant:** cached values equal computed ones, bit for bit.

use std::time::Duration;

use crate::batch::Batch;
use crate::profile::Profile;
use crate::step::Products;

/// Maximum number of rows that is cached: sequences that decode at once, and some more.
const ROWS_MAX: usize = 1_024;

/// A profile with a cache of its step times.
#[derive(Clone, Debug)]
pub struct StepTimes {
    profile: Profile,
    /// By rows: what the matrix products take.
    products: Vec<Option<Products>>,
}

impl StepTimes {
    /// Nothing is remembered yet.
    pub fn new(profile: Profile) -> Self {
        Self { profile, products: vec![None; ROWS_MAX] }
    }

    /// As [`Profile::step`].
    pub fn step(&mut self, batch: &Batch) -> Duration {
        if batch.is_empty() {
            return Duration::ZERO;
        }
        let products = self.products(batch.rows);
        Duration::from_secs_f64(self.profile.step_parts_beside(batch, products).seconds())
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rows are counted, and too many of them are not remembered"
    )]
    fn products(&mut self, rows: f64) -> Products {
        let Some(known) = self.products.get_mut(rows as usize) else {
            return self.profile.products(rows);
        };
        *known.get_or_insert_with(|| self.profile.products(rows))
    }
}

#[cfg(test)]
mod tests {
    use overdraft_units::Tokens;

    use super::*;
    use crate::{Catalogue, Chunk};

    #[test]
    fn what_is_remembered_is_what_would_be_computed() {
        let profile = Catalogue::builtin().find("h100-tp2/llama-3-70b-fp8").unwrap();
        let mut times = StepTimes::new(profile.clone());
        assert!(times.step(&Batch::new()).is_zero());
        for round in 0..3 {
            for rows in (1..1_030).chain([4_000, 1_000_000]) {
                let (before, length) = (Tokens::new(round * 700), Tokens::new(rows));
                let batch = [Chunk { before, length, samples: true }].into_iter().collect();
                assert_eq!(times.step(&batch), profile.step(&batch), "{rows} rows");
            }
        }
    }
}
