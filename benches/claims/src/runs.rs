//! Small statistics, and where raw results are kept.

use std::fs;
use std::io;
use std::path::Path;

use overdraft_telemetry::unix_seconds;
use serde::Serialize;

/// The middle of `values`; no number where there are none.
pub fn median(values: Vec<f64>) -> f64 {
    percentile(values, 50)
}

/// The value that so many of a hundred lie below; no number where there are none.
pub fn percentile(mut values: Vec<f64>, percent: usize) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let at = (values.len() * percent / 100).min(values.len().saturating_sub(1));
    values.get(at).copied().unwrap_or(f64::NAN)
}

/// A count as a number to divide by.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub fn as_float(count: usize) -> f64 {
    count as f64
}

/// The machine's load over 1, 5 and 15 minutes, for whoever reads the figures.
pub fn machine_load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split_whitespace().take(3).collect::<Vec<_>>().join(", ")
}

/// Writes the raw results of `bench` under `benches/runs/`, and says where.
///
/// # Errors
/// When the file cannot be written.
pub fn save(bench: &str, results: &impl Serialize) -> io::Result<String> {
    write(bench, "json", &(serde_json::to_string(results)? + "\n"))
}

/// Writes a page of plots beside them, and says where.
///
/// # Errors
/// When the file cannot be written.
pub fn save_page(bench: &str, html: &str) -> io::Result<String> {
    write(bench, "html", html)
}

fn write(bench: &str, kind: &str, content: &str) -> io::Result<String> {
    // This package lies beside them.
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let runs = here.parent().unwrap_or(here).join("runs");
    fs::create_dir_all(&runs)?;
    let path = runs.join(format!("{bench}-{}.{kind}", unix_seconds()));
    fs::write(&path, content)?;
    Ok(path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_sorted_values() {
        let values: Vec<f64> = (0..100).rev().map(f64::from).collect();
        assert!((percentile(values.clone(), 95) - 95.0).abs() < 1e-9);
        assert!((median(values) - 50.0).abs() < 1e-9);
        assert!(percentile(Vec::new(), 95).is_nan());
    }
}
