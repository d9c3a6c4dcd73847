"""Held-out questions with all answers that count as right, as prompts that a model reads.

    python models/questions.py --count 120 --out benches/src/cascade/questions.json

The cascade's bench asks both models; none of the questions was in the training text. Families of few
phrasings (talk, facts, overdraft) have fewer questions than asked for. Needs the standard
library only. The seed is neither that of `evaluate.py` nor that of the
questions on which the score's terms were chosen.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from data import chat

SEED = 626_262


def main() -> None:
    """Writes one line a question."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=120, help="questions of a family")
    parser.add_argument("--out", type=Path, help="file; without it, standard output")
    options = parser.parse_args()
    lines = []
    for family, examples in chat.held_out(SEED, options.count).items():
        for example in examples:
            prompt = chat.render([{"role": "user", "content": example.question}], prompt=True)
            lines.append(json.dumps({"family": family, "prompt": prompt,
                                     "answers": list(example.answers)}))
    text = "[\n" + ",\n".join(lines) + "\n]\n"
    if options.out:
        options.out.write_text(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
