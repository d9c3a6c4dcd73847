"""Counting and fixed lists: easy, long answers that stream well."""

from __future__ import annotations

from random import Random

from .example import Example, fill

FIXED = {
    "days of the week": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split(),
    "months of the year": ("January February March April May June July August September October "
                           "November December").split(),
    "planets of the solar system": ("Mercury Venus Earth Mars Jupiter Saturn Uranus "
                                    "Neptune").split(),
    "letters of the alphabet": list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
    "vowels": list("aeiou"),
    "continents": ["Africa", "Antarctica", "Asia", "Australia", "Europe", "North America",
                   "South America"],
    "colours of the rainbow": "red orange yellow green blue indigo violet".split(),
    "seasons": "spring summer autumn winter".split(),
    "oceans": ["Arctic Ocean", "Atlantic Ocean", "Indian Ocean", "Pacific Ocean",
               "Southern Ocean"],
    "noble gases": "helium neon argon krypton xenon radon".split(),
    "commands of Overdraft": "serve worker simulate bench check explain top supervise".split(),
    "primes below 50": "2 3 5 7 11 13 17 19 23 29 31 37 41 43 47".split(),
    "powers of two up to 1024": "1 2 4 8 16 32 64 128 256 512 1024".split(),
    "squares up to 144": "1 4 9 16 25 36 49 64 81 100 121 144".split(),
}


def written(items: list[str], rng: Random) -> tuple[str, str]:
    """Writes a list in one of three forms and says which."""
    form = rng.choice(("", " as a numbered list", " one per line"))
    if form == "":
        return form, ", ".join(items)
    if form == " one per line":
        return form, "\n".join(items)
    return form, "\n".join(f"{i}. {item}" for i, item in enumerate(items, 1))


def fixed(rng: Random) -> Example:
    """A well-known list, whole or its beginning, forwards or backwards."""
    name, items = rng.choice(list(FIXED.items()))
    kind = rng.randrange(4)
    if kind == 0 and len(items) > 4:
        count = rng.randint(2, len(items) - 1)
        form, answer = written(items[:count], rng)
        asks = ("List the first {n} {w}{f}.", "What are the first {n} {w}? Write them{f}.")
        return Example("lists", fill(rng, asks, n=count, w=name, f=form), (answer,), 2)
    if kind == 1:
        form, answer = written(items[::-1], rng)
        asks = ("List the {w} in reverse order{f}.", "Write the {w} backwards{f}.")
        return Example("lists", fill(rng, asks, w=name, f=form), (answer,), 3)
    form, answer = written(items, rng)
    asks = ("List the {w}{f}.", "Name the {w}{f}.", "What are the {w}? Write them{f}.",
            "Please list the {w}{f}.", "Give me the {w}{f}.")
    return Example("lists", fill(rng, asks, w=name, f=form), (answer,), 1)


def count(rng: Random) -> Example:
    """Counting up, down, or in steps."""
    step = rng.choice((1, 1, 1, 2, 3, 5, 10))
    start = rng.randint(1, 40) if step < 5 else rng.randint(0, 6) * step
    items = [start + i * step for i in range(rng.randint(4, 16))]
    down = rng.random() < 0.3
    items = items[::-1] if down else items
    verb = "Count down" if down else "Count"
    by = f" in steps of {step}" if step > 1 else ""
    form, answer = written([str(i) for i in items], rng)
    asks = ("{v} from {a} to {b}{s}{f}.", "Please {u} from {a} to {b}{s}{f}.")
    question = fill(rng, asks, v=verb, u=verb.lower(), a=items[0], b=items[-1], s=by, f=form)
    return Example("lists", question, (answer,), 1 + (step > 1) + down)


def multiples(rng: Random) -> Example:
    """The first multiples of a number, or its table."""
    base, length = rng.randint(2, 15), rng.randint(4, 12)
    if rng.random() < 0.5:
        answer = ", ".join(str(base * i) for i in range(1, length + 1))
        asks = ("List the first {n} multiples of {b}.", "What are the first {n} multiples of {b}?")
    else:
        answer = "\n".join(f"{i} * {base} = {i * base}" for i in range(1, length + 1))
        asks = ("Write the multiplication table of {b} up to {n}.",
                "Show the {b} times table up to {n}.")
    return Example("lists", fill(rng, asks, n=length, b=base), (answer,), 2)


def neighbour(rng: Random) -> Example:
    """What comes after or before an item of a fixed list."""
    name = rng.choice(("days of the week", "months of the year", "letters of the alphabet"))
    items = FIXED[name]
    index = rng.randrange(len(items))
    word, other = rng.choice((("after", 1), ("before", -1)))
    answer = items[(index + other) % len(items)]
    asks = ("What comes {w} {i} in the {n}?", "Which one comes {w} {i} among the {n}?",
            "In the {n}, what comes {w} {i}?")
    question = fill(rng, asks, w=word, i=items[index], n=name)
    return Example("lists", question, (f"{answer} comes {word} {items[index]}.",), 2)


def sample(rng: Random) -> Example:
    """Draws one list question."""
    return rng.choice((fixed, fixed, count, count, multiples, neighbour))(rng)
