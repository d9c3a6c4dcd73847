"""Tokenizes with another implementation, for the tokenizer part of `cargo xtask bench engine`.

    python token_reference.py tokenizers|llama_cpp MODEL < input.json

Reads `{"texts": […], "conversations": [[message, …], …]}`. Prints `{"name": …, "texts": [[id, …], …],
"conversations": […]}`. `tokenizers` builds Hugging Face's tokenizer from the vocabulary and merges of a GGUF file of
the SmolLM family, as the model's own tokenizer.json sets it up, and renders conversations with jinja2 as transformers
does; it needs the packages tokenizers, jinja2 and gguf. `llama_cpp` needs llama-cpp-python and gives no conversations.
Prints `{"missing": why}` where a package is not there.
"""

import json
import sys


def main():
    engine, path = sys.argv[1:3]
    given = json.load(sys.stdin)
    try:
        peer = {"tokenizers": HuggingFace, "llama_cpp": LlamaCpp}[engine](path)
    except ImportError as error:
        print(json.dumps({"missing": str(error)}))
        return
    texts = [peer.encode(text) for text in given["texts"]]
    conversations = [peer.chat(messages) for messages in given["conversations"]]
    print(json.dumps({"name": peer.name, "texts": texts, "conversations": conversations}))


class HuggingFace:
    CONTROL = 3

    def __init__(self, path):
        import gguf
        import jinja2.ext
        import jinja2.sandbox
        import tokenizers
        from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

        self.name = f"tokenizers {tokenizers.__version__}, jinja2 {jinja2.__version__}"
        fields = gguf.GGUFReader(path).fields
        field = lambda key: fields[key].contents()
        if field("tokenizer.ggml.pre") != "smollm":
            raise SystemExit("the reference knows tokenizers of the SmolLM family only")
        words = field("tokenizer.ggml.tokens")
        merges = [tuple(merge.split(" ")) for merge in field("tokenizer.ggml.merges")]
        self.tokenizer = Tokenizer(models.BPE({word: at for at, word in enumerate(words)}, merges))
        self.tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
        kinds = zip(words, field("tokenizer.ggml.token_type"))
        controls = [word for word, kind in kinds if kind == self.CONTROL]
        self.tokenizer.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in controls])
        sandbox = jinja2.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
        )
        self.template = sandbox.from_string(field("tokenizer.chat_template"))

    def encode(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def chat(self, messages):
        return self.encode(self.template.render(messages=messages, add_generation_prompt=True))


class LlamaCpp:
    # Tokens of a text at most.
    TOKENS_MAX = 1 << 14

    def __init__(self, path):
        import llama_cpp as lib

        self.lib = lib
        self.name = f"llama.cpp (llama-cpp-python {lib.__version__})"
        self.silence = lib.llama_log_callback(lambda level, text, data: None)
        lib.llama_log_set(self.silence, None)
        lib.llama_backend_init()
        settings = lib.llama_model_default_params()
        settings.vocab_only = True
        self.model = lib.llama_model_load_from_file(path.encode(), settings)
        self.vocabulary = lib.llama_model_get_vocab(self.model)
        self.tokens = (lib.llama_token * self.TOKENS_MAX)()

    def encode(self, text):
        data = text.encode()
        count = self.lib.llama_tokenize(
            self.vocabulary, data, len(data), self.tokens, self.TOKENS_MAX, False, True
        )
        return list(self.tokens[:count])

    def chat(self, messages):
        return None


if __name__ == "__main__":
    main()
