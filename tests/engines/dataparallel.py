"""Several data-parallel ranks behind one address."""

import tokens
from servers import Gateway, Vllm, until

ENGINE = "vLLM, 2 data-parallel ranks"


def run(suite):
    engine = Vllm(suite, "vllm-ranks", suite.models / "hf-target", "target",
                  "--data-parallel-size", "2", ranks=2)  # fmt: skip
    try:
        suite.start(engine)
    except RuntimeError as why:
        suite.rows.append((ENGINE, "it starts", "not here", "the build", str(why)))
        return
    gateway = suite.start(Gateway(suite, "gateway-ranks", {"workers": [{"url": engine.url(), "name": "a"}]}))

    def seated():
        both = lambda: [gateway.knowledge(f"a#{rank}") for rank in range(2)]
        assert until(lambda: all(one == "reported" for one in both()), 15), f"they are {both()}"

    def predicted():
        requests = [request for seed in range(6) for request in tokens.conversation("target", 60_000 + 50 * seed)]
        line = tokens.compared(suite, engine, gateway, requests)
        per_rank = [gateway.metric(*tokens.ACTUAL[:1], kind="actual", worker=f"a#{rank}") for rank in range(2)]
        assert all(per_rank), f"one rank did all the work: {per_rank}"
        return f"{line}; by rank {per_rank}"

    suite.check(ENGINE, "each rank is a worker whose events are followed", seated)
    suite.check(ENGINE, "predicted = actual cached tokens", predicted)
    suite.stop()
