// Play: send a prompt, and see where it went, why, and what it cost.

import { operatorHeaders, token, view } from "../api";
import { fill, h, setText } from "../dom";
import { duration } from "../format";
import { elsewhere, offer, section } from "../parts";
import type { Decision, Explanation, RequestDetail } from "../types";
import { decision } from "./decision";
import type { Page, Place, Shell } from "./index";
import { requestPage } from "./requests";

/** The log has a request a moment after its last byte. */
const LOOKS = 20;
const LOOK_EVERY_MS = 100;

/** What was entered, for as long as the tab is open: who looks at a request and comes back goes on where he was. */
const entered = { prompt: "What is a KV cache, in one sentence?", model: "", most: "64", key: "" };

export function play(_place: Place, shell: Shell): Page {
  shell.state("live");
  const models = h("select", { "aria-label": "model", onchange: () => { entered.model = models.value; } });
  const prompt = h("textarea", { rows: 5, placeholder: "Say something to the fleet…", "aria-label": "prompt", oninput: () => { entered.prompt = prompt.value; } });
  prompt.value = entered.prompt;
  const most = h("input", { type: "number", min: 1, max: 4096, value: entered.most, "aria-label": "max tokens", oninput: () => { entered.most = most.value; } });
  const key = h("input", { type: "password", value: entered.key, placeholder: "none needed unless keys are configured", autocomplete: "off", "aria-label": "API key", oninput: () => { entered.key = key.value; } });
  const [answer, told, result] = [h("pre", { class: "answer" }), h("span", { class: "dim" }), h("div")];
  const send = h("button", { type: "button", class: "primary", onclick: () => void run() }, "Send");
  const dry = h("button", { type: "button", onclick: () => void ask(), title: token() === "" ? "needs the admin token: sign in first" : "asks where it would go; sends nothing", disabled: token() === "" }, "Where would it go?");
  let under: AbortController | null = null;
  let shown: (() => void) | null = null;

  const headers = (): Record<string, string> => ({ "content-type": "application/json", ...(key.value === "" ? {} : { authorization: `Bearer ${key.value}` }) });
  const body = (stream: boolean): string => JSON.stringify({ model: models.value, messages: [{ role: "user", content: prompt.value }], max_tokens: Number(most.value), stream, ...(stream ? { stream_options: { include_usage: true } } : {}) });

  const load = (): void => void fetch("../v1/models", { headers: headers() }).then(async (response) => {
    if (response.status === 404) {
      // `admin.listen` is set: clients connect elsewhere, and this page may ask nobody but its own listener.
      send.disabled = true;
      setText(told, "this listener is for operators (admin.listen): ask the clients' listener with curl, and the request appears under Requests");
      return;
    }
    const list = (await response.json()) as { data?: { id: string }[] };
    offer(models, entered.model, (list.data ?? []).map((one) => [one.id, one.id]));
  }).catch(() => setText(told, "the clients' listener is not reachable from here"));
  key.addEventListener("change", load);
  load();

  async function run(): Promise<void> {
    under?.abort();
    under = new AbortController();
    fill(answer);
    fill(result);
    shown = null;
    const began = performance.now();
    setText(told, "sent…");
    try {
      const response = await fetch("../v1/chat/completions", { method: "POST", headers: headers(), body: body(true), signal: under.signal });
      const id = response.headers.get("x-request-id") ?? "";
      if (!response.ok || response.body === null) {
        const refusal = (await response.json().catch(() => null)) as { error?: { message?: string } } | null;
        setText(answer, refusal?.error?.message ?? "");
        setText(told, `refused with status ${response.status}`);
      } else {
        await read(response.body, began);
      }
      await look(id);
    } catch (error) {
      setText(told, error instanceof Error ? error.message : String(error));
    }
  }

  async function read(stream: ReadableStream<Uint8Array<ArrayBuffer>>, began: number): Promise<void> {
    const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
    let [buffered, first] = ["", 0];
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      buffered += value;
      const lines = buffered.split("\n");
      buffered = lines.pop() ?? "";
      for (const line of lines) {
        if (!line.startsWith("data: ") || line === "data: [DONE]") continue;
        const chunk = JSON.parse(line.slice(6)) as { choices?: { delta?: { content?: string } }[] };
        const text = chunk.choices?.[0]?.delta?.content ?? "";
        if (text !== "" && first === 0) first = performance.now() - began;
        answer.append(document.createTextNode(text));
      }
    }
    setText(told, `first token after ${duration(first)}, whole after ${duration(performance.now() - began)}, as seen from this browser`);
  }

  async function look(id: string): Promise<void> {
    for (let looks = 0; id !== "" && looks < LOOKS; looks += 1) {
      const detail = await view<RequestDetail>(`requests/${encodeURIComponent(id)}`).catch(() => null);
      if (detail !== null) {
        shown = () => fill(result, ...requestPage(detail));
        shown();
        return;
      }
      await new Promise((done) => window.setTimeout(done, LOOK_EVERY_MS));
    }
  }

  async function ask(): Promise<void> {
    fill(result);
    shown = null;
    const response = await fetch("../admin/explain", { method: "POST", headers: { ...operatorHeaders(), "content-type": "application/json" }, body: body(false) });
    const document = (await response.json()) as Explanation & { error?: { message: string } };
    if (!response.ok) {
      setText(told, document.error?.message ?? `status ${response.status}`);
      return;
    }
    setText(told, "nothing was sent; this is where it would go now");
    fill(result, section("Why", "as things are now", decision(dryDecision(document))));
  }

  return {
    element: h("div", {}, h("section", { class: "play" }, h("div", { class: "section-head" }, h("h2", {}, "Playground"), h("span", { class: "dim" }, "the prompt goes to the fleet like any other request; the log never keeps its text")),
      prompt, h("div", { class: "filters" }, h("label", { class: "choice" }, h("span", {}, "model"), models), h("label", { class: "choice" }, h("span", {}, "max tokens"), most), h("label", { class: "choice" }, h("span", {}, "API key"), key), send, dry), h("p", {}, told), answer), result,
      elsewhere("v1/chat/completions", "", "overdraft explain --prompt … --model …", "POST")),
    close: () => under?.abort(), zoned: () => shown?.(),
  };
}

/** The answer of `/admin/explain` in the form of a recorded decision. */
function dryDecision(told: Explanation): Decision {
  const { saturated, candidates, ...rest } = told;
  const ms = (us: number | undefined): number => (us ?? 0) / 1_000;
  return {
    ...rest,
    ...(saturated === undefined ? {} : { saturation: { ...saturated, retry_after_ms: ms(saturated.retry_after_us) } }),
    after_ms: 0,
    candidates_left_out: told.candidates_left_out ?? 0,
    lower_is_better: told.policy === "cost",
    candidates: candidates.map(({ cost_us: cost, ...candidate }) => cost === undefined ? candidate : {
      ...candidate,
      cost: { wait_ms: ms(cost["wait"]), behind_ms: ms(cost["behind"]), fetch_ms: ms(cost["fetch"]), slowed_ms: ms(cost["slowed"]), displaced_ms: ms(cost["displaced"]), crowded_ms: ms(cost["crowded"]) },
    }),
  };
}
