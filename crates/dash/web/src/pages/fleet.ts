// Fleet: where is memory, and who is ill?

import { Live } from "../api";
import { h, link, renew, setText } from "../dom";
import { count, duration, iso, short } from "../format";
import { badness, choice, elsewhere, facts, input, kvCell, offer, section, state, stateCell, tokens } from "../parts";
import { change, to } from "../route";
import { type Column, Table } from "../table";
import type { FleetView, WorkerRow } from "../types";
import type { Page, Place, Shell } from "./index";

export function workerColumns(): Column<WorkerRow>[] {
  return [
    { title: "worker", by: (row) => row.worker, card: true, kind: "name" },
    { title: "state", by: badness, cell: stateCell, card: true, kind: "statecol" },
    { title: "KV in use → peak", hint: "share of the cache in use now, and the most that its requests are predicted to hold at once", by: (row) => (row.kv_used_tokens ?? 0) / (row.kv_capacity_tokens ?? Infinity), cell: kvCell, card: true, kind: "kvcol" },
    { title: "requests", hint: "through this gateway, and through others", by: (row) => row.requests + row.requests_foreign, right: true, card: true,
      text: (row) => row.requests_foreign > 0 ? `${row.requests} + ${row.requests_foreign}` : count(row.requests) },
    { title: "waiting", hint: "requests that wait in the engine, by its own word", by: (row) => row.waiting, right: true, text: (row) => count(row.waiting) },
    { title: "to prefill", hint: "prompt tokens that it has yet to compute", by: (row) => row.queued_tokens, right: true, text: (row) => tokens(row.queued_tokens) },
    { title: "pace", hint: "prompt tokens it computes in a second", by: (row) => row.prefill_tokens_per_second, right: true,
      text: (row) => row.prefill_tokens_per_second === undefined ? "–" : `${short(row.prefill_tokens_per_second)} tok/s` },
    { title: "first token p95", by: (row) => row.ttft_p95_ms, right: true, text: (row) => duration(row.ttft_p95_ms) },
    { title: "failed", hint: "attempts of the last 2,000 requests", by: (row) => row.failed_recently, right: true, text: (row) => count(row.failed_recently) },
    { title: "knows", hint: "what matches of prefixes rest on", by: (row) => row.knows, text: (row) => `${row.knows}, ${short(row.prefix_tokens)} tok` },
    { title: "age", hint: "how old its word on its load is", by: (row) => row.age_ms, right: true, text: (row) => duration(row.age_ms) },
  ];
}

export function fleet(place: Place, shell: Shell): Page {
  const wanted = { worker: place.params.get("worker") ?? "", text: place.params.get("text") ?? "", state: place.params.get("state") ?? "", pool: place.params.get("pool") ?? "", model: place.params.get("model") ?? "" };
  const columns = workerColumns();
  const table = new Table<WorkerRow>({ columns: [columns[0]!, columns[1]!, { title: "pool", by: (row) => row.pool }, ...columns.slice(2)],
    key: (row) => row.worker, label: "workers", sort: { column: 1, down: true },
    href: (row) => to("fleet", { ...wanted, worker: row.worker }), empty: "no worker matches",
    rowClass: (row) => row.worker === wanted.worker ? "chosen" : "" });
  const shown = h("span", { class: "dim" });
  const detail = h("div");
  const beside = h("div", { class: "sources" });
  let models: string[] = [];

  const modelChoices = (): [string, string][] => [["", "any"], ...[...new Set([...models, wanted.model])].filter((model) => model !== "").map((model): [string, string] => [model, model])];
  const model = choice("model", "model", wanted.model, modelChoices(), (value) => change({ model: value }));
  const filters = h("div", { class: "filters" },
    input("find", wanted.text, "name or address", (text) => change({ text })),
    choice("state", "state", wanted.state, [["", "any"], ["act", "▲ ill"], ["watch", "◆ worth a look"], ["good", "● up"]], (value) => change({ state: value })),
    choice("pool", "pool", wanted.pool, [["", "any"], ["target", "target"], ["draft", "draft"]], (value) => change({ pool: value })), model);

  const show = (data: FleetView): void => {
    shell.heard(data.at_ms);
    if (shell.paused()) return;
    const serving = [...new Set(data.workers.flatMap((row) => row.models))].sort();
    if (serving.join("\n") !== models.join("\n")) {
      models = serving;
      offer(model.querySelector("select") as HTMLSelectElement, wanted.model, modelChoices());
    }
    const text = wanted.text.toLowerCase();
    const rows = data.workers.filter((row) => (text === "" || row.worker.toLowerCase().includes(text) || row.url.includes(text))
      && (wanted.state === "" || state(row)[1] === wanted.state) && (wanted.pool === "" || row.pool === wanted.pool)
      && (wanted.model === "" || row.models.includes(wanted.model)));
    table.set(rows);
    setText(shown, `${count(rows.length)} of ${count(data.workers.length)}`);
    const one = data.workers.find((row) => row.worker === wanted.worker);
    if (wanted.worker !== "") renew(detail, one ? workerDetail(one, data.at_ms) : h("p", { class: "empty" }, "that worker has left the fleet"));
    renew(beside, ...sources(data));
  };
  const live = new Live<FleetView>(() => "fleet", show, shell.state);
  return {
    element: h("div", {}, detail, section("Fleet", shown, filters, table.element), beside,
      elsewhere("admin/views/fleet", "overdraft_worker_peak_ratio", "overdraft top")),
    close: () => live.close(), move: (by) => table.move(by), open: () => table.open(),
  };
}

function workerDetail(row: WorkerRow, at: number): HTMLElement {
  const [shape, kind, word] = state(row);
  const bar = h("div");
  kvCell(bar, row);
  return h("section", { class: "detail" },
    h("div", { class: "section-head" }, h("h2", {}, row.worker), h("span", { class: `state ${kind}` }, h("span", { "aria-hidden": "true" }, shape), ` ${word}`),
      link(to("requests", { worker: row.worker }), "its requests"), link(to("requests", { failed_at: row.worker }), "those it failed"), link(to("fleet"), "close")),
    facts([
      ["address", row.url], ["pool", row.pool], ["models", row.models.join(", ") || "none"], ["KV cache", bar],
      ["capacity", row.kv_capacity_tokens === undefined ? "not told" : `${count(row.kv_capacity_tokens)} tokens`],
      ["booked by requests in flight", `${count(row.kv_booked_tokens)} tokens`],
      ["promised (max_tokens) over capacity", row.overcommit_permille === undefined ? "–" : `${(row.overcommit_permille / 10).toFixed(0)} %`],
      ["requests here + others", `${count(row.requests)} + ${count(row.requests_foreign)}`], ["running, waiting by its word", `${count(row.running)}, ${count(row.waiting)}`],
      ["prompt tokens to compute", `${count(row.queued_tokens)} tokens`], ["prefill pace", row.prefill_tokens_per_second === undefined ? "–" : `${count(row.prefill_tokens_per_second)} tok/s`],
      ["first token p50, p95", `${duration(row.ttft_p50_ms)}, ${duration(row.ttft_p95_ms)}`], ["failed recently", `${count(row.failed_recently)} attempts`],
      ["preemptions since it started", count(row.preemptions)], ["breaker", row.breaker.replace(/_/g, " ")],
      ["prefix knowledge", `${row.knows}, ${count(row.prefix_tokens)} tokens`], ["last report", row.age_ms === undefined ? "never" : h("time", { title: iso(at - row.age_ms) }, `${duration(row.age_ms)} ago`)],
      ["draft depth", row.draft_depth === undefined ? undefined : `${row.draft_depth} tokens`],
    ]));
}

function sources(data: FleetView): HTMLElement[] {
  const { store } = data;
  const shared = store.degraded ? ["▲", "act", "does not answer"] : ["●", "good", "answers"];
  const rows = data.sources.map((one) => h("li", {}, h("span", { class: `state ${one.error ? "watch" : "good"}` }, h("span", { "aria-hidden": "true" }, one.error ? "◆" : "●"), one.error ? " failing" : " fine"), " ", one.name,
    h("span", { class: "dim" }, ` for ${duration(one.for_seconds * 1_000)}${one.error ? `: ${one.error}` : ""}`)));
  return [h("ul", { class: "plain" }, h("li", {}, h("span", { class: `state ${shared[1] ?? ""}` }, h("span", { "aria-hidden": "true" }, shared[0] ?? ""), ` ${shared[2] ?? ""}`),
    ` store at ${store.place}`, h("span", { class: "dim" }, store.gateways > 1 ? `, shared by ${store.gateways} gateways` : "")), ...rows)];
}
