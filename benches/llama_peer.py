"""Times llama.cpp for `cargo xtask bench engine`, one measurement per line of standard input.

    python llama_peer.py MODEL THREADS CONTEXT SEQUENCES VOCABULARY

Prints `{"ready": version}`, then reads `prefill N` or `decode SEQUENCES TOKENS` and answers each with
`{"seconds": best of a few repeats}`. Every sequence holds CONTEXT tokens when a decode is measured; what a
measurement adds is removed again. Exits with 3 and one line when llama-cpp-python is missing.
"""

import json
import sys
import time


def main():
    path, threads, context, sequences, vocabulary = sys.argv[1], *map(int, sys.argv[2:6])
    try:
        import llama_cpp
    except ImportError as error:
        print(json.dumps({"missing": f"llama-cpp-python: {error}"}), flush=True)
        sys.exit(3)
    peer = Peer(llama_cpp, path, threads, context, sequences, vocabulary)
    print(json.dumps({"ready": f"llama.cpp (llama-cpp-python {llama_cpp.__version__})"}), flush=True)
    for line in sys.stdin:
        what, *numbers = line.split()
        seconds = getattr(peer, what)(*map(int, numbers))
        print(json.dumps({"seconds": seconds}), flush=True)


class Peer:
    """One model with one context, in which every sequence already holds some tokens."""

    def __init__(self, lib, path, threads, context, sequences, vocabulary):
        self.lib, self.context, self.vocabulary = lib, context, vocabulary
        self.silence = lib.llama_log_callback(lambda level, text, data: None)
        lib.llama_log_set(self.silence, None)
        lib.llama_backend_init()
        self.model = lib.llama_model_load_from_file(path.encode(), lib.llama_model_default_params())
        if not self.model:
            raise SystemExit(f"llama.cpp cannot load {path}")
        settings = lib.llama_context_default_params()
        # Sequences get equal shares; the prefill that is measured needs 512 of one of them.
        settings.n_ctx = (sequences + 1) * 768
        settings.n_batch = settings.n_ubatch = 512
        settings.n_seq_max = sequences + 1
        settings.n_threads = settings.n_threads_batch = threads
        self.handle = lib.llama_init_from_model(self.model, settings)
        if not self.handle:
            raise SystemExit("llama.cpp cannot make a context")
        self.memory = lib.llama_get_memory(self.handle)
        self.spare = sequences
        self.batch = lib.llama_batch_init(512, 0, 1)
        for sequence in range(sequences):
            rows = [(self.token(sequence, at), at, sequence, False) for at in range(context)]
            self.decode_batch(rows)

    def token(self, sequence, position):
        """The same tokens as the bench uses."""
        return 5 + (position * 7919 + sequence * 104729) % (self.vocabulary - 5)

    def decode_batch(self, rows):
        """Computes rows of (token, position, sequence, logits wanted)."""
        batch = self.batch
        batch.n_tokens = len(rows)
        for index, (token_id, position, sequence, wanted) in enumerate(rows):
            batch.token[index] = token_id
            batch.pos[index] = position
            batch.n_seq_id[index] = 1
            batch.seq_id[index][0] = sequence
            batch.logits[index] = wanted
        start = time.perf_counter()
        failed = self.lib.llama_decode(self.handle, batch)
        self.lib.llama_synchronize(self.handle)
        elapsed = time.perf_counter() - start
        if failed:
            raise SystemExit(f"llama_decode failed with {failed}")
        return elapsed

    def prefill(self, count):
        rows = [(self.token(77, at), at, self.spare, at + 1 == count) for at in range(count)]
        elapsed = self.decode_batch(rows)
        self.lib.llama_memory_seq_rm(self.memory, self.spare, -1, -1)
        return elapsed

    def decode(self, sequences, tokens, repeats=12):
        best = None
        for repeat in range(repeats):
            rows = [
                (self.token(sequence, 1000 + 31 * repeat + at), self.context + at, sequence, True)
                for sequence in range(sequences)
                for at in range(tokens)
            ]
            elapsed = self.decode_batch(rows)
            for sequence in range(sequences):
                self.lib.llama_memory_seq_rm(self.memory, sequence, self.context, -1)
            best = elapsed if best is None else min(best, elapsed)
        return best


if __name__ == "__main__":
    main()
