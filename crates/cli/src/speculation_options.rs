//! Speculation flags of an embedded engine; the names are vLLM's where vLLM has the knob.

use std::path::PathBuf;

use overdraft_engine::{DEPTH_MAX, EngineHandle, GuessError, Lookup, Policy, PolicyError};
use serde_json::Value;

use crate::fault::Fault;

/// Tokens of a draft at most where nobody says.
const DEPTH_DEFAULT: usize = 8;

#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Speculation")]
pub(crate) struct SpeculationOptions {
    /// How deep to guess: off, fixed:N, threshold, threshold-per-token, batch-table,
    /// batch-table:1-8=4,9-64=0, goodput
    /// [default of `worker`: goodput where a drafter is named, else off; `serve` guesses only where this is given]
    #[arg(long, value_name = "POLICY")]
    speculation_policy: Option<Policy>,
    /// Tokens of a draft at most [default: 8]
    #[arg(long, value_name = "COUNT")]
    num_speculative_tokens: Option<usize>,
}

/// What a worker of one model may be told besides.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Speculation")]
pub(crate) struct DrafterOptions {
    /// A GGUF file of a smaller model with the same tokenizer, which guesses what the model says
    #[arg(long, value_name = "FILE")]
    draft: Option<PathBuf>,
    /// Guess by looking up what followed the last time the same was said; needs no other model
    #[arg(long)]
    speculative_ngram: bool,
    /// The same as vLLM takes it: `{"method":"ngram","num_speculative_tokens":4}` or
    /// `{"method":"draft_model","model":"FILE"}`
    #[arg(long, value_name = "JSON", conflicts_with_all = ["draft", "speculative_ngram"])]
    speculative_config: Option<String>,
}

/// Who guesses for an engine, and how deep.
#[derive(Clone, Debug)]
pub(crate) struct Guessing {
    pub(crate) policy: Policy,
    pub(crate) depth_max: usize,
    pub(crate) lookup: Option<Lookup>,
}

impl SpeculationOptions {
    /// These, and where they say nothing what the file says.
    ///
    /// # Errors
    /// A rule that there is not; a file that was checked names none.
    pub(crate) fn or(&self, file: &overdraft_config::Speculation) -> Result<Self, Fault> {
        let named = file.policy.as_ref().map(|text| text.parse());
        let named =
            named.transpose().map_err(|error: PolicyError| Fault::input(error.to_string()))?;
        Ok(Self {
            speculation_policy: self.speculation_policy.clone().or(named),
            num_speculative_tokens: self.num_speculative_tokens.or(file.max_depth),
        })
    }

    /// Those that were given.
    pub(crate) fn given(&self) -> impl Iterator<Item = String> {
        let policy = self.speculation_policy.as_ref();
        let policy = policy.map(|policy| format!("`--speculation-policy {policy}`"));
        let depth = self.num_speculative_tokens;
        policy.into_iter().chain(depth.map(|depth| format!("`--num-speculative-tokens {depth}`")))
    }

    /// Refuses a depth of guesses where `all`, these with what the file says, have no rule for them.
    pub(crate) fn check(&self, all: &Self) -> Result<(), Fault> {
        match self.num_speculative_tokens {
            Some(depth) if !all.is_wanted() => {
                let why = format!(
                    "`--num-speculative-tokens {depth}` would change nothing: speculation is off"
                );
                Err(Fault::input(why).hint("give `--speculation-policy` as well, as in `goodput`"))
            }
            _ => Ok(()),
        }
    }

    /// Has a running engine follow these. Nobody guesses where no rule is named.
    pub(crate) fn put_in_force(&self, engine: &EngineHandle) {
        let policy = self.speculation_policy.clone().unwrap_or(Policy::Off);
        let wanted = policy != Policy::Off;
        let depth = self.num_speculative_tokens.unwrap_or(DEPTH_DEFAULT);
        match engine.set_speculation(Some(policy), Some(depth)) {
            Ok(()) => {}
            // Who does not guess obeys an order not to.
            Err(GuessError::NoDrafter) if !wanted => {}
            Err(GuessError::NoDrafter) => {
                tracing::warn!(
                    "`speculation` is not in force: switching it on needs a restart of the gateway"
                );
            }
            Err(error) => tracing::error!(%error, "`speculation` is not in force"),
        }
    }

    /// Whether a rule was named.
    pub(crate) const fn is_wanted(&self) -> bool {
        self.speculation_policy.is_some()
    }

    /// The rule where nobody named a drafter: off unless one was named, and then with lookups.
    ///
    /// # Errors
    /// A depth out of its range.
    pub(crate) fn with_lookups(&self) -> Result<Guessing, Fault> {
        let mut guessing = self.guessing(Policy::Off)?;
        if !self.is_wanted() {
            guessing.lookup = None;
        }
        Ok(guessing)
    }

    fn guessing(&self, default: Policy) -> Result<Guessing, Fault> {
        let depth_max = within(self.num_speculative_tokens.unwrap_or(DEPTH_DEFAULT))?;
        let policy = self.speculation_policy.clone().unwrap_or(default);
        Ok(Guessing { policy, depth_max, lookup: Some(Lookup::default()) })
    }

    /// The rule and the drafters of a worker: nobody guesses unless asked for.
    ///
    /// # Errors
    /// A depth out of its range, or a configuration that cannot be read.
    pub(crate) fn with(
        &self,
        drafters: &DrafterOptions,
    ) -> Result<(Guessing, Option<PathBuf>), Fault> {
        let mut guessing = self.guessing(Policy::Goodput)?;
        if let Some(text) = &drafters.speculative_config {
            return read(text, guessing);
        }
        if drafters.draft.is_none() && !drafters.speculative_ngram {
            guessing.lookup = None;
        }
        Ok((guessing, drafters.draft.clone()))
    }
}

fn within(depth: usize) -> Result<usize, Fault> {
    if (1..=DEPTH_MAX).contains(&depth) {
        return Ok(depth);
    }
    Err(Fault::input(format!(
        "`--num-speculative-tokens {depth}` is out of range; expected 1 to {DEPTH_MAX}"
    )))
}

/// Reads what vLLM takes as `--speculative-config`, as far as there is such a thing here.
fn read(text: &str, mut guessing: Guessing) -> Result<(Guessing, Option<PathBuf>), Fault> {
    let refuse = |what: String| Fault::input(format!("`--speculative-config`: {what}"));
    let Ok(Value::Object(fields)) = serde_json::from_str(text) else {
        return Err(refuse(format!("`{text}` is not a JSON object")));
    };
    let count = |name: &str| match fields.get(name) {
        None => Ok(None),
        Some(value) => {
            let count = value.as_u64().and_then(|count| usize::try_from(count).ok());
            let count = count.filter(|count| 0 < *count);
            let bad = || refuse(format!("`{value}` is not a valid `{name}`; expected 1 or more"));
            count.map(Some).ok_or_else(bad)
        }
    };
    for name in fields.keys() {
        let known = ["method", "model", "num_speculative_tokens", "prompt_lookup_min"];
        if !known.contains(&name.as_str()) && name != "prompt_lookup_max" {
            let known = known.join("`, `");
            return Err(refuse(format!(
                "`{name}` is not known; expected `{known}` or `prompt_lookup_max`"
            )));
        }
    }
    if let Some(depth) = count("num_speculative_tokens")? {
        guessing.depth_max = within(depth)?;
    }
    let model = fields.get("model").and_then(Value::as_str).map(PathBuf::from);
    match (fields.get("method").and_then(Value::as_str), model) {
        (Some("ngram"), None) => {
            let lookup = Lookup::default();
            let shortest = count("prompt_lookup_min")?.unwrap_or(lookup.shortest);
            let longest = count("prompt_lookup_max")?.unwrap_or(lookup.longest.max(shortest));
            if longest < shortest {
                return Err(refuse(format!(
                    "`prompt_lookup_max` is `{longest}`; expected at least `prompt_lookup_min`, {shortest}"
                )));
            }
            guessing.lookup = Some(Lookup { shortest, longest });
            Ok((guessing, None))
        }
        (Some("draft_model") | None, Some(model)) => {
            guessing.lookup = None;
            Ok((guessing, Some(model)))
        }
        (method, _) => Err(refuse(format!(
            "`{}` is not a method with what it needs; expected `ngram`, or `draft_model` with `model`",
            method.unwrap_or("nothing")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let guessing =
            Guessing { policy: Policy::Goodput, depth_max: 8, lookup: Some(Lookup::default()) };
        let shown = match read(text, guessing) {
            Ok((guessing, draft)) => format!(
                "{} {:?} {:?}",
                guessing.depth_max,
                guessing.lookup.map(|lookup| (lookup.shortest, lookup.longest)),
                draft
            ),
            Err(fault) => format!("{fault:?}"),
        };
        assert!(shown.contains(expected), "{shown}");
    }

    #[test]
    fn a_depth_without_a_rule_is_refused() {
        let options = |speculation_policy: Option<Policy>| SpeculationOptions {
            speculation_policy,
            num_speculative_tokens: Some(4),
        };
        let (bare, ruled) = (options(None), options(Some(Policy::Goodput)));
        let fault = bare.check(&bare).expect_err("nothing would guess");
        assert!(format!("{fault:?}").contains("`--num-speculative-tokens 4` would change nothing"));
        // The file may have the rule.
        assert!(bare.check(&ruled).is_ok() && ruled.check(&ruled).is_ok());
        assert_eq!(ruled.given().count(), 2);
    }

    #[test]
    fn a_configuration_is_read_as_vllm_reads_it() {
        check(r#"{"method":"ngram","num_speculative_tokens":5}"#, "5 Some((2, 5)) None");
        check(
            r#"{"method":"ngram","prompt_lookup_min":3,"prompt_lookup_max":4}"#,
            "8 Some((3, 4)) None",
        );
        check(r#"{"method":"draft_model","model":"d.gguf"}"#, r#"8 None Some("d.gguf")"#);
        check(r#"{"model":"d.gguf","num_speculative_tokens":2}"#, r#"2 None Some("d.gguf")"#);
    }

    #[test]
    fn what_cannot_be_done_is_named() {
        check("{", "`{` is not a JSON object");
        check(r#"{"method":"eagle3","model":"x"}"#, "`eagle3` is not a method");
        check(r#"{"method":"draft_model"}"#, "`draft_model` is not a method with what it needs");
        check(r#"{"method":"ngram","num_speculative_tokens":0}"#, "`0` is not a valid");
        check(r#"{"method":"ngram","num_speculative_tokens":99}"#, "99` is out of range");
        check(
            r#"{"method":"ngram","draft_tensor_parallel_size":1}"#,
            "`draft_tensor_parallel_size` is not known",
        );
        check(
            r#"{"method":"ngram","prompt_lookup_min":3,"prompt_lookup_max":2}"#,
            "expected at least",
        );
    }
}
