//! Rules about pages: links that lead somewhere, commands and flags that exist.
//!
//! Each relative link of a Markdown page names a file of the tree, and its anchor a heading of that page. Each
//! `overdraft …` and `cargo xtask …` in a `console` or `sh` block names a command that exists, with flags that it has:
//! the binary's by `docs/reference/cli.md`, which `cargo xtask docs --check` holds to its `--help`. Commands are
//! read here, not run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory;

/// Folders that hold what is built or downloaded.
const FOREIGN: [&str; 4] = ["target", "node_modules", ".git", ".venv"];

/// The site's table of contents.
const CONTENTS: &str = "docs/SUMMARY.md";

/// The flags of each command, by its words, as in `overdraft config show`.
pub(super) type Flags = BTreeMap<String, BTreeSet<String>>;

/// Checks every page under `root`.
pub(super) fn check(root: &Path, faults: &mut Vec<String>) -> anyhow::Result<()> {
    let mut known = binary_flags(&fs::read_to_string(root.join("docs/reference/cli.md"))?);
    chore_flags(&crate::Arguments::command(), "cargo xtask", &mut known);
    for page in pages(root) {
        let text = fs::read_to_string(&page)?;
        let name = page.strip_prefix(root).unwrap_or(&page).display().to_string();
        faults.extend(command_faults(&text, &known).iter().map(|fault| format!("{name}: {fault}")));
        faults.extend(link_faults(&page, &text).iter().map(|fault| format!("{name}: {fault}")));
    }
    let contents = links(&fs::read_to_string(root.join(CONTENTS))?);
    let docs = root.join("docs");
    let listed = |name: &str| name == "SUMMARY.md" || contents.iter().any(|target| target == name);
    let missing = pages(&docs).into_iter().filter_map(|page| {
        let name = page.strip_prefix(&docs).unwrap_or(&page).display().to_string();
        (!listed(&name))
            .then(|| format!("{CONTENTS}: `{name}` is missing; the site would not have it"))
    });
    faults.extend(missing);
    Ok(())
}

/// All pages of the tree, in order.
pub(super) fn pages(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(folder) = open.pop() {
        for path in fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path())
        {
            if path.is_dir() {
                let foreign = FOREIGN.iter().any(|name| path.ends_with(name));
                // Another checkout or a nested repository is not ours.
                if !foreign && !path.join(".git").exists() {
                    open.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Reads the commands and their flags from the reference page that holds each `--help`.
pub(super) fn binary_flags(page: &str) -> Flags {
    let mut known = Flags::new();
    let mut command = String::new();
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            title.clone_into(&mut command);
            known.insert(command.clone(), ["-h", "--help"].map(str::to_owned).into());
        } else if line.trim_start().starts_with('-')
            && let Some(flags) = known.get_mut(&command)
        {
            let head = line.trim_start().split("  ").next().unwrap_or_default();
            let words = head.split([' ', ',', '=', '<', '[']);
            flags.extend(words.filter(|word| word.starts_with('-')).map(str::to_owned));
        }
    }
    known
}

fn chore_flags(command: &clap::Command, words: &str, known: &mut Flags) {
    let mut flags: BTreeSet<String> = ["-h", "--help"].map(str::to_owned).into();
    for argument in command.get_arguments() {
        flags.extend(argument.get_long().map(|long| format!("--{long}")));
        flags.extend(argument.get_short().map(|short| format!("-{short}")));
    }
    known.insert(words.to_owned(), flags);
    for child in command.get_subcommands() {
        chore_flags(child, &format!("{words} {}", child.get_name()), known);
    }
}

/// What is wrong with the commands in a page's shell blocks.
pub(super) fn command_faults(text: &str, known: &Flags) -> Vec<String> {
    let mut faults = Vec::new();
    for line in shell_lines(text) {
        let prompted = line.trim_start().trim_start_matches("$ ");
        for command in plain(prompted).split(['|', ';', '&']) {
            faults.extend(command_fault(command, known));
        }
    }
    faults
}

fn command_fault(command: &str, known: &Flags) -> Option<String> {
    let words: Vec<&str> =
        command.split_whitespace().skip_while(|word| word.contains('=')).collect();
    let start = match words.as_slice() {
        ["overdraft", ..] => 1,
        ["cargo", "xtask", ..] => 2,
        _ => return None,
    };
    let mut name = words[..start].join(" ");
    let mut rest = &words[start..];
    while let Some((word, after)) = rest.split_first() {
        let longer = format!("{name} {word}");
        if !known.contains_key(&longer) {
            break;
        }
        (name, rest) = (longer, after);
    }
    if name == words[..start].join(" ") && rest.first().is_some_and(|word| !word.starts_with('-')) {
        return Some(format!("`{name} {}` is no command", rest[0]));
    }
    let flags = known.get(&name)?;
    // What follows `--` is another program's.
    let own = rest.iter().take_while(|word| **word != "--").filter(|word| word.starts_with('-'));
    own.map(|word| word.split('=').next().unwrap_or(word))
        .find(|flag| *flag != "-" && !flags.contains(*flag))
        .map(|flag| format!("`{name}` has no flag `{flag}`"))
}

/// The lines of `console` and `sh` blocks, each joined with those that it continues on; in `console`, commands alone.
fn shell_lines(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let (mut block, mut goes_on) = (None, false);
    for line in text.lines() {
        if let Some(fence) = line.trim_start().strip_prefix("```") {
            block = if block.is_none() { Some(fence.to_owned()) } else { None };
            goes_on = false;
            continue;
        }
        let command = match block.as_deref() {
            Some("console") => goes_on || line.trim_start().starts_with("$ "),
            Some("sh" | "bash") => true,
            _ => false,
        };
        if !command {
            continue;
        }
        let piece = line.strip_suffix('\\').unwrap_or(line);
        match found.last_mut() {
            Some(last) if goes_on => last.push_str(piece),
            _ => found.push(piece.to_owned()),
        }
        goes_on = line.ends_with('\\');
    }
    found
}

/// A command line without its comment, and with a word in place of each quotation.
fn plain(line: &str) -> String {
    let (mut plain, mut quote, mut before) = (String::new(), None, ' ');
    for letter in line.chars() {
        match quote {
            Some(end) if letter == end => quote = None,
            Some(_) => {}
            None if letter == '#' && before == ' ' => break,
            None if letter == '"' || letter == '\'' => {
                quote = Some(letter);
                plain.push('q');
            }
            None => plain.push(letter),
        }
        before = letter;
    }
    plain
}

/// What is wrong with a page's relative links.
fn link_faults(page: &Path, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for target in links(text) {
        let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
        let there = if file.is_empty() {
            page.to_path_buf()
        } else {
            page.parent().unwrap_or(page).join(file)
        };
        if !there.exists() {
            faults.push(format!("`{target}` leads nowhere"));
        } else if !anchor.is_empty()
            && there.extension().is_some_and(|extension| extension == "md")
            && !fs::read_to_string(&there).is_ok_and(|text| anchors(&text).contains(anchor))
        {
            faults.push(format!("`{target}` names a heading that is not there"));
        }
    }
    faults
}

/// Relative targets of links and images, outside of code.
pub(super) fn links(text: &str) -> Vec<String> {
    prose_lines(text)
        .flat_map(|line| {
            let line = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
            let ends = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
            ends.map(|(target, _)| target.to_owned()).collect::<Vec<_>>()
        })
        .filter(|target| !target.contains(':') && !target.is_empty())
        .collect()
}

/// The anchors of a page's headings, as forges make them.
pub(super) fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for heading in prose_lines(text).filter(|line| line.starts_with('#')) {
        let title = heading.trim_start_matches('#').trim().to_lowercase();
        let kept =
            title.chars().filter(|letter| letter.is_alphanumeric() || "-_ ".contains(*letter));
        let anchor: String = kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect();
        let again = (1..).map(|number| format!("{anchor}-{number}"));
        let free = std::iter::once(anchor.clone()).chain(again).find(|name| !found.contains(name));
        found.extend(free);
    }
    found
}

/// The lines outside of fenced blocks.
fn prose_lines(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}
