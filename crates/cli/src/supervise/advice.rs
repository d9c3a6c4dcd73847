//! Advice on a supervised engine: what its environment and its flags are likely to cost.
//!
//! The supervisor alone knows both as they are. It tells at its start and at `GET /advice`, where `overdraft check` reads; values that
//! may be secrets are never part of it.

use serde::Serialize;

use super::engine_flags;
use super::environment::{self, Setting};

/// Sentences, none where all is well.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Advice {
    environment: Vec<String>,
    flags: Vec<String>,
}

/// The flag with which vLLM gives memory back while it sleeps, which excludes growing segments.
const SLEEPS: &str = "--enable-sleep-mode";

impl Advice {
    /// Of a command and the settings that it gets beside our own environment; only vLLM's are known.
    pub(super) fn of(command: &[String], settings: &[Setting]) -> Self {
        let environment = if engine_flags::starts_vllm(command) {
            environment::advice(settings, engine_flags::has(command, SLEEPS))
        } else {
            Vec::new()
        };
        Self { environment, flags: engine_flags::advice(command) }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &String> {
        self.environment.iter().chain(&self.flags)
    }

    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("sentences are JSON")
    }
}
