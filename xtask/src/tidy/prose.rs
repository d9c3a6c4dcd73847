//! Prose rules: length of sentences and turns of phrase in pages, file headers and help texts, and the size of the first page.
//!
//! A sentence has at most [`WORDS_MAX`] words, and names the person or the thing that is meant. Help texts are read
//! from `docs/reference/cli.md`, which `cargo xtask docs --check` holds to every `--help` of the binary.

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

/// The page that has each `--help`, in a block.
const HELP: &str = "docs/reference/cli.md";

/// Checks every page, and the header of every Rust file.
pub(super) fn check(
    root: &Path,
    pages: &[PathBuf],
    files: &[PathBuf],
    faults: &mut Vec<String>,
) -> anyhow::Result<()> {
    for path in pages.iter().chain(files) {
        let name = path.strip_prefix(root).unwrap_or(path).display().to_string();
        let text = fs::read_to_string(path)?;
        let prose = match name.as_str() {
            RECORD | STYLE => continue,
            HELP => help(&text),
            _ if path.extension().is_some_and(|extension| extension == "rs") => header(&text),
            _ => text,
        };
        faults.extend(prose_faults(&prose).into_iter().map(|fault| format!("{name}: {fault}")));
        if name == "README.md" {
            faults.extend(size_fault(&prose));
        }
    }
    Ok(())
}

/// What is wrong with a text in Markdown.
pub(super) fn prose_faults(text: &str) -> Vec<String> {
    let long = long_sentences(text).into_iter();
    let long = long.map(|start| format!("more than {WORDS_MAX} words in the sentence `{start} …`"));
    long.chain(banned(text).map(|word| format!("says `{word}`; name who is meant"))).collect()
}

/// The header of a Rust file as a text.
pub(super) fn header(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    lines.fold(String::new(), |header, line| header + line.trim() + "\n")
}

/// The help texts as passages: one of each paragraph, and of each flag. Examples are left out.
pub(super) fn help(page: &str) -> String {
    let (mut text, mut is_example) = (String::new(), false);
    for line in page.lines().filter(|line| !line.starts_with("```")) {
        let (line, bare) = (line.trim_end(), line.trim());
        if !line.starts_with(' ') {
            is_example = line == "Examples:";
        }
        if is_example {
            continue;
        }
        let is_name = bare.starts_with('-') && !bare.starts_with("- ");
        if is_name || line.starts_with("  ") && !line.starts_with("   ") {
            // The words of a flag's own line follow its name after two blanks.
            text.push('\n');
            text.push_str(bare.split_once("  ").map_or("", |(_, words)| words.trim()));
        } else {
            text.push_str(bare);
        }
        text.push('\n');
    }
    text
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
    // Code is not prose.
    let prose = text.split('`').step_by(2);
    let words = prose.flat_map(|part| part.split(|letter: char| !letter.is_alphanumeric()));
    let words: Vec<String> = words.map(str::to_owned).collect();
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
