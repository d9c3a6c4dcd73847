//! Prose rules of pages: length of sentences, turns of phrase, and the size of the first page.
//!
//! A sentence has at most [`WORDS_MAX`] words. Pages in [`DEBTS`] have longer ones from before the rule; their number may
//! only go down. The first page and the guide name the person or the thing instead of "whoever" and "somebody".

use std::fs;
use std::path::{Path, PathBuf};

/// Words of a sentence at most.
const WORDS_MAX: usize = 35;

/// Lines and words of README at most.
const README_LINES_MAX: usize = 150;
const README_WORDS_MAX: usize = 1_200;

/// Words that hide who is meant.
const BANNED: [&str; 3] = ["whoever", "whomever", "somebody"];

/// The page of examples of how not to write.
const STYLE: &str = "STYLE.md";

/// A record of what was written when.
const RECORD: &str = "CHANGELOG.md";

/// Pages with sentences from before the rule, and how many.
const DEBTS: &[(&str, usize)] = &[
    ("docs/benchmarks/README.md", 7),
    ("docs/benchmarks/gateway.md", 1),
    ("docs/benchmarks/stress.md", 1),
    ("docs/design/admission.md", 7),
    ("docs/design/batch.md", 2),
    ("docs/design/breaker.md", 2),
    ("docs/design/cache.md", 2),
    ("docs/design/cascade.md", 10),
    ("docs/design/deadlines.md", 2),
    ("docs/design/kv-events.md", 1),
    ("docs/design/kv-share.md", 2),
    ("docs/design/prefix.md", 2),
    ("docs/design/resume.md", 2),
    ("docs/design/routing.md", 3),
    ("docs/design/simulation.md", 3),
    ("docs/design/speculation.md", 15),
    ("docs/design/tenants.md", 1),
    ("docs/design/tokenizing.md", 2),
    ("docs/reference/config.md", 1),
];

/// Checks every page.
pub(super) fn check(
    root: &Path,
    pages: &[PathBuf],
    faults: &mut Vec<String>,
) -> anyhow::Result<()> {
    for page in pages {
        let name = page.strip_prefix(root).unwrap_or(page).display().to_string();
        let text = fs::read_to_string(page)?;
        if name == RECORD {
            continue;
        }
        let long = long_sentences(&text);
        let debt = DEBTS.iter().find(|(page, _)| *page == name).map_or(0, |(_, count)| *count);
        if long.len() < debt {
            faults
                .push(format!("{name}: {} long sentences; lower its number in DEBTS", long.len()));
        } else if long.len() > debt {
            faults.extend(long.iter().map(|start| {
                format!("{name}: more than {WORDS_MAX} words in the sentence `{start} …`")
            }));
        }
        if name != STYLE && (!name.contains('/') || name.starts_with("docs/guide/")) {
            faults.extend(
                banned(&text).map(|word| format!("{name}: says `{word}`; name who is meant")),
            );
        }
        if name == "README.md" {
            faults.extend(size_fault(&text));
        }
    }
    Ok(())
}

/// Whether the first page is longer than five minutes.
pub(super) fn size_fault(text: &str) -> Option<String> {
    let is_word = |word: &&str| word.contains(char::is_alphanumeric);
    let (lines, words) = (text.lines().count(), text.split_whitespace().filter(is_word).count());
    (lines > README_LINES_MAX || words > README_WORDS_MAX).then(|| {
        format!("README.md: {lines} lines and {words} words, at most {README_LINES_MAX} and {README_WORDS_MAX}")
    })
}

/// The first words of each sentence that is too long.
pub(super) fn long_sentences(text: &str) -> Vec<String> {
    let sentences = passages(text).into_iter().flat_map(|passage| sentences(&passage));
    let long = sentences.filter(|words| words.len() > WORDS_MAX);
    long.map(|words| words[..6].join(" ")).collect()
}

fn banned(text: &str) -> impl Iterator<Item = &'static str> {
    let text = passages(text).join(" ").to_lowercase();
    let words: Vec<String> =
        text.split(|letter: char| !letter.is_alphanumeric()).map(str::to_owned).collect();
    BANNED.into_iter().filter(move |banned| words.iter().any(|word| word == banned))
}

/// Paragraphs, items and cells outside of fenced blocks.
fn passages(text: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut fenced = false;
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with("```") {
            fenced = !fenced;
            continue;
        }
        if fenced {
            continue;
        }
        if line.starts_with('|') {
            found.extend(line.split('|').map(str::to_owned));
            found.push(String::new());
            continue;
        }
        let number = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
        let is_item = line.starts_with("- ") || line.starts_with("* ") || number.starts_with(". ");
        if line.is_empty() || is_item || line.starts_with('#') {
            found.push(String::new());
        }
        if let Some(last) = found.last_mut() {
            last.push_str(line);
            last.push(' ');
        }
    }
    found
}

/// The sentences of a passage by their words; code is one word, and where a link leads is none.
fn sentences(passage: &str) -> Vec<Vec<String>> {
    let code = passage.split('`').enumerate();
    let plain: String = code.map(|(at, part)| if at % 2 == 0 { part } else { "code" }).collect();
    let mut parts = plain.split("](");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str(part.split_once(')').map_or(part, |(_, rest)| rest));
    }
    let mut found = vec![Vec::new()];
    for word in text.split_whitespace() {
        if let Some(last) = found.last_mut() {
            last.push(word.to_owned());
        }
        if word.ends_with(['.', '!', '?', ';', ':']) {
            found.push(Vec::new());
        }
    }
    found
}
