#!/usr/bin/env python3
"""Two versions of the gateway on one Redis, as during a rolling upgrade: what one knows, the other heeds.

versions.py --old PROGRAM --new PROGRAM [--redis redis-server]

Both read the same configuration. Breakers, budgets, answers and load go from the old gateway to the new one and back,
then the old one ends and the new one goes on. Prints one line for each; exit code 1 when one does not hold.
"""
import argparse
import contextlib
import http.client
import http.server
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

WAIT_SECONDS = 30
# Longer than one exchange with Redis: `store.share_interval` is 150 ms.
EXCHANGE_SECONDS = 1.0
BREAKER_FAILURES = 3
# One comes back after 20 s: longer than a check takes.
REQUESTS_A_MINUTE = 3
# Of the log, where something was waited for in vain.
LOG_SHOWN = 3000
MODEL, FAULTY = "m", "faulty"
KEYS = {"one": "key-one", "two": "key-two", "free": "key-free"}


class Faulty(http.server.BaseHTTPRequestHandler):
    """A worker that is healthy and fails each request."""

    def log_message(self, *_):
        pass

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        known = {"/v1/models": {"object": "list", "data": [{"id": FAULTY, "object": "model"}]}, "/health": {}}
        self.answer(200 if self.path in known else 404, known.get(self.path, {}))

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.answer(500, {"error": {"message": "broken", "type": "server_error"}})


class Gateway:
    def __init__(self, program, port, config, log):
        self.port, self.seen = port, {}
        self.process = subprocess.Popen([program, "serve", "--config", config, "--listen", f"127.0.0.1:{port}"], stderr=log, stdout=log)
        until(lambda: self.get("/readyz")[0] == 200, f"the gateway at {port}")

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        except OSError:
            return 0, b""
        finally:
            connection.close()

    def ask(self, text, key="free", model=MODEL, tokens=4, **more):
        """Status, headers and body of one chat."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        body = json.dumps({"model": model, "max_tokens": tokens, "messages": [{"role": "user", "content": text}], **more})
        connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json", "authorization": f"Bearer {KEYS[key]}"})
        response = connection.getresponse()
        data = response.read()
        connection.close()
        return response.status, dict(response.getheaders()), data

    def worker(self, name):
        listed = json.loads(self.get("/admin/workers")[1])["workers"]
        return next(one for one in listed if name in one["models"])


def until(holds, what, seconds=WAIT_SECONDS):
    end = time.monotonic() + seconds
    while not holds():
        if end < time.monotonic():
            raise TimeoutError(f"waited in vain for {what}")
        time.sleep(0.05)


def comes_true(holds, seconds=5.0):
    end = time.monotonic() + seconds
    while end > time.monotonic():
        if holds():
            return True
        time.sleep(0.05)
    return False


def breaker(first, second):
    """One gateway's requests open the breaker of a worker; the other sees it open without having asked."""
    for number in range(BREAKER_FAILURES):
        first.ask(f"fail {number}", model=FAULTY)
    is_open = comes_true(lambda: first.worker(FAULTY)["breaker"] == "open")
    return is_open and comes_true(lambda: second.worker(FAULTY)["breaker"] == "open")


def budget(first, second, key):
    """A budget that one gateway has spent is spent at the other, after one exchange about its key."""
    spent = [first.ask(f"spend {number}", key=key)[0] for number in range(REQUESTS_A_MINUTE)]
    time.sleep(EXCHANGE_SECONDS)
    second.ask("the first of this key here", key=key)
    time.sleep(EXCHANGE_SECONDS)
    status, headers, _ = second.ask("one more", key=key)
    return spent == [200] * REQUESTS_A_MINUTE and status == 429 and "retry-after" in {name.lower() for name in headers}


def answers(first, second, text):
    """An answer that one gateway has kept is given by the other."""
    _, _, said = first.ask(text, temperature=0)
    time.sleep(EXCHANGE_SECONDS)
    before = second.worker(MODEL)["requests"]
    status, headers, again = second.ask(text, temperature=0)
    told = {name.lower(): value for name, value in headers.items()}.get("x-cache", "")
    same = json.loads(said)["choices"] == json.loads(again)["choices"]
    return status == 200 and same and told == "HIT" and before == second.worker(MODEL)["requests"]


def load(first, second):
    """What one gateway has in flight counts at the other."""
    streams = [threading.Thread(target=first.ask, args=(f"long {number} [answer:600]",), kwargs={"tokens": 600}) for number in range(4)]
    for stream in streams:
        stream.start()
    seen = comes_true(lambda: second.worker(MODEL)["requests_foreign"] >= 4)
    for stream in streams:
        stream.join()
    return seen and comes_true(lambda: second.worker(MODEL)["requests_foreign"] == 0)


def start(command, log, stack):
    process = subprocess.Popen(command, stdout=log, stderr=log)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


def configuration(folder, redis, workers):
    config = {
        "store": {"url": f"redis://127.0.0.1:{redis}"},
        "cache": {"mode": "on"},
        "breaker": {"failures": BREAKER_FAILURES, "open_first": "60s", "panic": "0%"},
        "retry": {"attempts_extra": 0},
        "keys": [{"tenant": name, "key": key, **({} if name == "free" else {"requests_per_minute": REQUESTS_A_MINUTE})} for name, key in KEYS.items()],
        "workers": [{"url": f"http://127.0.0.1:{port}"} for port in workers],
    }
    path = folder / "overdraft.yaml"
    path.write_text(json.dumps(config))
    return path


def run(arguments):
    found = 0
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        log = stack.enter_context((folder / "log").open("wb"))
        stack.push(lambda kind, *_: kind and print((folder / "log").read_text(errors="replace")[-LOG_SHOWN:]))
        base = arguments.port
        redis, simulated, faulty = base + 9, base + 8, base + 7
        start([arguments.redis, "--port", str(redis), "--save", "", "--bind", "127.0.0.1", "--dir", str(folder)], log, stack)
        start([arguments.new, "worker", "--simulate", "h100/llama-3-8b-fp8", "--served-model-name", MODEL, "--listen", f"127.0.0.1:{simulated}"], log, stack)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", faulty), Faulty)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        config = configuration(folder, redis, [simulated, faulty])

        def gateway(program, port):
            one = Gateway(program, port, config, log)
            stack.callback(one.process.wait)
            stack.callback(one.process.kill)
            until(lambda: all(one.ask("hello", model=MODEL)[0] == 200 for _ in range(2)), f"an answer through {port}")
            return one

        old, new = gateway(arguments.old, base), gateway(arguments.new, base + 1)
        checks = [
            ("answers kept by the old one are given by the new one", lambda: answers(old, new, "from the old")),
            ("answers kept by the new one are given by the old one", lambda: answers(new, old, "from the new")),
            ("a budget spent at the old one is spent at the new one", lambda: budget(old, new, "one")),
            ("a budget spent at the new one is spent at the old one", lambda: budget(new, old, "two")),
            ("load of the old one counts at the new one", lambda: load(old, new)),
            ("load of the new one counts at the old one", lambda: load(new, old)),
            ("a breaker opened by the old one is open at the new one", lambda: breaker(old, new)),
        ]
        for what, holds in checks:
            kept = holds()
            found += not kept
            print(f"{'holds' if kept else 'FAILS'}  {what}", flush=True)
        found += ending(old, new, arguments, gateway)
        server.shutdown()
    return int(found > 0)


def ending(old, new, arguments, gateway):
    """The old one is replaced, and what it knew is still known."""
    old.process.send_signal(signal.SIGTERM)
    code = old.process.wait(WAIT_SECONDS)
    after = gateway(arguments.new, arguments.port + 2)
    kept = {
        "the old one ends cleanly": code == 0,
        "the new one goes on": new.ask("after", temperature=0)[0] == 200,
        "one that replaces it finds the breaker open": comes_true(lambda: after.worker(FAULTY)["breaker"] == "open"),
        "one that replaces it finds the answers": answers(new, after, "from the old"),
    }
    back = new.process, after.process
    for process in back:
        process.send_signal(signal.SIGTERM)
    for process in back:
        process.wait(WAIT_SECONDS)
    returned = gateway(arguments.old, arguments.port + 3)
    kept["rolled back, the old one finds the breaker open"] = comes_true(lambda: returned.worker(FAULTY)["breaker"] == "open")
    for what, holds in kept.items():
        print(f"{'holds' if holds else 'FAILS'}  {what}", flush=True)
    return sum(not holds for holds in kept.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", required=True, help="the program of the version before")
    parser.add_argument("--new", required=True, help="the program of this version")
    parser.add_argument("--redis", default="redis-server", help="the program redis-server; by default the one on the path")
    parser.add_argument("--port", type=int, default=28600, help="the first of ten free ports")
    sys.exit(run(parser.parse_args()))


if __name__ == "__main__":
    main()
