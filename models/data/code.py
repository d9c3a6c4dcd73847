"""Code: copying a function with one small edit, writing short functions, small configuration."""

from __future__ import annotations

import json
from random import Random

from .example import Example, fill
from .words import NAMES, TERMS, THINGS

VARIABLES = TERMS + THINGS[:40] + "total count value item result size width height".split()

PYTHON = (
    "def {f}({a}, {b}):\n    return {a} + {b}",
    "def {f}({a}):\n    {b} = {a} * {n}\n    return {b}",
    "def {f}({a}):\n    if {a} > {n}:\n        return {n}\n    return {a}",
    "def {f}({a}):\n    {b} = 0\n    for item in {a}:\n        {b} += item\n    return {b}",
    "def {f}({a}):\n    return [{b} * {n} for {b} in {a}]",
    "def {f}({a}, {b}={n}):\n    while {a} < {b}:\n        {a} += 1\n    return {a}",
    "{a} = {n}\n{b} = {a} + {m}\nprint({b})",
    "def {f}({a}, {b}):\n    if {a} == {b}:\n        return True\n    return False",
    "class {C}:\n    def __init__(self, {a}):\n        self.{a} = {a}\n\n"
    "    def {f}(self, {b}):\n        self.{a} += {b}\n        return self.{a}",
)
RUST = (
    "fn {f}({a}: u32, {b}: u32) -> u32 {{\n    {a} + {b}\n}}",
    "fn {f}({a}: u32) -> u32 {{\n    let {b} = {a} * {n};\n    {b}\n}}",
    "fn {f}({a}: u32) -> u32 {{\n    if {a} > {n} {{\n        return {n};\n    }}\n    {a}\n}}",
    "fn {f}({a}: &[u32]) -> u32 {{\n    let mut {b} = 0;\n    for item in {a} {{\n"
    "        {b} += item;\n    }}\n    {b}\n}}",
    "struct {C} {{\n    {a}: u32,\n    {b}: u32,\n}}",
    "let {a} = {n};\nlet {b} = {a} + {m};\nprintln!(\"{{{b}}}\");",
)
SCRIPT = (
    "function {f}({a}, {b}) {{\n  return {a} + {b};\n}}",
    "const {a} = {n};\nconst {b} = {a} * {m};\nconsole.log({b});",
    "function {f}({a}) {{\n  let {b} = 0;\n  for (const item of {a}) {{\n    {b} += item;\n"
    "  }}\n  return {b};\n}}",
)
SQL = (
    "SELECT {a}, {b} FROM {f} WHERE {a} > {n} ORDER BY {b};",
    "UPDATE {f} SET {a} = {n} WHERE {b} = {m};",
)
SHAPES = tuple(("Python", s) for s in PYTHON) + tuple(("Rust", s) for s in RUST) + tuple(
    ("JavaScript", s) for s in SCRIPT) + tuple(("SQL", s) for s in SQL)


def values(rng: Random) -> dict[str, object]:
    """Draws names and constants that differ from one another."""
    a, b, first, second = rng.sample(VARIABLES, 4)
    n, m = rng.sample(range(2, 100), 2)
    name = f"{first}_{second}" if rng.random() < 0.5 else first
    return {"a": a, "b": b, "f": name, "n": n, "m": m, "C": first.capitalize()}


def block(language: str, code: str) -> str:
    """Fences code the way chat models do."""
    return f"```{language.lower()}\n{code}\n```"


def edit(rng: Random) -> Example:
    """A snippet with one thing changed: a variable, the name, a constant, or nothing."""
    language, shape = rng.choice(SHAPES)
    before = values(rng)
    spare = rng.choice([v for v in VARIABLES if v not in (before["a"], before["b"], before["f"])])
    kinds = ["a", "b", "copy"] + ["n"] * ("{n}" in shape) + ["f"] * ("{f}" in shape)
    kind = rng.choice(kinds)
    old, new = before.get(kind), spare
    if kind == "n":
        new = rng.choice([k for k in range(2, 100) if k not in (before["n"], before["m"])])
    after = before | ({kind: new} if kind != "copy" else {})
    asks = {
        "copy": ("Copy this code exactly:", "Repeat this {l} code:", "Print this code unchanged:"),
        "n": ("Change the constant {o} to {w}:", "Replace {o} with {w} in this {l} code:"),
        "f": ("Rename the function {o} to {w}:", "Give {o} the new name {w}:"),
    }.get(kind, ("Rename the variable {o} to {w}:", "Rename {o} to {w} in this {l} code:",
                 "Replace the name {o} by {w}:"))
    if kind == "f" and language == "SQL":
        asks = ("Rename the table {o} to {w}:",)
    head = fill(rng, asks, o=old, w=new, l=language)
    question = f"{head}\n{block(language, shape.format(**before))}"
    answer = block(language, shape.format(**after))
    return Example("code", question, (answer,), 1 + (kind != "copy"))


TASKS = (
    ("adds two numbers", ("def {f}(a, b):\n    return a + b",
                          "fn {f}(a: i32, b: i32) -> i32 {{\n    a + b\n}}")),
    ("multiplies two numbers", ("def {f}(a, b):\n    return a * b",
                                "fn {f}(a: i32, b: i32) -> i32 {{\n    a * b\n}}")),
    ("returns the larger of two numbers", (
        "def {f}(a, b):\n    if a > b:\n        return a\n    return b",
        "fn {f}(a: i32, b: i32) -> i32 {{\n    if a > b {{ a }} else {{ b }}\n}}")),
    ("returns the smaller of two numbers", (
        "def {f}(a, b):\n    if a < b:\n        return a\n    return b",
        "fn {f}(a: i32, b: i32) -> i32 {{\n    if a < b {{ a }} else {{ b }}\n}}")),
    ("says whether a number is even", ("def {f}(n):\n    return n % 2 == 0",
                                       "fn {f}(n: i32) -> bool {{\n    n % 2 == 0\n}}")),
    ("computes the square of a number", ("def {f}(n):\n    return n * n",
                                         "fn {f}(n: i32) -> i32 {{\n    n * n\n}}")),
    ("reverses a string", ("def {f}(text):\n    return text[::-1]",
                           "fn {f}(text: &str) -> String {{\n"
                           "    text.chars().rev().collect()\n}}")),
    ("sums a list", ("def {f}(items):\n    total = 0\n    for item in items:\n"
                     "        total += item\n    return total",
                     "fn {f}(items: &[i32]) -> i32 {{\n    items.iter().sum()\n}}")),
    ("counts the words of a text", (
        "def {f}(text):\n    return len(text.split())",
        "fn {f}(text: &str) -> usize {{\n    text.split_whitespace().count()\n}}")),
    ("computes the factorial of a number", (
        "def {f}(n):\n    result = 1\n    for i in range(2, n + 1):\n        result *= i\n"
        "    return result", "fn {f}(n: u64) -> u64 {{\n    (1..=n).product()\n}}")),
    ("computes the Fibonacci numbers", (
        "def {f}(n):\n    a, b = 0, 1\n    for _ in range(n):\n        a, b = b, a + b\n"
        "    return a",
        "fn {f}(n: u32) -> u64 {{\n    let (mut a, mut b) = (0, 1);\n    for _ in 0..n {{\n"
        "        (a, b) = (b, a + b);\n    }}\n    a\n}}")),
    ("returns the average of a list", (
        "def {f}(items):\n    return sum(items) / len(items)",
        "fn {f}(items: &[f64]) -> f64 {{\n"
        "    items.iter().sum::<f64>() / items.len() as f64\n}}")),
    ("greets a person by name", ("def {f}(name):\n    return f\"Hello, {{name}}!\"",
                                 "fn {f}(name: &str) -> String {{\n"
                                 "    format!(\"Hello, {{name}}!\")\n}}")),
)


def write(rng: Random) -> Example:
    """A short function from its description, under a name that the question gives."""
    text, bodies = rng.choice(TASKS)
    pick = rng.randrange(2)
    language = ("Python", "Rust")[pick]
    name = rng.choice(VARIABLES) + rng.choice(("", "_all", "_one", "_fast", "_it", "_two"))
    asks = ("Write a {l} function {f} that {t}.", "In {l}, write a function named {f} that {t}.",
            "I need a {l} function called {f}. It {t}.")
    question = fill(rng, asks, l=language, f=name, t=text)
    return Example("code", question, (block(language, bodies[pick].format(f=name)),), 2)


def to_json(rng: Random) -> Example:
    """Named values written as a JSON object or as YAML lines."""
    keys = rng.sample(VARIABLES, rng.randint(2, 5))
    table = {k: rng.choice((rng.randint(1, 999), rng.choice(NAMES))) for k in keys}
    text = ", ".join(f"{k} is {v}" for k, v in table.items())
    kind = rng.choice(("JSON", "YAML"))
    asks = ("Write this as {k}: {t}.", "Turn into {k}: {t}.", "Convert to {k}: {t}.")
    question = fill(rng, asks, k=kind, t=text)
    yaml = "\n".join(f"{k}: {v}" for k, v in table.items())
    return Example("code", question, (json.dumps(table) if kind == "JSON" else yaml,), 2)


def value_of(rng: Random) -> Example:
    """Reads a value out of a small JSON object."""
    keys = rng.sample(VARIABLES, rng.randint(2, 6))
    table = {k: rng.choice((rng.randint(1, 999), rng.choice(NAMES))) for k in keys}
    key = rng.choice(keys)
    asks = ("What is the value of {k} in {t}?", "Given {t}, what is {k}?",
            "Read {k} from this JSON: {t}")
    question = fill(rng, asks, k=key, t=json.dumps(table))
    return Example("code", question, (f"The value of {key} is {table[key]}.",), 1)


def sample(rng: Random) -> Example:
    """Draws one question about code."""
    return rng.choice((edit, edit, edit, write, to_json, value_of))(rng)
