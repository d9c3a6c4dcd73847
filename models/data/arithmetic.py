"""Arithmetic in graded steps: from `3 + 4` to four-digit sums and long products worked out."""

from __future__ import annotations

from random import Random

from .example import Example, fill
from .words import FRUITS, NAMES, THINGS

ASK = (
    "What is {e}?",
    "Calculate {e}.",
    "{e} = ?",
    "How much is {e}?",
    "Please compute {e}.",
    "Can you work out {e}?",
    "What does {e} equal?",
    "Compute {e}",
)
ASK_SHORT = (
    "What is {e}? Answer with the number only.",
    "{e} = ? Just the number, please.",
    "Give me only the result of {e}.",
)
ASK_STEPS = (
    "Work out {e} step by step.",
    "Calculate {e} and show your work.",
    "Explain step by step how to compute {e}.",
    "Show me how to work out {e}.",
)


def number(rng: Random, digits: int) -> int:
    """Draws a number with exactly that many digits; one digit includes zero."""
    return rng.randrange(10) if digits == 1 else rng.randrange(10 ** (digits - 1), 10**digits)


def asked(rng: Random, expression: str, result: int | str, level: int) -> Example:
    """Asks for a result directly, with the expression repeated or the number alone."""
    if rng.random() < 0.25:
        question = fill(rng, ASK_SHORT, e=expression)
        return Example("arithmetic", question, (str(result),), level)
    question = fill(rng, ASK, e=expression)
    return Example("arithmetic", question, (f"{expression} = {result}",), level)


def direct_sum(rng: Random) -> Example:
    """A sum or difference of up to three digits, answered at once."""
    digits = rng.choice((1, 1, 2, 2, 2, 3))
    a, b = number(rng, digits), number(rng, rng.randint(1, digits))
    if rng.random() < 0.5:
        return asked(rng, f"{a} + {b}", a + b, digits)
    a, b = max(a, b), min(a, b)
    return asked(rng, f"{a} - {b}", a - b, digits)


def direct_product(rng: Random) -> Example:
    """A product or exact quotient from the tables up to 20 x 12."""
    a, b = rng.randint(2, 20), rng.randint(2, 12)
    level = 1 if a <= 10 else 2
    if rng.random() < 0.6:
        return asked(rng, f"{a} * {b}", a * b, level)
    return asked(rng, f"{a * b} / {a}", b, level)


def sum_steps(a: int, b: int) -> str:
    """Writes a column addition, one line a digit."""
    lines, carry = [], 0
    for position in range(max(len(str(a)), len(str(b)))):
        x, y = a // 10**position % 10, b // 10**position % 10
        total = x + y + carry
        terms = f"{x} + {y} + {carry}" if carry else f"{x} + {y}"
        carry, digit = divmod(total, 10)
        tail = f"write {digit}, carry {carry}" if carry else f"write {digit}"
        lines.append(f"{terms} = {total}, {tail}.")
    if carry:
        lines.append(f"Write the last carry {carry}.")
    return "\n".join([*lines, f"So {a} + {b} = {a + b}."])


def stepped_sum(rng: Random) -> Example:
    """A sum of two to five digits, worked out in columns."""
    digits = rng.choice((2, 3, 3, 4, 5))
    a, b = number(rng, digits), number(rng, digits)
    question = fill(rng, ASK_STEPS, e=f"{a} + {b}")
    return Example("arithmetic", question, (sum_steps(a, b),), digits)


def stepped_product(rng: Random) -> Example:
    """A two- or three-digit number times one digit, split into places."""
    digits = rng.choice((2, 2, 3))
    a, b = number(rng, digits), rng.randint(2, 9)
    places = [int(d) * 10**i for i, d in zip(range(digits - 1, -1, -1), str(a))]
    places = [place for place in places if place]
    lines = [f"{place} * {b} = {place * b}" for place in places]
    total = " + ".join(str(place * b) for place in places)
    if len(places) > 1:
        lines.append(f"{total} = {a * b}")
    lines.append(f"So {a} * {b} = {a * b}.")
    question = fill(rng, ASK_STEPS, e=f"{a} * {b}")
    return Example("arithmetic", question, ("\n".join(lines),), digits + 1)


def chain(rng: Random) -> Example:
    """Three small terms, evaluated from left to right with the intermediate result."""
    a, b, c = (rng.randint(1, 20) for _ in range(3))
    middle = a + b
    sign = rng.choice("+-") if middle >= c else "+"
    result = middle + c if sign == "+" else middle - c
    expression = f"{a} + {b} {sign} {c}"
    answer = f"{a} + {b} = {middle}, and {middle} {sign} {c} = {result}."
    return Example("arithmetic", fill(rng, ASK, e=expression), (answer,), 3)


def story(rng: Random) -> Example:
    """A one-step word problem."""
    name = rng.choice(NAMES)
    thing = rng.choice(FRUITS + THINGS[:30])
    plural = thing[:-1] + "ies" if thing.endswith("ry") else thing + "s"
    plural = IRREGULAR.get(plural, plural)
    a, b = rng.randint(2, 60), rng.randint(2, 40)
    if rng.random() < 0.5:
        act = rng.choice(("buys {b} more", "gets {b} more", "finds {b} more"))
        sign, result = "+", a + b
    else:
        a, b = max(a, b), min(a, b)
        act = rng.choice(("gives away {b}", "loses {b}", "sells {b}"))
        sign, result = "-", a - b
    act = act.format(b=b)
    question = rng.choice((
        f"{name} has {a} {plural} and {act}. How many {plural} does {name} have now?",
        f"{name} has {a} {plural}. Then {name} {act}. How many are there now?",
    ))
    answer = f"{a} {sign} {b} = {result}, so {result} {plural}."
    return Example("arithmetic", question, (answer,), 2)


def compare(rng: Random) -> Example:
    """Which of two numbers is larger or smaller."""
    digits = rng.choice((1, 2, 3, 4))
    a = number(rng, digits)
    b = number(rng, rng.choice((digits, digits, max(1, digits - 1))))
    if a == b:
        b += 1
    word, pick = rng.choice((("larger", max), ("smaller", min), ("greater", max)))
    question = rng.choice((
        f"Which is {word}, {a} or {b}?",
        f"Which number is {word}: {a} or {b}?",
    ))
    return Example("arithmetic", question, (f"{pick(a, b)} is {word}.",), 1)


def parity(rng: Random) -> Example:
    """Even or odd."""
    n = number(rng, rng.choice((1, 2, 3, 4)))
    kind = "odd" if n % 2 else "even"
    question = rng.choice((f"Is {n} even or odd?", f"Is the number {n} odd or even?"))
    return Example("arithmetic", question, (f"{n} is {kind}.",), 1)


IRREGULAR = {"boxs": "boxes", "peachs": "peaches", "knifes": "knives"}

KINDS = (
    direct_sum, direct_sum, direct_sum, direct_product, direct_product, stepped_sum, stepped_sum,
    stepped_product, chain, story, compare, parity,
)


def sample(rng: Random) -> Example:
    """Draws one arithmetic question."""
    return rng.choice(KINDS)(rng)
