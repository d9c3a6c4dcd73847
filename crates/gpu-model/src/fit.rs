//! Fit of step times: the rates of a GPU and a model from measured steps, by least squares.
//!
//! The terms are those of a profile (`docs/design/gpu-model.md#r1`), put together as far as they can be told apart
//! from outside (`docs/design/gpu-model.md#r10`). Reading and multiplying meet in a smooth passage. Given that, time is
//! linear in all other terms, so the passage is searched and the rest solved.
//! Errors count relative to what was measured.

use crate::batch::Batch;

/// Powers of the passage that are tried.
const POWERS: [f64; 8] = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 8.0];

/// Rows at which multiplying takes as long as reading: the least that is tried, and steps from there, each half as
/// large again.
const KNEE_MIN: f64 = 1.0;
const KNEE_STEPS: u32 = 24;

/// Coefficients of the linear part.
const TERMS: usize = 6;

/// Observations for a fit at least.
pub const OBSERVED_MIN: usize = 8;

/// Pivots below this share of the largest say that terms cannot be told apart.
const PIVOT_MIN: f64 = 1e-12;

/// What was measured once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observed {
    /// What the step computed.
    pub batch: Batch,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Whether that has in it what a request takes besides: the way there and back, the tokenizer.
    pub with_request: bool,
}

/// What a step takes, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepFit {
    /// Reading the weights.
    pub read: f64,
    /// Multiplying by them, for each row.
    pub per_row: f64,
    /// How smoothly the two meet: p in (a^p + b^p)^(1/p).
    pub power: f64,
    /// Whatever is computed.
    pub fixed: f64,
    /// For each sequence.
    pub per_sequence: f64,
    /// For each position whose keys and values a decode reads.
    pub per_context: f64,
    /// For each pair of positions that attend in a prompt.
    pub per_pair: f64,
    /// What a request takes besides its steps.
    pub per_request: f64,
    /// Mean absolute error over what was measured, as a share.
    pub error: f64,
}

impl StepFit {
    /// The fit with the least squares of relative errors; none for fewer than [`OBSERVED_MIN`].
    pub fn of(observed: &[Observed]) -> Option<Self> {
        let usable = |one: &&Observed| one.seconds.is_finite() && 0.0 < one.seconds;
        let observed: Vec<Observed> = observed.iter().filter(usable).copied().collect();
        if observed.len() < OBSERVED_MIN {
            return None;
        }
        let knees = (0..KNEE_STEPS).map(|step| KNEE_MIN * 1.5_f64.powf(f64::from(step)));
        let all = knees.flat_map(|knee| POWERS.map(|power| (knee, power)));
        let fits = all.filter_map(|(knee, power)| Self::at(&observed, knee, power));
        let best = fits.min_by(|one, other| one.0.total_cmp(&other.0))?;
        Some(best.1)
    }

    /// How long a step takes by it, in seconds.
    pub fn seconds(&self, one: &Observed) -> f64 {
        let Batch { rows, sequences, decode_context, prefill_pairs, .. } = one.batch;
        let multiplied = self.per_row * rows;
        let layers =
            (self.read.powf(self.power) + multiplied.powf(self.power)).powf(1.0 / self.power);
        layers
            + self.fixed
            + self.per_sequence * sequences
            + self.per_context * decode_context
            + self.per_pair * prefill_pairs
            + if one.with_request { self.per_request } else { 0.0 }
    }

    /// The squares that are left with such a passage, and the fit.
    fn at(observed: &[Observed], knee: f64, power: f64) -> Option<(f64, Self)> {
        let terms = |one: &Observed| -> [f64; TERMS] {
            let Batch { rows, sequences, decode_context, prefill_pairs, .. } = one.batch;
            let passage = (knee.powf(power) + rows.powf(power)).powf(1.0 / power);
            let request = if one.with_request { 1.0 } else { 0.0 };
            [passage, 1.0, sequences, decode_context, prefill_pairs, request]
        };
        let rows: Vec<[f64; TERMS]> =
            observed.iter().map(|one| terms(one).map(|term| term / one.seconds)).collect();
        let solved = not_negative(&rows)?;
        let [per_row, fixed, per_sequence, per_context, per_pair, per_request] = solved;
        let read = per_row * knee;
        let mut fit = Self {
            read,
            per_row,
            power,
            fixed,
            per_sequence,
            per_context,
            per_pair,
            per_request,
            error: 0.0,
        };
        let errors: Vec<f64> =
            observed.iter().map(|one| fit.seconds(one) / one.seconds - 1.0).collect();
        #[expect(clippy::cast_precision_loss, reason = "some dozens of observations")]
        let count = errors.len() as f64;
        fit.error = errors.iter().map(|error| error.abs()).sum::<f64>() / count;
        Some((errors.iter().map(|error| error * error).sum(), fit))
    }
}

/// Coefficients, none below zero, whose products with each row come nearest to one. A coefficient that would be
/// negative is left out, the most negative first.
fn not_negative(rows: &[[f64; TERMS]]) -> Option<[f64; TERMS]> {
    let mut used = [true; TERMS];
    // A term that no row has cannot be told.
    for (place, used) in used.iter_mut().enumerate() {
        *used = rows.iter().any(|row| row[place] != 0.0);
    }
    for _ in 0..=TERMS {
        let solved = solve(rows, used)?;
        let worst = (0..TERMS).filter(|place| solved[*place] < 0.0);
        // Terms have scales of their own: what they add to the rows is compared.
        let added =
            |place: &usize| solved[*place] * rows.iter().map(|row| row[*place]).sum::<f64>();
        match worst.min_by(|one, other| added(one).total_cmp(&added(other))) {
            None => return Some(solved),
            Some(place) => used[place] = false,
        }
    }
    None
}

/// The least squares with the terms that are used; none where they cannot be told apart.
fn solve(rows: &[[f64; TERMS]], used: [bool; TERMS]) -> Option<[f64; TERMS]> {
    let places: Vec<usize> = (0..TERMS).filter(|place| used[*place]).collect();
    let scale: Vec<f64> = places
        .iter()
        .map(|place| rows.iter().map(|row| row[*place] * row[*place]).sum::<f64>().sqrt())
        .collect();
    let count = places.len();
    // Normal equations with columns of unit length, and the right side behind them.
    let mut matrix = vec![vec![0.0; count + 1]; count];
    for row in rows {
        for (i, one) in places.iter().enumerate() {
            let left = row[*one] / scale[i];
            for (j, other) in places.iter().enumerate() {
                matrix[i][j] += left * row[*other] / scale[j];
            }
            matrix[i][count] += left;
        }
    }
    for column in 0..count {
        let pivot = (column..count).max_by(|one, other| {
            matrix[*one][column].abs().total_cmp(&matrix[*other][column].abs())
        })?;
        if matrix[pivot][column].abs() < PIVOT_MIN {
            return None;
        }
        matrix.swap(column, pivot);
        let eliminating = matrix[column].clone();
        for (other, row) in matrix.iter_mut().enumerate() {
            if other == column {
                continue;
            }
            let factor = row[column] / eliminating[column];
            for (cell, part) in row.iter_mut().zip(&eliminating).skip(column) {
                *cell -= factor * part;
            }
        }
    }
    let mut solved = [0.0; TERMS];
    for (i, place) in places.iter().enumerate() {
        solved[*place] = matrix[i][count] / matrix[i][i] / scale[i];
    }
    Some(solved)
}

#[cfg(test)]
mod tests {
    use overdraft_units::Tokens;

    use super::*;
    use crate::{Catalogue, Chunk, Profile};

    fn prefill(tokens: u32) -> Batch {
        [Chunk { before: Tokens::ZERO, length: Tokens::new(tokens), samples: true }]
            .into_iter()
            .collect()
    }

    fn decode(sequences: u32, context: u32) -> Batch {
        let one = Chunk { before: Tokens::new(context), length: Tokens::new(1), samples: true };
        (0..sequences).map(|_| one).collect()
    }

    /// Steps such as a calibration measures.
    fn measured(profile: &Profile, request: f64) -> Vec<Observed> {
        let step = |batch: Batch| profile.step(&batch).as_secs_f64();
        let first = [32, 128, 256, 512, 1_024, 2_048, 4_096].map(|tokens| {
            let batch = prefill(tokens);
            Observed { batch, seconds: step(batch) + request, with_request: true }
        });
        let sizes = [1, 2, 4, 8, 16, 32, 64];
        let each = sizes.into_iter().flat_map(|size| [(size, 200), (size, 2_000)]);
        let steps = each.map(|(size, context)| {
            let batch = decode(size, context);
            Observed { batch, seconds: step(batch), with_request: false }
        });
        first.into_iter().chain(steps).collect()
    }

    #[test]
    fn a_known_profile_is_found_again_from_its_steps() {
        for name in
            ["h100-tp1/llama-3-8b-bf16", "l4-tp1/llama-3-8b-int4", "h100-tp2/llama-3-70b-fp8"]
        {
            let profile = Catalogue::builtin().find(name).unwrap();
            let fit = StepFit::of(&measured(&profile, 0.002)).unwrap();
            assert!(fit.error < 0.02, "{name}: {fit:?}");
            // What was not measured: between the points, and a prompt beside decodes.
            let mut mixed = decode(12, 700);
            mixed.push(Chunk { before: Tokens::ZERO, length: Tokens::new(700), samples: true });
            for batch in [prefill(768), prefill(3_000), decode(24, 1_000), mixed] {
                let one = Observed { batch, seconds: 1.0, with_request: false };
                let ratio = fit.seconds(&one) / profile.step(&batch).as_secs_f64();
                assert!((0.92..1.08).contains(&ratio), "{name}: {batch:?} {ratio} {fit:?}");
            }
            let (model, rates) = (&profile.model, &profile.rates);
            let gpus = f64::from(profile.tensor_parallel);
            let context = model.kv_bytes_per_token() / gpus / (rates.kv_tb_per_s * 1e12);
            assert!((fit.per_context / context - 1.0).abs() < 0.1, "{name}: {fit:?} {context}");
        }
    }

    #[test]
    fn too_few_observations_fit_nothing() {
        let profile = Catalogue::builtin().find("h100-tp1/llama-3-8b-bf16").unwrap();
        let measured = measured(&profile, 0.0);
        assert_eq!(StepFit::of(&measured[..OBSERVED_MIN - 1]), None);
        let broken: Vec<Observed> =
            measured.iter().map(|one| Observed { seconds: f64::NAN, ..*one }).collect();
        assert_eq!(StepFit::of(&broken), None);
    }
}
