"""Unit conversion: powers of ten, time, bytes, temperature, and counting in dozens."""

from __future__ import annotations

from random import Random

from .example import Example, fill

SCALES = (
    ("km", "m", 1000), ("m", "cm", 100), ("cm", "mm", 10), ("m", "mm", 1000), ("kg", "g", 1000),
    ("t", "kg", 1000), ("g", "mg", 1000), ("l", "ml", 1000), ("hours", "minutes", 60),
    ("minutes", "seconds", 60), ("days", "hours", 24), ("weeks", "days", 7),
    ("years", "months", 12),
    ("KiB", "bytes", 1024), ("MiB", "KiB", 1024), ("GiB", "MiB", 1024), ("seconds", "ms", 1000),
    ("ms", "us", 1000), ("bytes", "bits", 8), ("dozen", "pieces", 12), ("euros", "cents", 100),
)
ASK = (
    "Convert {a} {u} to {v}.",
    "How many {v} are {a} {u}?",
    "What is {a} {u} in {v}?",
    "{a} {u} in {v}?",
    "Express {a} {u} in {v}.",
    "Please convert {a} {u} into {v}.",
)


def plain(value: float) -> str:
    """Writes a number without a trailing `.0`."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


def scale(rng: Random) -> Example:
    """Between two units that differ by a fixed factor, in either direction."""
    big, small, factor = rng.choice(SCALES)
    decimal = factor in (10, 100, 1000) and rng.random() < 0.4
    amount = rng.randint(1, 99) / 10 if decimal else rng.randint(1, 30)
    if factor == 1024:
        amount = rng.randint(1, 16)
    large, little = plain(amount), plain(amount * factor)
    if rng.random() < 0.6:
        question = fill(rng, ASK, a=large, u=big, v=small)
        return Example("convert", question, (f"{large} {big} is {little} {small}.",), 1 + decimal)
    question = fill(rng, ASK, a=little, u=small, v=big)
    return Example("convert", question, (f"{little} {small} is {large} {big}.",), 2 + decimal)


def temperature(rng: Random) -> Example:
    """Celsius and Fahrenheit, with the formula worked out."""
    celsius = rng.randint(-10, 40) * 5 if rng.random() < 0.5 else rng.randint(0, 20) * 5
    fahrenheit = celsius * 9 // 5 + 32
    if rng.random() < 0.6:
        question = fill(rng, ASK, a=celsius, u="degrees Celsius", v="Fahrenheit")
        steps = f"{celsius} * 9 / 5 = {celsius * 9 // 5}, plus 32 is {fahrenheit}"
        answer = f"{steps}: {celsius} degrees Celsius is {fahrenheit} degrees Fahrenheit."
        return Example("convert", question, (answer,), 3)
    question = fill(rng, ASK, a=fahrenheit, u="degrees Fahrenheit", v="Celsius")
    steps = f"{fahrenheit} - 32 = {fahrenheit - 32}, times 5 / 9 is {celsius}"
    answer = f"{steps}: {fahrenheit} degrees Fahrenheit is {celsius} degrees Celsius."
    return Example("convert", question, (answer,), 3)


def clock(rng: Random) -> Example:
    """Minutes or seconds split into two units."""
    big, small = rng.choice((("hours", "minutes"), ("minutes", "seconds")))
    whole, rest = rng.randint(1, 9), rng.randint(1, 59)
    total = whole * 60 + rest
    if rng.random() < 0.5:
        question = fill(rng, ASK, a=total, u=small, v=f"{big} and {small}")
        answer = f"{total} {small} is {whole} {big} and {rest} {small}."
    else:
        question = fill(rng, ASK, a=f"{whole} {big} and {rest}", u=small, v=f"{small} only")
        answer = f"{whole} * 60 = {whole * 60}, plus {rest} is {total} {small}."
    return Example("convert", question, (answer,), 3)


def sample(rng: Random) -> Example:
    """Draws one conversion."""
    return rng.choice((scale, scale, scale, temperature, clock))(rng)
