//! Findings of a check: what was looked at, how good it is, and how to mend it.

use std::time::Duration;

use super::speed::Speed;

/// How good something is; the worst of several counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    Ok,
    Warn,
    Fail,
}

impl Verdict {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finding {
    pub(crate) subject: &'static str,
    pub(crate) verdict: Verdict,
    pub(crate) message: String,
    pub(crate) hint: Option<&'static str>,
}

impl Finding {
    pub(crate) fn new(subject: &'static str, verdict: Verdict, message: impl Into<String>) -> Self {
        Self { subject, verdict, message: message.into(), hint: None }
    }

    /// There was no time to find out.
    pub(crate) fn late(subject: &'static str, patience: Duration) -> Self {
        let message = format!("not known within {} s", patience.as_secs());
        Self::new(subject, Verdict::Warn, message).hint("`overdraft check` waits for all answers")
    }

    pub(crate) fn hint(self, hint: &'static str) -> Self {
        Self { hint: Some(hint), ..self }
    }
}

/// All that was found about one worker.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) findings: Vec<Finding>,
    /// How fast it generates, where that was measured.
    pub(crate) speed: Option<Speed>,
    /// The models that are served there, where all of them were told.
    pub(crate) models: Option<Vec<String>>,
}

impl Report {
    /// What was found about something that is no worker.
    pub(crate) fn of(name: &str, findings: Vec<Finding>) -> Self {
        Self { name: name.to_owned(), url: String::new(), findings, speed: None, models: None }
    }

    pub(crate) fn verdict(&self) -> Verdict {
        self.findings.iter().map(|it| it.verdict).max().unwrap_or(Verdict::Ok)
    }
}
