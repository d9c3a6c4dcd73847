// Mock workers on loopback: vLLM's API and metrics, as many as are wanted, in this process.
import http from "node:http";

/** Starts `count` workers that serve `model`; each answers a chat in `tokens` pieces, `pace` ms apart. */
export async function startWorkers(count, { model = "llama-70b", tokens = 8, pace = 4, kv = () => 0.3, drafts = null } = {}) {
  const workers = [];
  for (let index = 0; index < count; index += 1) {
    const worker = { index, running: 0, asked: 0, failing: false, late: 0 };
    worker.server = http.createServer((request, response) => answer(worker, request, response, { model, tokens, pace, kv, drafts }));
    worker.server.keepAliveTimeout = 60_000;
    await new Promise((done) => worker.server.listen(0, "127.0.0.1", done));
    worker.url = `http://127.0.0.1:${worker.server.address().port}`;
    workers.push(worker);
  }
  return {
    workers,
    stop: () => {
      for (const { server } of workers) {
        server.closeAllConnections();
        server.close();
      }
    },
  };
}

function answer(worker, request, response, settings) {
  const { url, method } = request;
  if (method === "GET" && url === "/health") return void response.end();
  if (method === "GET" && url === "/v1/models") return void json(response, { object: "list", data: [{ id: settings.model, object: "model", owned_by: "test", max_model_len: 32768 }] });
  if (method === "GET" && url === "/metrics") return void setTimeout(() => response.end(metrics(worker, settings)), worker.late);
  if (method === "POST" && url === "/v1/chat/completions") return void chat(worker, request, response, settings);
  response.statusCode = 404;
  json(response, { error: { message: "no such path" } });
}

function json(response, value) {
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify(value));
}

function metrics(worker, { model, kv, drafts }) {
  const labels = `{engine="0",model_name="${model}"}`;
  const lines = [
    `vllm:num_requests_running${labels} ${worker.running}`, `vllm:num_requests_waiting${labels} 0`, `vllm:kv_cache_usage_perc${labels} ${kv(worker)}`,
    `vllm:cache_config_info{engine="0",block_size="16",num_gpu_blocks="8000",enable_prefix_caching="True"} 1`,
    `vllm:prefix_cache_queries_total${labels} ${1000 + worker.index}`, `vllm:prefix_cache_hits_total${labels} 640`, `vllm:num_preemptions_total${labels} 0`, `vllm:generation_tokens_total${labels} ${worker.asked}`,
  ];
  if (drafts) {
    const many = drafts(worker);
    lines.push(`vllm:spec_decode_num_drafts_total${labels} ${many}`, `vllm:spec_decode_num_draft_tokens_total${labels} ${4 * many}`, `vllm:spec_decode_num_accepted_tokens_total${labels} ${Math.round(many * 2.2)}`,
      ...[0.86, 0.66, 0.44, 0.24].map((share, position) => `vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="${model}",position="${position}"} ${Math.round(many * share)}`),
      `overdraft_speculation_depth${labels} 4`, `overdraft_speculation_policy{policy="goodput"} 1`, `overdraft_speculation_last_change{reason="pays-more"} 1`);
  }
  return `${lines.join("\n")}\n`;
}

async function chat(worker, request, response, { tokens, pace }) {
  let body = "";
  for await (const piece of request) body += piece;
  const asked = JSON.parse(body);
  if (worker.failing) {
    response.statusCode = 500;
    return void json(response, { error: { message: "out of order" } });
  }
  worker.running += 1;
  worker.asked += 1;
  const prompt = Math.max(1, Math.round(body.length / 4));
  const usage = { prompt_tokens: prompt, completion_tokens: tokens, total_tokens: prompt + tokens, prompt_tokens_details: { cached_tokens: Math.floor(prompt / 3) } };
  const head = { id: "chatcmpl-1", created: 1, model: asked.model };
  await sleep(pace * 2);
  if (!asked.stream) {
    worker.running -= 1;
    return void json(response, { ...head, object: "chat.completion", choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "word ".repeat(tokens) } }], usage });
  }
  response.setHeader("content-type", "text/event-stream");
  const event = (value) => response.write(`data: ${JSON.stringify({ ...head, object: "chat.completion.chunk", ...value })}\n\n`);
  for (let index = 0; index < tokens && !response.destroyed; index += 1) {
    event({ choices: [{ index: 0, delta: index === 0 ? { role: "assistant", content: "word " } : { content: "word " }, finish_reason: null }] });
    await sleep(pace);
  }
  event({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
  event({ choices: [], usage });
  response.end("data: [DONE]\n\n");
  worker.running -= 1;
}

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
