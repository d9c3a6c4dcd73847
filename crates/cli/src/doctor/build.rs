//! Build section: which binary this is.

use std::time::{Duration, UNIX_EPOCH};

use overdraft_telemetry::unix_seconds;

use super::section::{Section, bytes};

/// Names of variables that change what this binary does; their values stay out of the report.
const VARIABLES: [&str; 8] = [
    "OVERDRAFT_",
    "OTEL_",
    "LLM_ENDPOINT",
    "REDIS_",
    "RUST_LOG",
    "NO_COLOR",
    "TOKIO_",
    "MIMALLOC_",
];

/// Version, target, features, file, and the names of what the environment sets.
pub(super) fn section() -> Section {
    let mut section = Section::new("build");
    section.fact("version", env!("CARGO_PKG_VERSION"));
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    let library = if cfg!(target_env = "musl") { " musl" } else { "" };
    let target = format!("{} {}{library}", std::env::consts::ARCH, std::env::consts::OS);
    section.fact("profile", profile);
    section.fact("target", &target);
    section.fact("features", if cfg!(feature = "kubernetes") { "kubernetes" } else { "none" });
    if let Ok(path) = std::env::current_exe() {
        let size = std::fs::metadata(&path).map_or(0, |file| file.len());
        section.line("executable", format!("{}, {}", path.display(), bytes(size)));
        section.set("executable", path.display().to_string());
        section.set("executable_bytes", size);
    }
    let set = variables().join(", ");
    section.fact(
        "environment",
        if set.is_empty() { "no variable that overdraft reads is set" } else { &set },
    );
    let now = UNIX_EPOCH + Duration::from_secs(unix_seconds());
    section.fact("time", &httpdate::fmt_http_date(now));
    section
}

fn variables() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let ours = |name: &String| VARIABLES.iter().any(|start| name.starts_with(start));
    let mut names: Vec<String> = names.filter(ours).collect();
    names.sort();
    names
}
