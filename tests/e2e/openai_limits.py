"""The official OpenAI client and its limits: `openai_limits.py BASE_URL MODEL`.

The gateway has two keys: `sk-acme-e2e-0123456789` for everything, with 40 requests a minute, and
`sk-batch-e2e-0123456789` for no model that exists, flexible at most. Each function is one promise.
"""

import sys
from concurrent.futures import ThreadPoolExecutor

import openai
from openai import OpenAI

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
ACME, BATCH = "sk-acme-e2e-0123456789", "sk-batch-e2e-0123456789"


def client(base_url: str, key: str) -> OpenAI:
    return OpenAI(base_url=f"{base_url}/v1", api_key=key, max_retries=0, timeout=60)


def refused(expected: type[openai.APIStatusError], ask) -> openai.APIStatusError:
    try:
        ask()
    except expected as error:
        return error
    raise AssertionError(f"{expected.__name__} was expected")


def unknown_key(base_url: str, model: str) -> None:
    nobody = client(base_url, "sk-nobody")
    ask = lambda: nobody.chat.completions.create(model=model, messages=QUESTION)
    error = refused(openai.AuthenticationError, ask)
    assert error.code == "invalid_api_key", error.body
    error = refused(openai.AuthenticationError, lambda: list(nobody.models.list()))
    assert "sk-nobody" not in str(error), error


def hidden_model(base_url: str, model: str) -> None:
    batch = client(base_url, BATCH)
    ask = lambda: batch.chat.completions.create(model=model, messages=QUESTION)
    assert refused(openai.NotFoundError, ask).code == "model_not_found"
    assert model not in [entry.id for entry in batch.models.list()]


def tier_and_headers(base_url: str, model: str) -> None:
    acme = client(base_url, ACME)
    raw = acme.chat.completions.with_raw_response.create(
        model=model, messages=QUESTION, max_tokens=4, service_tier="flex"
    )
    assert raw.headers["x-overdraft-priority"] == "flex", raw.headers
    assert raw.headers["x-ratelimit-limit-requests"] == "40", raw.headers
    assert int(raw.headers["x-ratelimit-remaining-requests"]) < 40, raw.headers
    ask = lambda: acme.chat.completions.create(
        model=model, messages=QUESTION, extra_body={"service_tier": "turbo"}
    )
    error = refused(openai.BadRequestError, ask)
    assert error.param == "service_tier" and "`flex`" in error.message, error.body


def limited(base_url: str, model: str) -> None:
    acme = client(base_url, ACME)

    def ask(_: int) -> openai.RateLimitError | None:
        try:
            acme.chat.completions.create(model=model, messages=QUESTION, max_tokens=64)
        except openai.RateLimitError as error:
            return error
        return None

    # One worker that answers one at a time, a queue for one: of many at once, some find no place.
    # The forty of the minute are gone soon after at the latest.
    with ThreadPoolExecutor(12) as pool:
        errors = [error for error in pool.map(ask, range(120)) if error is not None]
    assert errors, "not all of 120 fit into 40 a minute"
    for error in errors:
        headers = error.response.headers
        assert error.code == "rate_limit_exceeded", error.body
        assert 1 <= int(headers["retry-after"]) <= 30, headers
        assert 1_000 <= int(headers["retry-after-ms"]) <= 30_000, headers
        assert "try again" in error.message, error.message
    spent = [error for error in errors if "rate limit reached" in error.message]
    assert spent, errors[-1].message
    assert spent[-1].response.headers["x-ratelimit-remaining-requests"] == "0"


PROMISES = [unknown_key, hidden_model, tier_and_headers, limited]


def main() -> None:
    base_url, model = sys.argv[1:3]
    for promise in PROMISES:
        promise(base_url, model)
        print(f"kept: {promise.__name__}")


if __name__ == "__main__":
    main()
