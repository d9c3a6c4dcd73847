// Parts that several pages share: bars, words of state, tiles, footers.

import { type Child, fill, h, link, setClass, setText } from "./dom";
import { count, duration, percent, ratio, short, tokens } from "./format";
import { to } from "./route";
import type { Condition, WorkerRow } from "./types";

/** A state is a shape and a word; the colour comes third. */
export function stateCell(cell: HTMLElement, worker: WorkerRow): void {
  const [shape, kind, word] = state(worker);
  const text = `${shape} ${word}`;
  if (cell.dataset["shown"] === text) return;
  cell.dataset["shown"] = text;
  fill(cell, h("span", { class: `state ${kind}` }, h("span", { "aria-hidden": "true" }, shape), " ", word));
}

export function state(worker: WorkerRow): [shape: string, kind: string, word: string] {
  if (worker.state !== "up" && worker.state !== "draining" && worker.state !== "unproven") return ["▲", "act", worker.state.replace(/_/g, " ")];
  if (worker.breaker !== "closed") return ["▲", "act", `breaker ${worker.breaker.replace(/_/g, " ")}`];
  if (worker.state === "draining") return ["◆", "watch", "draining"];
  if (worker.state === "unproven") return ["○", "dim", "unproven"];
  if (worker.is_late) return ["◆", "watch", "late"];
  return ["●", "good", "up"];
}

/** How bad a worker is, for sorting: the worst first. */
export function badness(worker: WorkerRow): number {
  const rank: Record<string, number> = { act: 3, watch: 2, dim: 1, good: 0 };
  const use = ratio(worker.kv_used_tokens, worker.kv_capacity_tokens) ?? 0;
  return (rank[state(worker)[1]] ?? 0) * 10 + use;
}

/** KV memory of a worker: in use, the predicted peak, and the line at which requests wait. */
export function kvCell(cell: HTMLElement, worker: WorkerRow): void {
  const capacity = worker.kv_capacity_tokens;
  let bar = cell.firstElementChild as HTMLElement | null;
  if (capacity === undefined || capacity === 0) {
    if (bar !== null || cell.textContent === "") fill(cell, h("span", { class: "dim" }, "not told"));
    return;
  }
  if (bar === null || !bar.classList.contains("kv")) {
    bar = h("span", { class: "kv" }, h("span", { class: "bar" }, h("i", { class: "used" }), h("i", { class: "peak" })), h("span", { class: "figure" }));
    fill(cell, bar);
  }
  const used = ratio(worker.kv_used_tokens, capacity) ?? 0;
  const peak = ratio(worker.kv_peak_tokens, capacity);
  const [track, figure] = [bar.children[0] as HTMLElement, bar.children[1] as HTMLElement];
  const [usedBar, peakMark] = [track.children[0] as HTMLElement, track.children[1] as HTMLElement];
  usedBar.style.width = `${Math.min(100, used * 100)}%`;
  setClass(usedBar, `used ${used >= 0.95 ? "act" : used >= 0.85 ? "watch" : ""}`.trim());
  peakMark.style.left = `${Math.min(100, (peak ?? 0) * 100)}%`;
  peakMark.hidden = peak === undefined;
  setText(figure, peak === undefined || Math.round(peak * 100) === Math.round(used * 100) ? percent(used) : `${percent(used)} → ${percent(peak)}`);
  bar.title = `${count(worker.kv_used_tokens)} of ${count(capacity)} tokens in use; requests in flight booked ${count(worker.kv_booked_tokens)}`
    + (worker.kv_peak_tokens === undefined ? "" : `; predicted peak ${count(worker.kv_peak_tokens)}`);
}

/** A horizontal bar with a mark, for a share against a limit. */
export function gauge(share: number, mark: number | undefined, label: string, kind = ""): HTMLElement {
  const used = h("i", { class: `used ${kind}` });
  used.style.width = `${Math.min(100, share * 100)}%`;
  const bar = h("span", { class: "bar tall", role: "img", "aria-label": label }, used);
  if (mark !== undefined) {
    const line = h("i", { class: "peak" });
    line.style.left = `${Math.min(100, mark * 100)}%`;
    bar.append(line);
  }
  return bar;
}

export function tile(title: string, value: Child, note?: Child, kind = ""): HTMLElement {
  return h("div", { class: `tile ${kind}`.trim() }, h("div", { class: "tile-title" }, title), h("div", { class: "tile-value" }, value),
    note === undefined ? null : h("div", { class: "tile-note" }, note));
}

export function conditionList(conditions: Condition[], now: number): HTMLElement {
  if (conditions.length === 0) return h("p", { class: "calm" }, h("span", { class: "state good" }, h("span", { "aria-hidden": "true" }, "●"), " nothing needs you"));
  return h("ul", { class: "conditions" }, ...conditions.map((one) => h("li", { class: one.severity },
    h("span", { class: `state ${one.severity}` }, h("span", { "aria-hidden": "true" }, one.severity === "act" ? "▲" : "◆"), one.severity === "act" ? " act" : " watch"),
    h("span", { class: "what" }, h("b", {}, one.text), " ", h("span", { class: "dim" }, one.remedy)),
    h("span", { class: "dim since" }, `for ${duration(Math.max(0, now - one.since_ms))}`), link(to(one.page), "show"))));
}

/** Where else the same is told: the address, the query, the command. */
export function elsewhere(address: string, promql: string, command: string, method = "GET"): HTMLElement {
  return h("footer", { class: "elsewhere" }, h("span", {}, `${method} `, h("code", {}, address)), promql === "" ? null : h("span", {}, "PromQL ", h("code", {}, promql)),
    h("span", {}, "CLI ", h("code", {}, command)));
}

export function facts(pairs: [string, Child][]): HTMLElement {
  const list = h("dl", { class: "facts" });
  for (const [name, value] of pairs) {
    if (value !== undefined && value !== null && value !== false) list.append(h("div", {}, h("dt", {}, name), h("dd", {}, value)));
  }
  return list;
}

export function section(title: string, note: Child, ...children: Child[]): HTMLElement {
  return h("section", {}, h("div", { class: "section-head" }, h("h2", {}, title), note instanceof Node ? note : h("span", { class: "dim" }, note)), ...children);
}

export function empty(title: string, ...text: Child[]): HTMLElement {
  return h("div", { class: "empty" }, h("b", {}, title), h("p", {}, ...text));
}

/** A select box whose choice is in the address. */
export function choice(name: string, label: string, value: string, choices: [string, string][], pick: (value: string) => void): HTMLElement {
  const select = h("select", { name, "aria-label": label, onchange: (event) => pick((event.target as HTMLSelectElement).value) });
  offer(select, value, choices);
  return h("label", { class: "choice" }, h("span", {}, label), select);
}

/** Fills a select box anew; `value` is the one that is chosen, and the first where it is not among them. */
export function offer(select: HTMLSelectElement, value: string, choices: [string, string][]): void {
  fill(select, ...choices.map(([key, text]) => h("option", { value: key, selected: key === value }, text)));
}

export function input(label: string, value: string, placeholder: string, pick: (value: string) => void): HTMLElement {
  const field = h("input", { type: "search", value, placeholder, "aria-label": label, spellcheck: "false", autocomplete: "off",
    onchange: (event) => pick((event.target as HTMLInputElement).value.trim()) });
  return h("label", { class: "choice" }, h("span", {}, label), field);
}

export const prefixWords: Record<string, string> = {
  warm: "it went where most of its prefix was cached",
  unknown: "no worker held any of its prefix",
  holder_busy: "the worker that held more of it had so much to do that computing it anew was cheaper",
  holder_full: "the worker that held more of it had no room",
  holder_out: "the worker that held more of it could not be asked",
};

export { count, duration, percent, ratio, short, tokens };
