//! Report of the KV sharing bench: figures and claims.

use overdraft_claims::{Aim, Claim, as_float, median};
use serde::Serialize;

/// One answer.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Figures {
    /// Until the first token, in milliseconds.
    pub(crate) first_token_ms: f64,
    /// Processor time of the whole process until then, in milliseconds.
    pub(crate) cpu_ms: f64,
    /// Prompt tokens that were not computed.
    pub(crate) cached_tokens: u64,
}

/// One prompt.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Round {
    /// On a worker that computes it.
    pub(crate) computed: Figures,
    /// On the same worker, which fetches it.
    pub(crate) fetched: Figures,
    /// On a worker that fetches it over a wire that flips a bit.
    pub(crate) mended: Figures,
    pub(crate) fetched_is_same: bool,
    pub(crate) mended_is_same: bool,
}

/// All of it.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) model: &'static str,
    pub(crate) prompt_tokens: usize,
    pub(crate) rounds: Vec<Round>,
    pub(crate) fetched_blocks: u64,
    pub(crate) bits_flipped: usize,
    pub(crate) bits_seen: u64,
    pub(crate) machine_load: String,
}

impl Report {
    pub(crate) fn print(&self) {
        let (model, tokens, load) = (self.model, self.prompt_tokens, &self.machine_load);
        println!("{model}, prompts of {tokens} tokens; load of the machine {load}\n");
        println!("until the first token      ms    CPU ms   cached tokens   same tokens");
        for round in &self.rounds {
            let rows = [
                ("computed", round.computed, true),
                ("fetched", round.fetched, round.fetched_is_same),
                ("a bit flipped", round.mended, round.mended_is_same),
            ];
            for (what, figures, same) in rows {
                let Figures { first_token_ms, cpu_ms, cached_tokens } = figures;
                let same = if same { "yes" } else { "NO" };
                println!(
                    "{what:<20}{first_token_ms:>9.0}{cpu_ms:>10.0}{cached_tokens:>16}{same:>14}"
                );
            }
            println!();
        }
        println!("{} blocks were fetched\n", self.fetched_blocks);
    }

    pub(crate) fn claims(&self) -> Vec<Claim> {
        let of = |pick: fn(&Round) -> f64| median(self.rounds.iter().map(pick).collect());
        let share = |pick: fn(&Round) -> bool| {
            let right = self.rounds.iter().filter(|round| pick(round)).count();
            as_float(right) / as_float(self.rounds.len())
        };
        let flipped = as_float(self.bits_flipped).max(1.0);
        let seen = as_float(usize::try_from(self.bits_seen).unwrap_or(usize::MAX)) / flipped;
        let figures = [
            (
                "computing_seconds",
                of(|round| round.computed.first_token_ms / 1e3),
                Aim::AtLeast(1.0),
            ),
            (
                "fetched_to_computed_first_token",
                of(|round| round.fetched.first_token_ms / round.computed.first_token_ms),
                Aim::AtMost(0.5),
            ),
            ("fetched_tokens_same", share(|round| round.fetched_is_same), Aim::AtLeast(1.0)),
            ("flipped_bits_seen", seen, Aim::AtLeast(1.0)),
            ("mended_tokens_same", share(|round| round.mended_is_same), Aim::AtLeast(1.0)),
        ];
        let claim = |(figure, measured, aim): (&str, f64, Aim)| Claim {
            demonstration: "S5",
            figure: figure.to_owned(),
            measured: Ok(measured),
            aim,
        };
        figures.into_iter().map(claim).collect()
    }
}
