//! Sampling parameter validation: the bounds of OpenAI and vLLM.
//!
//! Parameters are checked once, when a request is submitted; all later code relies on it.

use overdraft_units::Tokens;

use crate::request::Sampling;

/// Maximum top log probabilities at one position, vLLM's default.
pub const LOGPROBS_MAX: u32 = 20;
/// Stop strings of one request.
pub const STOP_STRINGS_MAX: usize = 32;
/// Bytes of one stop string: bounds the text that is held back.
pub const STOP_BYTES_MAX: usize = 4096;
/// Stop tokens of one request.
pub const STOP_TOKENS_MAX: usize = 1024;
/// Biased tokens of one request, as OpenAI's.
const BIASED_TOKENS_MAX: usize = 1024;
/// Largest bias in either direction.
const BIAS_MAX: f32 = 100.0;
/// Largest presence and frequency penalty in either direction.
const PENALTY_MAX: f32 = 2.0;

/// A sampling parameter that cannot be obeyed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{value}` is not a valid `{parameter}`; expected {expected}")]
pub struct SamplingError {
    parameter: &'static str,
    value: String,
    expected: &'static str,
}

impl SamplingError {
    /// The request field, as OpenAI names it in `error.param`.
    pub fn parameter(&self) -> &'static str {
        self.parameter
    }
}

impl Sampling {
    /// Whether the engine can obey.
    ///
    /// # Errors
    /// The first parameter out of bounds.
    pub fn check(&self) -> Result<(), SamplingError> {
        self.check_filters()?;
        self.check_penalties()?;
        self.check_ends()
    }

    fn check_filters(&self) -> Result<(), SamplingError> {
        let temperature = self.temperature.is_finite() && self.temperature >= 0.0;
        hold(temperature, "temperature", &self.temperature, "a number of at least 0")?;
        let top_p = self.top_p > 0.0 && self.top_p <= 1.0;
        hold(top_p, "top_p", &self.top_p, "a number above 0 and at most 1")?;
        let top_k = self.top_k.unwrap_or(1);
        hold(top_k > 0, "top_k", &top_k, "at least 1, or nothing for all tokens")?;
        let min_p = (0.0..=1.0).contains(&self.min_p);
        hold(min_p, "min_p", &self.min_p, "a number between 0 and 1")?;
        let logprobs = self.logprobs.unwrap_or(0);
        hold(logprobs <= LOGPROBS_MAX, "top_logprobs", &logprobs, "at most 20")
    }

    fn check_penalties(&self) -> Result<(), SamplingError> {
        const PENALTY: &str = "a number between -2 and 2";
        let within = |penalty: f32| penalty.abs() <= PENALTY_MAX;
        hold(within(self.presence_penalty), "presence_penalty", &self.presence_penalty, PENALTY)?;
        hold(
            within(self.frequency_penalty),
            "frequency_penalty",
            &self.frequency_penalty,
            PENALTY,
        )?;
        let repetition = self.repetition_penalty.is_finite() && self.repetition_penalty > 0.0;
        hold(repetition, "repetition_penalty", &self.repetition_penalty, "a number above 0")?;
        let biased = self.logit_bias.len();
        hold(biased <= BIASED_TOKENS_MAX, "logit_bias", &biased, "at most 1024 tokens")?;
        for &(_, bias) in &self.logit_bias {
            hold(bias.abs() <= BIAS_MAX, "logit_bias", &bias, "a number between -100 and 100")?;
        }
        Ok(())
    }

    fn check_ends(&self) -> Result<(), SamplingError> {
        let max = self.max_tokens;
        hold(max > Tokens::ZERO, "max_tokens", &max.get(), "at least 1")?;
        let min = self.min_tokens;
        hold(min <= max, "min_tokens", &min.get(), "at most `max_tokens`")?;
        let strings = self.stop.len();
        hold(strings <= STOP_STRINGS_MAX, "stop", &strings, "at most 32 strings")?;
        for stop in &self.stop {
            hold(!stop.is_empty(), "stop", stop, "a string that is not empty")?;
            hold(stop.len() <= STOP_BYTES_MAX, "stop", &stop.len(), "at most 4096 bytes")?;
        }
        let tokens = self.stop_tokens.len();
        hold(tokens <= STOP_TOKENS_MAX, "stop_token_ids", &tokens, "at most 1024 tokens")
    }
}

fn hold(
    holds: bool,
    parameter: &'static str,
    value: &(impl ToString + ?Sized),
    expected: &'static str,
) -> Result<(), SamplingError> {
    if holds {
        Ok(())
    } else {
        Err(SamplingError { parameter, value: value.to_string(), expected })
    }
}
