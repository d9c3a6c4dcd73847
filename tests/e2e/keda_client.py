"""A stock gRPC client asks the scaler as KEDA does, before and after a step of the load.

Arguments: the scaler's address, the gateway's address, the folder of the interface, a folder to
write the generated client into, the model's name.
"""

import json
import pathlib
import queue
import socket
import sys
import threading
import time

import grpc
from grpc_tools import protoc

scaler, gateway, protos, generated, model = sys.argv[1:]
assert not protoc.main(["protoc", f"-I{protos}", f"--python_out={generated}",
                        f"--grpc_python_out={generated}", "externalscaler.proto"])
sys.path.insert(0, str(pathlib.Path(generated)))
import externalscaler_pb2 as pb  # noqa: E402
import externalscaler_pb2_grpc as rpc  # noqa: E402

PATIENCE = 30  # seconds; only a hang takes that long
REQUESTS = 12

keda = rpc.ExternalScalerStub(grpc.insecure_channel(scaler))


def trigger(**metadata):
    return pb.ScaledObjectRef(name="target", namespace="default", scalerMetadata=metadata)


def value(name="desired_workers", **metadata):
    request = pb.GetMetricsRequest(scaledObjectRef=trigger(**metadata), metricName=name)
    answer = keda.GetMetrics(request, timeout=PATIENCE)
    assert [value.metricName for value in answer.metricValues] == ["desired_workers"], answer
    only = answer.metricValues[0]
    assert only.metricValue == only.metricValueFloat, answer
    return only.metricValue


def refused(words, call):
    try:
        call()
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT, error
        assert all(word in error.details() for word in words), (words, error.details())
        return
    raise AssertionError(f"not refused: {words}")


def until(what, holds):
    begun = time.monotonic()
    while not holds():
        assert time.monotonic() - begun < PATIENCE, f"never came true: {what}"
        time.sleep(0.02)
    return time.monotonic()


def ask():
    body = json.dumps({"model": model, "prompt": "Count from 1 to 100.", "max_tokens": 1000,
                       "stream": True, "ignore_eos": True}).encode()
    host, port = gateway.rsplit(":", 1)
    stream = socket.create_connection((host, int(port)))
    head = (f"POST /v1/completions HTTP/1.1\r\nhost: {gateway}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n")
    stream.sendall(head.encode() + body)
    return stream


# What can be asked for, and what each replica is meant to carry of it.
specs = keda.GetMetricSpec(trigger(scalerAddress=scaler, pool="target"), timeout=PATIENCE)
assert [(spec.metricName, spec.targetSize, spec.targetSizeFloat) for spec in specs.metricSpecs] == [
    ("desired_workers", 1, 1.0)], specs

# Slips are told by key and value.
refused(["poool", "kvTarget"], lambda: keda.IsActive(trigger(poool="x"), timeout=PATIENCE))
refused(["pool", "drafts"], lambda: keda.IsActive(trigger(pool="drafts"), timeout=PATIENCE))
refused(["kvTarget", "70"], lambda: keda.GetMetricSpec(trigger(kvTarget="70"), timeout=PATIENCE))
refused(["queueTarget", "-1"], lambda: value(queueTarget="-1"))
refused(["queue_depth"], lambda: value(name="queue_depth"))

# At rest.
rested = until("the load is known", lambda: value() == 0)
assert not keda.IsActive(trigger(), timeout=PATIENCE).result
assert value(pool="draft") == 0
by_running, by_queue = {"runningTarget": "2"}, {"queueTarget": "2"}
assert (value(**by_running), value(**by_queue)) == (0, 0)

# Changes are pushed: what is so now comes first.
told = queue.Queue()


def listen():
    for answer in keda.StreamIsActive(trigger(model=model)):
        told.put((answer.result, time.monotonic()))


threading.Thread(target=listen, daemon=True).start()
assert told.get(timeout=PATIENCE)[0] is False

# The step.
begun = time.monotonic()
streams = [ask() for _ in range(REQUESTS)]
# Until the next scrape all that was sent counts as running; after it, the two that are computed.
running = until("requests under way are seen", lambda: 0 < value(**by_running))
# Two are computed at a time; the others wait.
waiting = until("requests that wait are seen", lambda: value(**by_queue) == (REQUESTS - 2) // 2)
active, at = told.get(timeout=PATIENCE)
assert active is True
assert keda.IsActive(trigger(), timeout=PATIENCE).result
assert value(pool="draft") == 0, "pools do not see each other"

# The end of it: it is told at once, and the number stays for its cooldown.
seen = value(**by_running)
assert 1 <= seen <= REQUESTS // 2, seen
for stream in streams:
    stream.close()
active, _ = told.get(timeout=PATIENCE)
assert active is False
assert value(**by_running) == seen

print(f"running {running - begun:.3f} s, waiting {waiting - begun:.3f} s, pushed {at - begun:.3f} s")
