// Requests: what happened, and why there? One request: the decision.

import { Live, Refused, view } from "../api";
import { fill, h, link, setText } from "../dom";
import { clock, count, dollars, duration, ending, iso, percent, ratio, short, zone } from "../format";
import { choice, elsewhere, input, section } from "../parts";
import { change, to, toRequest } from "../route";
import { type Column, Table } from "../table";
import type { LiveRow, RequestDetail, RequestRow, RequestsView } from "../types";
import { decisions, requestFacts, timeline } from "./decision";
import type { Page, Place, Shell } from "./index";

/** Requests that the page holds at most. */
const HELD = 5_000;
/** Requests under way that are shown. */
const LIVE_SHOWN = 5;
const FILTERS = ["worker", "failed_at", "tenant", "model", "end", "outcome", "from", "to", "slower", "id"] as const;

const outcomes: [string, string][] = [["", "any"], ["ok", "● whole"], ["failed", "▲ failed at a worker"], ["refused", "◆ refused: no room"], ["rejected", "■ not acceptable"], ["left", "○ client left"]];

export function requests(place: Place, shell: Shell): Page {
  return place.rest === "" ? list(place, shell) : one(place.rest, shell);
}

function endCell(cell: HTMLElement, row: RequestRow): void {
  if (cell.dataset["shown"] === row.id) return;
  cell.dataset["shown"] = row.id;
  const kind = row.refused !== undefined || row.end[0] === "R" ? "watch" : row.end[0] === "-" ? "good" : row.end[0] === "C" || row.end[0] === "c" || row.end[0] === "P" ? "dim" : "act";
  const shape = { good: "●", watch: "◆", act: "▲", dim: "○" }[kind];
  fill(cell, h("span", { class: `state ${kind}`, title: ending(row.end) }, h("span", { "aria-hidden": "true" }, shape), ` ${row.end} ${row.status === 0 ? "" : row.status}`),
    row.refused === undefined ? null : h("span", { class: "dim" }, ` ${row.refused}`));
}

export function requestColumns(): Column<RequestRow>[] {
  return [
    { title: `ended (${zone()})`, by: (row) => row.ended_ms, cell: (cell, row) => { setText(cell, clock(row.ended_ms)); cell.title = iso(row.ended_ms); }, card: true, kind: "time" },
    { title: "end", hint: "who ended it and when, as in the access line; then the status", by: (row) => row.end, cell: endCell, card: true },
    { title: "model", by: (row) => row.model, text: (row) => row.model ?? "–", card: true, kind: "name" },
    { title: "tenant", by: (row) => row.tenant, text: (row) => row.tenant ?? "other" },
    { title: "worker", by: (row) => row.worker, text: (row) => row.cache === "hit" || row.cache === "coalesced" ? `cache: ${row.cache}` : (row.worker ?? "–"), kind: "name" },
    { title: "prompt", hint: "tokens, and the share that was cached at the worker", by: (row) => row.prompt_tokens, right: true,
      text: (row) => row.prompt_tokens === undefined ? "–" : `${short(row.prompt_tokens)}${row.cached_tokens ? ` (${percent(ratio(row.cached_tokens, row.prompt_tokens))})` : ""}` },
    { title: "answer", hint: "tokens", by: (row) => row.completion_tokens, right: true, text: (row) => short(row.completion_tokens) },
    { title: "queued", by: (row) => row.queued_ms, right: true, text: (row) => duration(row.queued_ms) },
    { title: "first token", by: (row) => row.ttft_ms, right: true, text: (row) => duration(row.ttft_ms) },
    { title: "total", by: (row) => row.total_ms, right: true, text: (row) => duration(row.total_ms), card: true },
    { title: "tries", hint: "attempts at workers", by: (row) => row.attempts, right: true, text: (row) => count(row.attempts) },
    { title: "cost", by: (row) => row.cost_microusd, right: true, text: (row) => dollars(row.cost_microusd) },
  ];
}

function liveColumns(): Column<LiveRow>[] {
  return [
    { title: "running for", by: (row) => row.age_ms, text: (row) => duration(row.age_ms), card: true },
    { title: "waits for", by: (row) => row.phase, card: true },
    { title: "model", by: (row) => row.model, card: true, kind: "name" },
    { title: "tenant", by: (row) => row.tenant, text: (row) => row.tenant ?? "other" },
    { title: "worker", by: (row) => row.worker, card: true, kind: "name" },
    { title: "first token", by: (row) => row.ttft_ms, right: true, text: (row) => duration(row.ttft_ms) },
    { title: "request", by: (row) => row.id, cell: (cell, row) => { setText(cell, row.id); cell.classList.add("id"); } },
  ];
}

function list(place: Place, shell: Shell): Page {
  const wanted: Record<string, string> = {};
  for (const name of FILTERS) wanted[name] = place.params.get(name) ?? "";
  const query = new URLSearchParams(Object.entries(wanted).filter(([, value]) => value !== ""));
  const text = query.toString().replace(/\+/g, "%20");
  const table = new Table<RequestRow>({ columns: requestColumns(), key: (row) => String(row.number), label: "requests that have ended", sort: { column: 0, down: true },
    href: (row) => toRequest(row.id), empty: "no request matches; those that end from now on appear here" });
  const running = new Table<LiveRow>({ columns: liveColumns(), key: (row) => row.id, label: "requests under way", whole: true, empty: "none" });
  const [shown, liveNote] = [h("span", { class: "dim" }), h("span", { class: "dim" })];
  let rows: RequestRow[] = [];
  let seen = 0;

  const show = (data: RequestsView): void => {
    shell.heard(data.at_ms);
    if (shell.paused()) return;
    if (data.next < seen) rows = [];
    const known = new Set(rows.slice(0, 2_000).map((row) => row.number));
    rows = [...data.rows.filter((row) => !known.has(row.number)), ...rows].slice(0, HELD);
    seen = data.next;
    table.set(rows);
    running.set(data.live.slice(0, LIVE_SHOWN));
    setText(liveNote, data.live_count > LIVE_SHOWN ? `${LIVE_SHOWN} of ${count(data.live_count)}, the oldest` : count(data.live_count));
    setText(shown, data.kept_max === 0 ? "the log of requests is off: dashboard.requests is 0"
      : `${count(rows.length)} here; the gateway keeps the last ${count(data.kept_max)}${data.left_out > 0 && rows.length === data.rows.length ? `, ${count(data.left_out)} more match` : ""}`);
  };
  const live = new Live<RequestsView>(() => `requests?${[text, seen > 0 ? `after=${seen}` : "limit=1000"].filter((one) => one !== "").join("&")}`, show, shell.state);
  const span = wanted["from"] === "" ? null : h("button", { type: "button", class: "chip", onclick: () => change({ from: "", to: "" }) },
    `${clock(Number(wanted["from"]), false)} to ${wanted["to"] === "" ? "now" : clock(Number(wanted["to"]), false)} ${zone()} ✕`);
  const failedAt = wanted["failed_at"] === "" ? null : h("button", { type: "button", class: "chip", onclick: () => change({ failed_at: "" }) }, `failed at ${wanted["failed_at"] ?? ""} ✕`);
  const filters = h("div", { class: "filters" },
    choice("outcome", "outcome", wanted["outcome"] ?? "", outcomes, (outcome) => change({ outcome })),
    input("worker", wanted["worker"] ?? "", "exact name", (worker) => change({ worker })),
    input("tenant", wanted["tenant"] ?? "", "exact name", (tenant) => change({ tenant })),
    input("model", wanted["model"] ?? "", "exact name", (model) => change({ model })),
    input("first token over", wanted["slower"] ?? "", "ms", (slower) => change({ slower: /^\d*$/.test(slower) ? slower : "" })),
    input("request", wanted["id"] ?? "", "part of its id", (id) => change({ id })), span, failedAt,
    text === "" ? null : link(to("requests"), "clear"));
  return {
    element: h("div", {}, section("Under way", liveNote, running.element), section("Ended", shown, filters, table.element),
      elsewhere(`admin/views/requests${text === "" ? "" : `?${text}`}`, "sum by (end) (rate(overdraft_request_ends_total[1m]))", "overdraft top --page requests")),
    close: () => live.close(), move: (by) => table.move(by), open: () => table.open(),
  };
}

function one(id: string, shell: Shell): Page {
  const element = h("div", {}, h("p", { class: "dim" }, "asking…"));
  void view<RequestDetail>(`requests/${encodeURIComponent(id)}`).then((detail) => {
    shell.heard(detail.ended_ms);
    shell.state("live");
    fill(element, ...requestPage(detail));
  }).catch((error: unknown) => {
    const why = error instanceof Error ? error.message : String(error);
    if (error instanceof Refused && error.status === 403) shell.state("refused", why);
    else {
      shell.state("live");
      fill(element, h("div", { class: "empty" }, h("b", {}, "not in the log"), h("p", {}, why), link(to("requests"), "recent requests")));
    }
  });
  return { element };
}

export function requestPage(detail: RequestDetail): HTMLElement[] {
  return [
    h("section", { class: "detail" },
      h("div", { class: "section-head" }, h("h2", { class: "id" }, detail.id), h("span", { class: "dim" }, ending(detail.end)), link(to("requests"), "all requests")),
      timeline(detail), requestFacts(detail)),
    section("Why", detail.decisions.length === 0 ? "no decision was needed" : `${detail.decisions.length} ${detail.decisions.length === 1 ? "decision" : "decisions"}`, ...decisions(detail)),
    elsewhere(`admin/views/requests/${encodeURIComponent(detail.id)}`, "", "overdraft explain --request body.json"),
  ];
}
