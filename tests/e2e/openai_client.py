"""The official OpenAI client against a running Overdraft: `openai_client.py BASE_URL MODEL`.

Each function is one promise; the first broken one ends the script with a traceback. Prints one line
per kept promise, so that a failing run shows how far it came.
"""

import json
import math
import sys

import openai
from openai import OpenAI

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


def chat(client: OpenAI, model: str) -> None:
    answer = client.chat.completions.create(model=model, messages=QUESTION, temperature=0)
    choice = answer.choices[0]
    assert answer.object == "chat.completion" and answer.id and answer.model == model, answer
    assert choice.message.role == "assistant" and choice.message.content.strip(), choice
    assert choice.finish_reason == "stop", choice
    usage = answer.usage
    assert usage.prompt_tokens > 5 and usage.completion_tokens > 0, usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens, usage


def streamed_chat(client: OpenAI, model: str) -> None:
    whole = client.chat.completions.create(model=model, messages=QUESTION, temperature=0)
    stream = client.chat.completions.create(
        model=model,
        messages=QUESTION,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content, (text, whole)
    assert chunks[0].choices[0].delta.role == "assistant", chunks[0]
    finished = [c.choices[0].finish_reason for c in chunks if c.choices][-1]
    assert finished == "stop", chunks[-2]
    assert chunks[-1].usage is not None and not chunks[-1].choices, chunks[-1]
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens, chunks[-1]
    assert len({c.id for c in chunks}) == 1, "every chunk carries the same id"
    assert len(chunks) > 3, "it was streamed, not sent at once"


def completions(client: OpenAI, model: str) -> None:
    answer = client.completions.create(
        model=model, prompt="The capital of France is", max_tokens=8, temperature=0
    )
    assert answer.object == "text_completion" and answer.choices[0].text, answer
    assert answer.usage.completion_tokens <= 8, answer.usage
    echoed = client.completions.create(
        model=model, prompt="The capital", max_tokens=4, temperature=0, echo=True, logprobs=2
    )
    assert echoed.choices[0].text.startswith("The capital"), echoed
    logprobs = echoed.choices[0].logprobs
    assert logprobs.token_logprobs[0] is None, "the first token has nothing before it"
    assert all(value <= 0 for value in logprobs.token_logprobs[1:]), logprobs
    assert "".join(logprobs.tokens) == echoed.choices[0].text, logprobs
    by_ids = client.completions.create(
        model=model, prompt=[10, 11, 12, 13], max_tokens=3, temperature=0
    )
    assert by_ids.usage.prompt_tokens == 4, by_ids.usage
    several = client.completions.create(
        model=model, prompt=["One", "Two"], max_tokens=3, temperature=0
    )
    assert [choice.index for choice in several.choices] == [0, 1], several


def two_choices(client: OpenAI, model: str) -> None:
    answer = client.chat.completions.create(
        model=model, messages=QUESTION, n=2, temperature=1.5, seed=7, max_tokens=12
    )
    assert sorted(choice.index for choice in answer.choices) == [0, 1], answer
    stream = client.chat.completions.create(
        model=model, messages=QUESTION, n=2, temperature=1.5, seed=7, max_tokens=12, stream=True
    )
    texts = {0: "", 1: ""}
    for chunk in stream:
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert texts == {c.index: c.message.content for c in answer.choices}, (texts, answer)


def logprobs(client: OpenAI, model: str) -> None:
    answer = client.chat.completions.create(
        model=model, messages=QUESTION, temperature=0, logprobs=True, top_logprobs=5
    )
    content = answer.choices[0].logprobs.content
    assert "".join(entry.token for entry in content).startswith(answer.choices[0].message.content)
    for entry in content:
        assert len(entry.top_logprobs) == 5, entry
        best = entry.top_logprobs[0]
        assert math.isclose(best.logprob, entry.logprob), "greedy takes the likeliest token"
        assert sum(math.exp(top.logprob) for top in entry.top_logprobs) <= 1.001, entry
        assert bytes(entry.bytes).decode(errors="replace") == entry.token, entry


def stop(client: OpenAI, model: str) -> None:
    ask = dict(model=model, messages=QUESTION, temperature=0)
    whole = client.chat.completions.create(**ask).choices[0].message.content
    cut = whole[len(whole) // 2 :][:3]
    answer = client.chat.completions.create(**ask, stop=[cut, "never said"])
    assert answer.choices[0].message.content == whole[: whole.index(cut)], (answer, whole)
    assert answer.choices[0].finish_reason == "stop", answer
    short = client.chat.completions.create(**ask, max_tokens=2)
    assert short.choices[0].finish_reason == "length", short
    assert short.usage.completion_tokens == 2, short


def seed(client: OpenAI, model: str) -> None:
    def say(number: int) -> str:
        answer = client.chat.completions.create(
            model=model, messages=QUESTION, temperature=2.0, seed=number, max_tokens=24
        )
        return answer.choices[0].message.content

    assert say(1) == say(1), "one seed, one answer"
    assert len({say(number) for number in range(5)}) > 1, "seeds differ"


def unknown_model(client: OpenAI, _: str) -> None:
    try:
        client.chat.completions.create(model="no-such-model", messages=QUESTION)
    except openai.NotFoundError as error:
        assert error.code == "model_not_found", error.body
        assert "no-such-model" in error.body["message"], error.body
    else:
        raise AssertionError("an unknown model was answered")


def wrong_type(client: OpenAI, model: str) -> None:
    wrong = [
        ("temperature", dict(temperature="hot")),
        ("max_tokens", dict(max_tokens=-1)),
        ("top_p", dict(top_p=3)),
        ("messages[0].role", dict(messages=[{"role": 5, "content": "x"}])),
        ("n", dict(n=0)),
    ]
    for param, fields in wrong:
        try:
            client.chat.completions.create(**{"model": model, "messages": QUESTION} | fields)
        except openai.BadRequestError as error:
            assert error.param == param, (param, error.body)
            assert error.type == "invalid_request_error", error.body
        else:
            raise AssertionError(f"{json.dumps(fields)} was accepted")


def models(client: OpenAI, model: str) -> None:
    listed = [entry.id for entry in client.models.list()]
    assert model in listed, listed
    assert client.models.retrieve(model).id == model


PROMISES = [
    chat,
    streamed_chat,
    completions,
    two_choices,
    logprobs,
    stop,
    seed,
    unknown_model,
    wrong_type,
    models,
]


def main() -> None:
    base_url, model = sys.argv[1:3]
    client = OpenAI(base_url=f"{base_url}/v1", api_key="unused", max_retries=0, timeout=60)
    for promise in PROMISES:
        promise(client, model)
        print(f"kept: {promise.__name__}")


if __name__ == "__main__":
    main()
