"""Scores texts with another implementation, for the accuracy part of `cargo xtask bench engine`.

    python score_reference.py numpy|llama_cpp MODEL < tokens.json

Reads a list of token lists. Prints `{"name": …, "texts": [{"likeliest": […], "log_probabilities": […]}]}`:
at each position the likeliest next token, and the log-probability of the token that does come next (of every
position but the last). `numpy` widens the weights of a Llama in a GGUF file to single precision and computes
with them as a textbook would; it needs the packages numpy and gguf. `llama_cpp` needs llama-cpp-python.
Prints `{"missing": why}` where a package is not there.
"""

import ctypes
import json
import sys


def main():
    engine, path = sys.argv[1:3]
    try:
        scorer = {"numpy": Textbook, "llama_cpp": LlamaCpp}[engine](path)
    except ImportError as error:
        print(json.dumps({"missing": str(error)}))
        return
    texts = [scorer.score(tokens) for tokens in json.load(sys.stdin)]
    print(json.dumps({"name": scorer.name, "texts": texts}))


def summary(np, rows, tokens):
    """What is printed of a text's logits, given in pieces of whole rows."""
    likeliest, log_probabilities, position = [], [], 0
    for logits in rows:
        likeliest += logits.argmax(-1).tolist()
        greatest = logits.max(-1, keepdims=True)
        total = np.log(np.exp((logits - greatest).astype(np.float64)).sum(-1)) + greatest[:, 0]
        for row, sum_log in zip(logits, total):
            position += 1
            if position < len(tokens):
                log_probabilities.append(float(row[tokens[position]] - sum_log))
    return {"likeliest": likeliest, "log_probabilities": log_probabilities}


class Textbook:
    """The forward pass of a Llama in single precision, a whole text at a time."""

    # Positions whose logits are in memory at once.
    PIECE = 128

    def __init__(self, path):
        import gguf
        import numpy as np

        self.np = np
        self.name = f"numpy {np.__version__}, single precision"
        reader = gguf.GGUFReader(path)
        field = lambda key: reader.fields[key].contents()
        if field("general.architecture") != "llama" or "llama.rope.scaling.type" in reader.fields:
            raise SystemExit("the reference knows plain Llamas only")
        self.layers = field("llama.block_count")
        self.heads = field("llama.attention.head_count")
        self.kv_heads = field("llama.attention.head_count_kv")
        self.base = field("llama.rope.freq_base")
        self.epsilon = field("llama.attention.layer_norm_rms_epsilon")
        self.weights = {
            tensor.name: gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
            for tensor in reader.tensors
        }

    def score(self, tokens):
        np, weights = self.np, self.weights
        states = weights["token_embd.weight"][tokens]
        for layer in range(self.layers):
            part = lambda name: weights[f"blk.{layer}.{name}.weight"]
            states = states + self.attention(part, self.norm(states, part("attn_norm")))
            inputs = self.norm(states, part("ffn_norm"))
            gates = inputs @ part("ffn_gate").T
            gates = gates / (1 + np.exp(-gates))
            states = states + (gates * (inputs @ part("ffn_up").T)) @ part("ffn_down").T
        states = self.norm(states, weights["output_norm.weight"])
        output = weights.get("output.weight", weights["token_embd.weight"])
        pieces = (states[at : at + self.PIECE] @ output.T for at in range(0, len(tokens), self.PIECE))
        return summary(np, pieces, tokens)

    def norm(self, states, weight):
        mean = (states * states).mean(-1, keepdims=True)
        return states / self.np.sqrt(mean + self.epsilon) * weight

    def attention(self, part, inputs):
        np, count = self.np, len(inputs)
        split = lambda name, heads: (inputs @ part(name).T).reshape(count, heads, -1).swapaxes(0, 1)
        queries = self.turned(split("attn_q", self.heads))
        keys, values = self.turned(split("attn_k", self.kv_heads)), split("attn_v", self.kv_heads)
        shared = self.heads // self.kv_heads
        keys, values = (np.repeat(rows, shared, axis=0) for rows in (keys, values))
        scores = queries @ keys.swapaxes(1, 2) / np.float32(np.sqrt(queries.shape[-1]))
        scores += np.triu(np.full((count, count), -np.inf, np.float32), 1)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        mixed = (shares @ values).swapaxes(0, 1).reshape(count, -1)
        return mixed @ part("attn_output").T

    def turned(self, rows):
        """Neighbours of each head turned by their position's angle."""
        np = self.np
        pairs = rows.shape[-1] // 2
        frequencies = self.base ** (-np.arange(pairs) / pairs)
        angles = np.arange(rows.shape[1])[:, None] * frequencies
        cosines, sines = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        even, odd = rows[..., 0::2], rows[..., 1::2]
        turned = np.empty_like(rows)
        turned[..., 0::2] = even * cosines - odd * sines
        turned[..., 1::2] = even * sines + odd * cosines
        return turned


class LlamaCpp:
    """llama.cpp with its defaults."""

    # Tokens of a batch, all of whose logits are in memory at once.
    PIECE = 256
    POSITIONS_MAX = 2048

    def __init__(self, path):
        import llama_cpp as lib
        import numpy as np

        self.lib, self.np = lib, np
        self.name = f"llama.cpp (llama-cpp-python {lib.__version__})"
        self.silence = lib.llama_log_callback(lambda level, text, data: None)
        lib.llama_log_set(self.silence, None)
        lib.llama_backend_init()
        self.model = lib.llama_model_load_from_file(path.encode(), lib.llama_model_default_params())
        if not self.model:
            raise SystemExit(f"llama.cpp cannot load {path}")
        settings = lib.llama_context_default_params()
        settings.n_ctx = self.POSITIONS_MAX
        settings.n_batch = settings.n_ubatch = self.PIECE
        self.context = lib.llama_init_from_model(self.model, settings)
        self.vocabulary = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self.model))
        self.batch = lib.llama_batch_init(self.PIECE, 0, 1)

    def score(self, tokens):
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), True)
        pieces = (self.logits(tokens, at) for at in range(0, len(tokens), self.PIECE))
        return summary(self.np, pieces, tokens)

    def logits(self, tokens, start):
        piece, batch = tokens[start : start + self.PIECE], self.batch
        batch.n_tokens = len(piece)
        for index, token in enumerate(piece):
            batch.token[index], batch.pos[index], batch.logits[index] = token, start + index, True
            batch.n_seq_id[index], batch.seq_id[index][0] = 1, 0
        if self.lib.llama_decode(self.context, batch):
            raise SystemExit("llama_decode failed")
        logits = self.lib.llama_get_logits(self.context)
        count = len(piece) * self.vocabulary
        array = self.np.ctypeslib.as_array(ctypes.cast(logits, ctypes.POINTER(ctypes.c_float)), (count,))
        return array.reshape(len(piece), self.vocabulary).copy()


if __name__ == "__main__":
    main()
