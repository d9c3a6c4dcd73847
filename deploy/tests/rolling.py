#!/usr/bin/env python3
"""A rolling upgrade of two gateways under streams, as Kubernetes does it: no connection is refused, no stream breaks.

rolling.py --binary PROGRAM [--streams 20] [--rounds 2] [--tokens 3000] [--lame-duck 8] [--drain 120]

A balancer stands for the Service: it sends new connections to gateways that are ready, and learns of one that ends only
some seconds after the kubelet told it to. Each round starts a new gateway, waits for `/readyz`, then ends an old one:
preStop, SIGTERM, grace. Streams last longer than a round, so each meets at least one end. Exit code 1 when any fails.
"""
import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import time

PRE_STOP_SECONDS = 2
# Longer than the hook: the balancer goes on sending to a gateway that has been told to end.
WITHDRAWN_AFTER_SECONDS = 6
# Beside the drain: hook, lame duck, and a margin.
GRACE_SECONDS_MORE = 30
START_SECONDS_MAX = 60
# A simulated worker takes about 10 ms for a token: 30,000 are five minutes.
TOKENS = 3000
CONTEXT_TOKENS = 65536


class Gateway:
    """One gateway process, with a port for clients and one for operators."""

    def __init__(self, program, port, drain):
        self.program, self.port, self.admin, self.grace = program, port, port + 1, drain + GRACE_SECONDS_MORE

    async def start(self, config):
        command = [self.program, "serve", "--config", config, "--listen", f"127.0.0.1:{self.port}", "--admin-listen", f"127.0.0.1:{self.admin}"]
        self.process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)
        await until(lambda: status(self.admin, "/readyz"), "the gateway to be ready")

    async def end(self, balancer):
        """What the kubelet and the endpoint controller do, side by side."""
        begun = time.monotonic()
        await asyncio.sleep(PRE_STOP_SECONDS)
        self.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(WITHDRAWN_AFTER_SECONDS - PRE_STOP_SECONDS)
        balancer.gateways.remove(self)
        code = await asyncio.wait_for(self.process.wait(), self.grace)
        print(f"gateway {self.port} ended with {code} after {time.monotonic() - begun:.0f} s")
        return code


class Balancer:
    """Sends each connection to the next gateway, byte for byte."""

    def __init__(self):
        self.gateways, self.next, self.refused = [], 0, 0

    async def serve(self, reader, writer):
        self.next += 1
        gateway = self.gateways[self.next % len(self.gateways)]
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        except OSError:
            self.refused += 1
            writer.close()
            return
        await asyncio.gather(copy(reader, up_writer), copy(up_reader, writer))


async def copy(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.close()


async def status(port, path):
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
        head = await reader.read(64)
        writer.close()
        return b" 200 " in head
    except OSError:
        return False


async def until(holds, what):
    deadline = time.monotonic() + START_SECONDS_MAX
    while not await holds():
        if deadline < time.monotonic():
            sys.exit(f"waited in vain for {what}")
        await asyncio.sleep(0.1)


async def stream(port, number, tokens):
    """One streamed answer; what is wrong with it, if anything."""
    body = json.dumps({"model": "m", "stream": True, "max_tokens": tokens, "messages": [{"role": "user", "content": f"story {number} [answer:{tokens}]"}]})
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode())
        answer = (await reader.read()).decode()
        writer.close()
    except OSError as error:
        return f"broke: {error}"
    if " 200 " not in answer.split("\r\n", 1)[0]:
        return f"refused: {answer[:120]!r}"
    return None if "data: [DONE]" in answer and answer.endswith("0\r\n\r\n") else f"ended early: {answer[-120:]!r}"


async def clients(port, arguments, over):
    """Streams that begin anew until told to stop; what went wrong, and how many ended."""
    found, ended = [], 0

    async def client(number):
        nonlocal ended
        await asyncio.sleep(number * 0.5)
        while not over.is_set():
            fault = await stream(port, f"{number}-{ended}", arguments.tokens)
            ended += 1
            if fault:
                found.append(fault)
                await asyncio.sleep(0.5)
    await asyncio.gather(*(client(number) for number in range(arguments.streams)))
    return found, ended


async def run(arguments):
    base = arguments.port
    workers = [base + 90, base + 91]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False) as file:
        config = file.name
        json.dump({"shutdown": {"lame_duck": f"{arguments.lame_duck}s", "drain": f"{arguments.drain}s"},
                   "timeouts": {"total": "30m"},
                   "workers": [{"url": f"http://127.0.0.1:{port}"} for port in workers]}, file)
    command = [arguments.binary, "worker", "--simulate", "h100/llama-3-8b-fp8", "--served-model-name", "m", "--listen", f"127.0.0.1:{workers[0]}", "--workers", "2", "--max-model-len", str(CONTEXT_TOKENS)]
    fleet = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)
    balancer, gateways, codes = Balancer(), [], []
    try:
        await until(lambda: status(workers[1], "/health"), "the workers")
        for place in range(2):
            gateways.append(Gateway(arguments.binary, base + 10 + 2 * place, arguments.drain))
            await gateways[-1].start(config)
        balancer.gateways = list(gateways)
        server = await asyncio.start_server(balancer.serve, "127.0.0.1", base)
        over = asyncio.Event()
        load = asyncio.create_task(clients(base, arguments, over))
        await asyncio.sleep(arguments.streams * 0.5 + 2)
        for place in range(arguments.rounds):
            fresh = Gateway(arguments.binary, base + 20 + 2 * place, arguments.drain)
            await fresh.start(config)
            balancer.gateways.append(fresh)
            gateways.append(fresh)
            codes.append(await gateways[place].end(balancer))
        over.set()
        found, ended = await load
        server.close()
        # The last connections are told of their end.
        await asyncio.sleep(1)
    finally:
        for gateway in gateways:
            if gateway.process.returncode is None:
                gateway.process.kill()
        fleet.kill()
        os.unlink(config)
    print(f"{ended} streams of {arguments.tokens} tokens over {arguments.rounds} replaced gateways: {len(found)} failed, {balancer.refused} connections refused")
    for fault in found[:5]:
        print(f"- {fault}")
    return int(bool(found) or balancer.refused > 0 or any(codes))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--streams", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=TOKENS, help="of each stream")
    parser.add_argument("--drain", type=int, default=120, help="shutdown.drain in seconds; longer than a stream")
    parser.add_argument("--lame-duck", type=int, default=8, help="shutdown.lame_duck in seconds; with 0 connections are refused")
    parser.add_argument("--port", type=int, default=28000, help="the first of a hundred free ports")
    sys.exit(asyncio.run(run(parser.parse_args())))


if __name__ == "__main__":
    main()
