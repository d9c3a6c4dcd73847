#!/usr/bin/env python3
"""Alert expressions of the write-ups, evaluated by promtool.

Each expression is evaluated below its threshold, above it, with what it watches switched off, and without traffic. It
must fire above the threshold, and there alone. Pages of `/metrics` that are given as arguments must hold every metric
that an expression names, and pass `promtool check metrics`.

    cargo test -p overdraft --test e2e s3_every_metric    # leaves three pages
    python3 tests/alerts/write_ups.py target/tmp/write-ups/*.prom

promtool is the one that is named, or the one on PATH. Without it nothing is evaluated, and the script says so; with
--strict that is a failure. `cargo xtask deploy` runs it without pages.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

# Samples are a quarter of a minute apart, so that ten seconds and five minutes are both seen.
STEP_SECONDS = 15
SAMPLES = 80
EVALUATED_AT = "15m"

# Series of a state: name and labels, value at the start, change with each sample.
Series = list[tuple[str, float, float]]


def gauge(name: str, value: float) -> Series:
    return [(name, value, 0)]


def counter(name: str, step: float) -> Series:
    return [(name, 1000, step)]


def histogram(name: str, labels: str, edges: list[str], seen_below: str, step: float) -> Series:
    """Every observation of a step is in the bucket that ends at `seen_below`."""
    reached, series = False, []
    for edge in [*edges, "+Inf"]:
        reached = reached or edge == seen_below
        series.append((f'{name}_bucket{{{labels}le="{edge}"}}', 1000, step if reached else 0))
    return series


KV = 'vllm:kv_cache_usage_perc{model_name="m",instance="w1"}'
REJECTIONS = 'router_rejections_total{reason="too_late",priority="flex"}'
LLM = "llm_request_duration_seconds"
LLM_LABELS = 'cache_hit="false",model="m",'
LLM_EDGES = ["0.05", "0.1", "0.2", "0.5", "1.0", "2.0"]
TTFT = "overdraft_time_to_first_token_seconds"
QUEUE = "vllm:request_queue_time_seconds"
PER_TOKEN = "vllm:request_time_per_output_token_seconds"
SECONDS = ["0.025", "0.05", "0.1", "0.25", "0.5", "1.0"]
HITS = "vllm:prefix_cache_hits_total"
QUERIES = "vllm:prefix_cache_queries_total"
TOKENS = "vllm:generation_tokens_total"
MODEL = '{model_name="m"}'
NOTHING: Series = []


def quantile(share: str, name: str) -> str:
    return f"histogram_quantile({share}, sum by (le) (rate({name}_bucket[5m])))"


def prefix(hits: float, queries: float) -> Series:
    return counter(HITS + MODEL, hits) + counter(QUERIES + MODEL, queries)


def underused(kv: float, step: float) -> Series:
    return gauge(KV, kv) + counter(TOKENS + MODEL, step)


def latency(name: str, labels: str, edges: list[str], fast: str, slow: str) -> tuple[Series, ...]:
    at = lambda edge, step: histogram(name, labels, edges, edge, step)
    return at(fast, 30), at(slow, 30), NOTHING, at(fast, 0)


# Name, expression, how long it must hold, and the series: below, above, switched off, no traffic. "Below" and "above"
# are of the figure that is watched: a ratio that is too low alerts below its threshold, and is given as `above` here.
ALERTS = [
    ("KvUse80", "vllm:kv_cache_usage_perc > 0.80", "10s",
     gauge(KV, 0.80), gauge(KV, 0.81), NOTHING, gauge(KV, 0)),
    ("KvUse85", "vllm:kv_cache_usage_perc > 0.85", "10s",
     gauge(KV, 0.85), gauge(KV, 0.851), NOTHING, gauge(KV, 0)),
    ("KvUse90", "vllm:kv_cache_usage_perc > 0.90", "0s",
     gauge(KV, 0.90), gauge(KV, 0.901), NOTHING, gauge(KV, 0)),
    ("KvUse90For5m", "vllm:kv_cache_usage_perc > 0.9", "5m",
     gauge(KV, 0.90), gauge(KV, 0.95), NOTHING, gauge(KV, 0)),
    ("RejectionSpike", "sum(rate(router_rejections_total[1m])) > 1", "0s",
     counter(REJECTIONS, 3), counter(REJECTIONS, 300), NOTHING, counter(REJECTIONS, 0)),
    ("CacheHitsLow", "llm_cache_hit_ratio < 0.20", "0s",
     gauge("llm_cache_hit_ratio", 0.38), gauge("llm_cache_hit_ratio", 0.19), NOTHING, NOTHING),
    ("RequestP99", quantile("0.99", LLM) + " > 0.2", "0s",
     *latency(LLM, LLM_LABELS, LLM_EDGES, "0.2", "0.5")),
    ("PrefixHitsBelowGoal", f"sum(rate({HITS}[5m])) / sum(rate({QUERIES}[5m])) < 0.8", "0s",
     prefix(81, 100), prefix(79, 100), NOTHING, prefix(0, 0)),
    ("FirstTokenP95", quantile("0.95", TTFT) + " > 0.5", "0s",
     *latency(TTFT, 'model="m",', SECONDS, "0.5", "1.0")),
    ("KvUnderused", f"avg(vllm:kv_cache_usage_perc) < 0.4 and on () (0 < sum(rate({TOKENS}[5m])) < 1000)", "0s",
     underused(0.3, 30_000), underused(0.3, 3_000), NOTHING, underused(0, 0)),
    ("AcceptanceLow", "speculative_acceptance_ratio < 0.5", "5m",
     gauge('speculative_acceptance_ratio{cascade="m"}', 0.5), gauge('speculative_acceptance_ratio{cascade="m"}', 0.49),
     NOTHING, NOTHING),
    ("AcceptanceBelowGoal", "speculative_acceptance_ratio < 0.6", "5m",
     gauge('speculative_acceptance_ratio{cascade="m"}', 0.6), gauge('speculative_acceptance_ratio{cascade="m"}', 0.59),
     NOTHING, NOTHING),
    ("GuessesLow", "vllm_spec_acceptance_rate < 0.20", "0s",
     gauge('vllm_spec_acceptance_rate{model="m"}', 0.2), gauge('vllm_spec_acceptance_rate{model="m"}', 0.19),
     NOTHING, NOTHING),
    ("QueueTimeP99", quantile("0.99", QUEUE) + " > 0.5", "0s",
     *latency(QUEUE, 'model_name="m",', SECONDS, "0.5", "1.0")),
    ("TimePerOutputTokenP99", quantile("0.99", PER_TOKEN) + " > 0.1", "0s",
     *latency(PER_TOKEN, 'model_name="m",', SECONDS, "0.1", "0.25")),
]
STATES = ["below", "above", "switched off", "no traffic"]


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def rules() -> str:
    lines = ["groups:", "  - name: write-ups", f"    interval: {STEP_SECONDS}s", "    rules:"]
    for name, expression, held, *_ in ALERTS:
        lines += [f"      - alert: {name}", f"        expr: {quoted(expression)}", f"        for: {held}"]
    return "\n".join(lines) + "\n"


def tests(path: str) -> str:
    lines = [f"rule_files: [{path}]", f"evaluation_interval: {STEP_SECONDS}s", "tests:"]
    for name, expression, _, *states in ALERTS:
        for state, series in zip(STATES, states, strict=True):
            lines += [f"  - name: {quoted(f'{name}, {state}')}", f"    interval: {STEP_SECONDS}s"]
            if series:
                lines.append("    input_series:")
            for what, start, step in series:
                values = f"{start:g}+{step:g}x{SAMPLES}"
                lines += [f"      - series: {quoted(what)}", f"        values: {quoted(values)}"]
            # Counting tells whether it fires, whatever labels it fires with.
            fires = f'count(ALERTS{{alertname="{name}",alertstate="firing"}}) or vector(0)'
            lines += ["    promql_expr_test:",
                      f"      - expr: {quoted(fires)}",
                      f"        eval_time: {EVALUATED_AT}",
                      f"        exp_samples: [{{labels: '{{}}', value: {int(state == 'above')}}}]"]
    return "\n".join(lines) + "\n"


def missing(pages: list[str]) -> list[str]:
    """Metrics that an expression names and no page has."""
    text = "\n".join(pages)
    named = set()
    for _, expression, *_ in ALERTS:
        named |= set(re.findall(r"(?:vllm:|vllm_|llm_|router_|overdraft_|speculative_)\w+", expression))
    has = lambda name: re.search(rf"^{re.escape(name)}[{{ ]", text, re.MULTILINE)
    return sorted(name for name in named if not has(name))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", help="pages of /metrics")
    parser.add_argument("--promtool", default=shutil.which("promtool"), help="the program promtool")
    parser.add_argument("--strict", action="store_true", help="promtool that is missing is a failure")
    arguments = parser.parse_args()
    pages = [open(path, encoding="utf-8").read() for path in arguments.pages]
    absent = missing(pages) if pages else []
    for name in absent:
        print(f"no page has `{name}`")
    promtool = arguments.promtool
    if not promtool:
        print("skipped: promtool is not on PATH, nor named by --promtool; it comes with Prometheus")
        return int(bool(absent) or arguments.strict)
    failed = bool(absent)
    for path, page in zip(arguments.pages, pages, strict=True):
        # What promtool says of names is advice: they are the write-ups' and the engines'.
        checked = subprocess.run([promtool, "check", "metrics"], input=page, text=True, capture_output=True)
        print(f"{path}: promtool check metrics: {checked.returncode} (1 cannot be read, 3 advice)")
        failed |= checked.returncode == 1
    with tempfile.TemporaryDirectory() as folder:
        rule_file, test_file = (os.path.join(folder, name) for name in ("rules.yaml", "tests.yaml"))
        with open(rule_file, "w", encoding="utf-8") as file:
            file.write(rules())
        with open(test_file, "w", encoding="utf-8") as file:
            file.write(tests(rule_file))
        for command in (["check", "rules", rule_file], ["test", "rules", test_file]):
            failed |= subprocess.run([promtool, *command]).returncode != 0
    print(f"{len(ALERTS)} expressions, {len(STATES)} states each: {'failed' if failed else 'good'}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
