//! Plan: whether a request meets a draft, and how.
//!
//! It scans the client's request once more for what only a cascade needs: exclusions, and the class
//! of the request.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName};
use overdraft_core::cascade::{
    Bound, Delivery, Exclusion, Exclusions, Mode, RequestDraws, Script, Terms, Tokenizers, Traits,
    Windows,
};
use overdraft_units::Tokens;
use overdraft_wire::request::StreamUsage;
use overdraft_wire::{ApiError, Generation, RequestPeek};
use serde::Deserialize;
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use super::schema::Schema;
use super::state::CascadeState;
use super::{CascadeLayer, rewrite};
use crate::pipeline::canary::Side;
use crate::pipeline::context::RequestContext;
use crate::pipeline::request_info::RequestInfo;

/// Opts a request out.
const OPT_OUT: HeaderName = HeaderName::from_static("x-overdraft-cascade");

/// OpenAI's default length of a completion.
const COMPLETION_TOKENS: u32 = 16;

/// Characters of a client's value that an error repeats at most.
const QUOTED_CHARACTERS_MAX: usize = 40;

/// What becomes of a request to a cascade.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(super) state: Arc<CascadeState>,
    pub(super) generation: Generation,
    pub(super) usage: StreamUsage,
    pub(super) terms: Terms,
    pub(super) schema: Option<Schema>,
    /// Numbers of its own, for draws.
    pub(super) dice: Dice,
}

/// Numbers that are drawn once for a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dice(pub(super) u64);

impl Dice {
    /// The number for one purpose; numbers of two are independent.
    pub(super) fn draw(self, purpose: &str) -> u64 {
        xxhash_rust::xxh3::xxh3_64_with_seed(purpose.as_bytes(), self.0)
    }

    /// Those that the protocol needs.
    fn draws(self) -> RequestDraws {
        RequestDraws {
            ask: self.draw("ask"),
            prospect: self.draw("prospect"),
            judge: self.draw("judge"),
            beside: self.draw("beside"),
        }
    }
}

/// Looks at a request as the client sent it; nothing where it asks for no cascade.
///
/// # Errors
/// 400 where it opts out in words that mean nothing.
pub(crate) fn consider(
    layer: &CascadeLayer,
    context: &RequestContext<'_>,
    body: &Bytes,
    info: &RequestInfo,
) -> Result<Option<Plan>, ApiError> {
    let endpoint = context.endpoint;
    let Some(generation) = endpoint.generation().filter(|_| endpoint.is_cascadable()) else {
        return Ok(None);
    };
    if layer.cascades.is_empty() {
        return Ok(None);
    }
    let peek = RequestPeek::parse(body)?;
    let settings = layer.pipeline.settings();
    let named = peek.model.as_deref().or(settings.model_default.as_deref()).unwrap_or_default();
    let named = info.side.as_ref().map_or(named, Side::asks_for);
    let Some(state) = layer.cascades.of(named, &info.model) else { return Ok(None) };
    if state.settings.mode == Mode::Off {
        return Ok(None);
    }
    let out = opts_out(&context.head.headers)?;
    let text = Text::of(&peek);
    let bound = bound(&peek, &text);
    let traits = traits(layer, &state, info, &text, bound);
    let mut exclusions = against(&peek, &text).with_longest(longest(info, generation));
    if out {
        exclusions = exclusions.with(Exclusion::RequestOptedOut);
    }
    let caller = &info.caller;
    if !caller.may_cascade() || state.settings.tenants_out.contains(caller.label()) {
        exclusions = exclusions.with(Exclusion::TenantOptedOut);
    }
    let continuable = rewrite::is_continuable(&peek.object) && !text.is_several();
    let dice = Dice(info.dice);
    let greedy = peek.object.raw("temperature").and_then(|raw| raw.parse().ok()) == Some(0.0_f64);
    let terms = Terms {
        traits,
        exclusions,
        tokenizers: Tokenizers::of(&state.parity(), state.settings.any_tokenizers),
        is_greedy: greedy,
        is_continuable: continuable,
        windows: Windows {
            first: Tokens::new(state.settings.first_window),
            next: Tokens::new(state.settings.next_window),
        },
        bar: state.settings.threshold,
        prefill_from: state.settings.prefill_from,
        draws: dice.draws(),
    };
    let schema = (bound == Bound::Schema).then(|| Schema::of(peek.object.raw("response_format")));
    let usage = peek.usage;
    Ok(Some(Plan { state, generation, usage, terms, schema, dice }))
}

/// What a request is like.
fn traits(
    layer: &CascadeLayer,
    state: &CascadeState,
    info: &RequestInfo,
    text: &Text<'_>,
    bound: Bound,
) -> Traits {
    let (prompt, _) = layer.pipeline.dispatcher.view().expected(info.request());
    Traits {
        tenant: info.caller.tenant.0,
        route: xxh3_64(state.name.as_bytes()),
        prompt,
        script: Script::of(text.last()),
        bound,
        delivery: match info.delivery {
            overdraft_telemetry::Delivery::Streamed => Delivery::Streamed,
            overdraft_telemetry::Delivery::Whole => Delivery::Whole,
        },
    }
}

/// Tokens that its answer has at most, where the request or its endpoint says so.
fn longest(info: &RequestInfo, generation: Generation) -> Option<Tokens> {
    let longest = match (info.limit, generation) {
        (None, Generation::Completion) => Some(COMPLETION_TOKENS),
        (limit, _) => limit,
    };
    longest.map(Tokens::new)
}

fn opts_out(head: &HeaderMap) -> Result<bool, ApiError> {
    let Some(value) = head.get(&OPT_OUT) else { return Ok(false) };
    match value.as_bytes() {
        b"off" => Ok(true),
        b"on" => Ok(false),
        other => {
            let text = String::from_utf8_lossy(other);
            let found: String = text.chars().take(QUOTED_CHARACTERS_MAX).collect();
            let found = found.escape_debug();
            let message = format!("`{found}` is not an `{OPT_OUT}`; expected `off` or `on`");
            Err(ApiError::invalid(OPT_OUT.as_str(), message))
        }
    }
}

/// What speaks against another model's answer.
fn against(peek: &RequestPeek<'_>, text: &Text<'_>) -> Exclusions {
    let object = &peek.object;
    let told =
        |name: &str| object.raw(name).is_some_and(|raw| !matches!(raw, "null" | "false" | "[]"));
    let any = |names: &[&str]| names.iter().any(|name| told(name));
    let mut against = Exclusions::NONE;
    if any(&["tools", "functions"]) || text.tools {
        against = against.with(Exclusion::Tools);
    }
    let logprobs =
        ["logprobs", "prompt_logprobs", "echo", "return_token_ids", "return_tokens_as_token_ids"];
    if any(&logprobs) {
        against = against.with(Exclusion::Logprobs);
    }
    if told("seed") {
        against = against.with(Exclusion::Determinism);
    }
    let best_of = object.raw("best_of").is_some_and(|raw| !matches!(raw, "null" | "1"));
    if 1 < peek.n || best_of || text.is_several() {
        against = against.with(Exclusion::SeveralAnswers);
    }
    against
}

/// What the answer is bound to be.
fn bound(peek: &RequestPeek<'_>, text: &Text<'_>) -> Bound {
    const GUIDED: [&str; 5] =
        ["guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs"];
    #[derive(Deserialize)]
    struct Format<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
    }
    let object = &peek.object;
    let format = object.raw("response_format");
    let format = format.and_then(|raw| serde_json::from_str::<Format<'_>>(raw).ok());
    if text.tools {
        Bound::Tools
    } else if format.is_some_and(|format| format.kind != "text")
        || GUIDED.iter().any(|name| object.raw(name).is_some_and(|raw| raw != "null"))
    {
        Bound::Schema
    } else {
        Bound::Free
    }
}

/// A prompt as far as it is text.
#[derive(Debug, Default)]
struct Text<'a> {
    last: Cow<'a, str>,
    several: bool,
    /// Whether tools have been called in it.
    tools: bool,
}

impl<'a> Text<'a> {
    fn of(peek: &RequestPeek<'a>) -> Self {
        peek.messages
            .map_or_else(|| peek.prompt.map(Self::of_prompt).unwrap_or_default(), Self::of_messages)
    }

    fn of_messages(raw: &str) -> Self {
        #[derive(Deserialize)]
        struct Message {
            role: Option<String>,
            content: Option<Value>,
            tool_calls: Option<Value>,
            function_call: Option<Value>,
        }
        let messages: Vec<Message> = serde_json::from_str(raw).unwrap_or_default();
        // Answers of vLLM have an empty list where nothing was called, and clients send them again.
        let is_filled =
            |calls: &Value| !calls.is_null() && !calls.as_array().is_some_and(Vec::is_empty);
        let of_tool = |message: &Message| {
            matches!(message.role.as_deref(), Some("tool" | "function"))
                || message.tool_calls.as_ref().is_some_and(is_filled)
                || message.function_call.as_ref().is_some_and(|call| !call.is_null())
        };
        let tools = messages.iter().any(of_tool);
        let last = messages.into_iter().next_back().and_then(|message| message.content);
        let last = match last {
            Some(Value::String(text)) => text,
            Some(Value::Array(parts)) => {
                let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
                texts.collect::<Vec<_>>().join("\n")
            }
            _ => String::new(),
        };
        Self { last: last.into(), several: false, tools }
    }

    fn of_prompt(raw: &'a str) -> Self {
        match serde_json::from_str(raw) {
            Ok(Value::String(text)) => Self { last: text.into(), ..Self::default() },
            Ok(Value::Array(items)) if items.iter().all(Value::is_number) => Self::default(),
            // One prompt in a list is as rare as it is easy to get wrong.
            _ => Self { several: true, ..Self::default() },
        }
    }

    fn last(&self) -> &str {
        &self.last
    }

    const fn is_several(&self) -> bool {
        self.several
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_with_an_empty_list_of_calls_has_called_no_tool() {
        let has_called = |told: &str| {
            let message = format!(r#"{{"role":"assistant","content":"hi"{told}}}"#);
            let body = format!(r#"{{"messages":[{message},{{"role":"user","content":"and?"}}]}}"#);
            let peek = RequestPeek::parse(body.as_bytes()).unwrap();
            let text = Text::of(&peek);
            text.tools
        };
        assert!(!has_called(r#","tool_calls":[],"function_call":null"#));
        assert!(!has_called(r#","tool_calls":null"#));
        assert!(has_called(r#","tool_calls":[{"id":"a"}]"#));
        assert!(has_called(r#","function_call":{"name":"f"}"#));
    }
}
