"""Sessions of coding agents in both dialects, and the same questions asked as chat completions.

`agents.py GATEWAY WORKER MODEL [--turns N]`, or `agents.py --scripted OVERDRAFT` with a worker of its own.

One session is told three times: as Claude Code tells it (Messages, whole history, cache marks that move, a billing
line that changes), as Codex does (Responses, `store: false`, whole history with sealed thoughts), and as the Agents SDK
does (Responses, each request after the one before). Each answer must be the one that the worker gives to the session's
own chat completion, whose messages are written here, not by the gateway.
"""

import argparse
import dataclasses
import json
import pathlib
import tempfile

import anthropic
import openai

import servers
from scripted import Scripted

MAX_TOKENS = 8
# A picture of one pixel.
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
# Short enough to be whole within the limit of a forced call.
NARROW = {"type": "object", "properties": {"path": {"enum": ["a.txt"]}}, "required": ["path"]}
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOLS = {"read": "Reads a file.", "list": "Lists a folder."}
SYSTEM = ["You edit code.", "Be short."]


@dataclasses.dataclass
class Said:
    """What an assistant said in one turn."""

    thought: str = ""
    text: str = ""
    calls: list = dataclasses.field(default_factory=list)  # of (id, name, arguments)
    end: str = "stop"
    prompt_tokens: int | None = None

    def seen(self):
        return (self.thought, self.text, [(name, json.loads(a or "{}")) for _, name, a in self.calls], self.end)


@dataclasses.dataclass
class Asked:
    """What a user sends in one turn: results of calls, then words and pictures."""

    text: str
    results: list = dataclasses.field(default_factory=list)  # of (id, text, has a picture)
    picture: bool = False


class Session:
    """The turns so far, and what they are in chat completions."""

    def __init__(self, pictures):
        self.turns, self.pictures = [], pictures

    def ask(self, number):
        """The next thing that a user sends; every fifth turn holds a picture where the model can see."""
        said = self.turns[-1] if self.turns else Said()
        shows = lambda at: self.pictures and (number + at) % 5 == 0
        results = [(call[0], f"r{number}.{at}", shows(at)) for at, call in enumerate(said.calls)]
        self.turns.append(Asked(f"q{number}", results, shows(3)))

    def chat(self):
        messages = [{"role": "system", "content": "\n\n".join(SYSTEM)}]
        for turn in self.turns:
            messages += said_in_chat(turn) if isinstance(turn, Said) else asked_in_chat(turn)
        return messages


def said_in_chat(said):
    if not (said.thought or said.text or said.calls):
        return []
    message = {"role": "assistant", "content": said.text or (None if said.calls else "")}
    if said.thought:
        message |= {"reasoning_content": said.thought, "reasoning": said.thought}
    if said.calls:
        message["tool_calls"] = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for id, name, arguments in said.calls
        ]
    return [message]


def asked_in_chat(asked):
    seen = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    results = [{"role": "tool", "tool_call_id": id, "content": text} for id, text, _ in asked.results]
    pictures = [seen for *_, shown in asked.results if shown] + [seen] * asked.picture
    words = [*pictures, {"type": "text", "text": asked.text}] if pictures else asked.text
    return [*results, {"role": "user", "content": words}]


class Chat:
    """The session asked directly, as the chat completion that its translation should be."""

    def __init__(self, url, model):
        self.client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
        self.model = model

    def say(self, session):
        tools = [
            {"type": "function", "function": {"name": name, "description": told, "parameters": SCHEMA}}
            for name, told in TOOLS.items()
        ]
        asked = {"model": self.model, "messages": session.chat(), "tools": tools, "max_tokens": MAX_TOKENS}
        answer = self.client.chat.completions.create(**asked, temperature=0, reasoning_effort="low")
        choice = answer.choices[0]
        calls = [(c.id, c.function.name, c.function.arguments) for c in choice.message.tool_calls or []]
        thought = getattr(choice.message, "reasoning_content", None) or getattr(choice.message, "reasoning", None)
        end = "tool_calls" if calls and choice.finish_reason == "stop" else choice.finish_reason
        return Said(thought or "", choice.message.content or "", calls, end, answer.usage.prompt_tokens)


class ClaudeCode:
    """Messages: the whole history each time, thoughts with their signatures, marks that move."""

    name = "Messages"

    def __init__(self, url, model):
        self.client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)
        self.model, self.said = model, []

    def asked(self, session):
        billing = {"type": "text", "text": f"x-anthropic-billing-header: cc_version=2; cch={len(session.turns)};"}
        system = [billing, *({"type": "text", "text": text} for text in SYSTEM)]
        tools = [{"name": name, "description": told, "input_schema": SCHEMA} for name, told in TOOLS.items()]
        messages, said = [], iter(self.said)
        for turn in session.turns:
            role, blocks = ("user", asked_in_blocks(turn)) if isinstance(turn, Asked) else ("assistant", next(said))
            messages += [{"role": role, "content": blocks}] * bool(blocks)
        for marked in (system[-1], tools[-1], messages[-1]["content"][-1]):
            marked["cache_control"] = {"type": "ephemeral"}
        return {"model": self.model, "system": system, "messages": messages, "tools": tools}

    def say(self, session, number):
        asked = self.asked(session)
        rest = {"temperature": 0, "context_management": {"edits": []}, "output_config": {"effort": "low"}}
        more = {"max_tokens": MAX_TOKENS, "metadata": {"user_id": "{}"}, "thinking": {"type": "adaptive"}}
        more["extra_body"] = rest
        if number % 2:
            answer = self.client.messages.create(**asked, **more)
        else:
            with self.client.messages.stream(**asked, **more) as stream:
                answer = stream.get_final_message()
        of = lambda kind: [block for block in answer.content if block.type == kind]
        self.said.append([block.model_dump(exclude_none=True) for block in answer.content])
        ends = {"end_turn": "stop", "max_tokens": "length", "tool_use": "tool_calls", "stop_sequence": "stop"}
        calls = [(block.id, block.name, json.dumps(block.input)) for block in of("tool_use")]
        thought, text = "".join(b.thinking for b in of("thinking")), "".join(b.text for b in of("text"))
        usage = answer.usage
        prompt = usage.input_tokens + (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
        return Said(thought, text, calls, ends[answer.stop_reason], prompt)

    def count(self, session):
        return self.client.messages.count_tokens(**self.asked(session)).input_tokens

    def told(self, said):
        """Something that the assistant said though no model did."""
        thought = [{"type": "thinking", "thinking": said.thought, "signature": "s"}] * bool(said.thought)
        text = [{"type": "text", "text": said.text}] * bool(said.text)
        calls = [{"type": "tool_use", "id": c, "name": n, "input": json.loads(a)} for c, n, a in said.calls]
        self.said.append([*thought, *text, *calls])


def asked_in_blocks(asked):
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    text = lambda words: {"type": "text", "text": words}
    results = [
        {"type": "tool_result", "tool_use_id": id, "content": [text(words), *([image] * shown)]}
        for id, words, shown in asked.results
    ]
    return [*results, *([image] * asked.picture), text(asked.text)]


class Codex:
    """Responses: the whole history each time, with sealed thoughts; the gateway keeps nothing."""

    name = "Responses"

    def __init__(self, url, model):
        self.client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
        self.model, self.said = model, []

    def asked(self, session):
        tools = [
            {"type": "function", "name": name, "description": told, "parameters": SCHEMA}
            for name, told in TOOLS.items()
        ]
        return {
            "model": self.model, "instructions": SYSTEM[0], "tools": tools, "temperature": 0,
            "max_output_tokens": MAX_TOKENS, "input": self.input(session), **self.state(),
            "reasoning": {"effort": "low", "summary": "auto"}, "text": {"verbosity": "low"},
        }  # fmt: skip

    def state(self):
        return {"store": False, "include": ["reasoning.encrypted_content"], "prompt_cache_key": "k"}

    def input(self, session):
        items, said = [{"role": "developer", "content": SYSTEM[1]}], iter(self.said)
        for turn in session.turns:
            items += asked_in_items(turn) if isinstance(turn, Asked) else next(said)
        return items

    def say(self, session, number):
        asked = self.asked(session)
        if number % 2:
            answer = self.client.responses.create(**asked)
        else:
            with self.client.responses.stream(**asked) as stream:
                events = list(stream)
            # The SDK knows no final response of one that was cut at its limit.
            answer = events[-1].response
            assert [event.sequence_number for event in events] == list(range(len(events))), "numbers have gaps"
        self.heard(answer)
        of = lambda kind: [item for item in answer.output if item.type == kind]
        calls = [(item.call_id, item.name, item.arguments) for item in of("function_call")]
        text = "".join(part.text for item in of("message") for part in item.content)
        thought = "".join(part.text for item in of("reasoning") for part in item.content or [])
        end = "tool_calls" if calls else "stop"
        if answer.status == "incomplete":
            assert answer.incomplete_details.reason == "max_output_tokens", answer.incomplete_details
            end = "length"
        return Said(thought, text, calls, end, answer.usage.input_tokens)

    def heard(self, answer):
        items = [item.model_dump(exclude_none=True) for item in answer.output]
        # Codex keeps the seal of a thought, not the thought.
        self.said.append([{**item, "content": []} if item["type"] == "reasoning" else item for item in items])

    def count(self, session):
        asked = self.asked(session)
        kept = ("model", "instructions", "tools", "input", "previous_response_id")
        count = self.client.responses.input_tokens.count(**{name: asked[name] for name in kept if name in asked})
        return count.input_tokens

    def told(self, said):
        thought = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": said.thought}]}
        text = {"role": "assistant", "content": said.text}
        calls = [{"type": "function_call", "call_id": c, "name": n, "arguments": a} for c, n, a in said.calls]
        self.said.append([*([thought] * bool(said.thought)), *([text] * bool(said.text)), *calls])


class Agents(Codex):
    """Responses: only what is new, after the response before, which the gateway keeps."""

    name = "Responses, chained"

    def __init__(self, url, model):
        super().__init__(url, model)
        self.previous, self.sent = None, 0

    def state(self):
        return {"previous_response_id": self.previous} if self.previous else {}

    def input(self, session):
        items, said = [], iter(self.said)
        turns = session.turns[self.sent :]
        if not self.sent:
            items.append({"role": "developer", "content": SYSTEM[1]})
        for turn in turns:
            items += asked_in_items(turn) if isinstance(turn, Asked) else next(said)
        return items

    def say(self, session, number):
        said = super().say(session, number)
        # With what was said in answer, whose items the gateway has.
        self.sent = len(session.turns) + 1
        return said

    def heard(self, answer):
        self.previous, self.said = answer.id, []


def asked_in_items(asked):
    image = {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"}
    text = lambda words: {"type": "input_text", "text": words}
    results = [
        {"type": "function_call_output", "call_id": id, "output": [text(words), image] if shown else words}
        for id, words, shown in asked.results
    ]
    return [*results, {"role": "user", "content": [*([image] * asked.picture), text(asked.text)]}]


def play(gateway, worker, model, turns, pictures=False):
    """Plays a session of so many turns in each dialect; what was compared, in a sentence."""
    session, chat = Session(pictures), Chat(worker, model)
    agents = [kind(gateway, model) for kind in (ClaudeCode, Codex, Agents)]
    calls = thoughts = counts = 0
    for number in range(turns):
        session.ask(number)
        expected = chat.say(session)
        for agent in agents:
            where = f"turn {number} in {agent.name}"
            # A picture has a price of its own in a count.
            if number % 4 == 0 and not pictures:
                count, counts = agent.count(session), counts + 1
                assert count == expected.prompt_tokens, f"{where}: counted {count}, not {expected.prompt_tokens}"
            said = agent.say(session, number)
            assert said.seen() == expected.seen(), f"{where}: {said.seen()}, not {expected.seen()}"
            assert said.prompt_tokens == expected.prompt_tokens, f"{where}: {said}, not {expected}"
        calls, thoughts = calls + len(expected.calls), thoughts + bool(expected.thought)
        session.turns.append(expected)
        if not expected.calls and number % 6 == 5:
            teach(session, agents, number)
    return f"{turns} turns in {len(agents)} forms, {calls} calls, {thoughts} thoughts, {counts} counts"


def teach(session, agents, number):
    """A turn that no model said, as agents replay them: two calls at once, whose results the next turn brings."""
    session.turns.append(Asked(f"t{number}"))
    calls = [(f"c{number}.{at}", name, '{"path":"a"}') for at, name in enumerate(TOOLS)]
    said = Said(text=f"s{number}", calls=calls)
    session.turns.append(said)
    for agent in agents:
        agent.told(said)


class Unguided(Exception):
    """The worker itself makes a call whose arguments are no object."""


def forced(gateway, worker, model):
    """One call that the model must make, with arguments that the worker guides."""
    words, most = "Read the file a.txt.", 64
    messages = [{"role": "user", "content": words}]
    base = {"model": model, "temperature": 0}
    function = {"name": "read", "description": TOOLS["read"], "parameters": NARROW, "strict": True}
    choice = {"type": "function", "function": {"name": "read"}}
    tools = [{"type": "function", "function": function}]
    asked = {**base, "messages": messages, "max_tokens": most, "tools": tools, "tool_choice": choice}
    chat = openai.OpenAI(base_url=f"{worker}/v1", api_key="none", max_retries=0).chat.completions.create(**asked)
    expected = chat.choices[0].message.tool_calls[0].function
    if not isinstance(json.loads(expected.arguments), dict):
        raise Unguided(f"asked directly, it calls with {expected.arguments}, which its own guide forbids")
    tools = [{"name": "read", "description": TOOLS["read"], "input_schema": NARROW, "strict": True}]
    choice = {"type": "tool", "name": "read", "disable_parallel_tool_use": True}
    client = anthropic.Anthropic(base_url=gateway, api_key="none", max_retries=0)
    asked = {"model": model, "messages": messages, "max_tokens": most, "tools": tools, "tool_choice": choice}
    with client.messages.stream(**asked, extra_body={"temperature": 0}) as stream:
        for message in (stream.get_final_message(), client.messages.create(**asked, extra_body={"temperature": 0})):
            (call,) = (block for block in message.content if block.type == "tool_use")
            assert (call.name, call.input) == (expected.name, json.loads(expected.arguments)), (call, expected)
            assert message.stop_reason == "tool_use", message
    client = openai.OpenAI(base_url=f"{gateway}/v1", api_key="none", max_retries=0)
    asked = {**base, "input": words, "max_output_tokens": most, "tools": [{"type": "function", **function}]}
    asked |= {"tool_choice": {"type": "function", "name": "read"}, "parallel_tool_calls": False, "store": False}
    with client.responses.stream(**asked) as stream:
        for response in (stream.get_final_response(), client.responses.create(**asked)):
            (call,) = (item for item in response.output if item.type == "function_call")
            assert (call.name, call.arguments) == (expected.name, expected.arguments), (call, expected)
    return f"{expected.name}({expected.arguments}), whole and streamed"


def blind(gateway, model):
    """A picture for a model that sees none: refused, in each dialect's own words."""
    session = Session(pictures=True)
    session.ask(2)
    for agent, error in ((ClaudeCode, anthropic.BadRequestError), (Codex, openai.BadRequestError)):
        for number in range(2):
            try:
                said = agent(gateway, model).say(session, number)
            except error as refused:
                assert refused.body["error"]["message"] if agent is ClaudeCode else refused.body["message"], refused.body
            else:
                raise AssertionError(f"{agent.name}: a model without eyes said {said}")


def scripted(overdraft, turns):
    """Plays before a gateway of its own and a scripted worker, with pictures and without."""
    worker = Scripted(TOOLS)
    url = f"http://127.0.0.1:{worker.server_port}"
    with tempfile.TemporaryDirectory() as folder:
        suite = argparse.Namespace(work=pathlib.Path(folder), overdraft=overdraft)
        gateway = servers.Gateway(suite, "gateway", {"workers": [{"url": url, "name": "scripted"}]})
        try:
            gateway.start().ready()
            for pictures in (False, True):
                told = play(gateway.url(), url, "scripted", turns, pictures)
                assert " 0 calls" not in told and " 0 thoughts" not in told, told
                print(f"kept: pictures {pictures}: {told}")
        finally:
            gateway.stop()
            worker.shutdown()


def run(suite, engine_name, engine, gateway, model):
    past, through = engine.url(), gateway.url()
    promise = "60 turns of coding agents in Messages and Responses: the text that chat completions give"
    suite.check(engine_name, promise, lambda: play(through, past, model, 60))

    def call():
        try:
            return forced(through, past, model)
        except Unguided as why:
            raise suite.EngineFault(str(why)) from None

    suite.check(engine_name, "a forced call in both dialects", call)
    suite.check(engine_name, "a picture is refused in both dialects", lambda: blind(through, model))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("where", nargs="*", help="GATEWAY WORKER MODEL")
    parser.add_argument("--scripted", metavar="OVERDRAFT")
    parser.add_argument("--turns", type=int, default=60)
    arguments = parser.parse_args()
    if arguments.scripted:
        scripted(arguments.scripted, arguments.turns)
    else:
        print(f"kept: {play(*arguments.where, arguments.turns)}")


if __name__ == "__main__":
    main()
