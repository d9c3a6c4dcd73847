//! Cache key fields: how each field of a request affects the response-cache key.
//!
//! One table for chats and completions: OpenAI's documented fields and vLLM's extras. In doubt a
//! field belongs into the key: that costs a miss and never a wrong answer.

/// What a field means for the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Its value is part of the key.
    Keyed,
    /// It cannot change what is answered, for this reason.
    Ignored(&'static str),
    /// With it nothing is cached, for this reason.
    Never(&'static str),
    /// The same, unless it says `false` or `null`: then it is as if it were absent.
    NeverWhereOn(&'static str),
    /// How a stream is delivered; only `include_usage` is understood, and both forms are served.
    Delivery,
}

/// A field by its name in the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// As in the JSON object.
    pub name: &'static str,
    /// What it means for the cache.
    pub effect: Effect,
}

const fn field(name: &'static str, effect: Effect) -> Field {
    Field { name, effect }
}

const fn keyed(name: &'static str) -> Field {
    field(name, Effect::Keyed)
}

/// Asks for the same tokens in another wrapping.
const WRAPPING: &str = "the stored answer serves both forms";
const NOT_READ: &str = "workers do not read it; it is for whoever keeps the books";
const STEERS: &str = "it steers where cached prefixes lie and not what is answered";

/// Every field that has been judged, by name.
pub const FIELDS: &[Field] = &[
    keyed("add_generation_prompt"),
    keyed("add_special_tokens"),
    keyed("allowed_token_ids"),
    field("audio", Effect::Never("spoken answers are not kept")),
    keyed("bad_words"),
    keyed("best_of"),
    // A client that sets it wants to share with no other, and a gateway before this one may set it
    // for each of its own tenants.
    keyed("cache_salt"),
    keyed("chat_template"),
    keyed("chat_template_kwargs"),
    keyed("continue_final_message"),
    keyed("documents"),
    keyed("echo"),
    keyed("frequency_penalty"),
    keyed("function_call"),
    keyed("functions"),
    keyed("guided_choice"),
    keyed("guided_decoding_backend"),
    keyed("guided_grammar"),
    keyed("guided_json"),
    keyed("guided_regex"),
    keyed("guided_whitespace_pattern"),
    keyed("ignore_eos"),
    keyed("include_reasoning"),
    keyed("include_stop_str_in_output"),
    field("kv_transfer_params", Effect::Never("it says what becomes of this request's own blocks")),
    keyed("length_penalty"),
    keyed("logit_bias"),
    field("logits_processors", Effect::Never("it names code that may do anything")),
    keyed("logprob_token_ids"),
    keyed("logprobs"),
    keyed("max_completion_tokens"),
    keyed("max_tokens"),
    keyed("media_io_kwargs"),
    keyed("messages"),
    field("metadata", Effect::Ignored(NOT_READ)),
    keyed("min_p"),
    keyed("min_tokens"),
    keyed("mm_processor_kwargs"),
    keyed("modalities"),
    keyed("model"),
    field("moderation", Effect::Never("its verdict may change while the request does not")),
    keyed("n"),
    keyed("parallel_tool_calls"),
    keyed("prediction"),
    keyed("presence_penalty"),
    field("priority", Effect::Ignored("how soon it is answered, and not what")),
    keyed("prompt"),
    field("prompt_cache_key", Effect::Ignored(STEERS)),
    field("prompt_cache_options", Effect::Ignored(STEERS)),
    field("prompt_cache_retention", Effect::Ignored(STEERS)),
    keyed("prompt_embeds"),
    keyed("prompt_logprob_start"),
    keyed("prompt_logprob_token_ids"),
    keyed("prompt_logprobs"),
    keyed("reasoning_effort"),
    keyed("repetition_detection"),
    keyed("repetition_penalty"),
    field("request_id", Effect::Ignored("it names this request; a replay keeps the first one's")),
    keyed("response_format"),
    keyed("return_prompt_text"),
    keyed("return_token_ids"),
    keyed("return_tokens_as_token_ids"),
    field("safety_identifier", Effect::Ignored(NOT_READ)),
    keyed("seed"),
    field("service_tier", Effect::Ignored("how soon it is answered, and not what")),
    keyed("session_id"),
    keyed("skip_special_tokens"),
    keyed("spaces_between_special_tokens"),
    keyed("stop"),
    keyed("stop_token_ids"),
    field("store", Effect::NeverWhereOn("the answer is to be kept where it was made")),
    field("stream", Effect::Ignored(WRAPPING)),
    field("stream_interval", Effect::Ignored("how tokens are bundled, and not which")),
    field("stream_options", Effect::Delivery),
    keyed("structural_tag"),
    keyed("structured_outputs"),
    keyed("suffix"),
    keyed("temperature"),
    keyed("thinking_token_budget"),
    keyed("tool_choice"),
    keyed("tools"),
    keyed("top_k"),
    keyed("top_logprobs"),
    keyed("top_p"),
    keyed("truncate_prompt_tokens"),
    keyed("use_beam_search"),
    field("user", Effect::Ignored(NOT_READ)),
    keyed("verbosity"),
    keyed("vllm_xargs"),
    field("web_search_options", Effect::Never("the answer depends on the web of that day")),
];

/// What the field called `name` means; `None` where nobody has judged it.
pub fn effect(name: &str) -> Option<Effect> {
    let at = FIELDS.binary_search_by(|field| field.name.cmp(name)).ok()?;
    FIELDS.get(at).map(|field| field.effect)
}
