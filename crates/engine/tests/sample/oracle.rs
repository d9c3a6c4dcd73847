//! The obvious sampler: whole vocabularies, full sorts, double precision.

use overdraft_engine::Sampling;
use overdraft_units::TokenId;
use proptest::prelude::*;

/// The model's end token in these tests.
pub(crate) const END: TokenId = TokenId(3);

/// The logits after masks, biases and penalties.
pub(crate) fn edited(
    row: &[f32],
    sampling: &Sampling,
    prompt: &[TokenId],
    completion: &[TokenId],
) -> Vec<f64> {
    let edit = |(index, &logit): (usize, &f32)| {
        let token = TokenId(u32::try_from(index).expect("few tokens"));
        let mut logit = f64::from(logit);
        let is_end = token == END || sampling.stop_tokens.contains(&token);
        let before_minimum =
            completion.len() < usize::try_from(sampling.min_tokens.get()).expect("64 bits");
        if is_end && before_minimum {
            return f64::NEG_INFINITY;
        }
        for (biased, bias) in &sampling.logit_bias {
            if *biased == token {
                logit += f64::from(*bias);
            }
        }
        if prompt.contains(&token) || completion.contains(&token) {
            let repetition = f64::from(sampling.repetition_penalty);
            logit = if logit > 0.0 { logit / repetition } else { logit * repetition };
        }
        let count = completion.iter().filter(|other| **other == token).count();
        let count = f64::from(u32::try_from(count).expect("few tokens"));
        logit -= count * f64::from(sampling.frequency_penalty);
        if count > 0.0 {
            logit -= f64::from(sampling.presence_penalty);
        }
        if logit.is_finite() { logit.clamp(f32::MIN.into(), f32::MAX.into()) } else { logit }
    };
    row.iter().enumerate().map(edit).collect()
}

/// The probability of every token after temperature, `min_p`, `top_k` and `top_p`.
pub(crate) fn filtered(logits: &[f64], sampling: &Sampling) -> Vec<f64> {
    let temperature = f64::from(sampling.temperature);
    let best = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> =
        logits.iter().map(|logit| ((logit - best) / temperature).exp()).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]).then(a.cmp(&b)));
    order.retain(|&index| weights[index] >= f64::from(sampling.min_p) && weights[index] > 0.0);
    if let Some(count) = sampling.top_k {
        order.truncate(usize::try_from(count).expect("64 bits"));
    }
    let total: f64 = order.iter().map(|&index| weights[index]).sum();
    let mut held = 0.0;
    let mut kept = 0;
    while kept < order.len() && (kept == 0 || held < total * f64::from(sampling.top_p)) {
        held += weights[order[kept]];
        kept += 1;
    }
    if sampling.top_p >= 1.0 {
        kept = order.len();
        held = total;
    }
    let mut probabilities = vec![0.0; logits.len()];
    for &index in &order[..kept] {
        probabilities[index] = weights[index] / held;
    }
    probabilities
}

/// Rows with ties, masked entries and large differences.
pub(crate) fn row() -> impl Strategy<Value = Vec<f32>> {
    let logit = prop_oneof![
        8 => -8.0_f32..8.0,
        3 => (-4_i8..4).prop_map(f32::from),
        1 => Just(f32::NEG_INFINITY),
        1 => 20.0_f32..60.0,
    ];
    let usable = |row: &Vec<f32>| {
        row.iter().enumerate().any(|(index, logit)| index != 3 && logit.is_finite())
    };
    proptest::collection::vec(logit, 5..400).prop_filter("one finite entry", usable)
}

pub(crate) fn tokens(longest: usize) -> impl Strategy<Value = Vec<TokenId>> {
    proptest::collection::vec((0_u32..12).prop_map(TokenId), 0..longest)
}
