#!/usr/bin/env python3
"""Every query and every alert against a real Prometheus that scrapes a real run.

  live.py --program target/debug/overdraft --prometheus prometheus [--scenario NAME ...]

Simulated workers and one that guesses ahead, gateways with a cascade, a response cache, a store, keys and prices, and load
on them. Rules run TIMES times as fast: every span of time in them is divided by it, so that an alert that waits five
minutes fires within seconds. The first scenario is a run in which all is well: no alert may fire. Each further one
switches one fault on: the alerts that it names must fire, and no others than these and what they bring along. Every query
of every dashboard must have had a result in one of them, with the labels that its legend names.
"""
import argparse
import collections
import concurrent.futures
import http.client
import http.server
import json
import pathlib
import re
import shutil
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import yaml

DEPLOY = pathlib.Path(__file__).resolve().parents[1]
TIMES = 30
# Scrapes of the rate interval that dashboards get here.
RATE_INTERVAL = "15s"
# What is up, has been scraped and has been asked before a scenario begins.
SETTLE_SECONDS = 12
# How long a request waits in the gateway unless that is set. Where refusals are what a scenario shows, it is divided by
# TIMES as the rules are: else requests that come together are refused together, a burst each quarter of an hour to the rules.
PATIENCE_SECONDS = 30
# Clients of a load that the workers are up to, and of one that is too much for them.
CLIENTS, CLIENTS_TOO_MANY = 6, 160
# Series of one panel at most.
SERIES_MAX = 100
KEYS = {"acme": "live-acme-key-0123456789", "globex": "live-globex-key-0123456789"}
# What an overloaded fleet shows besides refusals.
PRESSURE = {"OverdraftCacheFull", "OverdraftCachePressure", "OverdraftCacheFilling", "OverdraftScalingBehind", "OverdraftFirstTokenSlow",
            "OverdraftQueueSlow", "OverdraftFitScoreLow", "OverdraftRefusals", "OverdraftRefusalsSpike", "OverdraftCacheHitsLow"}
# What requests show whose workers fail.
FAILING = {"OverdraftWorkersFailRequests", "OverdraftErrorBudgetBurnsFast", "OverdraftErrorBudgetBurnsSlowly", "OverdraftRetries",
           "OverdraftBreakerOpen", "OverdraftRoutingPanics", "OverdraftRefusals", "OverdraftRefusalsSpike", "OverdraftFirstTokenSlow"}
# What must fire, and what may besides.
SCENARIOS = {
    "well": (set(), set()),
    "worker_gone": ({"OverdraftWorkerDown"}, {"OverdraftReportsStale", "OverdraftBreakerOpen", "OverdraftRetries", "OverdraftFirstTokenSlow"}),
    "worker_stopped": ({"OverdraftWorkerDown"}, {"OverdraftBreakerOpen", "OverdraftRetries", "OverdraftFirstTokenSlow"}),
    "reports_late": ({"OverdraftReportsStale"}, {"OverdraftRetries"}),
    "all_gone": ({"OverdraftWorkerDown", "OverdraftNoWorkerServes"}, FAILING | {"OverdraftReportsStale", "OverdraftScalingBehind", "OverdraftCacheHitsLow"}),
    "attempts_fail": ({"OverdraftRetries"}, FAILING | {"OverdraftCacheHitsLow"}),
    "worker_broken": ({"OverdraftBreakerOpen"}, {"OverdraftRetries", "OverdraftRoutingPanics"}),
    "workers_fail": ({"OverdraftWorkersFailRequests", "OverdraftErrorBudgetBurnsFast", "OverdraftErrorBudgetBurnsSlowly", "OverdraftRoutingPanics"}, FAILING),
    "streams_break": (set(), FAILING),
    "cold_worker": ({"OverdraftWarmUpFails"}, {"OverdraftWorkerDown", "OverdraftBreakerOpen", "OverdraftReportsStale", "OverdraftRetries"}),
    "overload": ({"OverdraftRefusals", "OverdraftRefusalsSpike", "OverdraftScalingBehind"}, PRESSURE),
    "slow_queue": ({"OverdraftFirstTokenSlow", "OverdraftQueueSlow", "OverdraftScalingBehind"}, PRESSURE),
    "full_caches": ({"OverdraftCacheFull", "OverdraftCachePressure", "OverdraftCacheFilling"}, PRESSURE),
    "no_repeats": ({"OverdraftCacheHitsLow"}, set()),
    "bad_guesses": ({"OverdraftGuessesLow", "OverdraftGuessesUseless"}, set()),
    "bad_drafts": ({"OverdraftDraftAcceptanceLow", "OverdraftCascadeOff"}, set()),
    "store_gone": ({"OverdraftStoreDegraded"}, {"OverdraftGatewaysApart"}),
    "gateways_apart": ({"OverdraftGatewaysApart"}, set()),
    "collector_gone": ({"OverdraftTracesLost"}, set()),
    "gateway_gone": ({"OverdraftGatewayDown", "OverdraftGatewayGone"}, {"OverdraftStreamsCut"}),
    "streams_cut": ({"OverdraftStreamsCut"}, {"OverdraftGatewayDown", "OverdraftGatewayGone"}),
    "stand_in": ({"OverdraftDefect", "OverdraftRepairFails", "OverdraftPoolStaysEmpty", "OverdraftFitScoreLow"}, set()),
}
# A page beside the gateway's own, for what no fault brings about within a minute: defects, repairs that fail,
# a pool that nobody fills, requests that fit nowhere well.
STAND_IN = """overdraft_request_ends_total{{end="ID"}} {count}
overdraft_worker_repairs_total{{outcome="hook_failed"}} {count}
overdraft_pool_waiting{{pool="spare"}} 3
overdraft_pool_workers{{pool="spare",state="there"}} 0
router_fit_score_sum {low}
router_fit_score_count {many}
"""


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

    def last_words(self):
        """The ends of the logs of processes that ended by themselves."""
        gone = [name for name, process in self.processes.items() if process.poll() is not None]
        return {name: (self.folder / f"{name}.log").read_text()[-600:] for name in gone}

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

    def worker(self, name, port, model, profile, more=(), answer_tokens=40, speed=4):
        self.start(name, [self.program, "worker", "--simulate", profile, "--listen", f"127.0.0.1:{port}", "--served-model-name", model,
                          "--answer-tokens", answer_tokens, "--speed", speed, "--shutdown-timeout", "1", *more])


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


Ports = collections.namedtuple("Ports", "large_a large_b small guesser gateway admin gateway_2 admin_2 prometheus store sink stand_in relay")
# Workers by name: model and pool.
WORKERS = {"large_a": ("large", "target"), "large_b": ("large", "target"), "small": ("small", "draft"), "guesser": ("tiny", "draft")}


class Page(http.server.BaseHTTPRequestHandler):
    """Takes spans as a collector does, and stands in for a gateway that counts what no fault brings about."""

    protocol_version = "HTTP/1.1"
    scrapes = 0
    is_gone = False

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        if Page.is_gone:
            self.close_connection = True
            return
        self.answer(b"")

    def do_GET(self):
        Page.scrapes += 1
        count = max(0, Page.scrapes - SETTLE_SECONDS)
        self.answer(STAND_IN.format(count=count, low=100 * count, many=1_000 * count).encode())

    def answer(self, body):
        self.send_response(200)
        self.send_header("content-type", "text/plain; version=0.0.4")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def served(port):
    """A page in the background."""
    page = http.server.ThreadingHTTPServer(("127.0.0.1", port), Page)
    threading.Thread(target=page.serve_forever, daemon=True).start()
    return page


class Relay(socketserver.ThreadingTCPServer):
    """Stands before a worker; once it is deaf, it loses what asks for metrics."""

    allow_reuse_address = daemon_threads = True

    def __init__(self, port, worker):
        self.is_deaf, self.worker = False, worker
        super().__init__(("127.0.0.1", port), RelayedConnection)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class RelayedConnection(socketserver.BaseRequestHandler):
    """One connection of the gateway, and one to the worker."""

    def handle(self):
        try:
            with socket.create_connection(("127.0.0.1", self.server.worker)) as worker:
                threading.Thread(target=self.copy, args=(worker, self.request), daemon=True).start()
                self.copy(self.request, worker)
        except OSError:
            # The worker is not up yet, or not any more: the gateway sees a connection that ends.
            return

    def copy(self, source, to):
        try:
            while piece := source.recv(65_536):
                if not (self.server.is_deaf and piece.startswith(b"GET /metrics")):
                    to.sendall(piece)
            to.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def configuration(ports, name, store):
    workers = [{"url": f"http://127.0.0.1:{getattr(ports, worker)}", "name": worker, "model": model, "pool": pool}
               for worker, (model, pool) in WORKERS.items()]
    if name == "cold_worker":
        workers[1]["warm_up"] = True
    if name == "reports_late":
        workers[1]["url"] = f"http://127.0.0.1:{ports.relay}"
    tokens = {"draft": {"prompt": 0.05, "completion": 0.2}, "target": {"prompt": 0.6, "completion": 2.4}}
    patience = PATIENCE_SECONDS * 1_000 // (TIMES if name == "overload" else 1)
    # A bar that the draft's answers pass, and one that none of them does.
    bar = {"bad_drafts": 1.0}.get(name, 0.01)
    return {"listen": f"127.0.0.1:{ports.gateway}", "admin": {"listen": f"127.0.0.1:{ports.admin}"},
            "workers": workers, "cache": {"mode": "on", "reuse": "all"},
            "keys": [{"key": key, "tenant": tenant} for tenant, key in KEYS.items()],
            "cascades": {"smart": {"draft": "small", "target": "large", "mode": "gate", "threshold": bar, "tokenizers": "any", "slowdown": "any",
                                   "prices": tokens}},
            "prices": {"pools": {"target": 4.1, "draft": 0.8}, "models": {"large": tokens["target"], "small": tokens["draft"], "tiny": tokens["draft"]}},
            "admission": {"mode": "off" if name == "full_caches" else "peak",
                          "first_token": dict.fromkeys(("flex", "default", "priority"), f"{patience}ms")},
            "store": {"url": store}, "isolation": {"salt_secret": "live-salt-of-this-run-0123456789"},
            "tracing": {"endpoint": f"http://127.0.0.1:{ports.sink}", "sample": "20%"}}


def prometheus_configuration(ports, name):
    job = lambda name, *where: {"job_name": name, "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in where], "labels": {"namespace": "live"}}]}  # noqa: E731
    gateways = [ports.admin] + [ports.admin_2] * (name == "gateways_apart")
    jobs = [job("overdraft", *gateways), job("workers", ports.guesser, ports.large_a, ports.small)]
    jobs += [job("stand-in", ports.stand_in)] * (name == "stand_in")
    return {"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": ["rules.yaml"], "scrape_configs": jobs}


class Load:
    """Requests of two tenants until it is stopped."""

    def __init__(self, gateway, clients, repeats, answer_tokens):
        self.url, self.is_over, self.repeats, self.answer_tokens = f"http://127.0.0.1:{gateway}/v1/chat/completions", False, repeats, answer_tokens
        self.pool = concurrent.futures.ThreadPoolExecutor(clients)
        for client in range(clients):
            self.pool.submit(self.ask_on, client)

    def ask_long(self, number):
        """A stream of some ten seconds, which a drain of one cuts."""
        self.post("acme", {"model": "large", "max_tokens": 7_000, "stream": True, "messages": [{"role": "user", "content": f"story {number} [answer:7000]"}]})

    def post(self, tenant, body, **more):
        head = {"content-type": "application/json", "authorization": f"Bearer {KEYS[tenant]}", **more}
        try:
            urllib.request.urlopen(urllib.request.Request(self.url, json.dumps(body).encode(), head), timeout=60).read()
        except (OSError, urllib.error.URLError, http.client.HTTPException):
            time.sleep(0.05)

    def ask_on(self, client):
        number = 0
        while not self.is_over:
            number += 1
            tenant = ("acme", "globex")[client % 2]
            again = self.repeats and number % 2 == 0
            text = f"same question {number % 3}" if again else f"question {client} {number} " + "words " * (20 + client * 7 % 200)
            body = {"model": ("large", "large", "small", "smart", "tiny")[number % 5], "max_tokens": self.answer_tokens, "stream": number % 4 < 2, "temperature": 0,
                    "messages": [{"role": "system", "content": "shared instructions " * 10}, {"role": "user", "content": text}]}
            self.post(tenant, body, **({"x-overdraft-priority": "flex"} if number % 5 == 0 else {}))

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


def queries():
    """Board, panel, expression and labels of the legend of every query."""
    for path in sorted((DEPLOY / "grafana").glob("*.json")):
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel["targets"]:
                yield f"{path.name}, `{panel['title']}`: {target['expr']}", filled(target["expr"]), re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])


def query_findings(prometheus):
    """For every query what is wrong with it: no result, nothing but NaN, too many series, a label of its legend missing."""
    found = {}
    for where, expression, labels in queries():
        result = ask(prometheus, "query", query=expression)["result"]
        missing = [label for label in labels if not any(label in one["metric"] for one in result)]
        if not result:
            found[where] = "no result"
        elif all(one["value"][1] == "NaN" for one in result):
            found[where] = "not a number"
        elif SERIES_MAX < len(result):
            found[where] = f"{len(result)} series"
        elif missing:
            found[where] = f"no label {missing}"
    return found


def fired(prometheus, since):
    """Alerts that have been firing at any moment since then."""
    span = max(1, round(time.monotonic() - since))
    result = ask(prometheus, "query", query=f'count by (alertname) (max_over_time(ALERTS{{alertstate="firing"}}[{span}s]))')["result"]
    return {one["metric"]["alertname"] for one in result}


class Scene:
    """One scenario: what runs, and what goes wrong."""

    def __init__(self, name, run):
        self.name, self.run, self.page, self.load = name, run, None, None
        self.ports = Ports(*range(free_port(len(Ports._fields)), 1 << 16)[:len(Ports._fields)])

    def start(self):
        name, run, ports = self.name, self.run, self.ports
        narrow = {"overload": ["--kv-tokens", "1600", "--max-num-seqs", "2"], "slow_queue": ["--kv-tokens", "2400"], "full_caches": ["--kv-tokens", "2400"]}.get(name, [])
        simulated = ("large_a", "large_b", "small")
        faults = {"attempts_fail": dict.fromkeys(simulated, 0.25), "worker_broken": {"large_b": 1.0}, "workers_fail": dict.fromkeys(simulated, 0.8)}.get(name, {})
        for worker, (model, pool) in WORKERS.items():
            more = ["--error-rate", str(faults[worker])] if worker in faults else []
            more += ["--cut-rate", "0.3"] if name == "streams_break" and worker == "large_a" else []
            more += narrow
            if worker != "guesser":
                profile = {"target": "h100/llama-3-8b-fp8", "draft": "a10g/llama-3-8b-int4"}[pool]
                run.worker(worker, getattr(ports, worker), model, profile, more,
                           400 if narrow else 40, 1 if name in ("slow_queue", "full_caches") else 4)
        self.start_guesser()
        store = "memory"
        if shutil.which("redis-server"):
            store = f"redis://127.0.0.1:{ports.store}"
            run.start("store", ["redis-server", "--port", ports.store, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        self.page, Page.is_gone, Page.scrapes = served(ports.sink), False, 0
        if name == "reports_late":
            self.relay = Relay(ports.relay, ports.large_b)
        conf = configuration(ports, name, store)
        self.start_gateway("gateway", conf)
        if name == "gateways_apart":
            apart = {"listen": f"127.0.0.1:{ports.gateway_2}", "admin": {"listen": f"127.0.0.1:{ports.admin_2}"}, "store": {"url": "memory"}}
            self.start_gateway("gateway_2", {**conf, **apart})
        self.start_prometheus()
        self.answer_tokens = 400 if narrow else 60
        self.load = Load(ports.gateway, {"slow_queue": 60, "full_caches": 60}.get(name, CLIENTS), name not in ("no_repeats", "attempts_fail"), self.answer_tokens)

    def start_guesser(self):
        """A worker that computes and guesses: rightly where it drafts for itself, wrongly by looking up what it has said."""
        models = DEPLOY.parent / "models"
        guess = ["--draft", models / "overdraft-target.q8_0.gguf", "--speculation-policy", "fixed:2"]
        if self.name == "bad_guesses":
            guess = ["--speculative-ngram", "--speculation-policy", "fixed:8"]
        self.run.start("guesser", [self.run.program, "worker", "--model", models / "overdraft-target.q8_0.gguf", "--served-model-name", "tiny",
                                   "--listen", f"127.0.0.1:{self.ports.guesser}", "--threads", "1", "--shutdown-timeout", "1", *guess])

    def start_gateway(self, name, conf):
        path = self.run.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(conf))
        self.run.start(name, [self.run.program, "serve", "--config", path, "--shutdown-timeout", "1"])
        wait_for(f"http://{conf['listen']}/healthz")

    def start_prometheus(self):
        folder, port = self.run.folder, self.ports.prometheus
        (folder / "rules.yaml").write_text(faster((DEPLOY / "prometheus" / "rules" / "overdraft.yaml").read_text()))
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(prometheus_configuration(self.ports, self.name)))
        if self.name == "stand_in":
            self.stand_in = served(self.ports.stand_in)
        self.run.start("prometheus", [self.run.prometheus, f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/data",
                                      f"--web.listen-address=127.0.0.1:{port}"])
        wait_for(f"http://127.0.0.1:{port}/-/ready")

    def break_something(self):
        gone = {"worker_gone": ["large_b"], "all_gone": ["large_a", "large_b", "small", "guesser"], "gateway_gone": ["gateway"], "store_gone": ["store"]}
        for process in gone.get(self.name, []):
            self.run.stop(process)
        if self.name == "streams_cut":
            for place in range(3):
                threading.Thread(target=self.load.ask_long, args=(place,), daemon=True).start()
            # Until they are under way; the drain of a second is shorter than they are.
            time.sleep(3)
            self.run.stop("gateway")
        if self.name == "overload":
            self.load.stop()
            self.load = Load(self.ports.gateway, CLIENTS_TOO_MANY, True, self.answer_tokens)
        if self.name == "worker_stopped":
            self.run.processes["large_b"].send_signal(signal.SIGSTOP)
        if self.name == "reports_late":
            self.relay.is_deaf = True
        if self.name == "cold_worker":
            self.run.stop("large_b")
            # Long enough for probes to see that it was gone.
            time.sleep(4)
            self.run.worker("large_b", self.ports.large_b, "large", "h100/llama-3-8b-fp8", ["--error-rate", "1"])
        if self.name == "collector_gone":
            # Connections outlive their listener.
            Page.is_gone = True
            self.page.shutdown()
            self.page.server_close()

    def end(self):
        if self.load:
            self.load.stop()
        if "large_b" in self.run.processes:
            self.run.processes["large_b"].send_signal(signal.SIGCONT)
        self.run.stop_all()
        if self.page and self.name != "collector_gone":
            self.page.shutdown()
            self.page.server_close()


def scenario(name, options):
    """What is wrong with a scenario, which alerts fired, and what is wrong with queries at its end."""
    must, may = SCENARIOS[name]
    with tempfile.TemporaryDirectory() as text:
        run = Run(options.program, options.prometheus, pathlib.Path(text))
        scene = Scene(name, run)
        try:
            scene.start()
            # Prometheus looks for its targets for some seconds, in which nobody answers it.
            time.sleep(SETTLE_SECONDS)
            if run.last_words():
                raise RuntimeError("a process of the run has ended")
            since = time.monotonic()
            scene.break_something()
            watcher, deadline = scene.ports.prometheus, since + options.seconds
            while time.monotonic() < deadline and not (must and must <= fired(watcher, since)):
                time.sleep(1)
            alerts = fired(watcher, since)
            findings = [f"{name}: `{one}` does not fire" for one in sorted(must - alerts)]
            findings += [f"{name}: `{one}` fires, which is no part of it" for one in sorted(alerts - must - may)]
            return findings, alerts, query_findings(watcher)
        except RuntimeError as error:
            raise RuntimeError(f"{error}; what ended said: {run.last_words()}") from None
        finally:
            scene.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="the binary `overdraft`")
    parser.add_argument("--prometheus", default="prometheus", help="the binary of Prometheus")
    parser.add_argument("--seconds", type=int, default=90, help="how long a scenario may take to show its alerts")
    parser.add_argument("--scenario", action="append", choices=list(SCENARIOS), help="only these; may be given several times")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    chosen, wrong, without = options.scenario or list(SCENARIOS), [], None
    for name in chosen:
        findings, alerts, empty = scenario(name, options)
        without = empty if without is None else {where: why for where, why in without.items() if where in empty}
        print(f"{name}: {len(findings)} findings; fired: {', '.join(sorted(alerts)) or 'none'}; {len(empty)} queries without data", flush=True)
        for finding in findings:
            print(f"  {finding}", flush=True)
        wrong += findings
    for where, why in without.items():
        print(f"  {where}: {why} in any scenario")
    total = sum(1 for _ in queries())
    print(f"{len(chosen)} scenarios, {len(wrong)} findings; {total - len(without)} of {total} queries had data")
    sys.exit(1 if wrong or (without and not options.scenario) else 0)


if __name__ == "__main__":
    main()
