//! Quotation of lines and addresses: what of them is shown, and what stands for the rest.
//!
//! A password may hold any letter, and where an address ends is often not known. So the most that could be one is
//! hidden, rather than the least: everything from `://` to the last `@`, and all that follows a `?`.
//!
//! Where a file could be read, the paths of its values tell the secrets (`secrets`). The words of a line come on top,
//! for names that are misspelt or stand at the wrong place. Where it could not, words are all there is.

/// Words after which a quoted line is blotted out, also as the end of a longer name.
const SECRET_KEYS: &[&str] =
    &["token", "key", "keys", "key_sha256", "secret", "password", "authorization"];

/// Keys that end like one of those and hold no secret.
const OPEN_KEYS: &[&str] = &["first_token"];

/// What stands for a secret.
pub(crate) const REDACTED: &str = "(redacted)";

/// Whether a line begins with `name:`, as an item, in braces or in quotes as well.
pub(crate) fn begins_with_name(line: &str) -> bool {
    let line = line.trim_start_matches(['-', '[', '{', ' ', '"', '\'']);
    let rest = line.trim_start_matches(|letter: char| {
        letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_'
    });
    rest.len() < line.len() && rest.trim_start_matches(['"', '\'']).starts_with(':')
}

/// A line without what follows a key that holds a secret, and without credentials in its addresses.
pub(crate) fn blotted(line: &str) -> String {
    // What follows the first of them is hidden, whatever it is.
    match secret_end(line).and_then(|end| line.get(..=end)) {
        Some(head) => format!("{} {REDACTED}", without_credentials(head)),
        None => without_credentials(line),
    }
}

/// Where the colon or the equals sign stands behind the first key that holds a secret.
fn secret_end(line: &str) -> Option<usize> {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let ends = SECRET_KEYS
        .iter()
        .flat_map(|key| line.match_indices(key).map(|(at, _)| at + key.len()))
        .filter(|end| {
            let begin = line[..*end].rfind(|letter| !is_word(letter)).map_or(0, |at| at + 1);
            line.get(begin..*end).is_none_or(|word| !OPEN_KEYS.contains(&word))
        })
        .filter_map(|end| {
            let rest = &line[end..];
            let gap = rest.len() - rest.trim_start_matches([' ', '"', '\'']).len();
            rest[gap..].starts_with([':', '=']).then_some(end + gap)
        });
    ends.min()
}

/// A line up to the character at `column`, with the colon or the equals sign of its key. A line that ends there is
/// whole.
pub(crate) fn cut(line: &str, column: usize) -> String {
    let at = line.char_indices().nth(column.saturating_sub(1)).map_or(line.len(), |(at, _)| at);
    let (head, rest) = line.split_at(at);
    let behind = rest.trim_start_matches([' ', '"', '\'']).strip_prefix([':', '=']);
    match behind {
        Some(value) if value.trim().is_empty() => line.to_owned(),
        Some(value) => format!("{} {REDACTED}", line.strip_suffix(value).unwrap_or(head)),
        None if rest.trim().is_empty() => line.to_owned(),
        None => format!("{head}{REDACTED}"),
    }
}

/// A line of a text that could not be read, below the lines `above`. Nothing of it is shown where it may be a part of
/// a secret: below or behind the key of one, or without a name of its own.
pub(crate) fn guarded(line: &str, above: &[&str]) -> String {
    let around = around(line, above);
    let names = |word: &str| line.contains(word) || around.iter().any(|line| line.contains(word));
    // Names of headers are anybody's, and each may hold a secret of the collector's.
    let is_header = names("tracing") && names("headers");
    let is_below = around.iter().any(|line| begins_secret(line));
    if is_header || is_below || is_left_open(above) || !is_named(line) {
        return REDACTED.to_owned();
    }
    blotted(line)
}

/// The lines that a line belongs to: those above that are indented less and less, and the head of a table of TOML.
fn around<'a>(line: &str, above: &[&'a str]) -> Vec<&'a str> {
    let bare = line.trim_start();
    // A list may be indented no more than its key.
    let mut bound = line.len() - bare.len() + usize::from(bare.starts_with('-'));
    let mut around = Vec::new();
    for line in above.iter().rev().copied() {
        let is_bare = line.trim().is_empty() || line.trim_start().starts_with('#');
        if !is_bare && indent(line) < bound {
            bound = indent(line);
            around.push(line);
        }
    }
    around.extend(above.iter().rev().copied().find(|line| line.trim_start().starts_with('[')));
    around
}

/// Where the first word of a line stands; the dashes of lists indent as well.
fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '-', '\t']).len()
}

/// Whether a line has the key of a secret. A list of keys has names in its items, so it is none.
fn begins_secret(line: &str) -> bool {
    line.trim() != "keys:" && secret_end(line).is_some()
}

/// What stands behind the key of a line's first secret.
fn secret_value(line: &str) -> Option<&str> {
    secret_end(line).and_then(|end| line.get(end + 1..)).map(str::trim)
}

/// Whether the lines above end within a secret, as far as quotes and the heads of blocks tell.
fn is_left_open(above: &[&str]) -> bool {
    let last = above.iter().rev().find(|line| !line.trim().is_empty());
    let goes_on = last.filter(|line| begins_secret(line)).and_then(|line| secret_value(line));
    if goes_on.is_some_and(|value| value.is_empty() || value.starts_with(['|', '>'])) {
        return true;
    }
    let count = |mark: &str| above.iter().map(|line| line.matches(mark).count()).sum::<usize>();
    let is_open = |line: &&str| {
        let value = secret_value(line).unwrap_or_default();
        ['"', '\''].iter().any(|quote| value.matches(*quote).count() % 2 == 1)
    };
    above.iter().any(is_open) || ["\"\"\"", "'''"].iter().any(|mark| count(mark) % 2 == 1)
}

/// Whether a line begins with a name and a colon or an equals sign, is the head of a table, or has no words at all.
fn is_named(line: &str) -> bool {
    let begin = line.trim_start_matches(['-', '[', ']', '{', '}', ',', ' ', '"', '\'']);
    let rest = begin.trim_start_matches(|letter: char| {
        letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.' | '/')
    });
    let is_quoted = rest.starts_with(['"', '\'']);
    let behind = rest.trim_start_matches(['"', '\'', ' ']);
    let is_key = behind
        .strip_prefix(':')
        .is_some_and(|value| is_quoted || value.is_empty() || value.starts_with(' '));
    let is_name =
        |letter: char| letter.is_ascii_lowercase() || matches!(letter, '_' | '.' | '[' | ']');
    let is_head = line.starts_with('[') && line.chars().all(is_name);
    begin.is_empty() || is_head || rest.len() < begin.len() && (is_key || behind.starts_with('='))
}

/// An address without user name, password and query.
pub(crate) fn without_credentials(text: &str) -> String {
    without_query(&without_login(text))
}

/// A sentence, in which values stand between backticks, without the credentials of addresses.
pub(crate) fn sentence(text: &str) -> String {
    // A password may hold a backtick, so a login is looked for in the whole sentence.
    let parts: Vec<String> = without_login(text).split('`').map(without_query).collect();
    parts.join("`")
}

fn without_login(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    match rest.rsplit_once('@') {
        // Where the `@` belongs to a query, what is behind it does too.
        Some((login, _)) if login.contains('?') => format!("{scheme}://{REDACTED}"),
        Some((_, place)) => format!("{scheme}://{REDACTED}@{place}"),
        None => text.to_owned(),
    }
}

fn without_query(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    match rest.split_once('?') {
        Some((place, _)) => format!("{scheme}://{place}?{REDACTED}"),
        None => text.to_owned(),
    }
}
