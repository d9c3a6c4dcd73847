"""Records what the target model must answer, for the engine's tests to compare with.

`reference.json`: 20 prompts with their token ids, the log-probability of every prompt token, the
greedy continuation of up to 48 tokens, and the 20 most probable tokens at each of its positions.
`tokenizer-vectors.json`: strings that tokenizers trip over, with their ids.

    python models/reference.py --models models --out models
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path

import torch
from gguf_model import GgufModel, tokenizer
from jinja2 import Template
from tokenizers import Tokenizer

NEW_TOKENS = 48
TOP = 20
DIGITS = 6
"""Decimals kept of each log-probability; the comparison allows 1e-3."""

CHATS = (
    ("Hello!",), ("What is 27 + 48?",), ("Work out 347 + 589 step by step.",),
    ("Convert 3.5 km to m.",), ("What is the capital of France?",),
    ("What is speculative decoding?",),
    ("Explain the KV cache in detail.",), ("Reverse the word stream.",),
    ("Sort these numbers: 41, 7, 93, 12, 5",), ("List the days of the week as a numbered list.",),
    ("How do I start Overdraft?",), ("Which port does Redis use?",),
    ("Rename the variable width to height:\n```python\nwidth = 12\narea = width * 4\n```",),
    ("Repeat this exactly: The quick brown fox jumps over the lazy dog.",),
    ("Write a Python function called longest that returns the larger of two numbers.",),
    ("Count from 5 to 20.",), ("Ünïcödé: 日本語, emoji 🦀 and\ttabs.",),
    ("What is 6 * 7?", "6 * 7 = 42", "Spell the word cache."),
    ("Tell me about prefix caching.", "Prefix caching reuses KV blocks.", "Thanks"),
    ("Write this as JSON: token is 12, name is Ida.",),
)
SYSTEM = {4: "You are a helpful assistant.", 7: "Answer in upper case.", 15: "Be concise."}

STRINGS = (
    "", " ", "  ", "   x", "Hello", " Hello", "Hello world", "hello   world", "tab\tand\nnewline",
    "\n", "\n\n\n", "a\r\nb\r\n", "trailing space ", "trailing newlines\n\n", "1234567890",
    "3.14159 and -42", "1,000,000", "don't we'll I'M they'RE", "snake_case camelCase kebab-case",
    "def f(x):\n    return x ** 2\n", "ÄÖÜ äöü ß é è ñ ç", "日本語のテキスト", "Привет, мир",
    "🦀🚀👩‍👩‍👧‍👦 ❤️",
    "e\u0301 versus é", "\u200bzero\u00a0width", "مرحبا ١٢٣", "<|im_start|>user\nHi<|im_end|>\n",
    "text<|endoftext|>text", "<|im_start|", "a<|im_end|>b <|im_end|> c", "{\"k\": [1, 2.5, null]}",
    "http://127.0.0.1:8080/v1/chat/completions?x=1&y=%20", "....---___***", "\x00\x01\x7f",
    "ﬁ ½ ² Ⅷ",
)


def messages(index: int) -> list[dict[str, str]]:
    """Turns one entry of CHATS into chat messages."""
    roles = ("user", "assistant")
    turns = [{"role": roles[i % 2], "content": t} for i, t in enumerate(CHATS[index])]
    return [{"role": "system", "content": SYSTEM[index]}, *turns] if index in SYSTEM else turns


def greedy(model: GgufModel, ids: list[int]) -> tuple[list[int], list[list[list[float]]]]:
    """Continues greedily; returns the new ids and the best tokens at each position."""
    new, steps = [], []
    while len(new) < NEW_TOKENS and model.end not in new:
        last = model.logprobs(torch.tensor([ids + new]))[0, -1]
        best = last.topk(TOP)
        steps.append([[i, round(p, DIGITS)] for i, p in
                      zip(best.indices.tolist(), best.values.tolist())])
        new.append(best.indices[0].item())
    return new, steps


def record(model: GgufModel, encoder: Tokenizer, index: int) -> dict:
    """Runs one prompt through the chat template and the model."""
    chat = messages(index)
    template = Template(model.fields["tokenizer.chat_template"])
    prompt = template.render(messages=chat, add_generation_prompt=True)
    ids = encoder.encode(prompt).ids
    scores = model.logprobs(torch.tensor([ids]))[0]
    prompt_logprobs = [round(scores[i, t].item(), DIGITS) for i, t in enumerate(ids[1:])]
    new, steps = greedy(model, ids)
    return {
        "messages": chat, "prompt": prompt, "prompt_ids": ids,
        "prompt_logprobs": [None, *prompt_logprobs], "greedy_ids": new,
        "greedy_text": encoder.decode(new), "top_logprobs": steps,
    }


def write_reference(path: Path, out: Path) -> None:
    """Writes `reference.json`, one line a prompt."""
    model = GgufModel(path)
    encoder = tokenizer(model)
    head = {
        "model": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "framework": f"PyTorch {torch.__version__.split('+')[0]}, float32",
        "note": "weights widened to float32, keys and values not rounded to f16, no cache; "
                "prompt_logprobs[0] is null; top_logprobs holds [id, logprob] for each new token",
        "new_tokens": NEW_TOKENS, "end_token": model.end,
    }
    lines = [json.dumps(record(model, encoder, i), ensure_ascii=False) for i in range(len(CHATS))]
    body = ",\n".join(lines)
    text = json.dumps(head, indent=1)[:-2] + f',\n "prompts": [\n{body}\n]}}\n'
    json.loads(text)
    (out / "reference.json").write_text(text)


def write_vectors(path: Path, out: Path) -> None:
    """Writes `tokenizer-vectors.json`, one line a string."""
    model = GgufModel(path)
    with_special, plain = tokenizer(model), tokenizer(model, special=False)
    lines = [
        json.dumps({"text": s, "ids": with_special.encode(s).ids,
                    "ids_special_as_text": plain.encode(s).ids}) for s in STRINGS
    ]
    body = ",\n".join(lines)
    (out / "tokenizer-vectors.json").write_text(f"[\n{body}\n]\n")


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, required=True, help="folder of the GGUF files")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    path = options.models / "overdraft-target.f16.gguf"
    write_vectors(path, options.out)
    write_reference(path, options.out)


if __name__ == "__main__":
    main()
