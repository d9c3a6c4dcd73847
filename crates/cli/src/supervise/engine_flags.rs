//! vLLM flags: a default that the supervisor adds, and warnings about costly ones.
//!
//! The supervisor reads only a command that starts vLLM's server, and only flags on the command
//! line: the content of a `--config` file is not known here, so no flag is added beside one.

/// Sequences at once, unless the command says.
const SEQUENCES: [&str; 2] = ["--max-num-seqs", "256"];

/// The module that `vllm serve` runs.
const MODULE: &str = "vllm.entrypoints.openai.api_server";

/// The context below which a prompt is read in one piece anyway.
const CHUNKED_CONTEXT_MIN: u32 = 4_096;
/// Tokens of a step above which a full memory is likely.
const BATCHED_TOKENS_MAX: u32 = 8_192;
/// Tokens of a step below which prompts take many steps.
const BATCHED_TOKENS_MIN: u32 = 1_024;
/// The share of a GPU's memory, in percent, to which to go back when it runs full.
const UTILISATION_SAFE_PERCENT: f64 = 88.0;
/// The share above which nothing is left for what is not counted.
const UTILISATION_MAX_PERCENT: f64 = 92.0;

/// The command with the default that it lacks.
pub(super) fn with_defaults(command: &[String], without_defaults: bool) -> Vec<String> {
    let is_open = !without_defaults
        && starts_vllm(command)
        && [SEQUENCES[0], "--config"].iter().all(|flag| !has(command, flag));
    let added = if is_open { &SEQUENCES[..] } else { &[] };
    command.iter().cloned().chain(added.iter().map(|&part| part.to_owned())).collect()
}

/// What is to be known of the command's flags before it runs.
pub(super) fn advice(command: &[String]) -> Vec<String> {
    if !starts_vllm(command) {
        return Vec::new();
    }
    let number = |flag: &str| value(command, flag)?.parse::<f64>().ok();
    let mut advice = Vec::new();
    if let Some(context) = number("--max-model-len")
        && context < f64::from(CHUNKED_CONTEXT_MIN)
        && has(command, "--enable-chunked-prefill")
    {
        advice.push(format!(
            "`--enable-chunked-prefill` gains nothing with a context of {context} tokens, below {CHUNKED_CONTEXT_MIN}"
        ));
    }
    if let Some(tokens) = number("--max-num-batched-tokens")
        && f64::from(BATCHED_TOKENS_MAX) < tokens
    {
        advice.push(format!(
            "`--max-num-batched-tokens {tokens}`: if it runs out of memory, go back to {BATCHED_TOKENS_MAX}"
        ));
    }
    if let Some(tokens) = number("--max-num-batched-tokens")
        && tokens < f64::from(BATCHED_TOKENS_MIN)
    {
        advice.push(format!(
            "`--max-num-batched-tokens {tokens}`: long prompts take many steps, and their first tokens are late"
        ));
    }
    if has(command, "--no-enable-chunked-prefill") {
        advice.push(
            "without chunked prefill every running answer stands still while a long prompt is read"
                .to_owned(),
        );
    }
    if let Some(share) = number("--gpu-memory-utilization")
        && UTILISATION_MAX_PERCENT < share * 100.0
    {
        advice.push(format!(
            "`--gpu-memory-utilization {share}`: if it runs out of memory, go back to {}",
            UTILISATION_SAFE_PERCENT / 100.0
        ));
    }
    let quantized = ["--quantization", "-q", "--kv-cache-dtype"];
    if quantized.iter().any(|flag| value(command, flag).is_some_and(|it| it.contains("fp8"))) {
        advice.push("FP8 needs CUDA 12.1 or newer: `nvidia-smi` tells which is there".to_owned());
    }
    if value(command, "--quantization").or_else(|| value(command, "-q")).is_some() {
        advice.push(
            "a quantised model should lose less than 1 % of its answers: compare it with the whole one as a cascade in mode `shadow`"
                .to_owned(),
        );
    }
    if value(command, "--distributed-executor-backend") == Some("ray") {
        advice.push(
            "all machines of a Ray cluster need the same versions of Ray and vLLM: pin both"
                .to_owned(),
        );
    }
    if has(command, "--no-enable-prefix-caching") {
        advice.push(
            "without prefix caching prompts that share a beginning are computed again".to_owned(),
        );
    }
    advice
}

/// Whether the command is vLLM's server, by its own name or as a module.
pub(super) fn starts_vllm(command: &[String]) -> bool {
    let is_vllm = |word: &str| word.rsplit('/').next() == Some("vllm");
    let serves = command.windows(2).any(|two| is_vllm(&two[0]) && two[1] == "serve");
    serves || command.iter().any(|word| word == MODULE)
}

/// A flag as `--a-b`, whichever way it is spelt.
fn name(word: &str) -> String {
    word.split('=').next().unwrap_or_default().replace('_', "-")
}

pub(super) fn has(command: &[String], flag: &str) -> bool {
    command.iter().any(|word| name(word) == flag)
}

/// What follows a flag, after `=` or as the next word; of several the last, which counts.
fn value<'a>(command: &'a [String], flag: &str) -> Option<&'a str> {
    let at = command.iter().rposition(|word| name(word) == flag)?;
    match command[at].split_once('=') {
        Some((_, value)) => Some(value),
        None => command.get(at + 1).map(String::as_str),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    /// What a command becomes.
    #[track_caller]
    fn check(command: &str, runs: &str) {
        assert_eq!(with_defaults(&words(command), false).join(" "), runs);
        assert_eq!(with_defaults(&words(command), true).join(" "), command);
    }

    #[test]
    fn vllm_gets_256_sequences_unless_the_command_says() {
        check("vllm serve M", "vllm serve M --max-num-seqs 256");
        check("/opt/venv/bin/vllm serve M", "/opt/venv/bin/vllm serve M --max-num-seqs 256");
        let module = "python -m vllm.entrypoints.openai.api_server --model M";
        check(module, &format!("{module} --max-num-seqs 256"));
        for said in [
            "vllm serve M --max-num-seqs 64",
            "vllm serve M --max-num-seqs=64",
            "vllm serve M --max_num_seqs 64",
            "vllm serve --config vllm.yaml",
            "vllm bench serve",
            "llama-server -m M",
        ] {
            check(said, said);
        }
    }

    /// How much there is to be said of a command's flags, and a part of the first of it.
    #[track_caller]
    fn advised(flags: &str, count: usize, part: &str) {
        let advice = advice(&words(&format!("vllm serve M {flags}")));
        assert_eq!(advice.len(), count, "{flags}: {advice:?}");
        assert!(advice.first().is_none_or(|first| first.contains(part)), "{flags}: {advice:?}");
    }

    #[test]
    fn each_pitfall_of_the_write_ups_is_named_before_the_engine_runs() {
        advised("--max-model-len 2048 --enable-chunked-prefill", 1, "below 4096");
        advised("--max-model-len 4096 --enable-chunked-prefill", 0, "");
        advised("--max-num-batched-tokens 16384", 1, "go back to 8192");
        advised("--max-num-batched-tokens=8192", 0, "");
        advised("--max-num-batched-tokens 512", 1, "many steps");
        advised("--no-enable-chunked-prefill", 1, "stands still");
        advised("--gpu-memory-utilization 0.95", 1, "go back to 0.88");
        advised("--gpu-memory-utilization 0.92", 0, "");
        advised("--kv-cache-dtype fp8_e5m2", 1, "CUDA 12.1");
        advised("--quantization fp8", 2, "CUDA 12.1");
        advised("-q awq", 1, "1 %");
        advised("--distributed-executor-backend ray", 1, "pin both");
        advised("--no-enable-prefix-caching", 1, "computed again");
        assert_eq!(advice(&words("llama-server --max-num-batched-tokens 16384")), [""; 0]);
    }
}
