//! How a command ends badly: one sentence, perhaps a hint, and the exit code.

use std::process::ExitCode;

/// The end of a command that did not do what it was asked.
#[derive(Debug)]
pub(crate) struct Fault {
    code: u8,
    message: String,
    hint: Option<String>,
}

impl Fault {
    /// The input cannot be used: exit code 2.
    pub(crate) fn input(message: impl Into<String>) -> Self {
        Self { code: 2, message: message.into(), hint: None }
    }

    /// Something failed while running: exit code 1.
    pub(crate) fn running(message: impl Into<String>) -> Self {
        Self { code: 1, message: message.into(), hint: None }
    }

    /// Adds what to do about it.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Tells the person at the terminal.
    #[expect(clippy::print_stderr, reason = "the last word of a command is for its user")]
    pub(crate) fn report(self) -> ExitCode {
        eprintln!("error: {}", self.message);
        if let Some(hint) = self.hint {
            eprintln!("hint: {hint}");
        }
        ExitCode::from(self.code)
    }
}
