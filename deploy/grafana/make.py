#!/usr/bin/env python3
"""Makes the dashboards in this folder: make.py writes them, make.py --check fails where one is out of date.

A panel is a title, a unit, a sentence that says what it shows, and its queries. All queries are of the selected
`job` and `namespace`; a data source is always the variable's.
"""
import json
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
HERE = 'job=~"$job",namespace=~"$namespace"'
# The paths that workers may answer, as the recording rules have them.
ASKED = 'route=~"/v1/.+|/classify|/pooling|/tokenize|/detokenize",route!~"/v1/models.*"'
WIDTH, HEIGHT, COLUMNS = 8, 7, 3


def rate(metric, labels="", by=""):
    """Events a second, summed by labels."""
    inner = f"{HERE},{labels}" if labels else HERE
    return f"sum by ({by}) (rate({metric}{{{inner}}}[$__rate_interval]))"


def shared_rate(metric, labels, by):
    """The same of what each gateway counts in full, as the hours of workers: a sum over gateways would count it many times."""
    return f"max by ({by}) (rate({metric}{{{HERE},{labels}}}[$__rate_interval]))"


def quantile(share, metric, by, labels=""):
    inner = f"{HERE},{labels}" if labels else HERE
    groups = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, sum by ({groups}) (rate({metric}_bucket{{{inner}}}[$__rate_interval])))"


def gauge(metric, labels="", by="", how="max"):
    inner = f"{HERE},{labels}" if labels else HERE
    return f"{how} by ({by}) ({metric}{{{inner}}})"


def ratio(part, whole, labels="", by="", of_part=""):
    """The rate of a part over that of the whole; nothing while the whole stands still."""
    narrow = ",".join(one for one in (labels, of_part) if one)
    return f"{rate(part, narrow, by)} / ({rate(whole, labels, by)} > 0)"


def failed_share():
    """Requests that a worker or a defect ended, of those that workers may answer: probes and scrapes are none."""
    return f"""{rate("overdraft_request_ends_total", 'end=~"(S|s|I)."')} / ({rate("overdraft_requests_total", ASKED)} > 0)"""


def engine(metric, by, how="sum", labels=""):
    """Events a second of workers, which another job scrapes than gateways: the namespace alone selects them."""
    return f"{how} by ({by}) (rate({metric}{{{','.join(one for one in (ENGINES, labels) if one)}}}[$__rate_interval]))"


def engine_gauge(metric, by, labels="", how="max"):
    return f"{how} by ({by}) ({metric}{{{','.join(one for one in (ENGINES, labels) if one)}}})"


def burn(span):
    """How many times too fast errors spend the budget of 99.9 %, by a recording rule."""
    return f'max(overdraft:errors:ratio_rate{span}{{{ENGINES}}}) / 0.001'


ENGINES = 'namespace=~"$namespace"'
POOL, MODEL, WORKER = 'pool=~"$pool"', 'model=~"$model"', 'worker=~"$worker"'

# File, uid, title, variables beside the common ones, panels: title, unit, description, [(query, legend, unit of an axis on the right)].
BOARDS = [
    ("overview", "overdraft-overview", "Overdraft: overview", [("model", "overdraft_tokens_total"), ("pool", "overdraft_pool_workers")], [
        ("Requests", "reqps", "Requests a second by status; probes and scrapes left out.", [(rate("overdraft_requests_total", ASKED, "code"), "{{code}}")]),
        ("Ends other than whole", "reqps", "Requests by who ended them and when, without those that ended whole.", [(rate("overdraft_request_ends_total", 'end!="--"', "end"), "{{end}}")]),
        ("In flight", "short", "Requests that each gateway is answering now.", [(gauge("overdraft_inflight_requests", "", "instance"), "{{instance}}")]),
        ("First token, p50 and p95", "s", "From a request's head to its first token, by model.", [(quantile(0.5, "overdraft_time_to_first_token_seconds", "model", MODEL), "{{model}} p50"), (quantile(0.95, "overdraft_time_to_first_token_seconds", "model", MODEL), "{{model}} p95")]),
        ("Whole answer, p50 and p95", "s", "From a request's head to its answer's last byte, by path.", [(quantile(0.5, "overdraft_request_duration_seconds", "route", ASKED), "{{route}} p50"), (quantile(0.95, "overdraft_request_duration_seconds", "route", ASKED), "{{route}} p95")]),
        ("Tokens", "short", "Tokens a second by model and kind, as workers report them.", [(rate("overdraft_tokens_total", MODEL, "model, kind"), "{{model}} {{kind}}")]),
        ("Caches in use", "percentunit", "Share of a pool's caches in use, mean over its workers.", [(gauge("overdraft_pool_kv_use", POOL, "pool"), "{{pool}}")]),
        ("Waiting", "short", "Requests that wait for a worker inside the gateways, by priority.", [(gauge("overdraft_queue_requests", "", "priority", "sum"), "{{priority}}")]),
        ("Refusals", "reqps", "Requests refused a second for want of room or budget, by reason.", [(rate("router_rejections_total", "", "reason"), "{{reason}}")]),
        ("Retries", "reqps", "Attempts beyond a request's first, a second.", [(rate("overdraft_retries_total"), "retries")]),
        ("Failed attempts", "reqps", "Attempts that a worker failed, by what went wrong.", [(rate("overdraft_upstream_errors_total", "", "kind"), "{{kind}}")]),
        ("Store", "short", "1 while a gateway goes on without the store, and the gateways that share it.", [(gauge("overdraft_store_degraded", "", "instance"), "{{instance}} degraded"), (gauge("overdraft_store_gateways", "", "instance"), "{{instance}} gateways")]),
    ]),
    ("fleet", "overdraft-fleet", "Overdraft: fleet and scaling", [("pool", "overdraft_pool_workers"), ("worker", "overdraft_worker_up")], [
        ("Workers", "short", "Workers of a pool: there, serving, and of known load.", [(gauge("overdraft_pool_workers", POOL, "pool, state"), "{{pool}} {{state}}")]),
        ("Wanted and serving", "short", "What a pool's load wants, held steady, beside the workers that serve.", [(gauge("overdraft_pool_desired_workers", POOL, "pool"), "{{pool}} wanted"), (gauge("overdraft_pool_workers", f'{POOL},state="serving"', "pool"), "{{pool}} serving")]),
        ("Wanted by signal", "short", "Workers that each signal wants at this moment; the largest counts.", [(gauge("overdraft_pool_desired_load", POOL, "pool, signal"), "{{pool}} {{signal}}")]),
        ("Running and waiting", "short", "Requests that are computed and that wait, by pool.", [(gauge("overdraft_pool_running", POOL, "pool"), "{{pool}} running"), (gauge("overdraft_pool_waiting", POOL, "pool"), "{{pool}} waiting")]),
        ("Requests of a worker", "short", "Requests on a worker: through each gateway, and others'.", [(gauge("overdraft_worker_requests", WORKER, "worker, kind"), "{{worker}} {{kind}}")]),
        ("Cache of a worker", "short", "Tokens in a worker's cache beside what it holds.", [(gauge("overdraft_worker_tokens", f'{WORKER},kind=~"kv_used|kv_capacity"', "worker, kind"), "{{worker}} {{kind}}")]),
        ("Predicted peak", "percentunit", "What a worker's requests are predicted to need at once, over its cache.", [(gauge("overdraft_worker_peak_ratio", WORKER, "worker"), "{{worker}}")]),
        ("Up", "bool_yes_no", "Whether a worker is sent requests.", [(gauge("overdraft_worker_up", WORKER, "worker"), "{{worker}}")]),
        ("Breakers", "short", "1 for the state of a worker's circuit breaker, closed ones left out.", [(gauge("overdraft_breaker_state", f'{WORKER},state!="closed"', "worker, state"), "{{worker}} {{state}}")]),
        ("Age of reports", "s", "Age of a worker's last word on its load.", [(gauge("overdraft_worker_staleness_seconds", WORKER, "worker", "min"), "{{worker}}")]),
        ("Repairs", "short", "Repairs of workers with fragmented memory a second, by how they ended.", [(rate("overdraft_worker_repairs_total", "", "outcome"), "{{outcome}}")]),
        ("Warm-ups", "short", "Requests sent to workers before they take traffic, a second.", [(rate("overdraft_warm_ups_total", "", "result"), "{{result}}")]),
    ]),
    ("reuse", "overdraft-reuse", "Overdraft: caches and routing", [("worker", "overdraft_worker_up")], [
        ("Prefix hits", "percentunit", "Share of prompt tokens that workers found in their caches.", [(gauge("overdraft_prefix_hit_ratio", "", "instance"), "{{instance}}")]),
        ("Prompt tokens", "short", "Prompt tokens a second: routed, expected cached, told by workers, told to be cached.", [(rate("overdraft_prefix_tokens_total", "", "kind"), "{{kind}}")]),
        ("Prefixes at dispatch", "reqps", "Requests sent, by what became of their prefix: warm, or computed anew and why.", [(rate("overdraft_prefix_dispatches_total", "", "prefix"), "{{prefix}}")]),
        ("Decisions", "reqps", "Routing decisions by policy and what was decided.", [(rate("overdraft_routing_decisions_total", "", "policy, choice"), "{{policy}} {{choice}}")]),
        ("Time in the queue, p95", "s", "How long requests waited that were then sent, by priority.", [(quantile(0.95, "overdraft_queue_wait_seconds", "priority"), "{{priority}}")]),
        ("What is known of caches", "short", "Workers by what is believed of their caches rests on.", [(f'count by (kind) ({gauge("overdraft_worker_prefix_knowledge", WORKER, "worker, kind")})', "{{kind}}")]),
        ("Response cache", "reqps", "Requests by what the response cache had to do with them.", [(rate("overdraft_cache_requests_total", "", "result"), "{{result}}")]),
        ("Tokens saved", "short", "Tokens a second that kept answers saved computing.", [(rate("overdraft_cache_tokens_saved_total"), "tokens")]),
        ("Memory of the response cache", "bytes", "Bytes of answers kept in each gateway.", [(gauge("overdraft_cache_bytes", "", "instance"), "{{instance}}")]),
        ("Memory of the prefix index", "bytes", "Bytes that the index of prefixes takes.", [(gauge("overdraft_prefix_index", 'what="bytes"', "instance"), "{{instance}}")]),
        ("Tenants", "reqps", "Requests a second by tenant.", [(rate("overdraft_tenant_requests_total", "", "tenant"), "{{tenant}}")]),
        ("Tokens of tenants", "short", "Tokens a second by tenant and kind.", [(rate("overdraft_tenant_tokens_total", "", "tenant, kind"), "{{tenant}} {{kind}}")]),
    ]),
    ("service", "overdraft-service", "Overdraft: error budget, latency and pressure", [("pool", "overdraft_pool_workers"), ("model", "overdraft_tokens_total"), ("worker", "overdraft_worker_up")], [
        ("Failed requests", "percentunit", "Share of requests that a worker or a defect ended; 99.9 % leaves 0.1 % of a month to fail.", [(failed_share(), "failed")]),
        ("Burn rate", "short", "How many times too fast errors spend the budget; above 14.4 in 1 h and 5 min, or above 6 in 6 h and 30 min, an alert fires.", [(burn(span), span) for span in ("5m", "30m", "1h", "6h")]),
        ("Resumed streams", "reqps", "Streams a second that broke off or were handed over, by what came of them.", [(rate("overdraft_resumes_total", "", "result"), "{{result}}")]),
        ("Answers by pool, p50 and p95", "s", "Time that requests took each pool that worked for them.", [(quantile(0.5, "router_request_duration_seconds", "pool", POOL), "{{pool}} p50"), (quantile(0.95, "router_request_duration_seconds", "pool", POOL), "{{pool}} p95")]),
        ("Throughput against latency", "short", "Answer tokens a second on the left, p95 of the first token on the right: latency that rises where throughput no longer does is a fleet at its limit.", [(rate("overdraft_tokens_total", f'{MODEL},kind="completion"'), "tokens/s"), (quantile(0.95, "overdraft_time_to_first_token_seconds", "", MODEL), "first token p95", "s")]),
        ("Requests against latency", "reqps", "Requests a second on the left, p95 of whole answers on the right.", [(rate("overdraft_requests_total", ASKED), "requests/s"), (quantile(0.95, "overdraft_request_duration_seconds", "", ASKED), "answer p95", "s")]),
        ("Cache in use by pool", "percentunit", "Share of a pool's caches in use; alerts fire above 80, 85 and 90 %.", [(gauge("overdraft_pool_kv_use", POOL, "pool"), "{{pool}}")]),
        ("Cache in use by worker", "percentunit", "Share of a worker's cache that it reports as used.", [(gauge("overdraft_worker_tokens", f'{WORKER},kind="kv_used"', "worker") + " / " + gauge("overdraft_worker_tokens", f'{WORKER},kind="kv_capacity"', "worker"), "{{worker}}")]),
        ("Predicted peak", "percentunit", "What a worker's requests are predicted to need at once, over its cache; requests wait near 1.", [(gauge("overdraft_worker_peak_ratio", WORKER, "worker"), "{{worker}}")]),
        ("Time in the queue, p99", "s", "How long requests waited that were then sent, by priority.", [(quantile(0.99, "overdraft_queue_wait_seconds", "priority"), "{{priority}}")]),
        ("Fit score", "percentunit", "How well requests fit where they go, mean: free cache and free budget, weighted.", [(ratio("router_fit_score_sum", "router_fit_score_count"), "mean")]),
        ("Evictions prevented", "reqps", "Requests a second that fit where they went and would have evicted elsewhere.", [(rate("router_evictions_prevented_total"), "prevented")]),
    ]),
    ("speculation", "overdraft-speculation", "Overdraft: speculation and controllers", [("pool", "overdraft_pool_workers"), ("worker", "overdraft_worker_up")], [
        ("Acceptance", "percentunit", "Share of drafted tokens that the target accepted, by model; alerts fire below 50 and 20 %.", [(engine("vllm:spec_decode_num_accepted_tokens_total", "model_name") + " / (" + engine("vllm:spec_decode_num_draft_tokens_total", "model_name") + " > 0)", "{{model_name}}")]),
        ("Acceptance by position", "percentunit", "Share of drafts of which the token at this place was accepted.", [(engine("vllm:spec_decode_num_accepted_tokens_per_pos_total", "position") + " / on () group_left () (" + engine("vllm:spec_decode_num_drafts_total", "") + " > 0)", "{{position}}")]),
        ("Tokens by step", "short", "Tokens that a verified draft yields: what was accepted of it and one more.", [("1 + " + engine("vllm:spec_decode_num_accepted_tokens_total", "model_name") + " / (" + engine("vllm:spec_decode_num_drafts_total", "model_name") + " > 0)", "{{model_name}}")]),
        ("Drafted and accepted", "short", "Tokens a second that were drafted, accepted, and dropped before they were verified.", [(engine("vllm:spec_decode_num_draft_tokens_total", "model_name"), "{{model_name}} drafted"), (engine("vllm:spec_decode_num_accepted_tokens_total", "model_name"), "{{model_name}} accepted"), (engine("overdraft_speculation_dropped_tokens_total", "model_name"), "{{model_name}} dropped")]),
        ("Time for drafts", "percentunit", "Share of a second that a worker spends on drafts and on verifying them.", [(engine("overdraft_speculation_draft_seconds_total", "instance"), "{{instance}} drafts"), (engine("overdraft_speculation_verify_seconds_total", "instance"), "{{instance}} verifies")]),
        ("Throughput against latency of workers", "short", "Answer tokens a second on the left, p95 of the time for one on the right.", [(engine("vllm:generation_tokens_total", "model_name"), "{{model_name}} tokens/s"), (f"histogram_quantile(0.95, {engine('vllm:request_time_per_output_token_seconds_bucket', 'le, model_name')})", "{{model_name}} p95", "s")]),
        ("Depth in force", "short", "Tokens of a draft that a worker's controller allows now.", [(engine_gauge("overdraft_speculation_depth", "instance"), "{{instance}}")]),
        ("Controller: rule", "short", "Workers by the rule that sets their depth.", [(engine_gauge("overdraft_speculation_policy", "policy", "", "sum"), "{{policy}}")]),
        ("Controller: last change", "short", "Workers by the reason of their depth's last change.", [(engine_gauge("overdraft_speculation_last_change", "reason", "", "sum"), "{{reason}}")]),
        ("Controller: changes", "short", "Changes of the depth a second.", [(engine("overdraft_speculation_depth_changes_total", "instance"), "{{instance}}")]),
        ("Promised", "percentunit", "What a worker's requests may come to, prompts and max_tokens, over its cache: above 1 it is overdrawn.", [(gauge("overdraft_worker_overcommit_ratio", WORKER, "worker"), "{{worker}}")]),
        ("Workers wanted", "short", "What a pool's controller asks the autoscaler for, beside what serves.", [(gauge("overdraft_pool_desired_workers", POOL, "pool"), "{{pool}} wanted"), (gauge("overdraft_pool_workers", f'{POOL},state="serving"', "pool"), "{{pool}} serving")]),
    ]),
    ("cost", "overdraft-cost", "Overdraft: cost, cascades and traces", [("pool", "overdraft_pool_workers"), ("model", "overdraft_tokens_total")], [
        ("Dollars an hour by pool", "currencyUSD", "What the workers of a pool that are up cost by the hour; `prices` sets it.", [(gauge("overdraft_pool_dollars_per_hour", POOL, "pool", "max"), "{{pool}}")]),
        ("Idle workers", "percentunit", "Share of the time of a pool's workers in which they had no request.", [(ratio("overdraft_pool_idle_worker_seconds_total", "overdraft_pool_worker_seconds_total", POOL, "pool"), "{{pool}}")]),
        ("Worker hours", "short", "Workers of a pool that are up, and those of them that are idle, mean over the interval.", [(shared_rate("overdraft_pool_worker_seconds_total", POOL, "pool"), "{{pool}} up"), (shared_rate("overdraft_pool_idle_worker_seconds_total", POOL, "pool"), "{{pool}} idle")]),
        ("Dollars an hour by tenant", "currencyUSD", "What tenants' requests cost by the hour, at the prices of their tokens.", [(f'3600 * {rate("overdraft_cost_dollars_total", MODEL, "tenant")}', "{{tenant}}")]),
        ("Dollars an hour by model", "currencyUSD", "What requests cost by the hour by model and who answered.", [(f'3600 * {rate("overdraft_cost_dollars_total", MODEL, "model, by")}', "{{model}} {{by}}")]),
        ("Against the target alone", "currencyUSD", "What requests cost by the hour, and what they would have without drafts and response cache.", [(f'3600 * {rate("overdraft_cost_dollars_total", MODEL)}', "cost"), (f'3600 * {rate("overdraft_cost_target_only_dollars_total", MODEL)}', "target only")]),
        ("Cascade: answers", "reqps", "Answers of a cascade a second, by cascade and what became of the draft.", [(rate("overdraft_cascade_answers_total", "", "cascade, outcome"), "{{cascade}} {{outcome}}")]),
        ("Cascade: on", "bool_yes_no", "Whether a cascade asks its draft.", [(gauge("overdraft_cascade_on", "", "cascade"), "{{cascade}}")]),
        ("Cascade: acceptance", "percentunit", "Share of drafts that were accepted.", [(gauge("speculative_acceptance_ratio", "", "cascade"), "{{cascade}}")]),
        ("Errors of the budget", "percentunit", "Share of requests that a worker or a defect ended; a month of 99.9 % has 0.1 % to spend.", [(failed_share(), "spent")]),
        ("Spans sent", "short", "Spans a second that the trace collector took; none where tracing is off.", [(rate("overdraft_trace_spans_exported_total"), "exported")]),
        ("Spans lost", "short", "Spans a second that were lost, by what went wrong.", [(rate("overdraft_trace_spans_dropped_total", "", "reason"), "{{reason}}")]),
    ]),
]


def variable(name, metric, label):
    query = f"label_values({metric}, {label})"
    return {"name": name, "label": name, "type": "query", "datasource": SOURCE, "query": {"query": query, "refId": name}, "definition": query,
            "includeAll": True, "multi": True, "allValue": ".*", "current": {"text": "All", "value": "$__all"}, "refresh": 2, "sort": 1}


def right_axis(query, unit):
    """A query whose series have a unit, and an axis, of their own."""
    return {"matcher": {"id": "byFrameRefID", "options": query}, "properties": [{"id": "unit", "value": unit}, {"id": "custom.axisPlacement", "value": "right"}]}


def panel(place, title, unit, description, queries):
    targets = [{"refId": chr(65 + index), "datasource": SOURCE, "expr": expr, "legendFormat": legend} for index, (expr, legend, *_) in enumerate(queries)]
    overrides = [right_axis(chr(65 + index), *more) for index, (_, _, *more) in enumerate(queries) if more]
    return {"id": place + 1, "type": "timeseries", "title": title, "description": description, "datasource": SOURCE, "targets": targets,
            "gridPos": {"h": HEIGHT, "w": WIDTH, "x": WIDTH * (place % COLUMNS), "y": HEIGHT * (place // COLUMNS)},
            "fieldConfig": {"defaults": {"unit": unit, "min": 0, "custom": {"fillOpacity": 10, "showPoints": "never"}}, "overrides": overrides},
            "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}}}


def board(uid, title, variables, panels):
    common = [{"name": "datasource", "label": "data source", "type": "datasource", "query": "prometheus"},
              variable("namespace", "overdraft_build_info", "namespace"), variable("job", "overdraft_build_info", "job")]
    own = [variable(name, f'{metric}{{{HERE}}}', name) for name, metric in variables]
    links = [{"type": "dashboards", "title": "Overdraft", "tags": ["overdraft"], "asDropdown": True, "includeVars": True, "keepTime": True}]
    return {"uid": uid, "title": title, "tags": ["overdraft"], "schemaVersion": 39, "version": 1, "editable": True, "refresh": "30s",
            "time": {"from": "now-1h", "to": "now"}, "timezone": "", "links": links, "templating": {"list": common + own}, "annotations": {"list": []},
            "panels": [panel(place, *given) for place, given in enumerate(panels)]}


def main():
    stale = []
    for name, uid, title, variables, panels in BOARDS:
        text = json.dumps(board(uid, title, variables, panels), indent=1) + "\n"
        path = FOLDER / f"{name}.json"
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            stale.append(path.name)
    if stale:
        sys.exit(f"out of date: {', '.join(stale)}; run deploy/grafana/make.py")


if __name__ == "__main__":
    main()
