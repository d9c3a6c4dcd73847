"""Starts engines and gateways on loopback, waits until they are ready, and ends them by their own ids."""

import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import time

READY_SECONDS = 900
CLOSE_SECONDS = 30


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def free_ports(count):
    """A first port with the next ones free as well, as data-parallel ranks count up."""
    while True:
        first = free_port()
        try:
            probes = []
            for port in range(first, first + count):
                probe = socket.socket()
                probes.append(probe)
                probe.bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
        finally:
            for probe in probes:
                probe.close()


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)


class Server:
    """One process that speaks HTTP, and its children."""

    def __init__(self, name, command, port, folder, environment=None):
        self.name, self.command, self.port = name, [str(part) for part in command], port
        self.folder, self.environment = pathlib.Path(folder), environment or {}
        self.process = None

    def start(self):
        log = open(self.folder / f"{self.name}.log", "ab")
        environment = {**os.environ, **self.environment}
        # A group of its own, so that nothing of it outlives the suite.
        self.process = subprocess.Popen(
            self.command, stdout=log, stderr=log, env=environment, start_new_session=True
        )
        return self

    def ready(self, path="/health"):
        end = time.monotonic() + READY_SECONDS
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.name} ended with {self.process.returncode}; see {self.name}.log")
            try:
                if self.ask("GET", path, timeout=2).status == 200:
                    return self
            except OSError:
                pass
            time.sleep(0.2)
        raise RuntimeError(f"{self.name} is not ready after {READY_SECONDS} s; see {self.name}.log")

    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method, path, body=None, timeout=120, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            payload = None if body is None else json.dumps(body).encode()
            fields = {"content-type": "application/json", **(headers or {})}
            connection.request(method, path, payload, fields)
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())
        except http.client.HTTPException as fault:
            raise ConnectionError(f"{self.name}: {fault!r}") from fault
        finally:
            connection.close()

    def post(self, path, body, **more):
        return self.ask("POST", path, body, **more)

    def metric(self, name, **labels):
        """The sum of a metric's samples that have these labels; `None` where there are none."""
        total = None
        for line in self.ask("GET", "/metrics").body.decode().splitlines():
            found, _, rest = line.partition("{")
            found, rest = (found, rest) if rest else (line.partition(" ")[0], line)
            if found == name and all(f'{key}="{value}"' in rest for key, value in labels.items()):
                total = (total or 0.0) + float(line.rsplit(" ", 1)[1])
        return total

    def tree(self):
        """Ids of the process and all its descendants, by the name of each."""
        children, names = {}, {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
            except OSError:
                continue
            children.setdefault(int(rest.split()[1]), []).append(int(entry.name))
            names[int(entry.name)] = name
        found, queue = [], [self.process.pid]
        while queue:
            one = queue.pop()
            found.append((one, names.get(one, "")))
            queue += children.get(one, [])
        return found

    def named(self, part):
        return [one for one, name in self.tree() if part.lower() in name.lower()]

    def signal(self, which):
        self.process.send_signal(which)

    def stop(self):
        if self.process is None:
            return
        rest = [one for one, _ in self.tree()]
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(CLOSE_SECONDS)
            except subprocess.TimeoutExpired:
                pass
        self.kill(rest)

    def kill(self, ids=None):
        """Ends these processes at once, by default all."""
        for one in ids if ids is not None else [one for one, _ in self.tree()]:
            try:
                os.kill(one, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if ids is None or self.process.pid in ids:
            self.process.wait()


class Vllm(Server):
    """A real vLLM on this machine's processor."""

    def __init__(self, suite, name, model, served, *flags, ranks=1, events=True, seats=8):
        port, self.events = free_port(), free_ports(2 * ranks)
        config = {
            "enable_kv_cache_events": True,
            "publisher": "zmq",
            "endpoint": f"tcp://*:{self.events}",
            "replay_endpoint": f"tcp://*:{self.events + ranks}",
            "topic": "kv-events",
        }
        command = [
            suite.vllm, "serve", model, "--served-model-name", served, "--host", "127.0.0.1",
            "--port", port, "--max-model-len", 2048, "--max-num-seqs", seats, "--dtype", "float32",
            "--enforce-eager", "--enable-prefix-caching", "--enable-prompt-tokens-details",
            "--block-size", 32, *(["--kv-events-config", json.dumps(config)] if events else []), *flags,
        ]  # fmt: skip
        environment = {
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
        }
        super().__init__(name, command, port, suite.work, environment)


class Gateway(Server):
    """`overdraft serve` before workers that run elsewhere."""

    def __init__(self, suite, name, config):
        port = free_port()
        path = suite.work / f"{name}.yaml"
        path.write_text(json.dumps(config))  # JSON is YAML
        listen = f"127.0.0.1:{port}"
        command = [suite.overdraft, "serve", "--listen", listen, "--config", path]
        super().__init__(name, command, port, suite.work)

    def ready(self, path="/healthz"):
        return super().ready(path)

    def knowledge(self, worker):
        """What the index of a worker rests on, in the gateway's word."""
        for line in self.ask("GET", "/metrics").body.decode().splitlines():
            if line.startswith("overdraft_worker_prefix_knowledge{") and f'worker="{worker}"' in line:
                return line.partition('kind="')[2].partition('"')[0]
        return None


def until(holds, seconds, every=0.1):
    """Whether something came to hold in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(every)
    return False
