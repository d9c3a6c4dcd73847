#!/usr/bin/env python3
"""CPU of the gateway, nginx (`proxy_buffering off`), HAProxy and smg for the same requests, in one run.

nginx_peer.py --binary PROGRAM [--nginx PROGRAM] [--haproxy PROGRAM] [--smg PYTHON] [--rounds 5] [--requests 1500]

All stand before one echo worker. In each round each of them, in an order that moves on, gets the same requests one connection after the
other kept open: whole answers with prompts of 200 bytes and of 16 KB, and one kind of streams. CPU is what the kernel charges its
threads. Medians over rounds. nginx and HAProxy relay bytes; they neither read a request nor choose by it.
"""
import argparse
import http.client
import json
import socket
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

START_SECONDS_MAX = 60
CASES = {"200 B prompt": (200, 8, False), "16 KB prompt": (16_000, 8, False), "stream of 100 chunks": (200, 100, True)}
STREAMS_PART = 10
NGINX = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log stderr crit;
events {{ worker_connections 1024; }}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; client_body_buffer_size 1m;
  upstream worker {{ server 127.0.0.1:{worker}; keepalive 16; }}
  server {{
    listen 127.0.0.1:{port}; keepalive_requests 1000000;
    location / {{ proxy_pass http://worker; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; }}
  }}
}}
"""
HAPROXY = """
global
  nbthread 1
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  option http-no-delay
  http-reuse always
frontend clients
  bind 127.0.0.1:{port}
  default_backend workers
backend workers
  server worker 127.0.0.1:{worker}
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def wait(port, path):
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", path)
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit(f"nothing serves {path} at {port}")


def processes(root):
    """A process and all that it has started."""
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        found.append(pid)
        for task in Path(f"/proc/{pid}/task").iterdir():
            todo += [int(child) for child in (task / "children").read_text().split()]
    return found


def cpu(root):
    """Seconds on a processor, of each thread: of a process the kernel tells hundredths only."""
    nanoseconds = 0
    for pid in processes(root):
        for task in Path(f"/proc/{pid}/task").iterdir():
            nanoseconds += int((task / "schedstat").read_text().split()[0])
    return nanoseconds / 1e9


def load(port, case, requests):
    """Sends requests and reads whole answers; seconds of each."""
    prompt, tokens, streams = CASES[case]
    body = json.dumps({"model": "echo", "stream": streams, "max_tokens": tokens,
                       "messages": [{"role": "user", "content": "word " * (prompt // 5)}]})
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    took = []
    for _ in range(requests):
        begun = time.perf_counter()
        connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        took.append(time.perf_counter() - begun)
        if answer.status != 200:
            raise SystemExit(f"{answer.status}: {text[:200]}")
    return took


def start(arguments, folder):
    """Each peer's name, port and process."""
    worker, ports = free_port(), [free_port() for _ in range(4)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    echo = subprocess.Popen([arguments.binary, "worker", "--backend", "echo", "--max-model-len", "65536", "--listen", f"127.0.0.1:{worker}"], **quiet)
    wait(worker, "/health")
    conf = Path(folder) / "nginx.conf"
    conf.write_text(NGINX.format(folder=folder, worker=worker, port=ports[1]))
    commands = {"overdraft": [arguments.binary, "serve", "--listen", f"127.0.0.1:{ports[0]}", "--worker", f"http://127.0.0.1:{worker}"],
                "nginx": [arguments.nginx, "-p", folder, "-c", conf]}
    if arguments.haproxy:
        haproxy = Path(folder) / "haproxy.cfg"
        haproxy.write_text(HAPROXY.format(worker=worker, port=ports[2]))
        commands["haproxy"] = [arguments.haproxy, "-db", "-q", "-f", haproxy]
    if arguments.smg:
        commands["smg"] = [arguments.smg, "-m", "smg.launch_router", "--host", "127.0.0.1", "--port", str(ports[len(commands)]), "--policy", "cache_aware",
                           "--prometheus-port", str(free_port()), "--worker-urls", f"http://127.0.0.1:{worker}"]
    peers = {"none": (worker, echo)}
    for port, (name, command) in zip(ports, commands.items()):
        peers[name] = (port, subprocess.Popen(command, **quiet))
    for name, (port, _) in peers.items():
        wait(port, "/v1/models")
    return peers


def measure(arguments, peers):
    found = {}
    for turn in range(arguments.rounds):
        names = list(peers)
        for name in names[turn % len(names):] + names[:turn % len(names)]:
            port, process = peers[name]
            for case, (_, _, streams) in CASES.items():
                requests = arguments.requests // STREAMS_PART if streams else arguments.requests
                load(port, case, 20)
                before = cpu(process.pid)
                took = load(port, case, requests)
                used = (cpu(process.pid) - before) / requests
                found.setdefault((name, case), []).append((used * 1e6, statistics.median(took) * 1e6))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--nginx", default="nginx")
    parser.add_argument("--haproxy", help="as `haproxy` of Debian's package")
    parser.add_argument("--smg", help="a Python that can import smg")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=1500)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        peers = start(arguments, folder)
        try:
            found = measure(arguments, peers)
        finally:
            for _, process in peers.values():
                process.kill()
    print("| | CPU-µs a request | of them, rounds | p50 µs |\n|---|---|---|---|")
    for (name, case), rounds in found.items():
        used = [one[0] for one in rounds]
        spread = f"{min(used):.0f} to {max(used):.0f}"
        print(f"| {name}, {case} | {statistics.median(used):.0f} | {spread} | {statistics.median(one[1] for one in rounds):.0f} |")


if __name__ == "__main__":
    main()
