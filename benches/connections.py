#!/usr/bin/env python3
"""Thousands of streams and idle connections on one gateway: errors, memory, and what health answers meanwhile.

connections.py --binary PROGRAM [--streams 6000] [--idle 6000] [--seconds 40]

Simulated workers whose steps take 200 ms stand behind a real gateway, `overdraft bench` asks for the streams, and this
script keeps idle connections open and asks for `/health` ten times a second. Everything shares the machine. A stream
needs two descriptors of the gateway and an idle connection one, so `ulimit -n` bounds what can be asked for.
"""
import argparse
import asyncio
import json
import resource
import socket
import subprocess
import tempfile
import time
from pathlib import Path

WORKERS = 8
TOKENS_PER_SECOND = 5
STARTS_PER_SECOND = 400
HEALTH_EVERY = 0.1
SPARE_DESCRIPTORS = 500
HEALTH = b"GET /health HTTP/1.1\r\nhost: bench\r\n\r\n"
PROFILE = """
[[profile]]
like = "h100-tp1/llama-3-8b-bf16"
hardware = "h100"
tensor_parallel = 1
model = "llama-3-8b"
weights = "slow"
host_ms = 193
engine = "vllm-0.10"
running_max = {seats}
confidence = "D"
source = "a step takes 200 ms"
"""


def free_ports(count):
    """Ports in a row that nothing has now."""
    for first in range(20_000, 30_000, 97):
        held = []
        try:
            held += [socket.create_server(("127.0.0.1", port)) for port in range(first, first + count)]
            return first
        except OSError:
            continue
        finally:
            for one in held:
                one.close()
    raise SystemExit("no free ports")


def resident(pid):
    """MiB of memory that a process has."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def used(pid):
    """Seconds on a processor."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


async def answered(reader, writer):
    """Asks for health; seconds until the answer is there."""
    begun = time.perf_counter()
    writer.write(HEALTH)
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    await reader.readexactly(length)
    if not head.startswith(b"HTTP/1.1 200"):
        raise SystemExit(head.decode())
    return time.perf_counter() - begun


async def ready(port):
    for _ in range(600):
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HEALTH)
            if (await reader.read(64)).startswith(b"HTTP/1.1 200"):
                return
        except OSError:
            pass
        await asyncio.sleep(0.1)
    raise SystemExit(f"nobody is well at {port}")


def start(arguments, folder, port):
    """Workers and gateway; the gateway's process is the first."""
    seats = arguments.streams // WORKERS + 100
    Path(folder, "slow.toml").write_text(PROFILE.format(seats=seats))
    config = {
        "listen": f"127.0.0.1:{port}",
        "workers": [{"url": f"http://127.0.0.1:{port + 1 + one}"} for one in range(WORKERS)],
        "limits": {"requests": arguments.streams + 1000, "streams": arguments.streams + 500,
                   "connections": arguments.streams + arguments.idle + 1000},
        "admission": {"mode": "off"},
        "timeouts": {"client_idle": "1h"},
    }
    Path(folder, "gateway.yaml").write_text(json.dumps(config))
    log = Path(folder, "log").open("w")
    worker = [arguments.binary, "worker", "--simulate", "h100/llama-3-8b-slow", "--profile", f"{folder}/slow.toml", "--kv-tokens", "4000000",
              "--max-num-seqs", str(seats), "--workers", str(WORKERS), "--listen", f"127.0.0.1:{port + 1}", "--log-level", "warn"]
    serve = [arguments.binary, "serve", "--config", f"{folder}/gateway.yaml", "--log-level", "error"]
    workers = subprocess.Popen(worker, stdout=log, stderr=log)
    return [subprocess.Popen(serve, stdout=log, stderr=log), workers]


async def measure(arguments, folder, port, gateway):
    await ready(port)
    before = resident(gateway)
    idle = []
    for _ in range(arguments.idle):
        idle.append(await asyncio.open_connection("127.0.0.1", port))
        await answered(*idle[-1])
    with_idle = resident(gateway)
    ramp = arguments.streams / STARTS_PER_SECOND
    tokens = int((ramp + arguments.seconds) * TOKENS_PER_SECOND)
    load = await asyncio.create_subprocess_exec(
        arguments.binary, "bench", f"http://127.0.0.1:{port}", "--workload", f"unique:question=20,output={tokens},spread=0",
        "--num-prompts", str(arguments.streams), "--request-rate", str(STARTS_PER_SECOND), "--json", f"{folder}/bench.json",
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE)
    probe, took, most = await asyncio.open_connection("127.0.0.1", port), [], 0.0
    ended, begun, cpu = asyncio.ensure_future(load.communicate()), time.monotonic(), used(gateway)
    while not ended.done():
        took.append(await answered(*probe))
        most = max(most, resident(gateway))
        await asyncio.sleep(HEALTH_EVERY)
    cores = (used(gateway) - cpu) / (time.monotonic() - begun)
    if load.returncode != 0:
        print(ended.result()[1].decode()[-2000:])
    for connection in idle:
        await answered(*connection)
    told = json.loads(Path(folder, "bench.json").read_text())["runs"][0]
    return before, with_idle, most, sorted(took), cores, told


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--streams", type=int, default=6000)
    parser.add_argument("--idle", type=int, default=6000)
    parser.add_argument("--seconds", type=int, default=40, help="for which all streams are there")
    arguments = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    needs = 2 * arguments.streams + arguments.idle + SPARE_DESCRIPTORS
    if most < needs:
        raise SystemExit(f"the gateway needs {needs} descriptors, and `ulimit -Hn` is {most}: ask for fewer, or raise it")
    with tempfile.TemporaryDirectory() as folder:
        port = free_ports(WORKERS + 1)
        processes = start(arguments, folder, port)
        try:
            before, with_idle, peak, took, cores, told = asyncio.run(measure(arguments, folder, port, processes[0].pid))
        finally:
            for process in processes:
                process.kill()
    print(f"streams answered whole: {told['completed']} of {arguments.streams}; a token every {told['mean_tpot_ms']:.0f} ms, p99 {told['p99_tpot_ms']:.0f} ms; "
          f"{told['refused']} refused, {told['failed']} failed")
    print(f"gateway: {before:.0f} MiB at first, {with_idle:.0f} with {arguments.idle} idle connections "
          f"({(with_idle - before) * 1024 / max(arguments.idle, 1):.1f} KiB each), {peak:.0f} with {arguments.streams} streams beside "
          f"({(peak - with_idle) * 1024 / arguments.streams:.1f} KiB each); {cores:.2f} cores")
    print(f"/health: {len(took)} answers, median {took[len(took) // 2] * 1e3:.1f} ms, p99 {took[int(len(took) * 0.99)] * 1e3:.1f} ms, most {took[-1] * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
