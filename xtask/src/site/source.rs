//! Source of the site: the pages under `docs/`, the pages that those link to, and the files that all of them link to.
//!
//! Everything keeps its place below the root, so relative links hold. A link to a folder leads to the folder's README,
//! or to a list of its files that is made here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};

/// The first page of the site.
const FIRST: &str = "README.md";

/// The table of contents of the pages under `docs/`.
const CONTENTS: &str = "docs/SUMMARY.md";

/// Pages that a reader of the site may look for although no page links to them.
const PAGES: [&str; 4] = ["CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md"];

/// Folders that hold what is built or downloaded.
const FOREIGN: [&str; 3] = ["target", "node_modules", "__pycache__"];

/// Writes the source of the site to `to`.
pub(super) fn gather(root: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    let contents = fs::read_to_string(root.join(CONTENTS))?;
    let mut source = Source { root, to, titles: BTreeMap::new(), known: BTreeSet::new() };
    let listed = targets(&contents).into_iter().map(|target| format!("docs/{target}"));
    let listed: Vec<String> = listed.collect();
    let mut waiting: VecDeque<String> = [FIRST.to_owned()].into();
    waiting.extend(listed.iter().cloned());
    waiting.extend(PAGES.map(str::to_owned));
    while let Some(page) = waiting.pop_front() {
        if source.known.insert(page.clone()) {
            waiting.extend(source.page(&page)?);
        }
    }
    let own = |page: &&String| *page != FIRST && !listed.contains(page);
    let others: Vec<&String> = source.titles.keys().filter(own).collect();
    let mut summary = format!("# Summary\n\n[Overdraft]({FIRST})\n");
    summary.push_str(&rewritten(&contents, |target| Some(format!("docs/{target}"))).replacen(
        "# Summary",
        "",
        1,
    ));
    summary.push_str("\n# The repository\n\n");
    let (pages, folders): (Vec<&String>, Vec<&String>) =
        others.into_iter().partition(|page| root.join(page).exists());
    for page in pages {
        writeln!(summary, "- [{}]({page})", source.titles[page])?;
    }
    if !folders.is_empty() {
        // A chapter without a page, that holds others.
        summary.push_str("- [Folders]()\n");
    }
    for page in folders {
        writeln!(summary, "  - [{}]({page})", source.titles[page])?;
    }
    fs::write(to.join("SUMMARY.md"), summary)?;
    Ok(())
}

struct Source<'a> {
    root: &'a Path,
    to: &'a Path,
    titles: BTreeMap<String, String>,
    known: BTreeSet<String>,
}

impl Source<'_> {
    /// Copies a page and the files that it links to; the pages that it links to are yet to come.
    fn page(&mut self, page: &str) -> Result<Vec<String>> {
        let path = self.root.join(page);
        let text = if path.exists() {
            fs::read_to_string(&path).with_context(|| page.to_owned())?
        } else {
            listing(self.root, page)?
        };
        let title = text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(page);
        self.titles.insert(page.to_owned(), title.to_owned());
        let folder = Path::new(page).parent().unwrap_or(Path::new("")).to_path_buf();
        let (mut pages, mut files) = (Vec::new(), Vec::new());
        let text = rewritten(&text, |target| {
            let (file, anchor) = target
                .split_once('#')
                .map_or((target, None), |(file, anchor)| (file, Some(anchor)));
            let there = plain(&folder.join(file));
            let is_folder = self.root.join(&there).is_dir();
            let anchor = anchor.map_or(String::new(), |anchor| format!("#{anchor}"));
            if is_folder || there.ends_with(FIRST) {
                let inside = if is_folder { there.join(FIRST) } else { there };
                pages.push(inside.display().to_string());
                // The first page of a folder is its index.
                let file = file.trim_end_matches(FIRST).trim_end_matches('/');
                let file = if file.is_empty() { "." } else { file };
                return Some(format!("{file}/index.md{anchor}"));
            }
            if there.extension().is_some_and(|extension| extension == "md") {
                pages.push(there.display().to_string());
            } else {
                files.push(there);
            }
            None
        });
        for file in files {
            copy(&self.root.join(&file), &self.to.join(&file))?;
        }
        let path = self.to.join(page);
        fs::create_dir_all(path.parent().unwrap_or(self.to))?;
        fs::write(path, text)?;
        Ok(pages)
    }
}

/// A page that lists the files of a folder.
fn listing(root: &Path, page: &str) -> Result<String> {
    let folder = Path::new(page).parent().unwrap_or(Path::new(""));
    let mut names = Vec::new();
    for entry in fs::read_dir(root.join(folder)).with_context(|| page.to_owned())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !FOREIGN.contains(&name.as_str()) && !name.starts_with('.') {
            names.push(name);
        }
    }
    names.sort();
    let mut text = format!("# {}\n\n", folder.display());
    for name in names {
        writeln!(text, "- [{name}]({name})")?;
    }
    Ok(text)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.parent().unwrap_or(to))?;
    fs::copy(from, to).with_context(|| format!("`{}` is linked to", from.display()))?;
    Ok(())
}

/// A path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::Normal(name) => plain.push(name),
            _ => {}
        }
    }
    plain
}

/// The relative targets of a text.
fn targets(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    rewritten(text, |target| {
        found.push(target.to_owned());
        None
    });
    found
}

/// The text with other relative targets of links and pictures, where `other` names one; code is left alone.
pub(super) fn rewritten(text: &str, mut other: impl FnMut(&str) -> Option<String>) -> String {
    const OPENINGS: [(&str, char); 4] =
        [("](", ')'), ("src=\"", '"'), ("srcset=\"", '"'), ("href=\"", '"')];
    let (mut out, mut is_fenced) = (String::with_capacity(text.len()), false);
    for line in text.split_inclusive('\n') {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        if is_fenced || is_fence {
            out.push_str(line);
            continue;
        }
        let (mut rest, mut in_code) = (line, false);
        while !rest.is_empty() {
            if rest.starts_with('`') {
                in_code = !in_code;
            }
            let opening =
                OPENINGS.into_iter().find(|(opening, _)| !in_code && rest.starts_with(opening));
            let target = opening.and_then(|(opening, end)| {
                Some((opening, rest[opening.len()..].split_once(end)?.0))
            });
            if let Some((opening, target)) = target {
                let is_relative =
                    !target.is_empty() && !target.contains(':') && !target.starts_with('#');
                let new = if is_relative { other(target) } else { None };
                out.push_str(opening);
                out.push_str(new.as_deref().unwrap_or(target));
                rest = &rest[opening.len() + target.len()..];
            } else {
                let length = rest.chars().next().map_or(0, char::len_utf8);
                out.push_str(&rest[..length]);
                rest = &rest[length..];
            }
        }
    }
    out
}
