"""Operations on the letters of a word: the tokenizer hides them, the model must learn them."""

from __future__ import annotations

from random import Random

from .example import Example, fill
from .words import any_word


def example(
    rng: Random, templates: tuple[str, ...], answer: str, level: int, **v: object
) -> Example:
    """Builds an example of this family."""
    return Example("strings", fill(rng, templates, **v), (answer,), level)


def spell(rng: Random) -> Example:
    """The letters of a word, one by one."""
    word = any_word(rng)
    asks = ("Spell the word {w}.", "Spell {w}.", "How do you spell {w}?",
            "List the letters of {w}.")
    return example(rng, asks, "-".join(word), 1, w=word)


def reverse(rng: Random) -> Example:
    """A word backwards; the longer, the harder."""
    word = any_word(rng)
    level = 2 if len(word) <= 5 else 3
    if rng.random() < 0.3:
        asks = ("Reverse {w} letter by letter.", "Spell {w} and then write it backwards.")
        back = word[::-1]
        answer = f"{'-'.join(word)} becomes {'-'.join(back)}: {back}"
        return example(rng, asks, answer, level, w=word)
    asks = (
        "Reverse the word {w}.", "Write {w} backwards.", "Reverse the string \"{w}\".",
        "What is {w} spelled backwards?", "Reverse: {w}",
    )
    return example(rng, asks, word[::-1], level, w=word)


def case(rng: Random) -> Example:
    """Upper, lower and title case."""
    count = rng.choice((1, 1, 2, 3))
    words = " ".join(any_word(rng) for _ in range(count))
    kind = rng.randrange(3)
    if kind == 0:
        asks = ("Write {w} in upper case.", "Uppercase: {w}", "Convert {w} to capital letters.",
                "Please uppercase \"{w}\".")
        return example(rng, asks, words.upper(), count, w=words)
    if kind == 1:
        asks = ("Write {w} in lower case.", "Lowercase: {w}", "Convert {w} to small letters.",
                "Please lowercase \"{w}\".")
        return example(rng, asks, words, count, w=words.upper())
    asks = ("Capitalize each word of: {w}", "Write {w} in title case.", "Title case: {w}")
    return example(rng, asks, words.title(), count, w=words)


def count_letter(rng: Random) -> Example:
    """How often a letter occurs."""
    word = any_word(rng)
    letter = rng.choice(word) if rng.random() < 0.8 else rng.choice("aeiorstlnm")
    times = word.count(letter)
    unit = "time" if times == 1 else "times"
    asks = (
        "How many times does the letter {c} occur in {w}?", "How many {c}'s are in {w}?",
        "Count the letter {c} in {w}.", "How often does {c} appear in the word {w}?",
    )
    answer = f"{'-'.join(word)}: {letter} occurs {times} {unit}."
    return example(rng, asks, answer, 3, c=letter, w=word)


def length(rng: Random) -> Example:
    """The number of letters."""
    word = any_word(rng)
    asks = ("How many letters does {w} have?", "How long is the word {w}?",
            "Count the letters of {w}.")
    return example(rng, asks, f"{word} has {len(word)} letters.", 2, w=word)


def replace(rng: Random) -> Example:
    """Every occurrence of one letter becomes another."""
    word = any_word(rng)
    old = rng.choice(word)
    new = rng.choice([c for c in "aeioustrnx" if c != old])
    asks = ("Replace every {a} with {b} in {w}.", "In the word {w}, change {a} to {b}.",
            "Swap each {a} for {b} in {w}.", "Replace {a} by {b}: {w}")
    return example(rng, asks, word.replace(old, new), 3, a=old, b=new, w=word)


def ends(rng: Random) -> Example:
    """First and last letters."""
    word = any_word(rng)
    where, letter = rng.choice((("first", word[0]), ("last", word[-1])))
    asks = ("What is the {p} letter of {w}?", "Which letter comes {p} in {w}?",
            "Give me the {p} letter of the word {w}.")
    return example(rng, asks, f"The {where} letter of {word} is {letter}.", 1, p=where, w=word)


def join(rng: Random) -> Example:
    """Words put together with a separator."""
    words = [any_word(rng) for _ in range(rng.randint(2, 6))]
    name, mark = rng.choice((("hyphens", "-"), ("commas", ","), ("slashes", "/"),
                             ("underscores", "_"), ("dots", "."), ("plus signs", "+")))
    asks = ("Join the words {w} with {s}.", "Put {s} between these words: {w}",
            "Connect {w} with {s}.")
    return example(rng, asks, mark.join(words), 1 + len(words) // 3, w=" ".join(words), s=name)


def vowels(rng: Random) -> Example:
    """A word without its vowels."""
    word = any_word(rng)
    rest = "".join(c for c in word if c not in "aeiou")
    asks = ("Remove the vowels from {w}.", "Write {w} without vowels.", "Drop all vowels: {w}")
    return example(rng, asks, rest, 3, w=word)


def repeat(rng: Random) -> Example:
    """A word several times."""
    word, times = any_word(rng), rng.randint(2, 8)
    asks = ("Repeat the word {w} {n} times.", "Write {w} {n} times.", "Say {w} {n} times.")
    return example(rng, asks, " ".join([word] * times), 2, w=word, n=times)


KINDS = (spell, spell, reverse, reverse, case, case, count_letter, length, replace, ends, join,
         vowels, repeat)


def sample(rng: Random) -> Example:
    """Draws one string question."""
    return rng.choice(KINDS)(rng)
