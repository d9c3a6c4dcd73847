"""Look-up in the context: a list of notes, a table or a profile, then a question about one line."""

from __future__ import annotations

from random import Random

from .example import Example, fill
from .words import ADJECTIVES, COLOURS, NAMES, PLAIN, THINGS

RELATIONS = (
    ("The code of room {k} is {v}.", "What is the code of room {k}?"),
    ("The price of the {k} is {v} euros.", "What is the price of the {k}?"),
    ("{k} has the {v} key.", "Which key does {k} have?"),
    ("The phone number of {k} is {v}.", "What is the phone number of {k}?"),
    ("{k} lives at number {v}.", "At which number does {k} live?"),
    ("The {k} is {v}.", "Which colour does the {k} have?"),
    ("Worker {k} serves model {v}.", "Which model does worker {k} serve?"),
    ("Order {k} contains a {v}.", "What does order {k} contain?"),
)


def pairs(rng: Random, relation: int, count: int) -> list[tuple[str, str]]:
    """Draws distinct keys with values that suit the relation."""
    number_keys = [str(n) for n in rng.sample(range(10, 1000), min(count, 900))]
    things = [f"{a} {t}" for a in rng.sample(ADJECTIVES, 40) for t in rng.sample(THINGS, 12)]
    rng.shuffle(things)
    people = NAMES + [f"{a} {b[0]}." for a in NAMES for b in NAMES[::5]]
    people = rng.sample(people, min(count, len(people)))
    digits = [str(rng.randint(100, 9999)) for _ in range(count)]
    colours = [rng.choice(COLOURS) for _ in range(count)]
    words = [rng.choice(PLAIN) for _ in range(count)]
    keys, values = (
        (number_keys, digits), (things, digits), (people, colours), (people, digits),
        (people, digits), (things, colours), (number_keys, words), (number_keys, words),
    )[relation]
    return list(zip(dict.fromkeys(keys), values))[:count]


def notes(rng: Random, count: int) -> tuple[str, list[tuple[str, str]]]:
    """Makes a list of notes and the questions with answers that it supports."""
    relation = rng.randrange(len(RELATIONS))
    line, ask = RELATIONS[relation]
    rows = pairs(rng, relation, count)
    mark = rng.choice(("- ", "", "* "))
    text = "\n".join(mark + line.format(k=k, v=v) for k, v in rows)
    return text, [(ask.format(k=k), line.format(k=k, v=v)) for k, v in rows]


def sample(rng: Random) -> Example:
    """Draws a short list of notes with one question."""
    count = rng.choice((2, 3, 4, 5, 6, 8, 10, 12))
    text, supported = notes(rng, count)
    ask, answer = rng.choice(supported)
    forms = ("{t}\n\n{q}", "Here are some notes:\n{t}\n\n{q}", "Read this:\n{t}\nQuestion: {q}",
             "{q} Use these notes:\n{t}")
    return Example("lookup", fill(rng, forms, t=text, q=ask), (answer,), 1 + (count > 4))
