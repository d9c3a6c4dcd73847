"""Cached tokens: what the gateway predicts is what the engine finds."""

import time

from servers import until

# Predicted and actual may differ by so much of the larger, in each workload.
TOLERANCE = 0.01

# Between two requests, so that the events of the first have come, also on a machine that is busy.
SETTLE_SECONDS = 0.3

PREDICTED = ("overdraft_worker_cached_tokens_total", "predicted")
ACTUAL = ("overdraft_worker_cached_tokens_total", "actual")
SENTENCE = "Number {} is a number like any other, and it is followed by number {}. "


def text(seed, sentences):
    return "".join(SENTENCE.format(seed * 1000 + i, seed * 1000 + i + 1) for i in range(sentences))


def chat(model, messages, **more):
    return "/v1/chat/completions", {
        "model": model, "messages": messages, "max_tokens": 4, "temperature": 0, **more}  # fmt: skip


def said(role, words):
    return {"role": role, "content": words}


def conversation(model, seed, **more):
    """A conversation that grows: each request repeats the one before."""
    messages = [said("system", text(seed, 6))]
    for turn in range(5):
        messages = [*messages, said("user", text(seed + turn + 1, 2))]
        yield chat(model, messages, **more)
        messages = [*messages, said("assistant", "I see.")]


def lists(model, seed):
    """Content in parts, and a system prompt that several share."""
    shared = said("system", text(seed, 8))
    for turn in range(5):
        parts = [{"type": "text", "text": text(seed + turn, 1)}, {"type": "text", "text": "And then?"}]
        yield chat(model, [shared, {"role": "user", "content": parts}])


def developer(model, seed):
    messages = [said("developer", text(seed, 8))]
    for turn in range(4):
        yield chat(model, [*messages, said("user", text(seed + turn, 1))])


def salted(model, seed):
    for salt in ("one", "another", "one", "another"):
        yield chat(model, [said("user", text(seed, 8))], cache_salt=salt)


def control(model, seed):
    """Text that spells what the template writes."""
    for turn in range(4):
        words = text(seed, 4) + "<|im_end|>\n<|im_start|>user\n" + text(seed + 1, 4)
        yield chat(model, [said("user", words), said("assistant", "Yes."), said("user", f"And {turn}?")])


def variables(model, seed):
    for turn in range(4):
        kwargs = {"enable_thinking": False, "custom": turn % 2}
        yield chat(model, [said("user", text(seed, 8))], chat_template_kwargs=kwargs)


def truncated(model, seed):
    for turn in range(4):
        words = text(seed + turn % 2, 12)
        yield "/v1/completions", {
            "model": model, "prompt": words, "max_tokens": 4, "temperature": 0,
            "truncate_prompt_tokens": 128}  # fmt: skip


def completions(model, seed):
    for turn in range(5):
        words = text(seed, 4 + 2 * turn)
        yield "/v1/completions", {"model": model, "prompt": words, "max_tokens": 4, "temperature": 0}


def numbers(model, seed):
    """Prompts of tokens."""
    for turn in range(4):
        prompt = [10 + (seed * 7 + i) % 900 for i in range(96 + 40 * turn)]
        yield "/v1/completions", {"model": model, "prompt": prompt, "max_tokens": 4, "temperature": 0}


def streamed(model, seed):
    return conversation(model, seed, stream=True)


WORKLOADS = {
    "a growing conversation": conversation,
    "the same streamed": streamed,
    "content in parts, a shared system prompt": lists,
    "role `developer`": developer,
    "`cache_salt`": salted,
    "control tokens in a client's text": control,
    "`chat_template_kwargs`": variables,
    "`truncate_prompt_tokens`": truncated,
    "completions of text": completions,
    "completions of tokens": numbers,
}


def compared(suite, engine, gateway, requests):
    """Sends requests one after the other; predicted and actual tokens, and the engine's own count."""
    counters = lambda: (
        [gateway.metric(name, kind=kind) or 0 for name, kind in (PREDICTED, ACTUAL)],
        engine.metric("vllm:prefix_cache_hits_total") or 0,
    )
    (predicted, actual), hits = counters()
    count = 0
    for path, body in requests:
        answer = gateway.post(path, body)
        if answer.status != 200:
            direct = engine.post(path, body)
            if direct.status == answer.status:
                raise suite.EngineFault(f"it answers {direct.status}: {direct.body[:120]}")
            raise AssertionError(f"{answer.status}: {answer.body[:200]}")
        count += 1
        # The engine tells what it stored a moment after it has answered.
        time.sleep(SETTLE_SECONDS)
    (predicted_now, actual_now), hits_now = counters()
    told = predicted_now - predicted, actual_now - actual, hits_now - hits
    line = f"{count} requests, predicted {told[0]:.0f}, usage {told[1]:.0f}, engine's counter {told[2]:.0f} tokens"
    most = max(told)
    assert all(abs(one - told[1]) <= TOLERANCE * most for one in told), line
    return line


def run(suite, engine_name, engine, gateway, model):
    def follows():
        gateway.post(*chat(model, [said("user", "Hello.")]))
        found = lambda: gateway.knowledge("a") in ("reported", "exact")
        assert until(found, 10), f"its knowledge is `{gateway.knowledge('a')}`"

    suite.check(engine_name, "KV events are found and followed without configuration", follows)
    base = int(time.time()) % 10_000 * 10
    for number, (name, workload) in enumerate(WORKLOADS.items()):
        requests = lambda: workload(model, base + 20 * number)
        suite.check(
            engine_name,
            f"predicted = actual cached tokens: {name}",
            lambda: compared(suite, engine, gateway, requests()),
        )

    def exact():
        assert gateway.knowledge("a") == "exact", f"it is `{gateway.knowledge('a')}`"

    suite.check(engine_name, "`prefix_knowledge` is `exact` once answers confirm it", exact)


def wrong_topic(suite, engine_name, engine, gateway):
    def never_exact():
        for request in conversation("target", 77_000):
            gateway.post(*request)
        time.sleep(2)
        knowledge = gateway.knowledge("a")
        assert knowledge == "estimated", f"it is `{knowledge}`"

    suite.check(engine_name, "a wrong topic is never `exact`", never_exact)
