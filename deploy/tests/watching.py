"""Lints of what watches: rules, dashboards and adapter rules name metrics and labels that there are."""
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import yaml

import tools

CATALOGUE = tools.ROOT / "crates" / "telemetry" / "src" / "metrics"
RULES = tools.DEPLOY / "prometheus" / "rules"
RULE_TESTS = tools.DEPLOY / "prometheus" / "tests"
WRITE_UPS = tools.ROOT / "tests" / "alerts" / "write_ups.py"
DASHBOARDS = tools.DEPLOY / "grafana"
ADAPTER = tools.DEPLOY / "prometheus-adapter" / "values.yaml"
GUIDE = tools.ROOT / "docs" / "guide" / "operating.md"
SUFFIXES = ("_total", "_bucket", "_sum", "_count", "")
START_SECONDS_MAX = 60
# Labels that scrapers add.
SCRAPED = {"job", "instance", "namespace", "pod", "service", "container", "endpoint", "le"}
# What every gateway tells of all workers.
SHARED = ("overdraft_pool_worker_seconds_total", "overdraft_pool_idle_worker_seconds_total", "overdraft_pool_cost_dollars_total",
          "overdraft_pool_dollars_per_hour", "overdraft_pool_workers", "overdraft_pool_waiting", "overdraft_pool_running",
          "overdraft_worker_prefix_knowledge", "overdraft_worker_up")
CONFIGMAP_BYTES_MAX = 1 << 20
ANNOTATIONS = {"summary", "description", "runbook_url"}


def names_in_source():
    """Names of metrics as they are registered; their labels are not known from there."""
    text = "".join(path.read_text() for path in CATALOGUE.glob("*.rs") if path.name != "tests.rs")
    return {name: None for name in re.findall(r'"((?:overdraft_|router_|llm_|speculative_|vllm:)[a-z0-9_]+)"', text)}


def names_of_binary(program):
    """Names and labels as a running gateway tells them, after one request to its demo models."""
    with tempfile.TemporaryFile("w+") as log:
        command = [program, "serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--shutdown-timeout", "1"]
        gateway = subprocess.Popen(command, stderr=log, stdout=log)
        try:
            return scrape(log, gateway)
        finally:
            gateway.terminate()
            gateway.wait(timeout=30)


def scrape(log, gateway):
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline and gateway.poll() is None:
        log.seek(0)
        said = log.read()
        serves, metrics = re.search(r"serves on (http://\S+)", said), re.search(r"metrics\s+(http://\S+)", said)
        if serves and metrics:
            body = {"model": "overdraft-target", "max_tokens": 4, "messages": [{"role": "user", "content": "hi"}]}
            ask = urllib.request.Request(f"{serves.group(1)}/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"})
            urllib.request.urlopen(ask, timeout=30).read()
            return parsed(urllib.request.urlopen(metrics.group(1), timeout=30).read().decode())
        time.sleep(0.1)
    raise tools.Missing("the gateway did not come up to be scraped")


def parsed(text):
    """Metrics and the labels of their series; None for those without one."""
    found = {name: None for name in re.findall(r"^# TYPE (\S+)", text, re.M)}
    for name, labels in re.findall(r"^([a-z_:0-9]+)(?:\{(.*?)\})? ", text, re.M):
        keys = set(re.findall(r'([a-z_]+)="', labels))
        found[name] = (found.get(name) or set()) | keys
    return found


def expression_findings(expression, known, where):
    """Metrics and labels of a PromQL expression that are not known; placeholders of dashboards are filled in first."""
    import promql_parser
    filled = re.sub(r"\$__rate_interval|\$__interval|\$__range", "5m", expression)
    filled = re.sub(r"\$\{?[a-z_]+\}?", "x", filled)
    try:
        tree = promql_parser.parse(filled)
    except ValueError as error:
        return [f"{where}: {error}"]
    found = []
    for selector in selectors(tree):
        name = selector.name
        if name is None or name.startswith("overdraft:") or name == "up":
            continue
        base = next((name[: len(name) - len(suffix)] for suffix in SUFFIXES
                     if name.endswith(suffix) and (name[: len(name) - len(suffix)] in known or name in known)), None)
        if base is None:
            found.append(f"{where}: {name} is not a metric of the gateway")
            continue
        labels = next((known[own] for own in (name, name + "_total", base, base + "_bucket") if known.get(own)), None)
        for matcher in selector.matchers.matchers if labels else []:
            if matcher.name not in labels | SCRAPED:
                found.append(f"{where}: {name} has no label {matcher.name}")
    return found


def selectors(node):
    """All selectors of metrics under a node."""
    kinds = type(node).__name__
    if kinds == "VectorSelector":
        yield node
    for part in ("expr", "lhs", "rhs", "vector_selector", "vs", "param"):
        below = getattr(node, part, None)
        if below is not None and below is not node:
            yield from selectors(below)
    for below in getattr(node, "args", None) or []:
        yield from selectors(below)


def anchors(path):
    """Anchors of the headings of a page."""
    heads = re.findall(r"^#+ (.*)$", path.read_text(), re.M) if path.exists() else []
    return {re.sub(r"[^a-z0-9 -]", "", head.lower()).replace(" ", "-") for head in heads}


def rule_findings(known, folder=RULES, tests=RULE_TESTS):
    found = []
    there = anchors(GUIDE)
    tested = "".join(path.read_text() for path in tests.glob("*.yaml"))
    for path in sorted(folder.glob("*.yaml")):
        for group in yaml.safe_load(path.read_text())["groups"]:
            for rule in group["rules"]:
                name = rule.get("alert") or rule["record"]
                found += expression_findings(rule["expr"], known, name)
                if "alert" not in rule:
                    continue
                told = rule.get("annotations", {})
                if set(told) != ANNOTATIONS or "severity" not in rule.get("labels", {}):
                    found.append(f"{name}: expected a severity and the annotations {sorted(ANNOTATIONS)}")
                    continue
                if "$value" not in told["description"] and "absent(" not in rule["expr"]:
                    found.append(f"{name}: its description does not give the value")
                if told["runbook_url"].partition("#")[2] not in there:
                    found.append(f"{name}: {told['runbook_url']} is no heading of the guide")
                for way in ("fires", "stays quiet"):
                    if f"{name} {way}" not in tested:
                        found.append(f"{name}: no test in which it {way}")
    return found


def promtool_findings(program, folder=RULES, tests=RULE_TESTS):
    found = []
    for path in sorted(folder.glob("*.yaml")):
        found += tools.run_promtool(program, "check", "rules", "--lint=all", "--lint-fatal", path)
    for path in sorted(tests.glob("*.yaml")):
        found += tools.run_promtool(program, "test", "rules", path)
    return found


def write_up_findings(program, script=WRITE_UPS):
    """What promtool makes of the expressions that the write-ups alert on."""
    command = [sys.executable, script, "--strict", "--promtool", tools.promtool(program)]
    made = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return [] if made.returncode == 0 else [(made.stdout + made.stderr).strip()]


def shared_findings(expression, where):
    """Sums over gateways of what each of them counts in full. A share of two such sums is right all the same."""
    found = re.findall(rf"(?:sum|count) by \([^)]*\) \((?:rate\()?({'|'.join(SHARED)})", expression)
    return [f"{where}: every gateway counts {name} in full; expected max over them" for name in found if " / " not in expression]


def panels_of(board):
    for panel in board["panels"]:
        if panel["type"] != "row":
            yield panel
        yield from panel.get("panels", [])


def dashboard_findings(known, folder=DASHBOARDS):
    made = subprocess.run([sys.executable, folder / "make.py", "--check"], capture_output=True, text=True, timeout=60)
    found, uids = made.stderr.splitlines(), set()
    for path in sorted(folder.glob("*.json")):
        text = path.read_text()
        board = json.loads(text)
        names = {one["name"] for one in board["templating"]["list"]}
        if "__inputs" in board or "id" in board or len(board["uid"]) > 40 or board["uid"] in uids:
            found.append(f"{path.name}: expected a uid of its own of at most 40 characters, no id and no __inputs")
        uids.add(board["uid"])
        if not {"datasource", "job", "namespace"} <= names:
            found.append(f"{path.name}: expected the variables datasource, job and namespace")
        if len(text) > CONFIGMAP_BYTES_MAX:
            found.append(f"{path.name}: a ConfigMap does not hold it")
        for panel in panels_of(board):
            where = f"{path.name}: {panel['title']}"
            if not panel.get("description") or not panel.get("targets"):
                found.append(f"{where}: expected a description and targets")
            if "unit" not in panel.get("fieldConfig", {}).get("defaults", {}):
                found.append(f"{where}: no unit")
            for part in [panel, *panel.get("targets", [])]:
                if part.get("datasource", {}).get("uid") != "${datasource}":
                    found.append(f"{where}: its data source is not the variable's")
            for target in panel.get("targets", []):
                found += expression_findings(target["expr"], known, where) + shared_findings(target["expr"], where)
                if re.search(r"(rate|increase)\([^\[]*\[(?!\$__rate_interval)", target["expr"]):
                    found.append(f"{where}: a rate over a fixed span; expected $__rate_interval")
    return found


def adapter_findings(known, path=ADAPTER):
    found = []
    for rule in yaml.safe_load(path.read_text())["rules"]["custom"]:
        name = re.match(r"[a-z_]+", rule["seriesQuery"]).group(0)
        if name not in known:
            found.append(f"{path.name}: {name} is not a metric of the gateway")
        for label in ("namespace", "pod"):
            if f'{label}!=""' not in rule["seriesQuery"] or label not in rule["resources"]["overrides"]:
                found.append(f"{path.name}: {name}: the label {label} is not tied to its resource")
    return found
