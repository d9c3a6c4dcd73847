"""Adapters beside their model: their cached blocks are their own, though the tokens are the same."""

import json

import tokens
from servers import Gateway, Vllm, until

ENGINE = "vLLM, two LoRA adapters"
NAMES = ("first", "second")
RANK = 8
MODULES = ("q_proj", "v_proj")


def adapter(model, folder, seed):
    """An adapter of drawn weights for the model in a folder."""
    import torch
    from safetensors.torch import save_file

    config = json.loads((model / "config.json").read_text())
    hidden, size = config["hidden_size"], config.get("head_dim")
    size = size or hidden // config["num_attention_heads"]
    heads = {"q_proj": config["num_attention_heads"], "v_proj": config["num_key_value_heads"]}
    draw, weights = torch.Generator().manual_seed(seed), {}
    for layer in range(config["num_hidden_layers"]):
        for name in MODULES:
            stem = f"base_model.model.model.layers.{layer}.self_attn.{name}"
            weights[f"{stem}.lora_A.weight"] = torch.randn(RANK, hidden, generator=draw) * 0.2
            weights[f"{stem}.lora_B.weight"] = torch.randn(heads[name] * size, RANK, generator=draw) * 0.2
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "adapter_model.safetensors")
    told = {"peft_type": "LORA", "r": RANK, "lora_alpha": RANK, "target_modules": list(MODULES), "bias": "none",
            "task_type": "CAUSAL_LM", "base_model_name_or_path": str(model), "lora_dropout": 0.0}  # fmt: skip
    (folder / "adapter_config.json").write_text(json.dumps(told))
    return folder


def run(suite):
    model = suite.models / "hf-target"
    modules = [f"{name}={adapter(model, suite.work / f'lora-{name}', seed)}" for seed, name in enumerate(NAMES)]
    flags = ("--enable-lora", "--max-lora-rank", RANK, "--max-loras", len(NAMES), "--lora-modules", *modules)
    engine = Vllm(suite, "vllm-lora", model, "target", *flags)
    try:
        suite.start(engine)
    except RuntimeError as why:
        suite.rows.append((ENGINE, "it starts", "not here", "the build", str(why)))
        return
    first, second = NAMES
    workers = {"workers": [{"url": engine.url(), "name": "a"}]}
    for engine_name, name, config in (
        (ENGINE, "gateway-lora", workers),
        (f"{ENGINE}, tokenizer folder", "gateway-lora-folder",
         {"models": {one: {"tokenizer": str(model)} for one in ("target", *NAMES)}, **workers}),
    ):  # fmt: skip
        check(suite, engine_name, engine, suite.start(Gateway(suite, name, config)), first, second)
        suite.stop(suite.running[-1])
    suite.stop()


def check(suite, engine_name, engine, gateway, first, second):
    """All three go through the same texts, so that only the adapter tells their blocks apart."""
    seed = 70_000 if "folder" in engine_name else 90_000

    def answers():
        body = {"messages": [tokens.said("user", "What is the capital of France?")], "max_tokens": 24, "temperature": 0}
        asked = lambda name, server: server.post("/v1/chat/completions", {"model": name, **body}).json()
        texts = {}
        for name in ("target", first, second):
            past, through = asked(name, engine), asked(name, gateway)
            content = lambda answer: answer["choices"][0]["message"]["content"]
            assert content(past) == content(through), f"{name}: {content(past)[:80]!r} and {content(through)[:80]!r}"
            assert through["model"] == name, through["model"]
            texts[content(past)] = name
        assert len(texts) == 3, f"the adapters change nothing: {texts}"

    def follows():
        gateway.post(*tokens.chat("target", [tokens.said("user", "Hello.")]))
        found = lambda: gateway.knowledge("a") in ("reported", "exact")
        assert until(found, 10), f"its knowledge is `{gateway.knowledge('a')}`"

    def predicted(model):
        return lambda: tokens.compared(suite, engine, gateway, tokens.conversation(model, seed))

    suite.check(engine_name, "each adapter answers under its own name", answers)
    suite.check(engine_name, "KV events are found and followed without configuration", follows)
    for model, words in (("target", "the model"), (first, "an adapter, the same texts"),
                         (second, "another adapter, the same texts"), (first, "the first adapter again")):  # fmt: skip
        suite.check(engine_name, f"predicted = actual cached tokens: {words}", predicted(model))
