// Cost: who pays for what?

import { Live } from "../api";
import { h, link, renew, setText } from "../dom";
import { clock, count, dollars, percent, ratio, short, zone } from "../format";
import { choice, elsewhere, section, tile } from "../parts";
import { change, to } from "../route";
import { type Column, Table } from "../table";
import type { CostRow, CostView, PoolCostRow } from "../types";
import type { Page, Place, Shell } from "./index";

type Group = CostRow & { name: string };

function sum(rows: CostRow[], name: string): Group {
  const total: Group = { name, tenant: "", model: "", by: "", requests: 0, prompt_tokens: 0, cached_tokens: 0, completion_tokens: 0, priced: 0, cost_microusd: 0, cost_target_only_microusd: 0 };
  for (const row of rows) {
    for (const field of ["requests", "prompt_tokens", "cached_tokens", "completion_tokens", "priced", "cost_microusd", "cost_target_only_microusd"] as const) total[field] += row[field];
  }
  return total;
}

function group(rows: CostRow[], key: "tenant" | "model" | "by"): Group[] {
  const names = [...new Set(rows.map((row) => row[key]))];
  return names.map((name) => sum(rows.filter((row) => row[key] === name), name));
}

const cost = (row: Group): string => (row.priced === 0 ? "no price" : dollars(row.cost_microusd));
const saved = (row: Group): string => (row.priced === 0 ? "–" : `${dollars(row.cost_target_only_microusd - row.cost_microusd)} (${percent(ratio(row.cost_target_only_microusd - row.cost_microusd, row.cost_target_only_microusd))})`);

function columns(title: string): Column<Group>[] {
  return [
    { title, by: (row) => row.name, card: true, kind: "name" },
    { title: "cost", by: (row) => row.cost_microusd, text: cost, right: true, card: true },
    { title: "saved against target only", by: (row) => row.cost_target_only_microusd - row.cost_microusd, text: saved, right: true, card: true },
    { title: "requests", by: (row) => row.requests, text: (row) => count(row.requests), right: true, card: true },
    { title: "prompt", by: (row) => row.prompt_tokens, text: (row) => `${short(row.prompt_tokens)} tok`, right: true },
    { title: "cached", by: (row) => ratio(row.cached_tokens, row.prompt_tokens), text: (row) => percent(ratio(row.cached_tokens, row.prompt_tokens)), right: true },
    { title: "answers", by: (row) => row.completion_tokens, text: (row) => `${short(row.completion_tokens)} tok`, right: true },
  ];
}

const hours = (value: number): string => `${value.toFixed(value < 10 ? 2 : 1)} h`;

const byTheHour: Column<PoolCostRow>[] = [
  { title: "pool", by: (row) => row.pool, card: true, kind: "name" },
  { title: "cost", by: (row) => row.dollars, text: (row) => (row.dollars_per_hour === 0 && row.dollars === 0 ? "no price" : dollars(row.dollars * 1e6)), right: true, card: true },
  { title: "of that idle", by: (row) => ratio(row.idle_hours, row.worker_hours), text: (row) => `${hours(row.idle_hours)} (${percent(ratio(row.idle_hours, row.worker_hours))})`, right: true, card: true },
  { title: "worker hours", by: (row) => row.worker_hours, text: (row) => hours(row.worker_hours), right: true, card: true },
  { title: "workers up", by: (row) => row.workers, text: (row) => count(row.workers), right: true },
  { title: "$ an hour now", by: (row) => row.dollars_per_hour, text: (row) => (row.dollars_per_hour === 0 ? "–" : dollars(row.dollars_per_hour * 1e6)), right: true },
];

export function costs(place: Place, shell: Shell): Page {
  const [day, tenant, model] = [place.params.get("day") ?? "today", place.params.get("tenant") ?? "", place.params.get("model") ?? ""];
  const make = (title: string, href: (row: Group) => string): Table<Group> => new Table<Group>({ columns: columns(title), key: (row) => row.name, whole: true, label: `cost by ${title}`, sort: { column: 1, down: true }, empty: "nothing was answered", href });
  const tenants = make("tenant", (row) => to("cost", { day, tenant: row.name, model }));
  const models = make("model", (row) => to("cost", { day, tenant, model: row.name }));
  const fleet = new Table<PoolCostRow>({ columns: byTheHour, key: (row) => row.pool, whole: true, label: "cost by the hour", sort: { column: 1, down: true }, empty: "no worker has been up" });
  const pools = make("answered by", () => to("cost", { day, tenant, model }));
  const tiles = h("div", { class: "tiles" });
  const span = h("span", { class: "dim" });
  const live = new Live<CostView>(() => "cost", (data) => {
    shell.heard(data.at_ms);
    if (shell.paused()) return;
    const all = day === "today" ? data.today : data.yesterday;
    const rows = all.filter((row) => (tenant === "" || row.tenant === tenant) && (model === "" || row.model === model));
    const total = sum(rows, "");
    const unpriced = total.requests - total.priced;
    setText(span, day === "today" ? `since ${clock(data.since_ms, false)} ${zone()}; days end at midnight UTC` : "the day before, as far as this gateway was there");
    renew(tiles, tile("cost", cost(total), !data.has_prices ? "no price is configured: the section `prices`" : unpriced > 0 ? `${count(unpriced)} of ${count(total.requests)} requests have no price` : `${count(total.requests)} requests`),
      tile("target only", total.priced === 0 ? "–" : dollars(total.cost_target_only_microusd), "what the target alone would have cost"), tile("saved", total.priced === 0 ? "–" : dollars(total.cost_target_only_microusd - total.cost_microusd), percent(ratio(total.cost_target_only_microusd - total.cost_microusd, total.cost_target_only_microusd))),
      tile("tokens", short(total.prompt_tokens + total.completion_tokens), `${short(total.prompt_tokens)} prompt, ${short(total.completion_tokens)} answers`));
    tenants.set(group(rows, "tenant"));
    models.set(group(rows, "model"));
    pools.set(group(rows, "by"));
    fleet.set(data.pools);
  }, shell.state);
  const chip = (name: string, value: string): HTMLElement | null => value === "" ? null : h("button", { type: "button", class: "chip", onclick: () => change({ [name]: "" }) }, `${name} ${value} ✕`);
  return {
    element: h("div", {}, section("Cost", span, h("div", { class: "filters" }, choice("day", "day", day, [["today", "today"], ["yesterday", "yesterday"]], (value) => change({ day: value })), chip("tenant", tenant), chip("model", model),
      link(to("requests", { tenant, model }), "the requests")), tiles),
      section("By tenant", "select one to see its models", tenants.element), section("By model", "", models.element), section("By who answered", "target, draft, verified draft, or the cache", pools.element),
      section("By the hour", "each pool since the gateway started; idle is a worker without a request", fleet.element),
      elsewhere("admin/views/cost", "sum by (tenant) (increase(overdraft_cost_dollars_total[24h]))", "overdraft cost access.jsonl --price 4.10")),
    close: () => live.close(), move: (by) => tenants.move(by), open: () => tenants.open(),
  };
}
