//! Quotation of lines and addresses: what of them is shown, and what stands for the rest.
//!
//! A password may hold any letter, and where an address ends is often not known. So the most that could be one is
//! hidden, rather than the least: everything from `://` to the last `@`, and all that follows a `?`.

/// Words after which a quoted line is blotted out, also as the end of a longer name.
const SECRET_KEYS: &[&str] = &["token", "key", "keys", "key_sha256"];

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
