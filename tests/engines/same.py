"""Answers past and through the gateway: equal to the byte, but for what names one answer."""

import json
import re
from servers import free_port  # noqa: F401 (for who starts engines)

# What differs between any two answers to one question.
OWN = [
    (re.compile(rb'"(id|request_id)":"[^"]*"'), rb'"id":"-"'),
    (re.compile(rb'"created":\d+'), rb'"created":0'),
    # What it took llama-server.
    (re.compile(rb',"timings":\{[^{}]*\}'), rb""),
]

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
CHAT = {"model": "target", "messages": QUESTION, "temperature": 0, "max_tokens": 24}
PROMPT = {"model": "target", "prompt": "The capital of France is", "temperature": 0, "max_tokens": 24}
WITH_USAGE = {"stream": True, "stream_options": {"include_usage": True}}

# Attempts to have an engine answer alike twice.
TRIES_MAX = 4

CASES = [
    ("POST", "/v1/chat/completions", CHAT),
    ("POST", "/v1/chat/completions", {**CHAT, **WITH_USAGE}),
    ("POST", "/v1/chat/completions", {**CHAT, "stream": True}),
    ("POST", "/v1/chat/completions", {**CHAT, "n": 2, "temperature": 0.8, "seed": 7, "logprobs": True}),
    ("POST", "/v1/completions", PROMPT),
    ("POST", "/v1/completions", {**PROMPT, **WITH_USAGE}),
    ("POST", "/v1/completions", {**PROMPT, "stream": True}),
    ("POST", "/v1/completions", {**PROMPT, "prompt": ["One, two,", "Three, four,"], "echo": True}),
    ("POST", "/v1/completions", {**PROMPT, "prompt": [1, 85, 91], "logprobs": 2}),
    ("POST", "/tokenize", {"model": "target", "messages": QUESTION}),
    ("POST", "/detokenize", {"model": "target", "tokens": [85, 91, 1808]}),
    ("POST", "/v1/embeddings", {"model": "target", "input": "text"}),
    ("POST", "/v1/chat/completions", {**CHAT, "temperature": 9}),
    ("POST", "/v1/completions", {**PROMPT, "prompt": "word " * 4000}),
]


def bare(body):
    """An answer without what is its own."""
    for pattern, with_what in OWN:
        body = pattern.sub(with_what, body)
    return body


def shown(case):
    method, path, body = case
    more = {name: value for name, value in body.items() if name not in ("model", "messages", "temperature")}
    return f"{method} {path} {json.dumps(more)[:60]}"


def equal(suite, engine, gateway, case):
    """Asks past, past again, and through. Where the engine cuts a stream into chunks differs now and then."""
    for _ in range(TRIES_MAX):
        past, again, through = (server.ask(*case) for server in (engine, engine, gateway))
        first, second, third = (cached_apart(bare(answer.body)) for answer in (past, again, through))
        if first == second:
            assert past.status == through.status, f"{past.status} and {through.status}: {through.body[:200]}"
            if second == third:
                return f"status {past.status}, {len(past.body)} bytes"
    if first != second:
        raise suite.EngineFault("it answers itself differently each time")
    raise AssertionError(f"expected {second[:300]} and got {third[:300]}")


def cached_apart(body):
    """What was cached depends on who asked first."""
    return re.sub(rb'"cached_tokens":\d+', rb'"cached_tokens":0', body)


def models(suite, engine, gateway):
    past = bare(engine.ask("GET", "/v1/models").body)
    through = bare(gateway.ask("GET", "/v1/models").body)
    cards = lambda body: {card["id"]: card for card in json.loads(body)["data"]}
    expected, found = cards(past), cards(through)
    for card in (*expected.values(), *found.values()):
        card.pop("permission", None)
    assert expected == found, f"{expected} and {found}"


def metrics(suite, engine, gateway):
    """What the gateway says of the worker is what the worker says of itself."""
    tokens = gateway.metric("overdraft_worker_tokens", worker="a", kind="kv_capacity")
    info = engine.ask("GET", "/metrics").body.decode()
    told = re.search(r'vllm:cache_config_info\{[^}]*kv_cache_size_tokens="(\d+)"', info)
    if told is None:
        blocks = re.search(r'block_size="(\d+)".*num_gpu_blocks="(\d+)"', info)
        if blocks is None:
            return "the engine does not tell its capacity"
        told = int(blocks[1]) * int(blocks[2])
    else:
        told = int(told[1])
    assert tokens == told, f"the gateway says {tokens}, the engine {told}"
    assert gateway.metric("overdraft_scrapes_total", worker="a", result="ok") > 0
    return f"{told} tokens of cache"


def run(suite, engine_name, engine, gateway):
    for case in CASES:
        suite.check(
            engine_name, f"same bytes: {shown(case)}", lambda case=case: equal(suite, engine, gateway, case)
        )
    suite.check(engine_name, "same models", lambda: models(suite, engine, gateway))
    suite.check(engine_name, "metrics agree", lambda: metrics(suite, engine, gateway))


def cache(suite, engine_name, engine, gateway):
    def again():
        first, second = gateway.post("/v1/chat/completions", CHAT), gateway.post("/v1/chat/completions", CHAT)
        assert first.body == second.body, f"{first.body[:200]} and {second.body[:200]}"
        told = {name.lower(): value for name, value in second.headers.items()}
        assert told.get("x-cache", "").upper().startswith("HIT"), told
        stream = gateway.post("/v1/chat/completions", {**CHAT, "stream": True}).body.decode()
        said = "".join(re.findall(r'"content":"((?:[^"\\]|\\.)*)"', stream))
        whole = first.json()["choices"][0]["message"]["content"]
        assert json.loads(f'"{said}"') == whole, f"{said!r} and {whole!r}"

    suite.check(engine_name, "the response cache gives an answer again, whole and streamed", again)


def cascade(suite, engine_name, target, gateway):
    def verified():
        wrong, served = [], 0
        for number in range(24):
            words = f"Tell me about number {number}. Then say why it matters."
            body = {**CHAT, "messages": [{"role": "user", "content": words}], "max_tokens": 48}
            past = target.post("/v1/chat/completions", body).json()
            answer = gateway.post("/v1/chat/completions", body)
            through = answer.json()
            served += any(name.lower() == "x-overdraft-served-by" for name in answer.headers)
            content = lambda document: document["choices"][0]["message"]["content"]
            if content(past) != content(through):
                wrong.append(f"{number}: {content(past)[:80]!r} and {content(through)[:80]!r}")
        assert not wrong, f"{len(wrong)} of 24 differ: {wrong[0]}"
        return f"24 of 24 equal, {served} told who served"

    suite.check(engine_name, "cascade `verify` gives the target's own text", verified)
