"""Mid-stream failover: a second engine ends the answer of one that is killed, and the client sees one stream.

Answers are greedy, so the right one is known: what an engine says when nothing happens to it. Two tokens that
are equally likely may be chosen differently in another batch, so the second engine is asked alone too.
"""

import http.client
import json
import signal
import time

CHAT = "/v1/chat/completions"
# Chunks that have been seen when the engine dies.
SEEN = 20
# Until a killed engine is found and a stopped one has ended.
REST_SECONDS = 3


def question(model, number, tokens):
    text = f"Tell me a long story about a river and {number} stones."
    body = {"model": model, "messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": tokens}
    return body


def stream(gateway, body, during=None):
    """Reads a stream to its end: its text, its finish reason, its comments and who began it."""
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=180)
    asked = {**body, "stream": True, "stream_options": {"include_usage": True}}
    connection.request("POST", CHAT, json.dumps(asked), {"content-type": "application/json"})
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    text, finish, comments, usage, chunks = "", None, [], None, 0
    for line in answer:
        line = line.decode().strip()
        if line.startswith(":"):
            comments.append(line)
        if not line.startswith("data: ") or line == "data: [DONE]":
            continue
        event = json.loads(line[6:])
        assert "error" not in event, event
        usage = event.get("usage") or usage
        for choice in event["choices"]:
            text += choice["delta"].get("content") or ""
            finish = choice.get("finish_reason") or finish
        chunks += 1
        if during and chunks == SEEN:
            during(answer.headers["x-overdraft-worker"])
            during = None
    connection.close()
    return text, finish, comments, usage


def run(suite, engine_name, start, gateway_of, model, tokens):
    """`start(name)` starts an engine, `gateway_of(engines)` a gateway before two of them."""
    engines = {name: suite.start(start(name)) for name in ("a", "b")}
    gateway = suite.start(gateway_of(engines))

    def killed_by(which):
        def check():
            body = question(model, which.value, tokens)
            answers = [engine.post(CHAT, body).json() for engine in engines.values()]
            told = {answer["choices"][0]["message"]["content"]: answer for answer in answers}
            gone = []

            def kill(worker):
                gone.append(engines[worker])
                if which == signal.SIGKILL:
                    engines[worker].kill()
                else:
                    engines[worker].signal(which)

            text, finish, comments, usage = stream(gateway, body, kill)
            for engine in gone:
                engine.process.wait(60)
                engine.start().ready()
            time.sleep(REST_SECONDS)
            resumed = [comment for comment in comments if "resumed" in comment]
            assert resumed, "it ended before it was killed"
            assert text in told, f"{text!r}, expected one of {list(told)}"
            expected = told[text]["choices"][0]["finish_reason"], told[text]["usage"]["completion_tokens"]
            assert (finish, usage["completion_tokens"]) == expected, f"{finish}, {usage}, expected {expected}"
            return f"{expected[1]} tokens, none lost or doubled; {resumed[0].lstrip(': ')}"

        return check

    for which in (signal.SIGKILL, signal.SIGTERM):
        promise = f"the other ends its stream, equal to the undisturbed answer: {which.name}"
        suite.check(engine_name, promise, killed_by(which))
    suite.stop()
