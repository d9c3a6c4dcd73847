//! Content loops: whether a template's source shows that it goes through a message's parts.
//!
//! vLLM looks for a loop over `….content`, over `content` outside of macros, or over a macro's parameter
//! that is given `….content`; parts are joined for templates without one, as for Kimi K2 and K3, which
//! read `get('content')`. What tokens an engine counts depends on it, so the same signs count here.

/// How content is reached.
const MEMBERS: [&str; 3] = [".content", "['content']", "[\"content\"]"];

/// Whether the source has such a loop.
pub(super) fn has_content_loop(source: &str) -> bool {
    let given = parameters_given_content(source);
    let mut depth = 0_u32;
    statements(source).any(|statement| {
        match word_of(statement) {
            "macro" => depth += 1,
            "endmacro" => depth = depth.saturating_sub(1),
            _ => {}
        }
        iterated(statement).is_some_and(|iterated| {
            is_content(&iterated)
                || iterated == "content" && depth == 0
                || 0 < depth && given.contains(&iterated.as_str())
        })
    })
}

/// The statements of a template, without their marks.
fn statements(source: &str) -> impl Iterator<Item = &str> {
    let mut rest = source;
    std::iter::from_fn(move || {
        loop {
            let at = rest.find('{')?;
            rest = &rest[at + 1..];
            if let Some(comment) = rest.strip_prefix('#') {
                rest = comment.split_once("#}").map_or("", |(_, after)| after);
            } else if let Some(statement) = rest.strip_prefix('%') {
                let (inner, after) = statement.split_once("%}").unwrap_or((statement, ""));
                rest = after;
                return Some(inner.trim_matches(['-', '+', ' ', '\n', '\t', '\r']));
            }
        }
    })
}

fn word_of(statement: &str) -> &str {
    statement.split_whitespace().next().unwrap_or_default()
}

/// What a `for` goes through, without its filters, condition and slice.
fn iterated(statement: &str) -> Option<String> {
    let mut words = statement.split_whitespace();
    words.next().filter(|&word| word == "for")?;
    words.find(|&word| word == "in")?;
    let whole = words.take_while(|&word| word != "if").collect::<Vec<_>>().join(" ");
    Some(plain(&whole).to_owned())
}

/// An expression without filters, brackets around it, and slice.
fn plain(expression: &str) -> &str {
    let value = expression.split('|').next().unwrap_or_default();
    let value = value.trim_matches(['(', ')', ' ', '\n', '\t', '\r']);
    match value.rsplit_once('[') {
        Some((sliced, slice)) if slice.contains(':') => sliced,
        _ => value,
    }
}

fn is_content(plain: &str) -> bool {
    MEMBERS.iter().any(|member| plain.ends_with(member))
}

/// Parameters of macros that some call gives a message's content.
fn parameters_given_content(source: &str) -> Vec<&str> {
    let macros = statements(source).filter_map(|statement| {
        statement.strip_prefix("macro ").and_then(|rest| rest.split_once('('))
    });
    let mut given = Vec::new();
    for (name, parameters) in macros {
        let parameters: Vec<&str> = arguments(parameters).into_iter().map(name_of).collect();
        let call = format!("{}(", name.trim());
        for (at, _) in source.match_indices(&call) {
            let arguments = arguments(&source[at + call.len()..]).into_iter().enumerate();
            let contents = arguments.filter(|(_, argument)| is_content(plain(argument)));
            given.extend(contents.filter_map(|(place, argument)| match argument.split_once('=') {
                Some((named, _)) => parameters.iter().find(|&&own| own == named.trim()),
                None => parameters.get(place),
            }));
        }
    }
    given
}

/// A parameter without its default.
fn name_of(parameter: &str) -> &str {
    parameter.split('=').next().unwrap_or_default().trim()
}

/// What stands between commas up to the bracket that closes.
fn arguments(text: &str) -> Vec<&str> {
    let (mut found, mut depth, mut begun) = (Vec::new(), 0_u32, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => {
                found.push(&text[begun..at]);
                break;
            }
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(&text[begun..at]);
                begun = at + 1;
            }
            _ => {}
        }
    }
    found
}
