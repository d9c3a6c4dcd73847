"""Redis, workers and gateways as processes on loopback, each with a log, and a proxy that cuts and slows connections."""
import asyncio
import json
import math
import os
import signal
import time

READY_SECONDS_MAX = 120
# Longer than a gateway's lame duck and drain together.
END_SECONDS_MAX = 90
CALL_SECONDS_MAX = 5
POLL_SECONDS = 0.2
# On a busy machine a balancer may learn this late that a gateway was killed.
NOTICED_SECONDS = 10
# What a slowed connection carries: about ten events in a second.
SLOW_BYTES, SLOW_SECONDS = 200, 0.1
READ_BYTES = 65536


class Process:
    """One process, which may be ended and started again."""

    def __init__(self, name, command, port, folder):
        self.name, self.command, self.port, self.folder = name, [str(part) for part in command], port, folder
        self.process = None

    async def start(self):
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(*self.command, stdout=log, stderr=log, stdin=asyncio.subprocess.DEVNULL)
        await until(self.is_ready, f"{self.name} to be ready")

    async def is_ready(self):
        if self.process.returncode is not None:
            raise RuntimeError(f"{self.name} ended with {self.process.returncode}; see {self.name}.log")
        return await status(self.port, "/health") == 200

    def signal(self, which):
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(which)

    async def ended(self):
        return await asyncio.wait_for(self.process.wait(), END_SECONDS_MAX)

    def resident(self):
        """Bytes of memory that are in use, or `None` once it has ended."""
        try:
            with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except OSError:
            return None

    def descriptors(self):
        try:
            return len(os.listdir(f"/proc/{self.process.pid}/fd"))
        except OSError:
            return None


class Redis(Process):
    async def is_ready(self):
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.write(b"PING\r\n")
            answer = await asyncio.wait_for(reader.read(64), CALL_SECONDS_MAX)
            writer.close()
            return answer.startswith(b"+PONG")
        except (OSError, asyncio.TimeoutError):
            return False


class Worker(Process):
    """A worker of one model; gateways ask it at `url`, which may be a proxy's."""

    def __init__(self, name, command, port, folder, model):
        super().__init__(name, command, port, folder)
        self.model, self.proxy, self.url = model, None, f"http://127.0.0.1:{port}"

    async def stand_behind(self, port):
        self.proxy = Proxy(self.port)
        await self.proxy.listen(port)
        self.url = f"http://127.0.0.1:{port}"


class Gateway(Process):
    """A gateway; `is_open` is what a balancer believes of it, which asks now and then whether it is ready."""

    def __init__(self, name, command, port, folder):
        super().__init__(name, command, port, folder)
        self.is_open, self.gone_at = False, 0.0

    def signal(self, which):
        super().signal(which)
        if which == signal.SIGKILL:
            self.gone_at = math.inf

    async def ended(self):
        code = await super().ended()
        if self.gone_at == math.inf:
            self.gone_at = time.monotonic()
        return code

    def was_killed(self, since):
        """Whether it was killed, and not yet gone at this time: on a busy machine it takes connections meanwhile."""
        return self.gone_at >= since

    async def is_ready(self):
        return await super().is_ready() and await status(self.port, "/readyz") == 200

    async def is_up(self, worker):
        """Whether it holds this worker for up."""
        answer = await get(self.port, "/metrics")
        mark = f'worker="{worker.url.removeprefix("http://")}"'
        lines = [line for line in answer.splitlines() if line.startswith("overdraft_worker_up{") and mark in line]
        return bool(lines) and all(line.endswith(" 1") for line in lines)

    async def watch(self):
        """What a load balancer's probe does."""
        while True:
            self.is_open = await status(self.port, "/readyz") == 200
            await asyncio.sleep(POLL_SECONDS)


class Proxy:
    """Stands before one worker, byte for byte, until it is told to cut or to be slow."""

    def __init__(self, target):
        self.target, self.is_slow, self.writers = target, False, set()

    async def listen(self, port):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", port)

    async def serve(self, reader, writer):
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        pair = {writer, up_writer}
        self.writers |= pair
        try:
            await asyncio.gather(self.copy(reader, up_writer), self.copy(up_reader, writer))
        except asyncio.CancelledError:
            # The run is over; the loop would tell of it for each connection.
            pass
        self.writers -= pair
        for one in pair:
            one.close()

    async def copy(self, reader, writer):
        try:
            while data := await reader.read(SLOW_BYTES if self.is_slow else READ_BYTES):
                writer.write(data)
                await writer.drain()
                if self.is_slow:
                    await asyncio.sleep(SLOW_SECONDS)
            writer.write_eof()
        except (OSError, RuntimeError):
            # A worker that dies must look dead through the proxy as well: a reset, no end.
            writer.transport.abort()

    def cut(self):
        """Resets all connections; new ones may come."""
        for writer in list(self.writers):
            writer.transport.abort()


async def get(port, path):
    """The answer to a GET as text, its head included; nothing where there is none."""
    async def ask():
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        return answer.decode(errors="replace")
    try:
        return await asyncio.wait_for(ask(), CALL_SECONDS_MAX)
    except (OSError, asyncio.TimeoutError):
        return ""


async def post(port, path, body):
    """The answer to a POST from a server that nobody disturbs, as JSON."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    data = json.dumps(body).encode()
    writer.write(f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data)
    answer = await reader.read()
    writer.close()
    return json.loads(answer.split(b"\r\n\r\n", 1)[1])


async def status(port, path):
    parts = (await get(port, path)).split(" ", 2)
    return int(parts[1]) if len(parts) == 3 and parts[1].isdigit() else 0


async def until(holds, what, seconds=READY_SECONDS_MAX):
    end = time.monotonic() + seconds
    while not await holds():
        if end < time.monotonic():
            raise TimeoutError(f"waited in vain for {what}")
        await asyncio.sleep(POLL_SECONDS)
