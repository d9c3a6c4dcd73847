//! What the benches share: claims and how they are judged.
//!
//! A bench prints its table, then one line per claim, and fails when one falls short. A claim that
//! could not be measured says why and fails nothing.

use std::fmt;

/// A figure that the project promises, and what was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Which demonstration of the specification it belongs to, such as `S8`.
    pub demonstration: &'static str,
    /// Name of the figure.
    pub figure: &'static str,
    /// The measured value, or why there is none.
    pub measured: Result<f64, String>,
    /// What it should reach at least.
    pub aim: f64,
}

impl Claim {
    /// Whether it was measured and misses its aim.
    pub fn falls_short(&self) -> bool {
        self.measured.as_ref().is_ok_and(|measured| *measured < self.aim)
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { demonstration, figure, measured, aim } = self;
        match measured {
            Ok(value) => {
                let verdict = if self.falls_short() { "falls short" } else { "holds" };
                write!(out, "claim {demonstration} {figure}={value:.2} aim>={aim} {verdict}")
            }
            Err(why) => {
                write!(out, "claim {demonstration} {figure} aim>={aim} not measured: {why}")
            }
        }
    }
}
