//! Command errors: one sentence, perhaps a hint, and the exit code.

use std::process::ExitCode;

use overdraft_config::ConfigErrors;

/// The end of a command that did not do what it was asked.
#[derive(Debug)]
pub(crate) struct Fault {
    code: u8,
    /// None when all there is to say has been said already.
    message: Option<String>,
    hint: Option<String>,
}

impl From<ConfigErrors> for Fault {
    fn from(errors: ConfigErrors) -> Self {
        Self::input(errors.to_string())
    }
}

impl Fault {
    /// The input cannot be used: exit code 2.
    pub(crate) fn input(message: impl Into<String>) -> Self {
        Self { code: 2, message: Some(message.into()), hint: None }
    }

    /// Something failed while running: exit code 1.
    pub(crate) fn running(message: impl Into<String>) -> Self {
        Self { code: 1, message: Some(message.into()), hint: None }
    }

    /// The input cannot be used, and its user has been told why: exit code 2.
    pub(crate) const fn input_told() -> Self {
        Self { code: 2, message: None, hint: None }
    }

    /// Something failed while running, and its user has been told what: exit code 1.
    pub(crate) const fn running_told() -> Self {
        Self { code: 1, message: None, hint: None }
    }

    /// Adds what to do about it.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Tells the person at the terminal.
    #[expect(clippy::print_stderr, reason = "the last word of a command is for its user")]
    pub(crate) fn report(self) -> ExitCode {
        if let Some(message) = self.message {
            eprintln!("error: {message}");
        }
        if let Some(hint) = self.hint {
            eprintln!("hint: {hint}");
        }
        ExitCode::from(self.code)
    }
}
