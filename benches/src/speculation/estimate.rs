//! Mean and confidence interval of a few runs (Student's t).

use std::fmt;

use overdraft_claims::as_float;

/// Student's t for a confidence of 95 % with one to nine degrees of freedom.
const STUDENT: [f64; 9] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];

/// A mean, and half the width of its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) mean: f64,
    /// Not a number where there is but one value.
    pub(crate) either_way: f64,
}

impl Estimate {
    /// Of independent values; with a confidence of 95 %.
    pub(crate) fn of(values: &[f64]) -> Self {
        let count = as_float(values.len());
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let student =
            values.len().checked_sub(2).map_or(f64::NAN, |at| STUDENT[at.min(STUDENT.len() - 1)]);
        let either_way = student * (squares / (count - 1.0) / count).sqrt();
        Self { mean, either_way }
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:.3}", self.mean)?;
        if self.either_way.is_finite() { write!(out, " ±{:.3}", self.either_way) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        let estimate = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert!((estimate.mean - 3.0).abs() < 1e-9);
        // 2.776 * sqrt(2.5 / 5)
        assert!((estimate.either_way - 1.963).abs() < 1e-3, "{estimate}");
        assert_eq!(Estimate::of(&[2.0]).to_string(), "2.000");
    }
}
