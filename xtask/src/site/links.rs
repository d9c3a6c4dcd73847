//! Links of the built site: each relative one leads to a file of it, and each anchor to an element.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

/// Attributes that hold a target.
const ATTRIBUTES: [&str; 3] = ["href=\"", "src=\"", "srcset=\""];

/// Pages that mdBook makes with links of their own kind.
const MADE: [&str; 2] = ["404.html", "toc.html"];

/// Every link that leads nowhere.
pub(super) fn faults(site: &Path) -> Result<Vec<String>> {
    let mut pages = BTreeMap::new();
    for path in html(site) {
        let text = fs::read_to_string(&path)?;
        pages.insert(path, text);
    }
    let ids =
        |path: &Path| pages.get(path).map(|text| values(text, "id=\"").collect::<BTreeSet<&str>>());
    let ids: BTreeMap<&Path, BTreeSet<&str>> =
        pages.keys().filter_map(|path| Some((path.as_path(), ids(path)?))).collect();
    let mut faults = BTreeSet::new();
    for (page, text) in &pages {
        let name = page.strip_prefix(site).unwrap_or(page).display();
        if MADE.contains(&name.to_string().as_str()) {
            continue;
        }
        for target in ATTRIBUTES.iter().flat_map(|attribute| values(text, attribute)) {
            if target.contains(':') || target.starts_with("//") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let there =
                if file.is_empty() { page.clone() } else { page.with_file_name("").join(file) };
            let Ok(there) = there.canonicalize() else {
                faults.insert(format!("{name}: `{target}` is not there"));
                continue;
            };
            if there.is_dir() {
                faults.insert(format!("{name}: `{target}` is a folder"));
            } else if !anchor.is_empty()
                && ids.get(there.as_path()).is_some_and(|ids| !ids.contains(anchor))
            {
                faults.insert(format!("{name}: `{target}` names a place that is not there"));
            }
        }
    }
    Ok(faults.into_iter().collect())
}

/// The values of an attribute, as they are written.
pub(super) fn values<'a>(text: &'a str, attribute: &'a str) -> impl Iterator<Item = &'a str> {
    // ` id="` and not `data-id="`.
    let parts = text.match_indices(attribute);
    parts.filter_map(move |(at, _)| {
        let is_whole = text[..at].ends_with([' ', '\n']);
        let rest = &text[at + attribute.len()..];
        is_whole.then(|| rest.split_once('"').map(|(value, _)| value)).flatten()
    })
}

/// The pages of the site.
fn html(site: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = site.canonicalize().into_iter().collect();
    while let Some(folder) = open.pop() {
        for path in fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path())
        {
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "html") {
                found.push(path);
            }
        }
    }
    found
}
