//! Claim: a figure that the project promises, its bound and the measured value.

use std::fmt;
use std::process::ExitCode;

/// A figure that the project promises, and what was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Which demonstration of the specification it belongs to, such as `S8`.
    pub demonstration: &'static str,
    /// Name of the figure.
    pub figure: String,
    /// The measured value, or why there is none.
    pub measured: Result<f64, String>,
    /// What it should come to.
    pub aim: Aim,
}

/// Prints a line per claim; a failure where one falls short.
#[expect(clippy::print_stdout, reason = "a bench reports to its terminal")]
pub fn judge<'a>(claims: impl IntoIterator<Item = &'a Claim>) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for claim in claims {
        println!("{claim}");
        if claim.falls_short() {
            code = ExitCode::FAILURE;
        }
    }
    code
}

/// What a figure should come to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Aim {
    /// This or more.
    AtLeast(f64),
    /// This or less.
    AtMost(f64),
}

impl Claim {
    /// Whether it was measured and misses its aim.
    pub fn falls_short(&self) -> bool {
        match (&self.measured, self.aim) {
            (Err(_), _) => false,
            // What is no number holds nothing.
            (Ok(measured), _) if measured.is_nan() => true,
            (Ok(measured), Aim::AtLeast(least)) => *measured < least,
            (Ok(measured), Aim::AtMost(most)) => most < *measured,
        }
    }
}

impl fmt::Display for Aim {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(least) => write!(out, "aim>={least}"),
            Self::AtMost(most) => write!(out, "aim<={most}"),
        }
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { demonstration, figure, measured, aim } = self;
        match measured {
            Ok(value) => {
                let verdict = if self.falls_short() { "falls short" } else { "holds" };
                write!(out, "claim {demonstration} {figure}={value:.2} {aim} {verdict}")
            }
            Err(why) => write!(out, "claim {demonstration} {figure} {aim} not measured: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(measured: Result<f64, String>, aim: Aim, line: &str) {
        let figure = "ratio".to_owned();
        let claim = Claim { demonstration: "S1", figure, measured, aim };
        assert_eq!(claim.to_string(), line);
        assert_eq!(claim.falls_short(), line.ends_with("falls short"));
    }

    #[test]
    fn a_claim_is_judged_by_its_aim() {
        check(Ok(0.3), Aim::AtMost(0.33), "claim S1 ratio=0.30 aim<=0.33 holds");
        check(Ok(0.4), Aim::AtMost(0.33), "claim S1 ratio=0.40 aim<=0.33 falls short");
        check(Ok(4.0), Aim::AtLeast(4.0), "claim S1 ratio=4.00 aim>=4 holds");
        check(Ok(3.9), Aim::AtLeast(4.0), "claim S1 ratio=3.90 aim>=4 falls short");
        check(Ok(f64::NAN), Aim::AtMost(1.0), "claim S1 ratio=NaN aim<=1 falls short");
        let why = Err("no peer".to_owned());
        check(why, Aim::AtMost(1.0), "claim S1 ratio aim<=1 not measured: no peer");
    }
}
