//! Runs that several comparisons ask for, each made once.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow};

use crate::figures::Figures;
use crate::jobs;
use crate::world::{Arm, World};

/// A world under a policy with a seed.
#[derive(Clone, Debug)]
pub(crate) struct Entrant {
    pub(crate) world: World,
    pub(crate) arm: Arm,
    pub(crate) seed: u64,
}

impl Entrant {
    /// What tells it from others: the command that would run it.
    fn key(&self) -> String {
        self.world.command(self.arm, self.seed)
    }

    fn run(&self) -> Result<Figures> {
        let world = World { tells_missed: true, ..self.world.clone() };
        world.run(self.arm, self.seed, &world.sessions(self.seed)?)
    }
}

/// Figures by entrant.
#[derive(Debug, Default)]
pub(crate) struct Book {
    runs: BTreeMap<String, Result<Figures, String>>,
}

impl Book {
    /// Runs them all.
    pub(crate) fn of<'a>(
        entrants: impl Iterator<Item = &'a Entrant>,
        threads: usize,
        progress: impl Fn(usize, usize) + Sync,
    ) -> Self {
        let mut wanted: Vec<(String, &Entrant)> = entrants.map(|one| (one.key(), one)).collect();
        wanted.sort_by(|one, other| one.0.cmp(&other.0));
        wanted.dedup_by(|one, other| one.0 == other.0);
        let count = wanted.len();
        let run = |place: usize| wanted[place].1.run().map_err(|error| format!("{error:#}"));
        let results = jobs::run(count, threads, run, |through| progress(through, count));
        let flat = results.into_iter().map(|result| result.and_then(|inner| inner));
        Self { runs: wanted.iter().map(|(key, _)| key.clone()).zip(flat).collect() }
    }

    /// # Errors
    /// Where the run failed.
    pub(crate) fn figures(&self, entrant: &Entrant) -> Result<Figures> {
        let found = self.runs.get(&entrant.key());
        let found = found.ok_or_else(|| anyhow!("it was not run"))?;
        found.clone().map_err(|error| anyhow!(error))
    }
}
