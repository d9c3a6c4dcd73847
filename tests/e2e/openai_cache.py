"""The official OpenAI client before a gateway that gives answers again: `openai_cache.py BASE_URL MODEL`.

Each function is one promise; the first broken one ends the script with a traceback.
"""

import sys
from concurrent.futures import ThreadPoolExecutor

from openai import OpenAI


def asked(client: OpenAI, model: str, words: str, **more):
    """A whole answer: its mark, its bytes, and what the client makes of them."""
    raw = client.chat.completions.with_raw_response.create(
        model=model, messages=[{"role": "user", "content": words}], temperature=0, **more
    )
    return raw.headers.get("x-cache"), raw.content, raw.parse()


def streamed(client: OpenAI, model: str, words: str, **more):
    """A stream: its mark and its chunks."""
    raw = client.chat.completions.with_raw_response.create(
        model=model, messages=[{"role": "user", "content": words}], temperature=0, stream=True, **more
    )
    return raw.headers.get("x-cache"), list(raw.parse())


def text(chunks) -> str:
    return "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)


def whole_again(client: OpenAI, model: str) -> None:
    first, once, answer = asked(client, model, "Say one thing twice.")
    second, twice, again = asked(client, model, "Say one thing twice.")
    assert (first, second) == ("MISS", "HIT"), (first, second)
    assert once == twice and answer == again, (once, twice)


def stream_of_a_whole_answer(client: OpenAI, model: str) -> None:
    _, _, answer = asked(client, model, "Say it whole, then in pieces.")
    mark, chunks = streamed(
        client, model, "Say it whole, then in pieces.", stream_options={"include_usage": True}
    )
    assert mark == "HIT" and text(chunks) == answer.choices[0].message.content, chunks
    assert chunks[0].choices[0].delta.role == "assistant", chunks[0]
    assert {c.id for c in chunks} == {answer.id}, chunks
    finished = [c.choices[0].finish_reason for c in chunks if c.choices][-1]
    assert finished == answer.choices[0].finish_reason, chunks
    assert chunks[-1].usage.total_tokens == answer.usage.total_tokens, chunks[-1]


def whole_answer_of_a_stream(client: OpenAI, model: str) -> None:
    first, chunks = streamed(client, model, "Say it in pieces, then whole.")
    second, again = streamed(client, model, "Say it in pieces, then whole.")
    assert (first, second) == ("MISS", "HIT"), (first, second)
    assert chunks == again and all(c.usage is None for c in chunks), chunks
    mark, _, answer = asked(client, model, "Say it in pieces, then whole.")
    assert mark == "HIT" and answer.object == "chat.completion", answer
    assert answer.choices[0].message.content == text(chunks), (answer, chunks)
    assert answer.id == chunks[0].id and answer.usage.completion_tokens > 0, answer


def completions_again(client: OpenAI, model: str) -> None:
    def ask(**more):
        raw = client.completions.with_raw_response.create(
            model=model, prompt="The capital of France is", max_tokens=8, temperature=0, **more
        )
        return raw.headers.get("x-cache"), raw.parse()

    first, answer = ask()
    second, chunks = ask(stream=True)
    assert (first, second) == ("MISS", "HIT"), (first, second)
    assert "".join(c.choices[0].text for c in chunks if c.choices) == answer.choices[0].text


def at_once(client: OpenAI, model: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: asked(client, model, "All of you at once."), range(8)))
    assert len({answer.id for _, _, answer in answers}) == 1, answers
    marks = [mark for mark, _, _ in answers]
    assert marks.count("MISS") == 1 and set(marks) <= {"MISS", "HIT", "COALESCED"}, marks


def as_wished(client: OpenAI, model: str) -> None:
    wish = lambda word: {"extra_headers": {"x-overdraft-cache": word}}
    asked(client, model, "As I wish.")
    assert asked(client, model, "As I wish.", **wish("off"))[0] == "BYPASS"
    assert asked(client, model, "As I wish.", **wish("refresh"))[0] == "MISS"
    assert asked(client, model, "As I wish.")[0] == "HIT"


def main() -> None:
    base_url, model = sys.argv[1:3]
    client = OpenAI(base_url=f"{base_url}/v1", api_key="sk-cache", max_retries=0, timeout=60)
    for promise in (
        whole_again,
        stream_of_a_whole_answer,
        whole_answer_of_a_stream,
        completions_again,
        at_once,
        as_wished,
    ):
        promise(client, model)
        print(promise.__name__, flush=True)


if __name__ == "__main__":
    main()
