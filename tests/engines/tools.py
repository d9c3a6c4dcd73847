"""Other people's tools through the gateway."""

import pathlib
import re
import subprocess

import same


def bench(suite, engine_name, gateway):
    def vllm_bench():
        command = [
            suite.vllm, "bench", "serve", "--backend", "openai-chat", "--endpoint", "/v1/chat/completions",
            "--base-url", gateway.url(), "--model", "target", "--tokenizer", str(suite.models / "hf-target"),
            "--dataset-name", "random", "--random-input-len", "128", "--random-output-len", "16",
            "--num-prompts", "32", "--max-concurrency", "8",
        ]  # fmt: skip
        environment = {"HF_HUB_OFFLINE": "1", "PATH": "/usr/bin:/bin", "HOME": str(suite.work)}
        ran = subprocess.run(command, capture_output=True, text=True, timeout=400, env=environment)
        (pathlib.Path(suite.work) / "vllm-bench.log").write_text(ran.stdout + ran.stderr)
        told = re.search(r"Successful requests:\s+(\d+)", ran.stdout)
        if told is None:
            raise suite.Unsupported(f"`vllm bench serve` did not run: {ran.stderr.strip()[-160:]}")
        assert told[1] == "32", f"{told[1]} of 32 succeeded"
        throughput = re.search(r"Output token throughput \(tok/s\):\s+([\d.]+)", ran.stdout)
        return f"32 of 32, {throughput[1] if throughput else '?'} tokens/s"

    def official():
        try:
            from openai import OpenAI
        except ImportError:
            raise suite.Unsupported("the package `openai` is not installed") from None
        client = OpenAI(base_url=f"{gateway.url()}/v1", api_key="none")
        answer = client.chat.completions.create(**same.CHAT)
        stream = client.chat.completions.create(**same.CHAT, **same.WITH_USAGE)
        chunks = list(stream)
        said = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        assert said == answer.choices[0].message.content, (said, answer)
        assert chunks[-1].usage.total_tokens == answer.usage.total_tokens, chunks[-1]

    suite.check(engine_name, "the official OpenAI client", official)
    suite.check(engine_name, "`vllm bench serve` through the gateway", vllm_bench)
