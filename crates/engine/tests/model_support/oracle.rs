//! The forward pass of the Llama family as a textbook would write it: double precision, one
//! sequence, every position from scratch, no cache.

use overdraft_units::TokenId;

use super::{Built, Output, Scaling};

/// The epsilon of every norm.
pub(crate) const EPSILON: f32 = 1e-5;
/// The base of the rope frequencies.
pub(crate) const ROPE_BASE: f32 = 10_000.0;

/// How far `YaRN` stretches.
pub(crate) const YARN_FACTOR: f32 = 4.0;
/// Positions before it does.
pub(crate) const YARN_CONTEXT: u32 = 128;
/// What Python's `transformers` (5.19.0) makes of these, with the base above and heads of 64.
const YARN_FREQUENCIES: [f64; 32] = [
    1.0,
    0.698_765_039,
    0.485_658_437,
    0.335_440_397,
    0.229_983_822,
    0.156_295_061,
    0.105_080_143,
    0.069_706_805_1,
    0.045_454_546_8,
    0.028_973_184_5,
    0.017_892_675_5,
    0.010_542_412_3,
    0.007_905_694_66,
    0.005_928_433_97,
    0.004_445_698_58,
    0.003_333_803_73,
    0.002_499_999_94,
    0.001_874_735_58,
    0.001_405_853_31,
    0.001_054_241_21,
    0.000_790_569_466,
    0.000_592_843_455,
    0.000_444_569_858,
    0.000_333_380_362,
    0.000_250_000_012,
    0.000_187_473_546,
    0.000_140_585_325,
    0.000_105_424_122,
    7.905_694_66e-05,
    5.928_434_62e-05,
    4.445_698_51e-05,
    3.333_803_76e-05,
];
/// The factor of its cosines and sines.
const YARN_MAGNITUDE: f64 = 1.138_629_436_111_989;

/// The logits at every position of `tokens`.
pub(crate) fn logits(built: &Built, tokens: &[TokenId]) -> Vec<Vec<f64>> {
    let tiny = &built.tiny;
    let embedding = weight(built, "token_embd.weight");
    let mut states: Vec<Vec<f64>> = tokens
        .iter()
        .map(|token| row(&embedding, token.0 as usize, tiny.hidden).to_vec())
        .collect();
    for layer in 0..tiny.layers {
        attention(built, layer, &mut states);
        feed_forward(built, layer, &mut states);
    }
    let norm = weight(built, "output_norm.weight");
    let output = match tiny.output {
        Output::Tied => embedding,
        Output::Own => weight(built, "output.weight"),
    };
    states.iter().map(|state| times(&output, &rms_norm(state, &norm))).collect()
}

fn attention(built: &Built, layer: usize, states: &mut [Vec<f64>]) {
    let tiny = &built.tiny;
    let name = |suffix: &str| format!("blk.{layer}.{suffix}");
    let norm = weight(built, &name("attn_norm.weight"));
    let mut queries = Vec::new();
    let mut keys = Vec::new();
    let mut values = Vec::new();
    for (position, state) in states.iter().enumerate() {
        let input = rms_norm(state, &norm);
        let project = |part: &str| {
            let mut out = times(&weight(built, &name(&format!("attn_{part}.weight"))), &input);
            if tiny.biases {
                let bias = weight(built, &name(&format!("attn_{part}.bias")));
                out.iter_mut().zip(bias).for_each(|(out, bias)| *out += bias);
            }
            out
        };
        let rotated = |part: &str| {
            let mut out = project(part);
            for head in out.chunks_mut(tiny.head) {
                if tiny.head_norms {
                    let norm = weight(built, &name(&format!("attn_{part}_norm.weight")));
                    head.copy_from_slice(&rms_norm(head, &norm));
                }
                rotate(built, head, position);
            }
            out
        };
        queries.push(rotated("q"));
        keys.push(rotated("k"));
        values.push(project("v"));
    }
    let output = weight(built, &name("attn_output.weight"));
    for (position, state) in states.iter_mut().enumerate() {
        let mut mixed = Vec::new();
        for head in 0..tiny.heads {
            let kv_head = head / (tiny.heads / tiny.kv_heads);
            let query = row(&queries[position], head, tiny.head);
            let scores: Vec<f64> = (0..=position)
                .map(|past| dot(query, row(&keys[past], kv_head, tiny.head)))
                .map(|score| score / (tiny.head as f64).sqrt())
                .collect();
            let shares = softmax(&scores);
            for index in 0..tiny.head {
                let value = |past: usize| row(&values[past], kv_head, tiny.head)[index];
                mixed.push((0..=position).map(|past| shares[past] * value(past)).sum());
            }
        }
        add(state, &times(&output, &mixed));
    }
}

fn feed_forward(built: &Built, layer: usize, states: &mut [Vec<f64>]) {
    let name = |suffix: &str| format!("blk.{layer}.{suffix}");
    let norm = weight(built, &name("ffn_norm.weight"));
    let gate = weight(built, &name("ffn_gate.weight"));
    let up = weight(built, &name("ffn_up.weight"));
    let down = weight(built, &name("ffn_down.weight"));
    for state in states {
        let input = rms_norm(state, &norm);
        let gated: Vec<f64> = times(&gate, &input)
            .iter()
            .zip(times(&up, &input))
            .map(|(gate, up)| gate / (1.0 + (-gate).exp()) * up)
            .collect();
        add(state, &times(&down, &gated));
    }
}

/// Turns pairs of a head by an angle that grows with the position.
fn rotate(built: &Built, head: &mut [f64], position: usize) {
    let half = head.len() / 2;
    let divisors = built.weights.get("rope_freqs.weight");
    for pair in 0..half {
        let exponent = -2.0 * pair as f64 / head.len() as f64;
        let mut frequency = f64::from(ROPE_BASE).powf(exponent);
        frequency /= divisors.map_or(1.0, |divisors| f64::from(divisors[pair]));
        let mut magnitude = 1.0;
        match built.tiny.scaling {
            Scaling::None => {}
            Scaling::Linear(factor) => frequency /= f64::from(factor),
            Scaling::Yarn => (frequency, magnitude) = (YARN_FREQUENCIES[pair], YARN_MAGNITUDE),
        }
        let (sin, cos) = (position as f64 * frequency).sin_cos();
        let (sin, cos) = (magnitude * sin, magnitude * cos);
        let (first, second) = match built.tiny.architecture {
            "llama" | "mistral3" => (2 * pair, 2 * pair + 1),
            _ => (pair, pair + half),
        };
        let (a, b) = (head[first], head[second]);
        head[first] = a * cos - b * sin;
        head[second] = a * sin + b * cos;
    }
}

fn weight(built: &Built, name: &str) -> Vec<f64> {
    built.weights[name].iter().map(|&value| f64::from(value)).collect()
}

fn row(matrix: &[f64], index: usize, columns: usize) -> &[f64] {
    &matrix[index * columns..(index + 1) * columns]
}

fn times(matrix: &[f64], input: &[f64]) -> Vec<f64> {
    matrix.chunks(input.len()).map(|row| dot(row, input)).collect()
}

fn dot(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(left, right)| left * right).sum()
}

fn add(state: &mut [f64], change: &[f64]) {
    state.iter_mut().zip(change).for_each(|(state, change)| *state += change);
}

fn rms_norm(input: &[f64], weight: &[f64]) -> Vec<f64> {
    let mean = dot(input, input) / input.len() as f64;
    let scale = 1.0 / (mean + f64::from(EPSILON)).sqrt();
    input.iter().zip(weight).map(|(value, weight)| value * scale * weight).collect()
}

fn softmax(scores: &[f64]) -> Vec<f64> {
    let greatest = scores.iter().copied().fold(f64::MIN, f64::max);
    let shares: Vec<f64> = scores.iter().map(|score| (score - greatest).exp()).collect();
    let sum: f64 = shares.iter().sum();
    shares.iter().map(|share| share / sum).collect()
}
