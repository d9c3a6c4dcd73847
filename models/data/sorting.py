"""Sorting and picking: numbers and words, three to nine of them, both directions."""

from __future__ import annotations

from random import Random

from .example import Example, fill
from .words import NAMES, PLAIN

ASK_NUMBERS = {
    False: ("Sort these numbers: {x}", "Sort in ascending order: {x}", "Sort {x}.",
            "Put these numbers in order: {x}", "Order {x} from smallest to largest.",
            "Please sort the list {x}."),
    True: ("Sort in descending order: {x}", "Order {x} from largest to smallest.",
           "Sort these numbers, largest first: {x}", "Sort {x} in reverse order."),
}
ASK_WORDS = {
    False: ("Sort these words alphabetically: {x}", "Put in alphabetical order: {x}",
            "Alphabetize: {x}", "Sort the words {x}."),
    True: ("Sort these words in reverse alphabetical order: {x}",
           "Order from Z to A: {x}"),
}


def numbers(rng: Random, count: int) -> list[int]:
    """Draws distinct numbers below a power of ten."""
    top = rng.choice((20, 100, 100, 1000))
    return rng.sample(range(top), count)


def sort_numbers(rng: Random) -> Example:
    """A list of numbers in order."""
    count = rng.randint(3, 9)
    values, backwards = numbers(rng, count), rng.random() < 0.3
    question = fill(rng, ASK_NUMBERS[backwards], x=", ".join(map(str, values)))
    answer = ", ".join(map(str, sorted(values, reverse=backwards)))
    return Example("sorting", question, (answer,), (count + 1) // 3)


def sort_words(rng: Random) -> Example:
    """A list of words or names in order."""
    count = rng.randint(3, 7)
    words = rng.sample(PLAIN if rng.random() < 0.7 else NAMES, count)
    backwards = rng.random() < 0.2
    question = fill(rng, ASK_WORDS[backwards], x=", ".join(words))
    answer = ", ".join(sorted(words, reverse=backwards))
    return Example("sorting", question, (answer,), (count + 1) // 3 + 1)


def pick(rng: Random) -> Example:
    """The extreme of a list of numbers, or the last or first word in the alphabet."""
    values = numbers(rng, rng.randint(3, 7))
    word, choose = rng.choice((("largest", max), ("smallest", min)))
    asks = ("What is the {w} of {x}?", "Which number is the {w}: {x}?",
            "Find the {w} number in {x}.")
    question = fill(rng, asks, w=word, x=", ".join(map(str, values)))
    return Example("sorting", question, (f"The {word} is {choose(values)}.",), 1)


def flip(rng: Random) -> Example:
    """A list in reverse order."""
    items = rng.sample(PLAIN, rng.randint(3, 7))
    asks = ("Reverse the list {x}.", "Write this list backwards: {x}",
            "Give these items in reverse order: {x}")
    question = fill(rng, asks, x=", ".join(items))
    return Example("sorting", question, (", ".join(reversed(items)),), 2)


def sample(rng: Random) -> Example:
    """Draws one sorting question."""
    return rng.choice((sort_numbers, sort_numbers, sort_words, pick, flip))(rng)
