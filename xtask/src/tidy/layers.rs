//! The arrows of ARCHITECTURE.md as data: which workspace crate may name which.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::docs::tables::Page;

/// The page whose code map says the same.
const PAGE: &str = "ARCHITECTURE.md";

/// A crate and all it may depend on. A new crate must be entered here before it builds in the gate.
const LAYERS: &[(&str, &[&str])] = &[
    ("units", &[]),
    ("kernels", &[]),
    ("scheduler", &["units"]),
    ("core", &["units"]),
    ("gpu-model", &["units", "scheduler"]),
    ("sim", &["units", "scheduler", "core", "gpu-model"]),
    ("load", &["units", "wire", "telemetry", "sim", "tls"]),
    ("config", &["units", "scheduler", "core"]),
    ("wire", &["units"]),
    ("telemetry", &["units", "core"]),
    ("tokenizer", &["units", "wire"]),
    ("http", &["units", "wire", "telemetry", "tls"]),
    ("engine", &["units", "scheduler", "core", "gpu-model", "kernels", "telemetry", "tokenizer"]),
    ("worker", &["units", "scheduler", "core", "wire", "telemetry", "tokenizer", "engine", "http"]),
    ("scaler", &["units", "core"]),
    ("store", &["units", "core"]),
    ("dash", &[]),
    ("tls", &[]),
    ("otlp", &["units", "telemetry", "tls"]),
    (
        "gateway",
        &[
            "units",
            "core",
            "dash",
            "wire",
            "telemetry",
            "tokenizer",
            "http",
            "otlp",
            "scaler",
            "store",
            "tls",
        ],
    ),
    (
        "cli",
        &[
            "units",
            "scheduler",
            "core",
            "gpu-model",
            "sim",
            "load",
            "config",
            "wire",
            "telemetry",
            "tokenizer",
            "http",
            "kernels",
            "engine",
            "worker",
            "store",
            "dash",
            "otlp",
            "tls",
            "gateway",
            "scaler",
        ],
    ),
];

/// Crates without `std`: a clock, a socket or a thread cannot even be named there.
const NO_STD: &[&str] = &["units", "scheduler", "core"];

/// Reports arrows that are not in the table, crates that are not in it, a `std` that crept in, and a code map that says
/// otherwise.
pub(super) fn check(root: &Path, faults: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(root.join("crates")).context("`crates` is not readable")?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let manifest = fs::read_to_string(entry.path().join("Cargo.toml")).unwrap_or_default();
        faults.extend(arrows(&name, &manifest));
        let library = fs::read_to_string(entry.path().join("src/lib.rs")).unwrap_or_default();
        if NO_STD.contains(&name.as_str()) && !library.contains("#![no_std]") {
            faults.push(format!("crates/{name}: must be `#![no_std]`"));
        }
    }
    let page = fs::read_to_string(root.join(PAGE)).with_context(|| format!("no `{PAGE}`"))?;
    faults.extend(map_faults(&Page::read(&page)));
    Ok(())
}

/// Rows of the page's code map that differ from the table.
pub(super) fn map_faults(page: &Page) -> Vec<String> {
    let row = |row: &BTreeMap<String, String>| {
        Some((row.get("crate")?.clone(), row.get("may name")?.clone()))
    };
    let mut shown: BTreeMap<String, String> =
        page.rows("Code map").iter().filter_map(row).collect();
    let mut faults = Vec::new();
    for (name, allowed) in LAYERS {
        let expected = match allowed.len() {
            0 => "–".to_owned(),
            count if count + 1 == LAYERS.len() => "all".to_owned(),
            _ => allowed.join(", "),
        };
        let said = shown.remove(*name);
        if said.as_ref() != Some(&expected) {
            let said = said.unwrap_or_default();
            faults.push(format!("{PAGE}: `{name}` may name {expected}; the map says `{said}`"));
        }
    }
    let unknown = shown.keys().map(|name| format!("{PAGE}: there is no crate `{name}`"));
    faults.extend(unknown);
    faults
}

/// Arrows of one manifest that the table does not allow. Development dependencies are free.
pub(super) fn arrows(name: &str, manifest: &str) -> Vec<String> {
    let Some((_, allowed)) = LAYERS.iter().find(|(known, _)| *known == name) else {
        return vec![format!(
            "crates/{name}: not in the table of layers (xtask/src/tidy/layers.rs)"
        )];
    };
    let mut section = "";
    let mut faults = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line.trim();
        }
        let Some(rest) = line.strip_prefix("overdraft-") else { continue };
        let used = rest.split(['.', ' ', '=']).next().unwrap_or(rest);
        if section != "[dev-dependencies]" && !allowed.contains(&used) {
            faults.push(format!("crates/{name}: may not depend on overdraft-{used}"));
        }
    }
    faults
}
