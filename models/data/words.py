"""Which words do the generated texts use?

Word lists and a tiny grammar. Small on purpose: models of a few million parameters learn a narrow
language well and a broad one badly.
"""

from __future__ import annotations

from random import Random

NAMES = """Anna Ben Clara David Emma Felix Greta Hugo Ida Jonas Karin Leo Maria Nils Olga Paul
Rosa Simon Tina Victor Wanda Yusuf Zoe Alice Bob Carol Dan Eve Frank Grace Heidi Ivan Judy Ken
Laura Mike Nora Oscar Peggy Quinn Rita Sam Tom Uma Vera Walter Lin Amir Priya Kofi""".split()

ANIMALS = """cat dog horse cow sheep goat pig hen duck goose rabbit mouse fox wolf bear deer owl
eagle sparrow raven frog snake turtle fish shark whale tiger lion zebra monkey camel
otter""".split()

FRUITS = """apple pear plum cherry peach grape lemon orange banana mango melon kiwi fig date
strawberry raspberry blueberry apricot""".split()

COLOURS = "red blue green yellow black white brown grey purple orange pink silver".split()

THINGS = """table chair lamp book letter window door bottle basket box bag cup plate spoon knife
clock phone radio camera bicycle car train boat bridge tower house garden river mountain forest
field road street station market school library kitchen office hammer ladder rope wheel engine
server router cable keyboard screen printer battery sensor ticket coin stamp map key mirror carpet
blanket pillow coat hat shoe glove ring drum guitar piano violin candle stone shell feather leaf
flower tree seed bread cheese butter soup salad cake honey salt pepper tea coffee water milk
paper pencil brush needle button pocket ribbon bucket barrel shovel wagon engine magnet""".split()

ADJECTIVES = """small large old new bright dark quiet loud heavy light warm cold fast slow long
short round flat clean dusty broken shiny gentle brave clever lazy busy empty full soft hard thin
thick strange simple wooden golden tall narrow wide fresh sweet sour early late""".split()

VERBS = """sees finds carries paints moves opens closes cleans sells buys repairs draws counts
watches likes needs keeps loses brings takes holds lifts checks tests builds sends""".split()

PLACES = """in the garden|on the table|at the station|near the river|in the kitchen|at the market
behind the house|under the bridge|in the library|on the hill|by the window|at school
in the office|next to the door|in the forest|on the train|in the city|at home""".replace(
    "\n", "|"
).split("|")

TIMES = """in the morning|in the evening|at noon|on Monday|on Friday|every day|after lunch
before dinner|last week|in winter|in summer|at night|on Sunday|once a year|today""".replace(
    "\n", "|"
).split("|")

TERMS = """token cache block worker gateway queue batch prefix draft target stream request
response latency budget model prompt vector matrix kernel thread socket buffer header cluster
replica policy metric trace breaker store shard index cursor signal window limit retry""".split()

PLAIN = sorted(set(ANIMALS + FRUITS + COLOURS + THINGS + ADJECTIVES + TERMS))

ONSETS = "b c d f g h j k l m n p r s t v w z br cl dr fl gr pl pr st tr".split()
VOWELS = "a e i o u".split()
CODAS = ["", "", "", "n", "r", "s", "t", "l", "m", "k"]


def pseudo_word(rng: Random, syllables: int) -> str:
    """Makes a pronounceable word that probably does not exist."""
    return "".join(
        rng.choice(ONSETS) + rng.choice(VOWELS) + rng.choice(CODAS) for _ in range(syllables)
    )


def any_word(rng: Random) -> str:
    """Draws a real word three times in four, else an invented one."""
    if rng.random() < 0.75:
        return rng.choice(PLAIN)
    return pseudo_word(rng, rng.choice((1, 2, 2, 3)))


def noun_phrase(rng: Random) -> str:
    """Makes a phrase such as `the old red lamp`."""
    adjectives = rng.sample(ADJECTIVES, rng.choice((0, 1, 1, 2)))
    noun = rng.choice(THINGS + ANIMALS + TERMS)
    return " ".join(["the", *adjectives, noun])


def sentence(rng: Random) -> str:
    """Makes one simple English sentence."""
    subject = rng.choice(NAMES) if rng.random() < 0.6 else noun_phrase(rng).capitalize()
    parts = [subject, rng.choice(VERBS), noun_phrase(rng)]
    if rng.random() < 0.6:
        parts.append(rng.choice(PLACES))
    if rng.random() < 0.4:
        parts.append(rng.choice(TIMES))
    return " ".join(parts) + "."


def paragraph(rng: Random, sentences: int) -> str:
    """Joins simple sentences into a paragraph."""
    return " ".join(sentence(rng) for _ in range(sentences))
