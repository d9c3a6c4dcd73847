//! Jinja environment: Hugging Face's functions and filters, within bounds.
//!
//! Set up like `transformers`: blocks are trimmed, Python's methods work on strings and lists,
//! `raise_exception`, `strftime_now` and `tojson` exist. A template comes from a model's file, so it
//! may be wrong or hostile. **Invariant:** rendering ends after [`FUEL`] steps.

use std::fmt;

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, ErrorKind, State, Value};

use super::{TemplateError, calendar, indent, json, methods, python};

/// Steps of the template engine per rendering at most: a long conversation with tools takes some
/// ten thousand.
const FUEL: u64 = 4_000_000;
/// Calls of macros inside each other at most.
const RECURSION_MAX: usize = 100;
/// Characters of an error's text that clients see at most.
const ERROR_CHARS_MAX: usize = 300;
/// The only template of an environment.
const NAME: &str = "chat";
/// The variable that holds the time. Templates read it through `strftime_now`.
pub(super) const NOW: &str = "__unix_seconds";

/// What a template says when it refuses a conversation.
#[derive(Debug)]
struct Refusal(String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// An environment with the template `source` in it.
pub(super) fn parse(source: &str) -> Result<Environment<'static>, TemplateError> {
    let mut environment = Environment::new();
    environment.set_debug(false);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(RECURSION_MAX);
    environment.set_unknown_method_callback(methods::call);
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build()
        .map_err(|error| syntax_error(&error))?;
    environment.set_syntax(syntax);
    environment.set_formatter(|out, _state, value| python::write_text(out, value));
    environment.add_filter("indent", indent::indent);
    environment.add_filter("string", python::string);
    environment.add_filter("tojson", json::tojson);
    environment.add_test("iterable", python::is_iterable);
    environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        let refusal = Refusal(message);
        Err(Error::new(ErrorKind::InvalidOperation, "refused").with_source(refusal))
    });
    environment.add_function("strftime_now", |state: &State<'_, '_>, pattern: String| {
        let now = state.lookup(NOW).and_then(|now| u64::try_from(now).ok()).unwrap_or_default();
        calendar::format(now, &pattern)
    });
    environment
        .add_template_owned(NAME, without_generation_blocks(source))
        .map_err(|error| syntax_error(&error))?;
    Ok(environment)
}

/// Renders the environment's template.
pub(super) fn render(
    environment: &Environment<'static>,
    context: &Value,
) -> Result<String, TemplateError> {
    let template = environment.get_template(NAME).map_err(|error| failure(&error))?;
    template.render(context.clone()).map_err(|error| failure(&error))
}

fn syntax_error(error: &Error) -> TemplateError {
    TemplateError::Syntax(clip(&error.to_string()))
}

fn failure(error: &Error) -> TemplateError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(current) = cause {
        if let Some(Refusal(message)) = current.downcast_ref() {
            return TemplateError::Refused(clip(message));
        }
        cause = current.source();
    }
    TemplateError::Failed(clip(&error.to_string()))
}

fn clip(text: &str) -> String {
    text.chars().take(ERROR_CHARS_MAX).collect()
}

/// Replaces `{% generation %}` blocks, which mark what a model is trained on, by blocks that do
/// nothing. Their signs for trimming stay.
fn without_generation_blocks(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some((before, opened)) = rest.split_once("{%") {
        let Some((inside, after)) = opened.split_once("%}") else { break };
        let word = inside
            .trim_matches(|character: char| character.is_whitespace() || "-+".contains(character));
        let neutral = match word {
            "generation" => inside.replacen(word, "if true", 1),
            "endgeneration" => inside.replacen(word, "endif", 1),
            _ => inside.to_owned(),
        };
        out.extend([before, "{%", &neutral, "%}"]);
        rest = after;
    }
    out + rest
}
