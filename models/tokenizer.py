"""How does text become token ids?

A byte-level BPE with the pre-tokenizer that GGUF calls `qwen2`: words keep one leading space or
punctuation mark, and every digit is a token of its own, which makes arithmetic learnable.

Invariant: the three special tokens have the ids 0, 1, 2; everything else is bytes and merges.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
from data import chat
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY = 2048
END_OF_TEXT, IM_START, IM_END = 0, 1, 2
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
PRE_TOKENIZER = "qwen2"
SPLIT = (
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TRAINING_DOCUMENTS = 40_000


def empty(model: models.BPE) -> Tokenizer:
    """Wraps a BPE model with the pre-tokenizer and decoder."""
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def train(path: Path, seed: int) -> Tokenizer:
    """Learns the merges from generated conversations and stores the tokenizer."""
    tokenizer = empty(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=list(SPECIAL), show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    documents = islice(chat.documents(seed), TRAINING_DOCUMENTS)
    texts = (message["content"] for document in documents for message in document)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.save(str(path))
    return tokenizer


def load(path: Path, seed: int) -> Tokenizer:
    """Reads a stored tokenizer or trains it."""
    return Tokenizer.from_file(str(path)) if path.exists() else train(path, seed)


def answer_mask(ids: np.ndarray, header: list[int]) -> np.ndarray:
    """Marks the tokens the assistant writes, its end-of-turn included.

    `header` is what `<|im_start|>assistant\\n` encodes to. Text without any turn counts as an
    answer throughout.
    """
    starts = np.flatnonzero(ids == IM_START)
    if not len(starts):
        return np.ones(len(ids), dtype=bool)
    mask = np.zeros(len(ids), dtype=bool)
    for start, end in zip(starts, np.flatnonzero(ids == IM_END)):
        body = start + len(header)
        if ids[start:body].tolist() == header:
            mask[body : end + 1] = True
    return mask
