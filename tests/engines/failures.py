"""Overload, signals and deaths of the engine's processes, as clients see them."""

import concurrent.futures
import http.client
import json
import os
import signal
import time

import tokens
from servers import until

LONG = {
    "model": "target",
    "messages": [{"role": "user", "content": "Count to a thousand."}],
    "max_tokens": 600,
    "ignore_eos": True,
    "temperature": 0,
    "stream": True,
}
SHORT = {**LONG, "max_tokens": 4, "stream": False, "ignore_eos": False}
CHAT = "/v1/chat/completions"


def load(suite, engine_name, engine, gateway):
    def overload():
        before = engine.metric("vllm:num_preemptions_total") or 0
        body = lambda number: {**SHORT, "max_tokens": 24, "messages": [
            {"role": "user", "content": tokens.text(number, 6)}]}  # fmt: skip
        with concurrent.futures.ThreadPoolExecutor(40) as pool:
            answers = list(pool.map(lambda number: gateway.post(CHAT, body(number)), range(80)))
        statuses = [answer.status for answer in answers]
        assert statuses.count(200) == 80, f"{statuses.count(200)} of 80 answered, others {set(statuses)}"
        preempted = (engine.metric("vllm:num_preemptions_total") or 0) - before
        assert preempted == 0, f"{preempted} preemptions"
        return "80 requests at 40 at once on 8 seats: all answered, 0 preemptions"

    suite.check(engine_name, "overload is queued, not refused", overload)


def stream(gateway, during):
    """Reads a long stream, does something once it has begun, and says how it ended."""
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=90)
    connection.request("POST", CHAT, json.dumps(LONG), {"content-type": "application/json"})
    answer = connection.getresponse()
    received, acted = b"", False
    try:
        while True:
            piece = answer.read1(4096)
            if not piece:
                return received, "closed"
            received += piece
            if not acted and received.count(b"data:") > 3:
                acted = True
                during()
    except (http.client.HTTPException, OSError) as fault:
        return received, f"aborted ({type(fault).__name__})"
    finally:
        connection.close()


def told(received, end):
    """Whether a client can tell that a stream is not whole."""
    finished = b'"finish_reason":"stop"' in received or b'"finish_reason":"length"' in received
    assert not (finished and end == "closed"), "it looks whole"
    assert b"error" in received or end.startswith("aborted"), f"no error told; it ended {end}"
    return f"an error is told, the connection {end}"


def alive(gateway):
    return lambda: gateway.post(CHAT, SHORT, timeout=10).status == 200


def serves(engine, gateway):
    """The engine is up again, and the gateway sends it requests."""
    engine.ready()
    assert until(alive(gateway), 30, every=0.5), "the gateway does not use it again"


def forgets(gateway):
    """What a dead process had cached is not believed in any more."""
    forgotten = lambda: gateway.knowledge("a") in ("estimated", None)
    begun = time.monotonic()
    assert until(forgotten, 5), f"its knowledge is still `{gateway.knowledge('a')}`"
    return f"forgotten within {time.monotonic() - begun:.1f} s"


def cores(engine):
    """The processes that compute; the kernel keeps 15 letters of a name."""
    found = engine.named("VLLM::EngineCor") + engine.named("VLLM::Worker")
    assert found, engine.tree()
    return found


def run(suite, engine_name, engine, gateway):
    warmed = [gateway.post(*request).status for request in tokens.conversation("target", 88_000)]
    assert set(warmed) == {200}, warmed

    def frozen():
        core = cores(engine)
        stop = lambda: [os.kill(one, signal.SIGSTOP) for one in core]
        begun = time.monotonic()
        try:
            line = told(*stream(gateway, stop))
            took = time.monotonic() - begun
        finally:
            for one in core:
                os.kill(one, signal.SIGCONT)
        assert until(alive(gateway), 60, every=0.5), "it is not used again after SIGCONT"
        return f"{line}, after {took:.0f} s, though the API server is healthy; used again after SIGCONT"

    def dies(kill):
        def run():
            try:
                line = told(*stream(gateway, kill))
                engine.process.wait(60)
                forgotten = forgets(gateway)
            finally:
                engine.stop()
                engine.start()
                serves(engine, gateway)
            repeat = list(tokens.conversation("target", 88_000))
            counted = tokens.compared(suite, engine, gateway, repeat)
            return f"{line}; {forgotten}; after the restart {counted}"

        return run

    def core():
        for one in cores(engine):
            os.kill(one, signal.SIGKILL)

    def everything():
        engine.kill()

    def server():
        orphans = [one for one, _ in engine.tree() if one != engine.process.pid]
        os.kill(engine.process.pid, signal.SIGKILL)
        engine.process.wait()
        # vLLM leaves them behind, with the ports of its events.
        time.sleep(1)
        engine.kill(orphans)

    promise = "a stream that it breaks off is told as broken, its cache is forgotten, it is used again: "
    suite.check(engine_name, promise + "SIGTERM", dies(lambda: engine.signal(signal.SIGTERM)))
    suite.check(engine_name, promise + "SIGKILL of all", dies(everything))
    suite.check(engine_name, promise + "SIGKILL of EngineCore", dies(core))
    suite.check(engine_name, promise + "SIGKILL of the API server", dies(server))
    suite.check(engine_name, "a frozen EngineCore (SIGSTOP) is found by its silence", frozen)
