//! Reference of metrics: a table of what the gateway knows of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

const HEAD: &str = "\
# Metrics

Written by `cargo xtask docs` from the gateway's own catalogue (`overdraft config metrics`).

`GET /metrics`, at the operators' listener where there is one, tells these in Prometheus' text format or as OpenMetrics. Counters end in `_total`, and a
histogram has `_bucket`, `_sum` and `_count`. Labels are listed where their values are a closed set that is there from the start; others name workers,
models, tenants, pools or cascades. Series of workers come and go with them. A model has its own from its first answer on, up to 64 models; what is asked
for beyond that, and names that nobody has answered for, are `other`. Metrics of workers have vLLM's names.

| metric | type | labels | meaning |
|---|---|---|---|
";

/// What is known of one metric.
#[derive(Default)]
struct Metric<'a> {
    kind: &'a str,
    meaning: &'a str,
    labels: BTreeSet<&'a str>,
}

/// The page of a catalogue.
pub(super) fn page(scrape: &str) -> String {
    let mut metrics: BTreeMap<&str, Metric<'_>> = BTreeMap::new();
    for line in scrape.lines() {
        if let Some((name, meaning)) =
            line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' '))
        {
            metrics.entry(name).or_default().meaning = meaning;
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            metrics.entry(name).or_default().kind = kind;
        } else if let Some((series, rest)) = line.split_once('{') {
            let family = ["_total", "_bucket", "_sum", "_count"].iter().find_map(|end| {
                series.strip_suffix(end).filter(|family| metrics.contains_key(family))
            });
            if let Some(metric) = metrics.get_mut(family.unwrap_or(series)) {
                let inside = rest.rsplit_once('}').map_or("", |(inside, _)| inside);
                let keys = inside.split("\",").filter_map(|pair| pair.split_once('='));
                metric.labels.extend(keys.map(|(key, _)| key).filter(|key| *key != "le"));
            }
        }
    }
    let mut page = HEAD.to_owned();
    for (name, Metric { kind, meaning, labels }) in metrics {
        let end = if kind == "counter" && !name.ends_with("_total") { "_total" } else { "" };
        let labels: Vec<String> = labels.into_iter().map(|label| format!("`{label}`")).collect();
        let meaning = meaning.trim_end_matches('.').replace('|', "\\|");
        let _written =
            writeln!(page, "| `{name}{end}` | {kind} | {} | {meaning} |", labels.join(", "));
    }
    page
}
