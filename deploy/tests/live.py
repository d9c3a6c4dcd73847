#!/usr/bin/env python3
"""Every query and every alert against a real Prometheus that scrapes a real run.

  live.py --program target/debug/overdraft --prometheus prometheus [--scenario NAME ...]

Simulated workers, gateways with two models, a cascade, a response cache, keys and prices, and load on them. Rules run
TIMES times as fast: every span of time in them is divided by it, so that an alert that waits five minutes fires within
seconds. The first scenario is a run in which all is well: no alert may fire, and every query of every dashboard must
have a result, with the labels that its legend names; those in NEVER need what a run of minutes does not have. Each
further scenario switches one fault on: the alerts that it names must fire, and no others than these and what they bring along.
"""
import argparse
import concurrent.futures
import json
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

import yaml

DEPLOY = pathlib.Path(__file__).resolve().parents[1]
TIMES = 30
# Scrapes of the rate interval that dashboards get here.
RATE_INTERVAL = "15s"
KEYS = {"acme": "live-acme-key-0123456789", "globex": "live-globex-key-0123456789"}
# Panels whose series come only with what this run does not have: a store, fragmented memory, a collector.
NEVER = {"overdraft_worker_repairs_total", "overdraft_warm_ups_total", "overdraft_store_gateways", "overdraft_store_degraded"}
# What must fire, and what may besides.
SCENARIOS = {
    "well": (set(), set()),
    "worker_gone": ({"OverdraftWorkerDown"}, {"OverdraftReportsStale", "OverdraftBreakerOpen", "OverdraftRetries", "OverdraftFirstTokenSlow"}),
    "all_gone": ({"OverdraftWorkerDown", "OverdraftNoWorkerServes"}, {"OverdraftReportsStale", "OverdraftBreakerOpen", "OverdraftRefusals", "OverdraftRetries", "OverdraftWorkersFailRequests", "OverdraftScalingBehind", "OverdraftPoolStaysEmpty", "OverdraftStreamsCut", "OverdraftCascadeOff"}),
    "worker_fails": ({"OverdraftRetries"}, {"OverdraftBreakerOpen", "OverdraftWorkersFailRequests", "OverdraftRoutingPanics"}),
    "overload": ({"OverdraftRefusals"}, {"OverdraftCacheFull", "OverdraftScalingBehind", "OverdraftFirstTokenSlow"}),
    "gateway_gone": ({"OverdraftGatewayDown", "OverdraftGatewayGone"}, set()),
}


def free_port(count=1):
    """The first of some ports in a row that nobody listens on."""
    for first in range(21_000, 32_000, 40):
        sockets = []
        try:
            for port in range(first, first + count):
                one = socket.socket()
                sockets.append(one)
                one.bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
        finally:
            for one in sockets:
                one.close()
    raise RuntimeError("no free ports")


class Run:
    """The processes of one run; all of them end with it."""

    def __init__(self, program, prometheus, folder):
        self.program, self.prometheus, self.folder = program, prometheus, folder
        self.processes = {}

    def start(self, name, command):
        log = open(self.folder / f"{name}.log", "w")
        self.processes[name] = subprocess.Popen([str(part) for part in command], stdout=log, stderr=log)

    def stop(self, name):
        process = self.processes.pop(name)
        process.terminate()
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def stop_all(self):
        for name in list(self.processes):
            self.stop(name)

    def worker(self, name, port, model, profile, more=()):
        self.start(name, [self.program, "worker", "--simulate", profile, "--listen", f"127.0.0.1:{port}", "--served-model-name", model,
                          "--answer-tokens", "40", "--speed", "4", "--shutdown-timeout", "1", *more])


def wait_for(url, seconds=60):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(url, timeout=2).read()
            return
        except (OSError, urllib.error.URLError):
            time.sleep(0.2)
    raise RuntimeError(f"{url} does not come up")


def faster(text):
    """Rules whose spans of time are TIMES times as short, and no shorter than a few scrapes."""
    units = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}

    def span(match):
        seconds = int(match[1]) * units[match[2]] / TIMES
        return f"{max(4, round(seconds))}s"

    text = re.sub(r"(?<=\[)(\d+)([smhd])(?=\])", span, text)
    return re.sub(r"(?<=for: )(\d+)([smhd])", span, text)


def configuration(ports, gateway):
    workers = [{"url": f"http://127.0.0.1:{ports}", "name": "target-a", "model": "large"},
               {"url": f"http://127.0.0.1:{ports + 1}", "name": "target-b", "model": "large"},
               {"url": f"http://127.0.0.1:{ports + 2}", "name": "draft-a", "model": "small", "pool": "draft"}]
    tokens = {"draft": {"prompt": 0.05, "completion": 0.2}, "target": {"prompt": 0.6, "completion": 2.4}}
    return {"listen": f"127.0.0.1:{gateway}", "admin": {"listen": f"127.0.0.1:{gateway + 1}"},
            "workers": workers, "cache": {"mode": "on", "reuse": "all"},
            "keys": [{"key": key, "tenant": tenant} for tenant, key in KEYS.items()],
            "prices": {"pools": {"target": 4.1, "draft": 0.8}, "models": {"large": tokens["target"], "small": tokens["draft"]}},
            "tracing": {"endpoint": "http://127.0.0.1:9", "sample": "5%"}}


def prometheus_configuration(gateway):
    return {"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": ["rules.yaml"],
            "scrape_configs": [{"job_name": "overdraft", "static_configs": [{"targets": [f"127.0.0.1:{gateway + 1}"], "labels": {"namespace": "live"}}]}]}


class Load:
    """Requests of two tenants until it is stopped."""

    def __init__(self, gateway, clients):
        self.url, self.is_over, self.seed = f"http://127.0.0.1:{gateway}/v1/chat/completions", False, 0
        self.pool = concurrent.futures.ThreadPoolExecutor(clients)
        for client in range(clients):
            self.pool.submit(self.ask_on, client)

    def ask_on(self, client):
        number = 0
        while not self.is_over:
            number += 1
            tenant = ("acme", "globex")[client % 2]
            text = f"same question {number % 3}" if number % 4 == 0 else f"question {client} {number} " + "words " * (20 + client * 7 % 200)
            body = {"model": ("large", "large", "small")[number % 3], "max_tokens": 60, "stream": number % 2 == 0, "temperature": 0,
                    "messages": [{"role": "system", "content": "shared instructions " * 40}, {"role": "user", "content": text}]}
            head = {"content-type": "application/json", "authorization": f"Bearer {KEYS[tenant]}"}
            if number % 5 == 0:
                head["x-overdraft-priority"] = "flex"
            try:
                urllib.request.urlopen(urllib.request.Request(self.url, json.dumps(body).encode(), head), timeout=30).read()
            except (OSError, urllib.error.URLError):
                time.sleep(0.05)

    def stop(self):
        self.is_over = True
        self.pool.shutdown(wait=True)


def ask(prometheus, path, **query):
    url = f"http://127.0.0.1:{prometheus}/api/v1/{path}?{urllib.parse.urlencode(query)}"
    answer = json.load(urllib.request.urlopen(url, timeout=20))
    return answer["data"]


def filled(expression):
    expression = expression.replace("$__rate_interval", RATE_INTERVAL).replace("$__range", "1m")
    return re.sub(r'=~"\$[a-z_]+"', '=~".*"', expression)


def query_findings(prometheus):
    """Queries without a result, with nothing but NaN, with too many series, or without a label that their legend names."""
    findings, count = [], 0
    for path in sorted((DEPLOY / "grafana").glob("*.json")):
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel["targets"]:
                count += 1
                where = f"{path.name}, `{panel['title']}`"
                expression = target["expr"]
                if any(name in expression for name in NEVER):
                    continue
                result = ask(prometheus, "query", query=filled(expression))["result"]
                if not result:
                    findings.append(f"{where} has no result: {filled(expression)}")
                    continue
                if all(one["value"][1] == "NaN" for one in result):
                    findings.append(f"{where} is not a number: {filled(expression)}")
                if 100 < len(result):
                    findings.append(f"{where} has {len(result)} series")
                for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
                    if not any(label in one["metric"] for one in result):
                        findings.append(f"{where} has no label `{label}`")
    return findings, count


def fired(prometheus):
    """Alerts that have been firing at any moment so far."""
    result = ask(prometheus, "query", query='count by (alertname) (max_over_time(ALERTS{alertstate="firing"}[10m]))')["result"]
    return {one["metric"]["alertname"] for one in result}


def scenario(name, program, prometheus, seconds):
    """What is wrong with a scenario, and how many queries were asked."""
    must, may = SCENARIOS[name]
    with tempfile.TemporaryDirectory() as text:
        folder = pathlib.Path(text)
        run = Run(program, prometheus, folder)
        ports, load = free_port(8), None
        gateway, watcher = ports + 4, ports + 7
        faulty = ["--error-rate", "0.5"] if name == "worker_fails" else []
        narrow = ["--kv-tokens", "4000", "--max-num-seqs", "2"] if name == "overload" else []
        try:
            run.worker("target-a", ports, "large", "h100/llama-3-8b-fp8", faulty + narrow)
            run.worker("target-b", ports + 1, "large", "h100/llama-3-8b-fp8", narrow)
            run.worker("draft-a", ports + 2, "small", "a10g/llama-3-8b-int4", narrow)
            (folder / "overdraft.yaml").write_text(yaml.safe_dump(configuration(ports, gateway)))
            run.start("gateway", [program, "serve", "--config", folder / "overdraft.yaml", "--shutdown-timeout", "1"])
            wait_for(f"http://127.0.0.1:{gateway}/healthz")
            (folder / "rules.yaml").write_text(faster((DEPLOY / "prometheus" / "rules" / "overdraft.yaml").read_text()))
            (folder / "prometheus.yaml").write_text(yaml.safe_dump(prometheus_configuration(gateway)))
            run.start("prometheus", [prometheus, f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/data",
                                     f"--web.listen-address=127.0.0.1:{watcher}"])
            wait_for(f"http://127.0.0.1:{watcher}/-/ready")
            load = Load(gateway, 64 if name == "overload" else 6)
            time.sleep(8)
            for gone in {"worker_gone": ["target-b"], "all_gone": ["target-a", "target-b", "draft-a"], "gateway_gone": ["gateway"]}.get(name, []):
                run.stop(gone)
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline and not (must and must <= fired(watcher)):
                time.sleep(1)
            alerts = fired(watcher)
            findings = [f"{name}: `{one}` does not fire" for one in sorted(must - alerts)]
            findings += [f"{name}: `{one}` fires, which is no part of it" for one in sorted(alerts - must - may)]
            count = 0
            if name == "well":
                wrong, count = query_findings(watcher)
                findings += wrong
            return findings, count, alerts
        finally:
            if load:
                load.stop()
            run.stop_all()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="the binary `overdraft`")
    parser.add_argument("--prometheus", default="prometheus", help="the binary of Prometheus")
    parser.add_argument("--seconds", type=int, default=45, help="how long a scenario may take to show its alerts")
    parser.add_argument("--scenario", action="append", choices=list(SCENARIOS), help="only these; may be given several times")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    wrong = []
    for name in options.scenario or list(SCENARIOS):
        findings, count, alerts = scenario(name, options.program, options.prometheus, options.seconds)
        queries = f", {count} queries" if count else ""
        print(f"{name}: {len(findings)} findings{queries}; fired: {', '.join(sorted(alerts)) or 'none'}", flush=True)
        wrong += findings
    for finding in wrong:
        print(f"  {finding}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
