"""A worker that speaks chat completions, whose answers follow from what it was asked."""

import hashlib
import http.server
import json
import threading


class Scripted(http.server.ThreadingHTTPServer):
    """Serves on a free port, until it is shut down; its answers call `tools`."""

    def __init__(self, tools):
        super().__init__(("127.0.0.1", 0), Answers)
        self.tools = tools
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers with a digest of the prompt, thoughts and two calls at once."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        known = {"/health": {}, "/v1/models": {"object": "list", "data": [{"id": "scripted", "object": "model"}]}}
        self.whole(200 if self.path in known else 404, known.get(self.path, {"detail": "Not Found"}))

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        prompt = json.dumps([asked.get("messages"), asked.get("tools")], sort_keys=True, ensure_ascii=False)
        if self.path == "/tokenize":
            self.whole(200, {"count": len(prompt), "max_model_len": 1 << 20, "tokens": [1] * len(prompt)})
        elif self.path == "/v1/chat/completions":
            self.chat(asked, prompt)
        else:
            self.whole(404, {"detail": "Not Found"})

    def chat(self, asked, prompt):
        numbers = [asked.get(name) for name in ("max_tokens", "temperature", "reasoning_effort")]
        digest = hashlib.sha256(f"{prompt} {numbers}".encode()).hexdigest()[:12]
        kind, said = int(digest[0], 16) % 4, {"content": digest}
        if kind % 2:
            said["reasoning_content"] = f"why {digest}"
        calls = [(f"call_{digest}_{at}", name, json.dumps({"path": f"{at}/ä"}, separators=(",", ":"), ensure_ascii=False))
                 for at, name in enumerate(self.server.tools)] if kind > 1 else []  # fmt: skip
        finish = "tool_calls" if calls else "stop"
        usage = {"prompt_tokens": len(prompt), "completion_tokens": 3, "total_tokens": len(prompt) + 3}
        head = {"id": f"chatcmpl-{digest}", "created": 1, "model": "scripted"}
        whole = [{"id": id, "type": "function", "function": {"name": name, "arguments": text}} for id, name, text in calls]
        if not asked.get("stream"):
            message = {"role": "assistant", **said, "tool_calls": whole}
            choice = {"index": 0, "message": message, "finish_reason": finish}
            self.whole(200, {**head, "object": "chat.completion", "choices": [choice], "usage": usage})
            return
        deltas = [{"role": "assistant", "content": ""}]
        deltas += [{name: letter} for name in ("reasoning_content", "content") for letter in said.get(name, "")]
        deltas += [{"tool_calls": [{"index": at, **call, "function": {"name": call["function"]["name"], "arguments": ""}}]}
                   for at, call in enumerate(whole)]  # fmt: skip
        # Fragments of both calls take turns.
        pieces = [[text[at : at + 3] for at in range(0, len(text), 3)] for _, _, text in calls]
        deltas += [{"tool_calls": [{"index": at, "function": {"arguments": piece}}]}
                   for both in zip(*pieces) for at, piece in enumerate(both)]  # fmt: skip
        choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
        choices.append({"index": 0, "delta": {}, "finish_reason": finish})
        events = [{**head, "object": "chat.completion.chunk", "choices": [choice]} for choice in choices]
        events.append({**head, "object": "chat.completion.chunk", "choices": [], "usage": usage})
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for event in events:
            self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def whole(self, status, body):
        payload = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)
