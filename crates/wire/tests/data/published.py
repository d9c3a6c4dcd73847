"""Writes the request schemas that the official Python SDKs publish: names of types, fields and words.

    python3 -m venv venv && venv/bin/pip install anthropic openai
    venv/bin/python published.py

A type is an object of fields; a field that must be there has `!` behind its name. What a field takes is a word of
these: `text`, `number`, `flag`, `any`, `{"list": T}`, `{"map": T}`, `{"words": [...]}`, `{"type": NAME}`, or a list
of several. Lists that any string may stand in for (`model`) are `text`.
"""

import collections.abc
import importlib
import json
import types
import typing
from pathlib import Path

import anthropic
import openai
import typing_extensions

HERE = Path(__file__).parent
UNIONS = (typing.Union, types.UnionType)
REQUIRED = (typing.Required, typing_extensions.Required)
WRAPPED = (*REQUIRED, typing.Annotated, typing.NotRequired, typing_extensions.NotRequired)
SCALARS = {str: "text", bytes: "text", int: "number", float: "number", bool: "flag", object: "any", typing.Any: "any"}
MESSAGES = {
    "create": ["anthropic.types.message_create_params.MessageCreateParams",
               "anthropic.types.beta.message_create_params.MessageCreateParams"],
    "count": ["anthropic.types.message_count_tokens_params.MessageCountTokensParams",
              "anthropic.types.beta.message_count_tokens_params.MessageCountTokensParams"],
}  # fmt: skip
RESPONSES = {
    "create": ["openai.types.responses.response_create_params.ResponseCreateParams"],
    "count": ["openai.types.responses.input_token_count_params.InputTokenCountParams"],
    "compact": ["openai.types.responses.response_compact_params.ResponseCompactParams"],
}


class Writer:
    def __init__(self):
        self.types, self.named = {}, {}

    def root(self, path):
        """The fields of a request; those of its streamed and its whole form are one."""
        module, _, name = path.rpartition(".")
        found = getattr(importlib.import_module(module), name)
        forms = typing.get_args(found) if typing.get_origin(found) in UNIONS else (found,)
        merged = {}
        for form in forms:
            for field, told in self.fields(form).items():
                before = merged.get(field)
                merged[field] = told if before in (None, told) else joined([before, told])
        return merged

    def fields(self, form):
        hints = typing_extensions.get_type_hints(form, include_extras=True)
        return {field + ("!" if is_required(hint) else ""): self.read(hint) for field, hint in hints.items()}

    def read(self, hint):
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin in WRAPPED:
            return self.read(arguments[0])
        if origin in UNIONS:
            return joined([self.read(one) for one in arguments if not is_beside(one)])
        if origin is typing.Literal or origin is typing_extensions.Literal:
            flags = all(isinstance(word, bool) for word in arguments)
            return "flag" if flags else {"words": list(arguments)}
        if hint in SCALARS:
            return SCALARS[hint]
        if typing_extensions.is_typeddict(hint):
            return {"type": self.name(hint)}
        if arguments and isinstance(origin, type) and issubclass(origin, collections.abc.Mapping):
            return {"map": self.read(arguments[1])}
        if arguments and isinstance(origin, type) and issubclass(origin, collections.abc.Iterable):
            return {"list": self.read(arguments[0])}
        # A file, which is sent as base64.
        return "text"

    def name(self, form):
        """Types of one name in several modules are one where their fields are."""
        if form in self.named:
            return self.named[form]
        name, number = form.__name__, 1
        self.named[form] = name
        while name in self.types:
            number += 1
            name = f"{form.__name__}{number}"
        self.named[form] = name
        self.types[name] = {}
        self.types[name] = self.fields(form)
        return name


def is_beside(kind):
    """Null, which is as good as absent, and objects of answers, which the SDK sends as their own request types."""
    return kind is type(None) or hasattr(kind, "model_fields")


def is_required(hint):
    origin = typing.get_origin(hint)
    return origin in REQUIRED or (origin in WRAPPED and is_required(typing.get_args(hint)[0]))


def joined(kinds):
    """One kind, or several without doubles; words are put together, and any text swallows words."""
    flat = [one for kind in kinds for one in (kind if isinstance(kind, list) else [kind])]
    words = [word for one in flat if isinstance(one, dict) and "words" in one for word in one["words"]]
    rest = [one for at, one in enumerate(flat) if one not in flat[:at] and not (isinstance(one, dict) and "words" in one)]
    if words and "text" not in rest:
        rest.insert(0, {"words": list(dict.fromkeys(words))})
    return rest[0] if len(rest) == 1 else rest


def merged(types_):
    """Without the second of two types of one name whose fields are the same."""
    while True:
        double = {}
        for name, fields in types_.items():
            for other in types_:
                if other != name and other.rstrip("0123456789") == name and types_[other] == fields:
                    double[other] = name
        if not double:
            return types_
        text = json.dumps({name: fields for name, fields in types_.items() if name not in double})
        for other, name in double.items():
            text = text.replace(f'{{"type": "{other}"}}', f'{{"type": "{name}"}}')
        types_ = json.loads(text)


def write(name, source, roots):
    writer = Writer()
    found = {}
    for use, paths in roots.items():
        for at, path in enumerate(paths):
            found[f"{use}.{at}" if at else use] = writer.root(path)
    kept = merged({**writer.types, **{f"/{use}": fields for use, fields in found.items()}})
    lines = [f'{{"source": {json.dumps(source)}, "types": {{']
    for at, (kind, fields) in enumerate(kept.items()):
        lines.append(f" {json.dumps(kind)}: {{")
        lines += [f"  {json.dumps(field)}: {json.dumps(told)}," for field, told in fields.items()]
        lines[-1] = lines[-1].rstrip(",")
        lines.append(" }" if at == len(kept) - 1 else " },")
    lines.append("}}")
    (HERE / name).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    write("messages.json", f"anthropic {anthropic.__version__}", MESSAGES)
    write("responses.json", f"openai {openai.__version__}", RESPONSES)
