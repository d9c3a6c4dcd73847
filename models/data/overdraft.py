"""Short explanations of Overdraft and of the ideas it is built on.

Each subject has a short and a long answer; the phrasing of the question decides which one is
right. Held-out questions are phrasings that training never saw for that subject.
"""

from __future__ import annotations

from random import Random

from .example import Example

SHORT = (
    "What is {s}?", "What does {s} mean?", "Define {s}.", "In one sentence, what is {s}?",
    "Briefly, what is {s}?", "Explain {s} in short.", "{s}?", "What's {s}?",
    "Can you say in a few words what {s} is?", "Give me a short definition of {s}.",
    "I keep hearing about {s}. What is it, in short?", "Quick question: what is {s}?",
    "Summarize {s} in one sentence.", "Hello, what is {s}?",
)
LONG = (
    "Explain {s}.", "Explain {s} in detail.", "Tell me about {s}.", "Can you explain {s} to me?",
    "I am new to this. Explain {s}, please.", "How does {s} work?", "Please describe {s}.",
    "Tell me more about {s}.", "What should I know about {s}?", "Describe {s} in a few sentences.",
    "Why does {s} matter? Explain it.", "Write a short paragraph about {s}.",
    "Could you explain {s} to a beginner?", "Teach me about {s}.",
)

SUBJECTS = {
    "Overdraft": (
        "Overdraft is one Rust binary that serves large language models at a fraction of the GPU "
        "bill.",
        "Overdraft is one Rust binary that serves large language models at a fraction of the GPU "
        "bill. It sends each request to the worker that already holds its KV cache, tries a cheap "
        "draft model first where that pays, and keeps memory fully used without ever overdrawing "
        "it. It stands in front of vLLM, SGLang or llama-server, or runs its own embedded engine "
        "on one machine."),
    "a KV cache": (
        "A KV cache keeps the keys and values of earlier tokens so that they are computed only "
        "once.",
        "A KV cache keeps the keys and values that attention computed for earlier tokens. Each new "
        "token then looks back at them instead of computing the whole text again. The cache grows "
        "with every token, so memory, not arithmetic, often limits how many requests fit on one "
        "GPU."),
    "prefill": (
        "Prefill is the first phase of a request: the model reads the whole prompt in one pass.",
        "Prefill is the first phase of a request. The model reads the whole prompt in one pass and "
        "fills the KV cache with it. Prefill is limited by arithmetic, and its length decides how "
        "long the user waits for the first token. A cached prefix makes it shorter."),
    "decoding": (
        "Decoding is the second phase of a request: the model writes one token after another.",
        "Decoding is the second phase of a request. The model writes one token after another, and "
        "each step reads all the weights from memory. Decoding is therefore limited by memory "
        "bandwidth, which is why several sequences in one batch cost little more than one."),
    "TTFT": (
        "TTFT is the time to first token: how long a user waits until the answer begins.",
        "TTFT is the time to first token. It counts from the arrival of a request until the first "
        "token of the answer leaves the server. It contains the waiting time in the queue and the "
        "prefill of the prompt. A prefix that is already cached makes TTFT much smaller."),
    "speculative decoding": (
        "In speculative decoding a small draft model proposes tokens and the target model checks "
        "them in one pass.",
        "In speculative decoding a small draft model proposes a few tokens, and the large target "
        "model checks all of them in one pass. Accepted tokens are kept, the first wrong one is "
        "replaced, and the rest is thrown away. The output is the same as that of the target "
        "alone, but several tokens may come out of one expensive step."),
    "a draft model": (
        "A draft model is a small, cheap model that guesses what the target model would write.",
        "A draft model is a small, cheap model that guesses what the target model would write. It "
        "must share the tokenizer and the vocabulary with the target. The better its guesses, the "
        "more tokens are accepted in each step. Where its guesses are poor, it is better to "
        "switch it off."),
    "a target model": (
        "The target model is the large model whose answers the user has asked for.",
        "The target model is the large model whose answers the user has asked for. In speculative "
        "decoding it has the last word: no token reaches a client before the target has produced "
        "or verified it. The draft only saves it time."),
    "acceptance rate": (
        "The acceptance rate is the share of drafted tokens that the target model keeps.",
        "The acceptance rate is the share of drafted tokens that the target model keeps. If it is "
        "high, drafting deeper pays; if it is low, the work of the draft is wasted. Overdraft "
        "measures it at every position and chooses the depth that gives the most tokens per "
        "second."),
    "continuous batching": (
        "Continuous batching lets requests join and leave the running batch at every step.",
        "Continuous batching lets requests join and leave the running batch at every step. A short "
        "answer does not wait for a long one to finish, and a new request does not wait for an "
        "empty engine. This keeps the hardware busy and the waiting times short."),
    "chunked prefill": (
        "Chunked prefill splits a long prompt into pieces so that other requests keep moving.",
        "Chunked prefill splits a long prompt into pieces that fit a token budget. Each step of "
        "the engine takes one piece together with the decoding tokens of other requests. A long "
        "prompt therefore never stops the streams of everybody else."),
    "paged attention": (
        "Paged attention stores the KV cache in small blocks that need not lie side by side.",
        "Paged attention stores the KV cache in small blocks of equal size. A table for each "
        "sequence says where its blocks are, so they need not lie side by side. Memory is hardly "
        "wasted, blocks with the same prefix can be shared, and freed blocks serve the next "
        "request."),
    "prefix caching": (
        "Prefix caching reuses the KV blocks of a prompt beginning that was computed before.",
        "Prefix caching reuses the KV blocks of a prompt beginning that was computed before. Many "
        "requests share a long system prompt, and it is enough to compute it once. The blocks are "
        "found by a chain of hashes and kept until the memory is needed for something else."),
    "KV-aware routing": (
        "KV-aware routing sends a request to the worker that already holds its prefix.",
        "KV-aware routing sends a request to the worker that already holds its prefix. The router "
        "weighs the prefill that it saves against the queue of that worker. It also keeps a ledger "
        "of what it has sent, so that an idle worker is not flooded between two scrapes."),
    "the gateway": (
        "The gateway is the front door: it checks a request, chooses a worker and relays the "
        "stream.",
        "The gateway is the front door of Overdraft. It checks the limits of a request, chooses a "
        "worker, sends the request there and relays the stream chunk by chunk. When the client "
        "disconnects, it cancels the work upstream at once."),
    "a worker": (
        "A worker is a server that runs a model and answers requests from the gateway.",
        "A worker is a server that runs a model and answers requests from the gateway. It may be "
        "vLLM, SGLang, llama-server or the embedded engine of Overdraft. All of them speak the "
        "same HTTP interface and report their load as metrics."),
    "the cascade": (
        "The cascade lets a cheap draft pool answer first and asks the target only when needed.",
        "The cascade lets a cheap draft pool answer first and asks the target pool only when the "
        "answer is not good enough. The decision is calibrated: it uses the confidence of the "
        "draft, and samples are compared with the target in the background. A route where this "
        "does not pay is switched off."),
    "backpressure": (
        "Backpressure means that a full system tells its clients to slow down instead of failing.",
        "Backpressure means that a full system tells its clients to slow down instead of failing. "
        "Overdraft refuses work with status 429 or 503 and a Retry-After header before a worker "
        "runs out of memory. Requests of low priority are refused first."),
    "KV overcommit": (
        "KV overcommit admits more requests than the worst case would allow, guarded by "
        "predictions.",
        "KV overcommit admits more requests than the worst case would allow. Few answers use their "
        "whole limit, so the memory would otherwise stay empty. Overdraft predicts the peak from "
        "the lengths that it has seen and admits only what fits with a margin."),
    "preemption": (
        "Preemption takes the memory of one running request so that others can go on.",
        "Preemption takes the memory of one running request so that others can go on. The request "
        "waits and is computed again later. It costs time twice, so a good scheduler admits "
        "carefully and preempts rarely."),
    "a tokenizer": (
        "A tokenizer splits text into tokens, the numbered pieces that a model reads and writes.",
        "A tokenizer splits text into tokens, the numbered pieces that a model reads and writes. "
        "Common words are one token, rare words are several. The draft and the target must share "
        "one tokenizer, or the tokens of one would mean nothing to the other."),
    "quantization": (
        "Quantization stores the weights of a model in fewer bits to save memory and bandwidth.",
        "Quantization stores the weights of a model in fewer bits. Eight bits are almost free of "
        "loss, four bits cost a little quality. Because decoding is limited by memory bandwidth, a "
        "quantized model is not only smaller but also faster."),
    "GGUF": (
        "GGUF is a file format that holds the weights, the tokenizer and the metadata of a model.",
        "GGUF is a file format that holds the weights, the tokenizer and the metadata of a model "
        "in one file. It comes from llama.cpp and supports many quantized types. Overdraft reads "
        "the chat template from it too, so one file is enough to serve a model."),
    "greedy decoding": (
        "Greedy decoding always takes the most probable next token.",
        "Greedy decoding always takes the most probable next token. It is what temperature 0 "
        "means. The same prompt then gives the same answer every time, which is useful for tests "
        "and for facts."),
    "temperature": (
        "Temperature scales the randomness of sampling: 0 is greedy, higher is more varied.",
        "Temperature scales the randomness of sampling. At 0 the model always takes the most "
        "probable token. Higher values flatten the distribution and make the answer more varied, "
        "but also less reliable."),
    "streaming": (
        "Streaming sends each token to the client as soon as it is ready.",
        "Streaming sends each token to the client as soon as it is ready. Overdraft uses "
        "server-sent events, as the OpenAI API does, and ends a stream with [DONE]. The reader "
        "sees the first words at once instead of waiting for the whole answer."),
    "a circuit breaker": (
        "A circuit breaker stops sending requests to a worker that keeps failing.",
        "A circuit breaker stops sending requests to a worker that keeps failing. After a pause it "
        "lets a few requests through to test the worker. If they succeed, it closes again; if not, "
        "it stays open. Failing fast is kinder than waiting for a timeout."),
    "the simulator": (
        "The simulator runs whole fleets in virtual time with the same policy code as production.",
        "The simulator runs whole fleets in virtual time. It drives the same scheduler and policy "
        "code as production, but the time of each step comes from a calibrated cost model. You can "
        "try a policy or a price before you buy a single GPU."),
    "the scheduler": (
        "The scheduler plans each step of the engine: which sequences run and with how many "
        "tokens.",
        "The scheduler plans each step of the engine. It decides which sequences run, how many "
        "tokens of a prompt are read, and which blocks of memory they use. It is a pure state "
        "machine: the same inputs always give the same plan."),
    "a token": (
        "A token is a numbered piece of text, often a word or a part of a word.",
        "A token is a numbered piece of text, often a word or a part of a word. Models read and "
        "write tokens, not letters, and servers count and bill them. In this model every digit is "
        "a token of its own."),
    "draining": (
        "Draining means finishing the requests in flight while taking no new ones.",
        "Draining means finishing the requests in flight while taking no new ones. Overdraft "
        "drains when it receives SIGTERM, so that a restart breaks no stream. A worker that is "
        "about to leave is drained in the same way."),
    "a context window": (
        "The context window is the largest number of tokens that a model can look at.",
        "The context window is the largest number of tokens that a model can look at, the prompt "
        "and the answer together. A request that would not fit is refused with a clear error. This "
        "demo model has a window of 2048 tokens."),
}

QUESTIONS = (
    (("How do I start Overdraft?", "How can I run Overdraft?", "How do I launch the server?",
      "Which command starts Overdraft?", "Start Overdraft: how?", "How to start Overdraft?"),
     "Run `overdraft serve`. It starts the gateway and the embedded demo models without any "
     "configuration."),
    (("How do I build Overdraft?", "How can I install Overdraft from source?",
      "What is the first command after git clone?", "How do I set up Overdraft from a clone?"),
     "Run `cargo xtask up` in the clone. It installs what is missing, builds, serves on "
     "127.0.0.1:8080 and prints what to try."),
    (("How do I run the tests?", "How can I test Overdraft?", "Which command runs the tests?"),
     "Run `cargo xtask test`. It runs all tests of the workspace."),
    (("On which address does Overdraft listen?", "Which port does Overdraft use?",
      "What is the default address of Overdraft?", "Where does Overdraft listen?"),
     "By default Overdraft listens on 127.0.0.1:8080. Use `--listen` to choose another address."),
    (("How do I serve my own model?", "Can I use my own GGUF file?",
      "How do I use another model with Overdraft?", "How can I load my model?"),
     "Run `overdraft serve --model FILE` with a GGUF file. Add `--draft FILE` for a draft model "
     "that shares its tokenizer."),
    (("How do I run a single worker?", "How do I start a worker?",
      "Which command starts a worker?"),
     "Run `overdraft worker --model FILE`. It serves one model with the OpenAI interface."),
    (("What does Overdraft do?", "What is Overdraft for?", "What is the purpose of Overdraft?",
      "Why would I use Overdraft?", "What problem does Overdraft solve?"),
     "Overdraft lowers the cost of serving language models. It routes each request to the worker "
     "that has its prefix cached, uses a cheap draft model where that pays, and protects workers "
     "from running out of memory."),
    (("Which API does Overdraft speak?", "Is Overdraft compatible with OpenAI?",
      "Can I use the OpenAI client?", "Which interface does Overdraft offer?"),
     "Overdraft speaks the OpenAI API: chat completions, completions and models, with streaming. "
     "Point your client at its base URL and keep your code."),
    (("Which engines does Overdraft support?", "Does Overdraft work with vLLM?",
      "Which workers can Overdraft use?", "Can Overdraft stand in front of vLLM?"),
     "Overdraft works in front of vLLM, SGLang and llama-server, and it has its own embedded "
     "engine."),
    (("Do I need a GPU?", "Does Overdraft need a GPU?", "Can Overdraft run without a GPU?",
      "Does it run on a CPU?"),
     "No. The embedded engine runs on a plain CPU, and the simulator needs no hardware at all. "
     "Large models are faster on a GPU."),
    (("In which language is Overdraft written?", "What is Overdraft written in?",
      "Is Overdraft written in Rust?"), "Overdraft is written in Rust and ships as one binary."),
    (("Under which licence is Overdraft?", "What is the licence of Overdraft?",
      "Is Overdraft open source?"), "Overdraft is open source under the Apache-2.0 licence."),
    (("Where does the name Overdraft come from?", "Why is it called Overdraft?",
      "What does the name Overdraft mean?"),
     "The name plays on two ideas: a draft model works ahead, and memory is used to the limit "
     "without ever being overdrawn."),
    (("What happens when Redis is down?", "Does Overdraft need Redis?",
      "What if Redis fails?"),
     "Nothing bad. Redis only shares state between gateways. When it is down, requests go on and "
     "simply miss the shared cache."),
    (("What happens when a client disconnects?", "What if the client goes away?",
      "Is a cancelled request stopped?"),
     "The request is cancelled at once, upstream too, and its KV blocks are freed."),
    (("What happens when a worker dies?", "What if a worker crashes in the middle of a stream?",
      "How does Overdraft handle a broken stream?"),
     "A broken stream is resumed on another worker where possible. Otherwise it ends with a clear "
     "error, never as if it were complete."),
    (("How does Overdraft choose a worker?", "How does the router decide?",
      "What is the default routing policy?"),
     "By expected cost: the tokens that must be computed, the queue in front of them, the memory "
     "that must be freed and the harm done to running requests. The cheapest worker wins."),
    (("How does Overdraft choose the draft depth?", "How deep does Overdraft speculate?",
      "How is the speculation depth set?"),
     "It measures how often drafted tokens are accepted and what a step costs, and takes the depth "
     "with the most expected tokens per second."),
    (("Why must draft and target share a tokenizer?",
      "Can draft and target have different tokenizers?",
      "What happens if the tokenizers differ?"),
     "They must share one, because the target checks the very token numbers that the draft "
     "proposes. Overdraft compares them before it serves and refuses a pair that differs."),
    (("Does speculative decoding change the output?", "Is the output the same with a draft model?",
      "Does the draft change the answer?"),
     "No. The target model verifies every token, so the output is distributed as if the target "
     "had written it alone."),
    (("How do I check my configuration?", "Which command checks a configuration?",
      "How can I validate the config file?"),
     "Run `overdraft check`. It finds mistakes in the configuration before traffic does."),
    (("How do I see why a request went to a worker?", "How can I explain a routing decision?",
      "Why did my request go to that worker?"),
     "Use `overdraft explain` or send the header `x-overdraft-explain: 1`. Each request has one "
     "record of its decision."),
    (("How can I simulate a fleet?", "Which command simulates a fleet?",
      "Can I try a policy without GPUs?"),
     "Run `overdraft simulate`. It plays a workload against a simulated fleet in virtual time."),
    (("Where are the metrics?", "How do I monitor Overdraft?",
      "Does Overdraft export Prometheus metrics?"),
     "Prometheus metrics are at `/metrics`, and `/healthz` says whether the gateway can serve."),
    (("How do I list the models?", "Which models are served?", "How can I see the models?"),
     "Send a GET request to `/v1/models`."),
    (("Show me a curl command for Overdraft.", "How do I call Overdraft with curl?",
      "Give me an example request.", "Write a curl example."),
     "```sh\ncurl http://127.0.0.1:8080/v1/chat/completions \\\n"
     "  -H 'content-type: application/json' \\\n"
     "  -d '{\"model\": \"default\", \"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'"
     "\n```"),
    (("What is the difference between prefill and decoding?",
      "How do prefill and decoding differ?", "Compare prefill and decoding."),
     "Prefill reads the whole prompt in one pass and is limited by arithmetic. Decoding writes one "
     "token at a time and is limited by memory bandwidth."),
    (("What is the difference between draft and target?", "How do draft and target differ?",
      "Compare the draft and the target model."),
     "The draft is small and fast and only proposes tokens. The target is larger and slower and "
     "decides which of them are kept."),
    (("What are the benefits of prefix caching?", "Name three benefits of prefix caching.",
      "Why is prefix caching useful?"),
     "1. The first token comes sooner.\n2. The GPU computes less.\n3. Memory is shared between "
     "requests with the same beginning."),
    (("What are the steps of a request in Overdraft?", "Describe the path of a request.",
      "How does a request travel through Overdraft?"),
     "1. The gateway accepts the request and checks its limits.\n2. It looks up the prefix and the "
     "response cache.\n3. It admits the request or asks the client to wait.\n4. It chooses a "
     "worker and sends the request there.\n5. It relays the stream and learns from the outcome."),
)
OPENERS = ("", "", "", "", "Please tell me: ", "One question. ", "Hi! ", "I have a question. ",
           "Can you help me? ", "Hello. ")


def sample(rng: Random) -> Example:
    """Draws a definition, an explanation or a question about how to use Overdraft."""
    if rng.random() < 0.45:
        asks, answer = rng.choice(QUESTIONS)
        return Example("overdraft", rng.choice(OPENERS) + rng.choice(asks), (answer,), 2)
    subject, answers = rng.choice(list(SUBJECTS.items()))
    long = rng.random() < 0.5
    question = rng.choice(LONG if long else SHORT).format(s=subject)
    question = question[0].upper() + question[1:]
    return Example("overdraft", question, (answers[long],), 1 + long)
