"""A streamed answer with OpenAI's client: pip install openai."""

import os

from openai import OpenAI

client = OpenAI(
    base_url=os.environ.get("OVERDRAFT_URL", "http://127.0.0.1:8080") + "/v1",
    api_key=os.environ.get("OVERDRAFT_KEY", "unused"),  # one of `keys`, where the gateway has some
)
stream = client.chat.completions.create(
    model=os.environ.get("OVERDRAFT_MODEL", "overdraft-target"),
    messages=[{"role": "user", "content": "What is a KV cache?"}],
    stream=True,
    max_tokens=64,
    extra_headers={"x-overdraft-priority": "default"},  # or flex, priority
)
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)
print()
