//! HTTP reference check: endpoints, headers, errors and access fields of `docs/reference/http.md` against the code.
//!
//! Each name in the code stands on the page, and each on the page is in the code. That a documented path is routed
//! with its method is for a test with the real binary (`tests/e2e/first_steps.rs`).

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::docs::tables::Page;

/// The page.
pub(crate) const PAGE: &str = "docs/reference/http.md";

/// Crates whose sources name headers of clients, operators and workers.
const SPEAKERS: [&str; 3] = ["crates/gateway/src/", "crates/http/src/", "crates/wire/src/"];

/// Speaks to metadata services of clouds, which are no part of the API.
const CLOUDS: &str = "crates/gateway/src/fleet/spot_termination/";

/// Files that decide what a path leads to, by their functions `of`, `of_path` and `path`.
const ROUTERS: [&str; 5] = [
    "crates/wire/src/endpoint.rs",
    "crates/gateway/src/server/service.rs",
    "crates/gateway/src/server/admin.rs",
    "crates/gateway/src/server/dialect/route.rs",
    "crates/gateway/src/server/views/mod.rs",
];

/// Names that look like headers of ours and are none: a proxy's, a connection's, part of a prompt, a comment of streams,
/// a coding, what ours begin with.
const NO_HEADERS: [&str; 7] = [
    "x-forwarded-for",
    "x-anthropic-billing-header",
    "x-overdraft-resumed",
    "keep-alive",
    "proxy-connection",
    "x-gzip",
    "x-overdraft-",
];

/// A browser's word on where a request comes from, which nobody sends by hand.
const BROWSERS: [&str; 1] = ["sec-fetch-site"];

/// Compares the page with the code.
pub(super) fn check(
    root: &Path,
    files: &[std::path::PathBuf],
    faults: &mut Vec<String>,
) -> anyhow::Result<()> {
    let page = Page::read(&fs::read_to_string(root.join(PAGE))?);
    let mut sources = String::new();
    for file in files {
        let name = file.strip_prefix(root).unwrap_or(file).display().to_string();
        let is_test = name.ends_with("tests.rs") || name.contains("/tests/");
        if SPEAKERS.iter().any(|speaker| name.starts_with(speaker))
            && !name.starts_with(CLOUDS)
            && !is_test
        {
            sources += code(&fs::read_to_string(file)?);
        }
    }
    let routers: Vec<String> =
        ROUTERS.iter().map(|file| fs::read_to_string(root.join(file))).collect::<Result<_, _>>()?;
    let access = fs::read_to_string(root.join("crates/telemetry/src/access.rs"))?;
    let errors = fs::read_to_string(root.join("crates/wire/src/error.rs"))?;
    let found = header_faults(&page, &sources)
        .into_iter()
        .chain(routers.iter().flat_map(|router| path_faults(&page, code(router))))
        .chain(difference("access field", &page.column("Access log", "field"), &fields(&access)))
        .chain(difference("error code", &page.column("Errors", "code"), &codes(&errors)));
    faults.extend(found.map(|fault| format!("{PAGE}: {fault}")));
    Ok(())
}

/// A file without its tests.
fn code(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
}

/// Texts in quotation marks.
fn literals(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| line.split('"').skip(1).step_by(2))
}

/// Headers that are on one side only.
pub(super) fn header_faults(page: &Page, sources: &str) -> Vec<String> {
    let is_name =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let named = sources
        .split("HeaderName::from_static(\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next());
    let ours =
        literals(sources).filter(|text| text.starts_with("x-") && is_name(text)).chain(named);
    let coded: BTreeSet<&str> =
        ours.filter(|name| !NO_HEADERS.contains(name) && !BROWSERS.contains(name)).collect();
    let shown: BTreeSet<String> =
        ["Request headers", "Response headers", "Headers towards workers"]
            .iter()
            .flat_map(|section| page.column(section, "header"))
            .collect();
    let missing = coded.iter().filter(|name| !shown.contains(**name));
    let missing = missing.map(|name| format!("the header `{name}` of the code is missing"));
    // A header of the standard library's list is a constant there.
    let is_coded = |name: &String| {
        let constant = name.to_uppercase().replace('-', "_");
        sources.contains(&format!("\"{name}\"")) || sources.contains(&constant)
    };
    let stale = shown.iter().filter(|name| !is_coded(name));
    missing.chain(stale.map(|name| format!("no code knows the header `{name}`"))).collect()
}

/// Parts of paths that a router matches and no path of the page has.
pub(super) fn path_faults(page: &Page, router: &str) -> Vec<String> {
    let paths = page.column("Endpoints", "path").into_iter().collect::<Vec<_>>().join(" ");
    let starts = ["fn of(", "fn of_path(", "fn path("];
    let bodies = router.split("\n    }\n").filter_map(|function| {
        starts.iter().find_map(|start| function.split_once(start)).map(|(_, body)| body)
    });
    // Prefixes are matched before what follows them.
    let parts = bodies.flat_map(literals).map(|part| part.trim_end_matches('/'));
    let known = |part: &&str| part.is_empty() || paths.contains(*part) || *part == "events";
    parts
        .filter(|part| !known(part))
        .map(|part| format!("the path `{part}` of the code is missing"))
        .collect()
}

/// Names of the fields of an access line.
fn fields(access: &str) -> BTreeSet<String> {
    let line = access.split("tracing::event!(").nth(1).and_then(|rest| rest.split(");").next());
    let pairs = line.unwrap_or_default().lines().filter_map(|line| line.split_once(" = "));
    pairs.map(|(name, _)| name.trim().to_owned()).collect()
}

/// Codes of the table of errors.
fn codes(errors: &str) -> BTreeSet<String> {
    let table =
        errors.split("const fn row(").nth(1).and_then(|rest| rest.split("\n    }\n").next());
    let codes = table.unwrap_or_default().split("Some(\"").skip(1);
    codes.filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
}

fn difference(what: &str, shown: &BTreeSet<String>, coded: &BTreeSet<String>) -> Vec<String> {
    let missing =
        coded.difference(shown).map(|name| format!("the {what} `{name}` of the code is missing"));
    let stale = shown.difference(coded).map(|name| format!("no code knows the {what} `{name}`"));
    missing.chain(stale).collect()
}
