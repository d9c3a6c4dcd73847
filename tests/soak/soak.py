#!/usr/bin/env python3
"""Two gateways, embedded and simulated workers and a Redis under faults: every token of every answer is checked.

soak.py --binary PROGRAM --work FOLDER [--quick | --minutes 60 | --rolling] [--seed 1]

Answers are greedy and known beforehand. Clients load the gateways to about 80 % of what was measured, while a seeded
plan kills, drains, stops, cuts and slows workers, gateways and Redis. Exit code 1 when a promise does not hold.
"""
import argparse
import asyncio
import collections
import os
import pathlib
import random
import shutil
import signal
import statistics
import sys
import time

from client import ROLLING_TOKENS, SIMULATED_TOKENS, Load, questions
from faults import Faults
from processes import Gateway, Redis, Worker

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "models" / "overdraft-target.q8_0.gguf"
EMBEDDED, SIMULATED, GATEWAYS = 3, 2, 2
PROFILE = "h100/llama-3-8b-fp8"
CLIENTS, QUESTIONS_EACH = 16, 24
CAPACITY_SECONDS, LOAD_SHARE = 12, 0.8
QUICK_MINUTES = 2
PROGRESS_SECONDS, SAMPLE_SECONDS = 15, 2
# Undisturbed load before and after a rolling restart.
AROUND_SECONDS = 5
MEMORY_GROWTH_MAX, DESCRIPTORS_MORE_MAX = 0.05, 16
# Below this, memory and descriptors are told and not judged: caches and allocators still fill.
JUDGED_MINUTES_MIN = 10
SHOWN_MAX = 20


class Fleet:
    """All processes of one run."""

    def __init__(self, arguments):
        self.folder, base = arguments.work, arguments.port
        self.redis = Redis("redis", [arguments.redis, "--port", base, "--bind", "127.0.0.1", "--save", "", "--dir", self.folder], base, self.folder)
        self.workers, self.codes = [], []
        for number in range(EMBEDDED):
            flags = ["--model", MODEL, "--threads", 1]
            self.workers.append(self.worker(arguments.binary, f"embedded-{number}", base + 10 + number, flags))
        for number in range(SIMULATED):
            flags = ["--simulate", PROFILE]
            self.workers.append(self.worker(arguments.binary, f"simulated-{number}", base + 20 + number, flags))
        config = self.folder / "overdraft.yaml"
        self.gateways = [
            Gateway(f"gateway-{number}", [arguments.binary, "serve", "--config", config, "--listen", f"127.0.0.1:{base + 1 + number}"], base + 1 + number, self.folder)
            for number in range(GATEWAYS)
        ]
        self.base = base

    def worker(self, binary, name, port, flags):
        model = name.split("-")[0]
        command = [binary, "worker", *flags, "--served-model-name", model, "--listen", f"127.0.0.1:{port}"]
        return Worker(name, command, port, self.folder, model)

    async def start(self):
        await self.redis.start()
        for worker in self.workers:
            await worker.start()
        # The first of each model can be cut and slowed.
        await self.workers[0].stand_behind(self.base + 30)
        await self.workers[EMBEDDED].stand_behind(self.base + 31)
        lines = ["store:", f"  url: redis://127.0.0.1:{self.base}", "shutdown:", "  lame_duck: 3s", "  drain: 60s",
                 "timeouts:", "  idle: 5s", "workers:", *(f"  - url: {worker.url}" for worker in self.workers)]
        (self.folder / "overdraft.yaml").write_text("\n".join(lines) + "\n")
        for gateway in self.gateways:
            await gateway.start()

    def processes(self):
        return [*self.gateways, *self.workers, self.redis]

    def kill(self):
        for one in self.processes():
            if one.process is not None and one.process.returncode is None:
                one.process.kill()


class Run:
    def __init__(self, arguments, fleet, load, faults):
        self.arguments, self.fleet, self.load, self.faults = arguments, fleet, load, faults
        self.begun, self.samples = time.monotonic(), []

    async def watch(self):
        """Memory and descriptors of the first gateway, and a line now and then."""
        told, seen = self.begun, 0
        while True:
            await asyncio.sleep(SAMPLE_SECONDS)
            for record in self.load.records[seen:]:
                if record.verdict not in ("good", "killed"):
                    self.say(f"{record.verdict}: {record.model}, {record.why}")
            seen = len(self.load.records)
            gateway = self.fleet.gateways[0]
            self.samples.append((time.monotonic(), gateway.resident(), gateway.descriptors()))
            if time.monotonic() - told >= PROGRESS_SECONDS:
                told = time.monotonic()
                self.say(f"{tally(self.load.records)}; first gateway {(self.samples[-1][1] or 0) / 2**20:.1f} MiB, {self.samples[-1][2]} descriptors")

    def say(self, text):
        print(f"{time.monotonic() - self.begun:6.0f} s  {text}", flush=True)

    async def go(self):
        """Capacity, then load at a share of it, under the plan."""
        clients = [asyncio.create_task(self.load.client()) for _ in range(CLIENTS)]
        # Long answers end first after a while.
        seconds = CAPACITY_SECONDS * (3 if self.arguments.rolling else 1)
        await asyncio.sleep(seconds)
        done = len(self.load.records) / seconds
        self.load.rate = LOAD_SHARE * done
        self.say(f"capacity {done:.1f} requests/s undisturbed; from now on {self.load.rate:.1f}/s by {CLIENTS} clients")
        self.samples.clear()
        if self.arguments.rolling:
            await asyncio.sleep(AROUND_SECONDS)
            await self.faults.rolling()
            await asyncio.sleep(AROUND_SECONDS)
        else:
            await self.faults.run(60 * self.arguments.minutes)
        self.load.over = True
        await asyncio.gather(*clients)


def tally(records):
    verdicts = collections.Counter(record.verdict for record in records)
    return f"{len(records)} requests, " + ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())


def table(run):
    records = run.load.records
    names = ("good", "wrong", "cut", "lost", "told", "killed")
    print("\n| model | requests | " + " | ".join(names) + " | streams resumed | tokens checked | p50 s | p99 s |")
    print("|---|" + "---|" * (len(names) + 5))
    for model in ("embedded", "simulated"):
        own = [record for record in records if record.model == model]
        seconds = statistics.quantiles([one.ended - one.begun for one in own], n=100) if len(own) > 1 else [0] * 99
        verdicts = collections.Counter(record.verdict for record in own)
        cells = [len(own), *(verdicts[name] for name in names), sum(one.resumed > 0 for one in own), sum(one.tokens for one in own)]
        print(f"| {model} | " + " | ".join(f"{cell:,}" for cell in cells) + f" | {seconds[49]:.2f} | {seconds[98]:.2f} |")
    print("\nfaults: " + ", ".join(f"{count} {what}" for what, count in sorted(run.faults.counts.items())))
    for record in [one for one in records if one.verdict not in ("good", "killed")][:SHOWN_MAX]:
        spared = "" if record.verdict != "told" else ", a worker was undisturbed" if run.faults.spared(record.model, record.begun, record.ended) else ", no worker was undisturbed"
        print(f"- {record.verdict} at {record.begun - run.begun:.1f}–{record.ended - run.begun:.1f} s, {record.model}, {record.why}{spared}")


def growth(run, place):
    """The means of the last tenth and of the tenth in the middle, so that peaks of load do not count; `None` without samples."""
    samples = [(sample[0], sample[place]) for sample in run.samples if sample[place] is not None]
    if not samples:
        return None
    first, last = samples[0][0], samples[-1][0]
    parts = [((at - first) / max(last - first, 1), value) for at, value in samples]
    middle = [value for part, value in parts if 0.45 <= part <= 0.55]
    end = [value for part, value in parts if part >= 0.9]
    return (statistics.mean(end), statistics.mean(middle)) if middle and end else None


def judged(run):
    """Each promise, whether it holds, and what was seen."""
    records, is_rolling = run.load.records, run.arguments.rolling
    verdicts = collections.Counter(record.verdict for record in records)
    told = [one for one in records if one.verdict == "told"]
    faults = [one for one in told if is_rolling or run.faults.spared(one.model, one.begun, one.ended)]
    yield "no token is wrong", not verdicts["wrong"], f"{verdicts['wrong']} answers"
    yield "no answer ends cleanly that is cut", not verdicts["cut"], f"{verdicts['cut']} answers"
    yield "no request is lost but on a gateway that is killed", not verdicts["lost"], f"{verdicts['lost']} lost, {verdicts['killed']} on killed gateways"
    yield "no error is told while a worker is undisturbed", not faults, f"{len(faults)} of {len(told)} told"
    yield "no connection is refused by a gateway that was not killed", not run.load.refused, f"{len(run.load.refused)} refused"
    yield "what is told to end ends with 0", not run.fleet.codes, f"{run.fleet.codes}"
    is_long = not is_rolling and run.arguments.minutes >= JUDGED_MINUTES_MIN
    memory, descriptors = growth(run, 1), growth(run, 2)
    if memory:
        share = memory[0] / memory[1] - 1
        seen = f"{memory[1] / 2**20:.1f} MiB in the middle, {memory[0] / 2**20:.1f} MiB at the end ({share:+.1%})"
        yield "memory of the first gateway is flat", share <= MEMORY_GROWTH_MAX if is_long else None, seen
    if descriptors:
        seen = f"{descriptors[1]:.0f} in the middle, {descriptors[0]:.0f} at the end"
        yield "its descriptors are flat", descriptors[0] <= descriptors[1] + DESCRIPTORS_MORE_MAX if is_long else None, seen


async def run(arguments):
    arguments.work.mkdir(parents=True, exist_ok=True)
    fleet = Fleet(arguments)
    print(f"seed {arguments.seed}, logs in {arguments.work}, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}", flush=True)
    tasks = []
    # So that no process is left behind.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asyncio.current_task().cancel)
    try:
        await fleet.start()
        lengths = ROLLING_TOKENS if arguments.rolling else SIMULATED_TOKENS
        known = await questions(QUESTIONS_EACH, {worker.model: worker.port for worker in fleet.workers}, lengths)
        load = Load(fleet.gateways, known, random.Random(arguments.seed))
        faults = Faults(fleet, lambda lane: random.Random(1000 * arguments.seed + lane), lambda text: one.say(text))
        one = Run(arguments, fleet, load, faults)
        tasks = [asyncio.create_task(gateway.watch()) for gateway in fleet.gateways] + [asyncio.create_task(one.watch())]
        await one.go()
    except asyncio.CancelledError:
        if not tasks:
            raise
        print("\nended before its time; what was seen until then:")
    finally:
        for task in tasks:
            task.cancel()
        fleet.kill()
    table(one)
    failed = 0
    print()
    for what, holds, seen in judged(one):
        failed += holds is False
        print(f"{'not judged' if holds is None else 'holds' if holds else 'FAILS'}  {what}: {seen}")
    print(f"load average {os.getloadavg()[0]:.1f}; logs in {arguments.work}")
    return int(failed > 0 or not one.load.over)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True, help="the program overdraft")
    parser.add_argument("--work", required=True, type=pathlib.Path, help="a folder for logs")
    parser.add_argument("--redis", default="redis-server", help="the program redis-server; by default the one on the path")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_MINUTES} minutes, in which memory is told and not judged")
    parser.add_argument("--rolling", action="store_true", help="restarts each worker and each gateway once, and injects nothing else")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--port", type=int, default=28700, help="the first of fifty free ports")
    arguments = parser.parse_args()
    for program in (arguments.binary, arguments.redis):
        if shutil.which(program) is None:
            sys.exit(f"there is no program {program}; name one with --binary or --redis")
    arguments.work = arguments.work.absolute()
    arguments.minutes = QUICK_MINUTES if arguments.quick else arguments.minutes
    sys.exit(asyncio.run(run(arguments)))


if __name__ == "__main__":
    main()
