//! Findings of a check: what was looked at, how good it is, and how to mend it.

use super::speed::Speed;

/// How good something is; the worst of several counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    Ok,
    Warn,
    Fail,
}

impl Verdict {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Finding {
    pub(super) subject: &'static str,
    pub(super) verdict: Verdict,
    pub(super) message: String,
    pub(super) hint: Option<&'static str>,
}

impl Finding {
    pub(super) fn new(subject: &'static str, verdict: Verdict, message: impl Into<String>) -> Self {
        Self { subject, verdict, message: message.into(), hint: None }
    }

    pub(super) fn hint(self, hint: &'static str) -> Self {
        Self { hint: Some(hint), ..self }
    }
}

/// All that was found about one worker.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub(super) name: String,
    pub(super) url: String,
    pub(super) findings: Vec<Finding>,
    /// How fast it generates, where that was measured.
    pub(super) speed: Option<Speed>,
}

impl Report {
    /// What was found about something that is no worker.
    pub(super) fn of(name: &str, findings: Vec<Finding>) -> Self {
        Self { name: name.to_owned(), url: String::new(), findings, speed: None }
    }

    pub(super) fn verdict(&self) -> Verdict {
        self.findings.iter().map(|it| it.verdict).max().unwrap_or(Verdict::Ok)
    }
}
