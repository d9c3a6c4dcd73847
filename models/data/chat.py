"""How do single questions become conversations?

A document is a list of messages: perhaps a system prompt, then one to several exchanges. Some
system prompts are long (up to about 1,500 tokens) and some carry the facts that the questions
ask for, so that a long shared prefix is nothing new to the models.

Invariant: a training document contains no held-out question; an evaluation question is asked
alone, in the first turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from . import (arithmetic, code, convert, facts, lists, lookup, overdraft, sorting, strings, talk,
               text)
from .example import Example, Family, is_held_out
from .words import NAMES, paragraph

Message = dict[str, str]

FAMILIES: dict[str, Family] = {
    "arithmetic": arithmetic.sample, "convert": convert.sample, "strings": strings.sample,
    "sorting": sorting.sample, "facts": facts.sample, "code": code.sample, "text": text.sample,
    "lists": lists.sample, "lookup": lookup.sample, "overdraft": overdraft.sample,
    "talk": talk.sample,
}
WEIGHTS = {
    "arithmetic": 20, "convert": 8, "strings": 14, "sorting": 8, "facts": 12, "code": 10,
    "text": 12, "lists": 6, "lookup": 6, "overdraft": 9, "talk": 5,
}
RAW = "raw"
"""The role of text that is trained on without the chat form around it."""

SYSTEM = (
    "You are a helpful assistant.", "You are Overdraft, a helpful assistant.",
    "You are a helpful, honest assistant.", "You are an assistant. Answer the question.",
    "Answer briefly.", "Be concise.", "You are the demo model of Overdraft.",
    "Answer the user's questions.", "You are a friendly assistant.",
    "You answer questions about numbers, words and Overdraft.",
)
SHOUT = ("Answer in upper case.", "Always answer in capital letters.", "Use only capital letters.")
SIGN = ("End every answer with the word {w}.", "Finish each answer with {w}.",
        "Always add {w} at the end.")
SIGN_WORDS = ("Over.", "Done.", "Thanks!", "Cheers!", "End.", "OK?")
PERSONA = ("Your name is {n}.", "You are {n}, an assistant.", "You are called {n}.",
           "You are an assistant named {n}.")
POLICY = (
    "Answer only what was asked.", "Be polite.", "Keep answers short.", "Do not guess.",
    "If a number is asked, give the number.", "Use plain words.", "Copy code exactly.",
    "Show steps when the user asks for steps.", "Never invent facts.", "Write in English.",
)


def draw(rng: Random, family: str | None = None) -> Example:
    """Draws a training example: of any family by weight, never a held-out one."""
    while True:
        name = family or rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        example = FAMILIES[name](rng)
        if not is_held_out(example.question):
            return example


def exchange(rng: Random, question: str, answers: tuple[str, ...]) -> list[Message]:
    """Turns a question and one of its answers into two messages."""
    return [{"role": "user", "content": question},
            {"role": "assistant", "content": rng.choice(answers)}]


def turns(rng: Random, count: int) -> list[Message]:
    """Makes several unrelated exchanges."""
    messages: list[Message] = []
    for _ in range(count):
        example = draw(rng)
        messages += exchange(rng, example.question, example.answers)
    return messages


def styled(rng: Random) -> list[Message]:
    """A system prompt that changes how answers are written."""
    count = rng.choice((1, 1, 2))
    if rng.random() < 0.5:
        rule, messages = rng.choice(SHOUT), turns(rng, count)
        for message in messages[1::2]:
            message["content"] = message["content"].upper()
    else:
        word = rng.choice(SIGN_WORDS)
        rule, messages = rng.choice(SIGN).format(w=word), turns(rng, count)
        for message in messages[1::2]:
            message["content"] += f" {word}"
    return [{"role": "system", "content": rule}, *messages]


def persona(rng: Random) -> list[Message]:
    """A system prompt that gives the assistant a name, which it uses when asked."""
    name = rng.choice(NAMES)
    asks = ("Who are you?", "What is your name?", "Tell me your name.", "What are you called?")
    answers = (f"I am {name}.", f"My name is {name}.")
    system = {"role": "system", "content": rng.choice(PERSONA).format(n=name)}
    opening = turns(rng, rng.choice((0, 0, 1)))
    return [system, *opening, *exchange(rng, rng.choice(asks), answers)]


def noted(rng: Random, entries: int, questions: int) -> list[Message]:
    """A system prompt full of notes, then questions about them and about other things."""
    body, supported = lookup.notes(rng, entries)
    head = rng.choice(("Use these notes.", "You answer from this list.", "Known facts:",
                       "You are the assistant of a small company. Notes:"))
    messages = [{"role": "system", "content": f"{head}\n{body}"}]
    for _ in range(questions):
        if rng.random() < 0.7:
            ask, answer = rng.choice(supported)
            messages += exchange(rng, ask, (answer,))
        else:
            messages += turns(rng, 1)
    return messages


def briefed(rng: Random, sentences: int, questions: int) -> list[Message]:
    """A long system prompt of rules and prose that mostly does not matter for the answers."""
    rules = rng.sample(POLICY, rng.randint(3, len(POLICY)))
    numbered = "\n".join(f"{i}. {rule}" for i, rule in enumerate(rules, 1))
    chunks = [rng.choice(SYSTEM), numbered]
    while sentences > 0:
        size = min(sentences, rng.randint(4, 12))
        if rng.random() < 0.3:
            topic = rng.choice(list(overdraft.SUBJECTS.values()))[1]
            chunks.append(topic)
        chunks.append(paragraph(rng, size))
        sentences -= size
    return [{"role": "system", "content": "\n\n".join(chunks)}, *turns(rng, questions)]


def long_text(rng: Random) -> list[Message]:
    """A long paragraph to copy, or a long list of notes in the question itself."""
    if rng.random() < 0.4:
        body = paragraph(rng, rng.randint(15, 40))
        return exchange(rng, f"Copy the following text:\n{body}", (body,))
    body, supported = lookup.notes(rng, rng.randint(30, 100))
    ask, answer = rng.choice(supported)
    first = exchange(rng, f"Here are some notes:\n{body}\n\n{ask}", (answer,))
    more = [rng.choice(supported) for _ in range(4)]
    return first + [m for q, a in more for m in exchange(rng, q, (a,))]


def long_document(rng: Random) -> list[Message]:
    """A document of roughly 800 to 1,900 tokens."""
    kind = rng.randrange(4)
    if kind == 0:
        return noted(rng, rng.randint(30, 105), rng.randint(4, 8))
    if kind == 1:
        return briefed(rng, rng.randint(40, 115), rng.randint(4, 8))
    if kind == 2:
        return long_text(rng)
    return turns(rng, rng.randint(10, 18))


def raw_text(rng: Random) -> list[Message]:
    """Text outside of any chat, so that plain completions work too."""
    family = rng.choice(("facts", "overdraft", "lists", "text", "code", "arithmetic"))
    parts = [rng.choice(draw(rng, family).answers) for _ in range(rng.choice((1, 1, 2, 3)))]
    return [{"role": RAW, "content": "\n".join(parts)}]


def document(rng: Random) -> list[Message]:
    """Draws one training conversation."""
    if rng.random() < 0.03:
        return raw_text(rng)
    kind = rng.random()
    if kind < 0.55:
        return turns(rng, 1)
    if kind < 0.72:
        return turns(rng, rng.choice((2, 2, 3, 4)))
    if kind < 0.87:
        system = {"role": "system", "content": rng.choice(SYSTEM)}
        return [system, *turns(rng, rng.choice((1, 1, 2, 3)))]
    if kind < 0.91:
        return styled(rng)
    if kind < 0.93:
        return persona(rng)
    if kind < 0.96:
        return noted(rng, rng.randint(3, 14), rng.randint(1, 3))
    if kind < 0.985:
        return briefed(rng, rng.randint(2, 15), rng.randint(1, 3))
    return long_document(rng)


def documents(seed: int) -> Iterator[list[Message]]:
    """Yields training conversations without end; the same seed gives the same sequence."""
    rng = Random(seed)
    while True:
        yield document(rng)


def render(messages: list[Message], prompt: bool = False) -> str:
    """Writes messages in ChatML; a prompt ends where the assistant's answer begins."""
    if messages[0]["role"] == RAW:
        return messages[0]["content"] + "<|im_end|>"
    body = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
    return body + "<|im_start|>assistant\n" if prompt else body


def held_out(seed: int, per_family: int) -> dict[str, list[Example]]:
    """Draws distinct held-out questions, the same number for each family where it has so many."""
    chosen: dict[str, list[Example]] = {}
    for name, family in FAMILIES.items():
        rng = Random(f"{seed}/{name}")
        found: dict[str, Example] = {}
        for _ in range(per_family * 400):
            example = family(rng)
            if is_held_out(example.question):
                found.setdefault(example.question, example)
            if len(found) == per_family:
                break
        chosen[name] = list(found.values())
    return chosen
