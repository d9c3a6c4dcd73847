"""A client that knows what each answer must be, and reads every token of it."""
import asyncio
import dataclasses
import json
import time

from processes import NOTICED_SECONDS, post

REQUEST_SECONDS_MAX = 120
# Other gateways that are asked where a connection is refused.
ELSEWHERE_MAX = 3
PATH = "/v1/chat/completions"
# Answers of two lengths: the shorter are over before most faults, the longer meet them.
EMBEDDED_TOKENS, SIMULATED_TOKENS = (160, 800), (120, 600)
# In a rolling restart streams last longer than the restart of a worker, so that they meet more than one.
ROLLING_TOKENS = (120, 3000)


@dataclasses.dataclass
class Question:
    """A request for a chat, and what a worker says to it that nobody disturbs."""
    body: dict
    text: str = ""
    tokens: tuple = ()
    finish: str = ""
    usage: tuple = ()


@dataclasses.dataclass
class Answer:
    """What a client has of an answer, however it ended."""
    status: int = 0
    texts: list = dataclasses.field(default_factory=list)
    tokens: list = dataclasses.field(default_factory=list)
    finish: list = dataclasses.field(default_factory=list)
    usage: list = dataclasses.field(default_factory=list)
    ids: set = dataclasses.field(default_factory=set)
    errors: list = dataclasses.field(default_factory=list)
    roles: int = 0
    resumed: int = 0
    is_done: bool = False
    is_ended: bool = False
    broke: str = ""

    def event(self, line):
        if line.startswith(": x-overdraft-resumed"):
            self.resumed += 1
        if not line.startswith("data: "):
            return
        if line == "data: [DONE]":
            self.is_done = True
            return
        chunk = json.loads(line[6:])
        if chunk.get("error"):
            self.errors.append(chunk["error"])
            return
        self.ids.add(chunk["id"])
        if chunk.get("usage"):
            self.usage.append(counts(chunk["usage"]))
        for choice in chunk.get("choices", []):
            delta = choice.get("delta") or choice.get("message") or {}
            self.roles += "role" in delta
            self.texts.append(delta.get("content") or "")
            self.tokens += choice.get("token_ids") or []
            self.finish += [choice["finish_reason"]] if choice.get("finish_reason") else []

    def whole(self, data):
        body = json.loads(data)
        if body.get("error"):
            self.errors.append(body["error"])
        else:
            self.event("data: " + json.dumps(body))
            self.is_done = True


@dataclasses.dataclass
class Record:
    """How one request went."""
    model: str
    begun: float
    ended: float
    verdict: str
    why: str = ""
    resumed: int = 0
    tokens: int = 0


def counts(usage):
    return usage["prompt_tokens"], usage["completion_tokens"]


def bodies(each, simulated):
    """Requests whose answers are known: greedy, of fixed length or as long as the model wants."""
    for number in range(each):
        tokens = EMBEDDED_TOKENS[number % 2]
        told = {"role": "user", "content": f"Tell me about the number {number}."}
        least = {"min_tokens": tokens} if number % 4 < 3 else {}
        yield {"model": "embedded", "temperature": 0, "max_tokens": tokens, "messages": [told], **least}
        tokens = simulated[number % 2]
        told = {"role": "user", "content": f"story {number} [answer:{tokens}]"}
        yield {"model": "simulated", "temperature": 0, "max_tokens": tokens, "messages": [told]}


async def questions(each, ports, simulated):
    """Asks a worker of each model, before anything is disturbed. An embedded one is asked one thing at a time."""
    lanes = {"embedded": asyncio.Semaphore(1), "simulated": asyncio.Semaphore(each)}

    async def known(body):
        async with lanes[body["model"]]:
            said = await post(ports[body["model"]], PATH, {**body, "return_token_ids": True})
        choice = said["choices"][0]
        return Question(body, choice["message"]["content"], tuple(choice["token_ids"]), choice["finish_reason"], counts(said["usage"]))
    return await asyncio.gather(*(known(body) for body in bodies(each, simulated)))


def judge(question, answer, with_tokens):
    """`good`, or what is wrong and why."""
    text, tokens = "".join(answer.texts), tuple(answer.tokens)
    if not question.text.startswith(text) or tokens != question.tokens[:len(tokens)]:
        at = next((at for at, (one, other) in enumerate(zip(question.text, text)) if one != other), min(len(question.text), len(text)))
        return "wrong", f"differs at character {at}: {text[at:at + 40]!r} for {question.text[at:at + 40]!r}, {answer.resumed} resumes"
    if answer.status >= 400 or answer.errors:
        error = answer.errors[0] if answer.errors else {}
        return "told", f"{answer.status} {error.get('code') or error.get('type')}: {error.get('message')}"
    if answer.broke or not answer.is_ended:
        return "lost", answer.broke or "the connection ended before the answer"
    if not answer.is_done or answer.finish != [question.finish] or text != question.text:
        return "cut", f"ended cleanly after {len(text)} of {len(question.text)} characters, finish {answer.finish}, done {answer.is_done}"
    if with_tokens and tokens != question.tokens:
        return "wrong", f"{len(tokens)} of {len(question.tokens)} token ids, {answer.resumed} resumes"
    if answer.usage != [question.usage] or len(answer.ids) != 1 or answer.roles != 1:
        return "wrong", f"usage {answer.usage} for {question.usage}, {len(answer.ids)} ids, {answer.roles} roles, {answer.resumed} resumes"
    return "good", ""


async def read_head(reader):
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *rest = head.split("\r\n")
    fields = dict(line.lower().split(": ", 1) for line in rest if ": " in line)
    return int(first.split(" ")[1]), fields


async def read_stream(reader, answer):
    """Chunks and their lines, each as it comes, so that what was told before a break is known."""
    rest = b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        rest += (await reader.readexactly(size + 2))[:-2]
        *lines, rest = rest.split(b"\n")
        for line in lines:
            answer.event(line.decode().rstrip("\r"))
    answer.is_ended = True


async def exchange(port, body, answer):
    """Sends one request, and reads what comes into `answer`. Raises `ConnectionRefusedError` alone."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    try:
        data = json.dumps(body).encode()
        writer.write(f"POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data)
        answer.status, fields = await read_head(reader)
        if "content-length" in fields:
            answer.whole(await reader.readexactly(int(fields["content-length"])))
            answer.is_ended = True
        else:
            await read_stream(reader, answer)
    except (OSError, asyncio.IncompleteReadError, ValueError) as fault:
        answer.broke = repr(fault)
    finally:
        writer.close()


class Load:
    """Clients in a closed loop, held to a rate once the capacity is known."""

    def __init__(self, gateways, known, random):
        self.gateways, self.known, self.random = gateways, known, random
        self.records, self.refused, self.rate, self.over = [], [], None, False
        self.slot, self.next = 0.0, 0

    async def client(self):
        while not self.over:
            await self.turn()
            if not self.over:
                await self.ask()

    async def turn(self):
        """Waits until one more request is due."""
        now = time.monotonic()
        self.slot = max(self.slot, now) + (1 / self.rate if self.rate else 0)
        await asyncio.sleep(self.slot - now if self.rate else 0)

    def pick(self):
        """The next gateway that is believed to be ready, in turn."""
        self.next += 1
        ready = [one for one in self.gateways if one.is_open] or self.gateways
        return ready[self.next % len(ready)]

    async def ask(self):
        question = self.random.choice(self.known)
        is_streamed = self.random.random() < 0.75
        with_tokens = self.random.random() < 0.5
        body = {**question.body, "stream": is_streamed, **({"stream_options": {"include_usage": True}} if is_streamed else {}),
                **({"return_token_ids": True} if with_tokens else {})}
        begun = time.monotonic()
        for _ in range(ELSEWHERE_MAX):
            gateway, answer = self.pick(), Answer()
            asked = time.monotonic()
            try:
                await asyncio.wait_for(exchange(gateway.port, body, answer), REQUEST_SECONDS_MAX)
                break
            except asyncio.TimeoutError:
                answer.broke = f"no end after {REQUEST_SECONDS_MAX} s"
                break
            except OSError:
                # A gateway that was killed refuses until its balancer knows; one that leaves does not.
                self.refused += [] if gateway.was_killed(asked - NOTICED_SECONDS) else [gateway.name]
                gateway.is_open, answer.broke = False, "no gateway took the connection"
        verdict, why = judge(question, answer, with_tokens)
        if verdict == "lost" and gateway.was_killed(asked):
            verdict = "killed"
        why = f"{gateway.name}, {'stream' if is_streamed else 'whole'}: {why}" if why else ""
        tokens = question.usage[1] if verdict == "good" else 0
        self.records.append(Record(body["model"], begun, time.monotonic(), verdict, why, answer.resumed, tokens))
