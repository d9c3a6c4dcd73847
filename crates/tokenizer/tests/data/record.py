"""Records what other implementations make of texts and conversations: the expectations of our tests.

    python3 -m venv venv && venv/bin/pip install jinja2 tokenizers sentencepiece
    venv/bin/python record.py

Words: how Python's `tokenizers` (whose regular expressions are Oniguruma's) cuts text by the patterns
of the models' tokenizer.json. Pieces: a vocabulary trained by `sentencepiece` on this file's own
sample text, and the ids that `sentencepiece` gives. Conversations: templates rendered by `jinja2`, set
up as in `transformers`. Made with jinja2 3.1.6, tokenizers 0.23.3, sentencepiece 0.2.3.
"""

import io
import json
from pathlib import Path

import jinja2
import jinja2.ext
import jinja2.sandbox
import sentencepiece
from tokenizers import Regex, pre_tokenizers

HERE = Path(__file__).parent
TEXTS = [
    "Hello world", " leading", "trailing ", "a  b   c    d", "tab\tand\n\nnew\r\nlines \n x", "\n \n",
    "it's WE'LL don'T I'Ve x'y", "1 12 123 1234 12345.678 ½ ٣٤", "snake_case camelCase HTTPServer XMLHttp2",
    "punct!!! (ok) [x] {y} <|im_end|> a/b\\c --flag=1 $5 #tag `code`", "größe ÜBER naïve café cafe\u0301",
    "你好，世界。こんにちは 안녕하세요", "emoji 😀👍🏽 family 👨‍👩‍👧", "def f(x):\n    return x+1\n",
    "   indented\n      more", "\u00a0nbsp\u3000wide", "ΑΒΓ αβγ Привет", "e\u0301\u0323 \u1e69", "a\u200bb", "  ",
]
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CASE = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
HEAD = r"[^\r\n\p{L}\p{N}]?"
PATTERNS = {
    "gpt-2": [GPT2],
    "llama-bpe": [CASE + "|" + HEAD + r"\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + TAIL],
    "qwen2": [CASE + "|" + HEAD + r"\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + TAIL],
    "tekken": [f"{HEAD}{UPPER}*{LOWER}+|{HEAD}{UPPER}+{LOWER}*" + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + TAIL],
    "gpt-4o": [f"{HEAD}{UPPER}*{LOWER}+{CASE}?|{HEAD}{UPPER}+{LOWER}*{CASE}?" + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + TAIL],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-\ud7ff]+", r"\p{N}"],
    "deepseek-v3": [r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+", r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|" + TAIL],
}


def words():
    cutters = {
        name: pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(p), "isolated") for p in patterns])
        for name, patterns in PATTERNS.items()
    }
    # Hugging Face sets this family up from two ready parts.
    cutters["smollm"] = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.Split(Regex(GPT2), "isolated")]
    )
    return [
        {"pre": name, "text": text, "words": [word for word, _ in cutter.pre_tokenize_str(text)]}
        for name, cutter in cutters.items()
        for text in TEXTS
    ]


SAMPLE = """The scheduler decides which request runs next, and the engine computes it. A request waits in a
queue until blocks of the cache are free. When a block is shared, its count rises; when the last request
lets it go, it may be reused. Tokens are pieces of text: words, parts of words, spaces, digits such as 12
or 2024, and signs. Größe, naïve café, Straße. def main(): return [x for x in range(10) if x % 2 == 0]
Hello world! Hello again, hello there. This is a test. The quick brown fox jumps over the lazy dog.
"""


def pieces():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SAMPLE.splitlines() * 4), model_writer=model, model_type="bpe",
        vocab_size=420, byte_fallback=True, character_coverage=1.0, normalization_rule_name="identity",
        remove_extra_whitespaces=False, allow_whitespace_only_pieces=True, num_threads=1,
    )
    sp = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    kind = lambda i: 2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 6 if sp.is_byte(i) else 1
    count = sp.get_piece_size()
    texts = TEXTS + ["Hello world", "the scheduler", "x", " two  spaces", "1234567890", "Größe Straße"]
    return {
        "tokens": [sp.id_to_piece(i) for i in range(count)],
        "scores": [sp.get_score(i) for i in range(count)],
        "token_types": [kind(i) for i in range(count)],
        "vectors": [{"text": t, "ids": sp.encode(t), "decoded": sp.decode(sp.encode(t))} for t in texts],
    }


class Generation(jinja2.ext.Extension):
    """The block that marks what a model is trained on; it renders its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


class Refused(Exception):
    pass


def environment():
    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise Refused(message)

    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda pattern: {"%d %b %Y": "09 Feb 2025"}[pattern]
    return env


def render(env, case):
    template = env.from_string((HERE / "templates" / f"{case['template']}.jinja").read_text())
    messages = json.loads(json.dumps(case["messages"]))
    for message in messages:
        for call in message.get("tool_calls", []):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    tag = "CONTINUE_FINAL_MESSAGE_TAG "
    continued = case.get("ending") == "continue"
    if continued:
        messages[-1]["content"] += tag
    try:
        text = template.render(
            messages=messages, tools=case.get("tools"), documents=None, bos_token="<s>", eos_token="</s>",
            add_generation_prompt=case.get("ending", "assistant") == "assistant", **case.get("kwargs", {}),
        )
    except Refused as refusal:
        return {"refused": str(refusal)}
    if continued:
        place = text.rindex(tag.strip())
        text = text[:place] if text[place : place + len(tag)] == tag else text[:place].rstrip()
    return {"text": text}


TOOLS = [{"type": "function", "function": {
    "name": "weather", "description": "Tells the weather; <b>now</b> & \"here\", é.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 1}}, "required": ["city"]},
}}]


def conversations():
    def say(role, content, **extra):
        return {"role": role, "content": content, **extra}

    short = [say("user", "Hi")]
    spaced = [say("system", " Be brief. "), say("user", " What is\n2+2? "), say("assistant", " 4 "), say("user", "why <b>?")]
    thinking = [say("user", "q"), say("assistant", "<think>\nhm\n</think>\n\nanswer"), say("user", "more")]
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\": \"Köln\", \"days\": 2}"}}
    tools = [say("user", "Weather?"), say("assistant", None, tool_calls=[call]), say("tool", "rain", tool_call_id="c1")]
    odd = [say("user", "a"), say("user", "b")]
    reasoned = [say("user", "q"), say("assistant", "a", reasoning_content="because")]
    prefix = [say("user", "Count"), say("assistant", "one, two ")]
    cases = []
    for name in ["llama3", "llama31", "qwen25", "qwen3", "mistral", "generation"]:
        for messages in [short, spaced, thinking, odd]:
            cases.append({"template": name, "messages": messages})
        cases.append({"template": name, "messages": spaced, "ending": "closed"})
        cases.append({"template": name, "messages": prefix, "ending": "continue"})
    for name in ["llama31", "qwen25"]:
        cases.append({"template": name, "messages": tools, "tools": TOOLS})
    cases.append({"template": "mistral", "messages": short, "tools": TOOLS})
    cases.append({"template": "qwen3", "messages": reasoned, "ending": "closed"})
    cases.append({"template": "qwen3", "messages": short, "kwargs": {"enable_thinking": False}})
    cases.append({"template": "llama31", "messages": short, "kwargs": {"date_string": "today"}})
    env = environment()
    return [{**case, **render(env, case)} for case in cases]


def main():
    for name, record in [("words", words()), ("pieces", pieces()), ("conversations", conversations())]:
        text = json.dumps(record, ensure_ascii=False, indent=0, separators=(",", ":"))
        (HERE / f"{name}.json").write_text(text + "\n")


main()
