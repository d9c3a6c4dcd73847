//! Rotary position embedding: pairs of a head's dimensions turn by an angle that grows with the
//! token's position, slower from pair to pair.

use super::chunk_of_rows;
use crate::pool::Pool;

/// Which dimensions make a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeStyle {
    /// Neighbours: `2 * i` and `2 * i + 1` (llama, mistral in GGUF files).
    Interleaved,
    /// Halves: `i` and `i + n / 2` of the `n` rotated dimensions (qwen2, qwen3).
    Halves,
}

/// Cosines and sines for the rows of a step, made once and used by every layer.
#[derive(Clone, Debug)]
pub struct Rope {
    style: RopeStyle,
    /// Angle of each pair at position 1.
    frequencies: Vec<f32>,
    /// Factor of what turns.
    magnitude: f32,
    /// For each row, the cosines of all pairs, then their sines.
    turns: Vec<f32>,
}

impl Rope {
    /// Pairs turn by `position * frequency`: usually `base^(-2 * i / n)` over `n / 2` pairs,
    /// divided by the file's `rope_freqs` where it has them. The first `2 * frequencies.len()`
    /// dimensions of a head turn and are multiplied by `magnitude`; any others stay.
    pub fn new(style: RopeStyle, frequencies: Vec<f32>, magnitude: f32) -> Self {
        Self { style, frequencies, magnitude, turns: Vec::new() }
    }

    /// Computes the turns of rows at these positions.
    pub fn prepare(&mut self, positions: &[usize]) {
        self.turns.clear();
        for position in positions {
            #[expect(clippy::cast_precision_loss, reason = "positions are far below 2^24")]
            let position = *position as f32;
            let angles = self.frequencies.iter().map(|frequency| position * frequency);
            self.turns.extend(angles.clone().map(|angle| self.magnitude * angle.cos()));
            self.turns.extend(angles.map(|angle| self.magnitude * angle.sin()));
        }
    }

    /// Turns each head of each prepared row: `rows` holds one row of whole heads of `head_dim` for
    /// each position. Panics when lengths do not fit.
    pub fn apply(&self, rows: &mut [f32], head_dim: usize, pool: &Pool) {
        let pairs = self.frequencies.len();
        assert!(2 * pairs <= head_dim, "{pairs} pairs do not fit a head of {head_dim}");
        if rows.is_empty() || pairs == 0 {
            return;
        }
        let count = self.turns.len() / (2 * pairs);
        assert!(
            count > 0 && rows.len().is_multiple_of(count),
            "rows and positions differ in number"
        );
        let columns = rows.len() / count;
        assert_eq!(columns % head_dim, 0, "a row of {columns} is not whole heads of {head_dim}");
        let chunk = chunk_of_rows(columns);
        pool.run_chunks(rows, chunk, |index, rows| {
            let turns = &self.turns[index * (chunk / columns) * 2 * pairs..];
            for (row, turns) in rows.chunks_mut(columns).zip(turns.chunks(2 * pairs)) {
                let (cosines, sines) = turns.split_at(pairs);
                for head in row.chunks_mut(head_dim) {
                    match self.style {
                        RopeStyle::Interleaved => turn_neighbours(head, cosines, sines),
                        RopeStyle::Halves => turn_halves(head, cosines, sines),
                    }
                }
            }
        });
    }
}

fn turn_neighbours(head: &mut [f32], cosines: &[f32], sines: &[f32]) {
    let (pairs, _) = head.as_chunks_mut::<2>();
    for ((pair, cosine), sine) in pairs.iter_mut().zip(cosines).zip(sines) {
        let [a, b] = *pair;
        *pair = [a * cosine - b * sine, a * sine + b * cosine];
    }
}

fn turn_halves(head: &mut [f32], cosines: &[f32], sines: &[f32]) {
    let (first, second) = head.split_at_mut(cosines.len());
    for (((a, b), cosine), sine) in first.iter_mut().zip(second).zip(cosines).zip(sines) {
        (*a, *b) = (*a * cosine - *b * sine, *a * sine + *b * cosine);
    }
}
