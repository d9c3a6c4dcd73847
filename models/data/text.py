"""Text copying with small edits, from one sentence to a paragraph."""

from __future__ import annotations

from random import Random

from .example import Example, fill
from .words import ADJECTIVES, ANIMALS, THINGS, paragraph, sentence

COPY = (
    "Repeat this exactly: {t}", "Copy the following text:\n{t}", "Say this again: {t}",
    "Please repeat after me: {t}", "Write this text once more, unchanged:\n{t}",
    "Echo the following: {t}",
)


def copy(rng: Random) -> Example:
    """The text, unchanged."""
    count = rng.choice((1, 1, 2, 3, 4, 6))
    text = paragraph(rng, count)
    return Example("text", fill(rng, COPY, t=text), (text,), 1 + (count > 2))


def replace(rng: Random) -> Example:
    """One word replaced wherever it stands."""
    text = paragraph(rng, rng.choice((1, 1, 2, 3)))
    words = text.replace(".", "").split()
    old = rng.choice([w for w in words if len(w) > 2])
    new = rng.choice([w for w in ANIMALS + THINGS + ADJECTIVES if w not in words])
    changed = " ".join(
        new + "." * w.endswith(".") if w.rstrip(".") == old else w for w in text.split()
    )
    asks = (
        "Replace the word {o} with {n}: {t}", "In this text, change {o} to {n}:\n{t}",
        "Write the text again with {n} instead of {o}:\n{t}", "Swap {o} for {n} in: {t}",
    )
    return Example("text", fill(rng, asks, o=old, n=new, t=text), (changed,), 2)


def remove(rng: Random) -> Example:
    """One word left out."""
    words = sentence(rng).split()
    index = rng.randrange(1, len(words) - 1)
    drop = words[index]
    rest = " ".join(w for w in words if w != drop)
    asks = ("Remove the word {w} from: {t}", "Delete every {w} from this sentence: {t}",
            "Write this without the word {w}: {t}")
    return Example("text", fill(rng, asks, w=drop, t=" ".join(words)), (rest,), 2)


def doubled(rng: Random) -> Example:
    """A doubled word corrected."""
    words = sentence(rng).split()
    index = rng.randrange(1, len(words) - 1)
    broken = " ".join(words[: index + 1] + words[index:])
    asks = ("Remove the doubled word: {t}", "Fix the repeated word in this sentence: {t}",
            "One word is written twice. Correct it: {t}")
    return Example("text", fill(rng, asks, t=broken), (" ".join(words),), 2)


def case(rng: Random) -> Example:
    """A sentence in capitals or in small letters."""
    text = sentence(rng)
    kind, new = rng.choice((("upper case", text.upper()), ("lower case", text.lower())))
    asks = ("Write in {k}: {t}", "Convert this sentence to {k}: {t}", "Put this in {k}: {t}")
    return Example("text", fill(rng, asks, k=kind, t=text), (new,), 3 if "upper" in kind else 2)


def count_words(rng: Random) -> Example:
    """How many words or sentences there are."""
    if rng.random() < 0.6:
        text = sentence(rng)
        count, unit = len(text.split()), "words"
    else:
        count, unit = rng.randint(2, 6), "sentences"
        text = paragraph(rng, count)
    asks = ("How many {u} are in this text? {t}", "Count the {u}: {t}")
    return Example("text", fill(rng, asks, u=unit, t=text), (f"There are {count} {unit}.",), 3)


def nth_sentence(rng: Random) -> Example:
    """One sentence out of a paragraph."""
    sentences = [sentence(rng) for _ in range(rng.randint(2, 5))]
    name, chosen = rng.choice((("first", sentences[0]), ("last", sentences[-1]),
                               ("second", sentences[1])))
    asks = ("Write only the {n} sentence: {t}", "What is the {n} sentence of this text?\n{t}",
            "Quote the {n} sentence of:\n{t}")
    return Example("text", fill(rng, asks, n=name, t=" ".join(sentences)), (chosen,), 2)


def enumerate_lines(rng: Random) -> Example:
    """Sentences as a numbered or a bulleted list."""
    sentences = [sentence(rng) for _ in range(rng.randint(2, 5))]
    kind = rng.choice(("numbered", "bulleted"))
    marks = [f"{i}. " if kind == "numbered" else "- " for i in range(1, len(sentences) + 1)]
    answer = "\n".join(mark + line for mark, line in zip(marks, sentences))
    asks = ("Write these sentences as a {k} list: {t}", "Turn this text into a {k} list:\n{t}")
    return Example("text", fill(rng, asks, k=kind, t=" ".join(sentences)), (answer,), 2)


KINDS = (copy, copy, copy, replace, replace, remove, doubled, case, count_words, nth_sentence,
         enumerate_lines)


def sample(rng: Random) -> Example:
    """Draws one text question."""
    return rng.choice(KINDS)(rng)
