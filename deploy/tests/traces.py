#!/usr/bin/env python3
"""Traces of a real gateway through a real OpenTelemetry collector.

  traces.py --program target/debug/overdraft

A gateway sends spans to rotel, a collector that lies ready in a Python package; rotel passes them on to a sink, which reads
them with the official messages of opentelemetry-proto. Checked are the spans of requests that went well, that were tried
twice and that a caller traces; the share that is sampled; that no text of a prompt leaves; and that a collector which is
dead or says nothing costs no request anything, has its losses counted, and gets spans again once it is back.
"""
import argparse
import gzip
import http.server
import json
import pathlib
import signal
import statistics
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

import yaml
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse

from live import Run, free_port, wait_for

SECRET = "the-secret-of-the-prompt"
SERVER, CLIENT = 2, 3
PATIENCE_SECONDS = 30
# How much later the median answer may come beside a collector that is out of order.
SLOWER_MAX = 1.5
SAMPLED_OF = 600


class Sink(http.server.BaseHTTPRequestHandler):
    """Takes what the collector passes on."""

    protocol_version = "HTTP/1.1"
    batches = []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        Sink.batches.append(gzip.decompress(body) if self.headers["content-encoding"] == "gzip" else body)
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


def spans():
    """Every span that came so far, with the service that it is of."""
    found = []
    for batch in list(Sink.batches):
        for resource in ExportTraceServiceRequest.FromString(batch).resource_spans:
            service = {one.key: one.value.string_value for one in resource.resource.attributes}.get("service.name")
            found += [(service, span) for scope in resource.scope_spans for span in scope.spans]
    return found


def attributes(span):
    kinds = ("string_value", "int_value", "double_value", "bool_value")
    return {one.key: next((getattr(one.value, kind) for kind in kinds if one.value.HasField(kind)), None) for one in span.attributes}


class Stand:
    """Worker, gateway, collector and sink."""

    def __init__(self, run, rotel, sample, faulty=()):
        self.run, self.rotel = run, rotel
        self.ports = free_port(6)
        self.gateway, self.collector = self.ports + 2, self.ports + 3
        sink = http.server.ThreadingHTTPServer(("127.0.0.1", self.ports + 5), Sink)
        threading.Thread(target=sink.serve_forever, daemon=True).start()
        self.sink = sink
        run.worker("one", self.ports, "m", "h100/llama-3-8b-fp8", faulty)
        run.worker("two", self.ports + 1, "m", "h100/llama-3-8b-fp8", faulty)
        self.start_collector()
        conf = {"listen": f"127.0.0.1:{self.gateway}", "tracing": {"endpoint": f"http://127.0.0.1:{self.collector}", "sample": sample, "timeout": "1s"},
                "workers": [{"url": f"http://127.0.0.1:{self.ports}", "name": "one"}, {"url": f"http://127.0.0.1:{self.ports + 1}", "name": "two"}]}
        path = run.folder / "overdraft.yaml"
        path.write_text(yaml.safe_dump(conf))
        run.start("gateway", [run.program, "serve", "--config", path, "--shutdown-timeout", "1"])
        wait_for(f"http://127.0.0.1:{self.gateway}/healthz")

    def start_collector(self):
        ports = [f"127.0.0.1:{self.collector}", f"127.0.0.1:{self.ports + 4}"]
        self.run.start("collector", [self.rotel, "start", "--otlp-http-endpoint", ports[0], "--otlp-grpc-endpoint", ports[1],
                                     "--pid-file", self.run.folder / "rotel.pid", "--exporter", "otlp", "--otlp-exporter-protocol", "http",
                                     "--otlp-exporter-endpoint", f"http://127.0.0.1:{self.ports + 5}"])
        wait_for_port(self.collector)

    def ask(self, count, head=None):
        """Sends so many requests one after the other; how long each took."""
        taken = []
        for number in range(count):
            body = {"model": "m", "max_tokens": 8, "temperature": 0.7, "stream": number % 2 == 1, "messages": [{"role": "user", "content": f"{SECRET} {number}"}]}
            given = {"content-type": "application/json", **(head or {})}
            begun = time.monotonic()
            ask = urllib.request.Request(f"http://127.0.0.1:{self.gateway}/v1/chat/completions", json.dumps(body).encode(), given)
            try:
                urllib.request.urlopen(ask, timeout=30).read()
            except urllib.error.HTTPError as error:
                # Both workers may fail the same request; it is traced all the same.
                error.read()
            taken.append(time.monotonic() - begun)
        return taken

    def counted(self, name):
        """The sum of a counter's series."""
        text = urllib.request.urlopen(f"http://127.0.0.1:{self.gateway}/metrics", timeout=10).read().decode()
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))


def wait_for_port(port):
    import socket
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"nobody listens on {port}")


def until(holds):
    """Whether something comes to hold in time."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.2)
    return False


def whole_findings(stand):
    """Every request is traced, and workers fail a third of what they are sent."""
    Sink.batches.clear()
    trace = "0af7651916cd43dd8448eb211c80319c"
    stand.ask(1, {"traceparent": f"00-{trace}-b7ad6b7169203331-01"})
    stand.ask(1, {"traceparent": "00-00000000000000000000000000000001-b7ad6b7169203331-00"})
    stand.ask(40)
    servers = lambda: [span for _, span in spans() if span.kind == SERVER]  # noqa: E731
    if not until(lambda: len(servers()) >= 41):
        yield f"41 server spans were expected, and {len(servers())} came"
        return
    every, clients = spans(), [span for _, span in spans() if span.kind == CLIENT]
    if {service for service, _ in every} != {"overdraft"}:
        yield f"services: {[service for service, _ in every]}"
    if len(servers()) != 41:
        yield f"a caller that records nothing is to have no spans; {len(servers())} came"
    by_id = {span.span_id: span for span in servers()}
    for span in clients:
        parent = by_id.get(span.parent_span_id)
        if parent is None or parent.trace_id != span.trace_id:
            yield "an attempt hangs below no request"
        elif not parent.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano <= parent.end_time_unix_nano:
            yield "an attempt is not within its request"
    passed = [span for span in servers() if span.trace_id.hex() == trace]
    if len(passed) != 1 or passed[0].parent_span_id.hex() != "b7ad6b7169203331":
        yield "the caller's trace does not go on"
    if {span.parent_span_id for span in clients} != set(by_id):
        yield "a request has no attempt"
    failed = [span for span in clients if "error.type" in attributes(span)]
    if not failed or len(clients) < 41 + len(failed) // 2:
        yield f"{len(clients)} attempts, {len(failed)} of which failed, for 41 requests"
    if not any(event.name == "overdraft.first_token" for span in servers() for event in span.events):
        yield "no request has the event of its first token"
    if any(SECRET.encode() in batch for batch in Sink.batches):
        yield "a prompt's text is in a batch"


def share_findings(stand):
    """A tenth of the requests is traced."""
    Sink.batches.clear()
    stand.ask(SAMPLED_OF)
    time.sleep(3)
    found = sum(span.kind == SERVER for _, span in spans())
    if not SAMPLED_OF * 0.05 <= found <= SAMPLED_OF * 0.16:
        yield f"{found} of {SAMPLED_OF} requests were sampled; expected a tenth"


def outage_findings(stand):
    """The collector says nothing, then is gone, then is back."""
    well = statistics.median(stand.ask(60))
    for what, signal_ in (("says nothing", signal.SIGSTOP), ("is gone", signal.SIGKILL)):
        stand.run.processes["collector"].send_signal(signal_)
        slow = statistics.median(stand.ask(60))
        if well * SLOWER_MAX < slow:
            yield f"while the collector {what}, answers take {slow * 1e3:.1f} ms instead of {well * 1e3:.1f}"
    stand.run.processes.pop("collector").wait()
    if not until(lambda: stand.counted("overdraft_trace_spans_dropped_total") > 0):
        yield "spans are lost, and nobody counts them"
    Sink.batches.clear()
    stand.start_collector()
    if not until(lambda: stand.ask(1) and spans()):
        yield "the collector is back, and no span comes"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="the binary `overdraft`")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    import rotel
    agent = pathlib.Path(rotel.__file__).parent / "rotel-agent"
    agent.chmod(0o755)
    wrong = []
    for sample, faulty, checks in (("100%", ("--error-rate", "0.3"), (whole_findings,)), ("10%", (), (share_findings,)), ("100%", (), (outage_findings,))):
        with tempfile.TemporaryDirectory() as text:
            run = Run(options.program, None, pathlib.Path(text))
            try:
                stand = Stand(run, agent, sample, faulty)
                for check in checks:
                    findings = list(check(stand))
                    print(f"{check.__doc__.strip()} {len(findings)} findings", flush=True)
                    wrong += findings
                stand.sink.shutdown()
                stand.sink.server_close()
            finally:
                run.stop_all()
    for finding in wrong:
        print(f"  {finding}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
