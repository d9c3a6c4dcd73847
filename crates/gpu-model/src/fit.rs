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
const TERMS: usize = 8;

/// Observations for a fit at least.
pub const OBSERVED_MIN: usize = 10;

/// How much longer than the sum of its parts a step that computes prompts and answers takes, as a share, before decodes
/// are said to read more slowly beside prompts. Less is noise, which a load near the edge of capacity would multiply.
const BESIDE_LONGER_MIN: f64 = 0.08;

/// Pivots below this share of the largest say that terms cannot be told apart.
const PIVOT_MIN: f64 = 1e-12;

/// What was measured once: a step, or the steps of a prompt that one step has no room for.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// What each step computed.
    pub steps: Vec<Batch>,
    /// How long they took, in seconds.
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
    /// For each prompt of which a step computes something, more than that.
    pub per_prompt: f64,
    /// For each position whose keys and values a decode reads.
    pub per_context: f64,
    /// For each such position in a step that computes prompts too, more than that; none where no such step was
    /// measured.
    pub per_context_beside: Option<f64>,
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
        let observed: Vec<Observed> = observed.iter().filter(usable).cloned().collect();
        if observed.len() < OBSERVED_MIN {
            return None;
        }
        let parts = Self::best(&observed, false)?;
        let longer = |one: &Observed| {
            one.steps.iter().any(|batch| 0.0 < beside(batch))
                && parts.seconds(one) * (1.0 + BESIDE_LONGER_MIN) < one.seconds
        };
        if observed.iter().any(longer) {
            return Self::best(&observed, true);
        }
        Some(parts)
    }

    /// The fit with the least squares, with or without slower reading beside prompts.
    fn best(observed: &[Observed], is_slower_beside: bool) -> Option<Self> {
        let knees = (0..KNEE_STEPS).map(|step| KNEE_MIN * 1.5_f64.powf(f64::from(step)));
        let all = knees.flat_map(|knee| POWERS.map(|power| (knee, power)));
        let fits =
            all.filter_map(|(knee, power)| Self::at(observed, knee, power, is_slower_beside));
        let best = fits.min_by(|one, other| one.0.total_cmp(&other.0))?;
        Some(best.1)
    }

    /// How long what was measured takes by it, in seconds.
    pub fn seconds(&self, one: &Observed) -> f64 {
        let steps: f64 = one.steps.iter().map(|batch| self.step(batch)).sum();
        steps + if one.with_request { self.per_request } else { 0.0 }
    }

    /// How long a step takes by it, in seconds.
    pub fn step(&self, batch: &Batch) -> f64 {
        let multiplied = self.per_row * batch.rows;
        let layers =
            (self.read.powf(self.power) + multiplied.powf(self.power)).powf(1.0 / self.power);
        layers
            + self.fixed
            + self.per_sequence * batch.sequences
            + self.per_prompt * batch.prefills
            + self.per_context * batch.decode_context
            + self.per_context_beside.unwrap_or(0.0) * beside(batch)
            + self.per_pair * batch.prefill_pairs
    }

    /// The rate at which decodes read keys and values in a step with prompts, as a share of their rate without
    /// (`kv_share_beside_prompts` of a profile); none where that was not measured.
    pub fn kv_share_beside_prompts(&self) -> Option<f64> {
        Some(self.per_context / (self.per_context + self.per_context_beside?))
    }

    /// The squares that are left with such a passage, and the fit.
    fn at(
        observed: &[Observed],
        knee: f64,
        power: f64,
        is_slower_beside: bool,
    ) -> Option<(f64, Self)> {
        // Beside no answers a prompt's part cannot be told from that of its request.
        let has_both = observed.iter().flat_map(|one| &one.steps).any(|batch| 0.0 < beside(batch));
        let terms = |one: &Observed| -> [f64; TERMS] {
            let passage =
                |batch: &Batch| (knee.powf(power) + batch.rows.powf(power)).powf(1.0 / power);
            let all = |of: &dyn Fn(&Batch) -> f64| one.steps.iter().map(of).sum();
            [
                all(&passage),
                all(&|_| 1.0),
                all(&|batch| batch.sequences),
                if has_both { all(&|batch| batch.prefills) } else { 0.0 },
                all(&|batch| batch.decode_context),
                if is_slower_beside { all(&beside) } else { 0.0 },
                all(&|batch| batch.prefill_pairs),
                if one.with_request { 1.0 } else { 0.0 },
            ]
        };
        let rows: Vec<[f64; TERMS]> =
            observed.iter().map(|one| terms(one).map(|term| term / one.seconds)).collect();
        let solved = not_negative(&rows)?;
        let [
            per_row,
            fixed,
            per_sequence,
            per_prompt,
            per_context,
            per_context_beside,
            per_pair,
            per_request,
        ] = solved;
        let read = per_row * knee;
        // A share of a rate that was not found says nothing.
        let per_context_beside = Some(per_context_beside).filter(|_| has_both && 0.0 < per_context);
        let mut fit = Self {
            read,
            per_row,
            power,
            fixed,
            per_sequence,
            per_prompt,
            per_context,
            per_context_beside,
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

/// Positions that decodes read in a step that computes prompts too.
fn beside(batch: &Batch) -> f64 {
    if 0.0 < batch.prefill_rows { batch.decode_context } else { 0.0 }
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

    fn prompt(before: u32, length: u32) -> Chunk {
        Chunk { before: Tokens::new(before), length: Tokens::new(length), samples: true }
    }

    fn prefill(tokens: u32) -> Batch {
        std::iter::once(prompt(0, tokens)).collect()
    }

    fn decode(sequences: u32, context: u32) -> Batch {
        let one = Chunk { before: Tokens::new(context), length: Tokens::new(1), samples: true };
        (0..sequences).map(|_| one).collect()
    }

    /// Steps such as a calibration measures.
    fn measured(profile: &Profile, request: f64) -> Vec<Observed> {
        let step = |batch: Batch| profile.step(&batch).as_secs_f64();
        let whole = [2, 8, 32, 128, 256, 512, 1_024, 2_048].map(|tokens| vec![prefill(tokens)]);
        let split = vec![prefill(2_048), std::iter::once(prompt(2_048, 2_048)).collect()];
        let first = whole.into_iter().chain([split]).map(|steps| {
            let seconds = steps.iter().map(|batch| step(*batch)).sum::<f64>() + request;
            Observed { steps, seconds, with_request: true }
        });
        let sizes = [1, 2, 4, 8, 16, 32, 64];
        let each = sizes.into_iter().flat_map(|size| [(size, 200), (size, 2_000)]);
        let steps = each.map(|(size, context)| {
            let batch = decode(size, context);
            Observed { seconds: step(batch), steps: vec![batch], with_request: false }
        });
        let beside = [64, 512, 2_048].map(|context| {
            let mut batch = decode(16, context);
            batch.push(prompt(0, 256));
            Observed { seconds: step(batch), steps: vec![batch], with_request: false }
        });
        first.chain(steps).chain(beside).collect()
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
                let ratio = fit.step(&batch) / profile.step(&batch).as_secs_f64();
                assert!((0.92..1.08).contains(&ratio), "{name}: {batch:?} {ratio} {fit:?}");
            }
            let (model, rates) = (&profile.model, &profile.rates);
            let gpus = f64::from(profile.tensor_parallel);
            let context = model.kv_bytes_per_token() / gpus / (rates.kv_tb_per_s * 1e12);
            assert!((fit.per_context / context - 1.0).abs() < 0.1, "{name}: {fit:?} {context}");
            assert!((fit.per_request / 0.002 - 1.0).abs() < 0.5, "{name}: {fit:?}");
        }
    }

    #[test]
    fn how_much_slower_decodes_read_beside_prompts_is_found_again() {
        for (name, share) in
            [("rtx-4090-tp1/llama-3-8b-bf16", 0.43), ("h100-tp1/llama-3-8b-bf16", 1.0)]
        {
            let profile = Catalogue::builtin().find(name).unwrap();
            assert!((profile.rates.kv_share_beside_prompts - share).abs() < 1e-9, "{name}");
            let fit = StepFit::of(&measured(&profile, 0.002)).unwrap();
            let found = fit.kv_share_beside_prompts().unwrap();
            // Steps with both launch their kernels of attention twice, which from outside looks like slower reading.
            assert!((found / share - 1.0).abs() < 0.2, "{name}: {found} {fit:?}");
            let mut alone = measured(&profile, 0.002);
            alone.retain(|one| one.steps.iter().all(|batch| beside(batch) <= 0.0));
            assert_eq!(StepFit::of(&alone).unwrap().kv_share_beside_prompts(), None, "{name}");
        }
    }

    #[test]
    fn what_prompts_take_besides_is_told_from_requests() {
        let mut profile = Catalogue::builtin().find("h100-tp1/llama-3-8b-bf16").unwrap();
        profile.rates.host_us_per_prompt = 5_000.0;
        let fit = StepFit::of(&measured(&profile, 0.002)).unwrap();
        assert!((fit.per_prompt / 0.005 - 1.0).abs() < 0.2, "{fit:?}");
        assert!(fit.per_request < 0.004, "{fit:?}");
        let mut alone = measured(&profile, 0.002);
        alone.retain(|one| one.steps.iter().all(|batch| beside(batch) <= 0.0));
        let fit = StepFit::of(&alone).unwrap();
        assert!(fit.per_prompt.abs() < 1e-12, "without answers beside them nothing tells: {fit:?}");
    }

    #[test]
    fn too_few_observations_fit_nothing() {
        let profile = Catalogue::builtin().find("h100-tp1/llama-3-8b-bf16").unwrap();
        let measured = measured(&profile, 0.0);
        assert_eq!(StepFit::of(&measured[..OBSERVED_MIN - 1]), None);
        let broken: Vec<Observed> =
            measured.iter().map(|one| Observed { seconds: f64::NAN, ..one.clone() }).collect();
        assert_eq!(StepFit::of(&broken), None);
    }
}
