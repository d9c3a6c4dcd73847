// Now: is it fine, and if not, what is not?

import { Live, view } from "../api";
import { Chart } from "../chart";
import { h, link, renew, setText } from "../dom";
import { count, duration, short } from "../format";
import { conditionList, elsewhere, section } from "../parts";
import { to } from "../route";
import { Table } from "../table";
import type { NowView, Sample } from "../types";
import { workerColumns } from "./fleet";
import type { Page, Place, Shell } from "./index";

const SECONDS = 900;
/** A click on a graph shows the requests of so long around it. */
const AROUND_MS = 5_000;

export function now(_place: Place, shell: Shell): Page {
  const verdict = h("div", { class: "verdict" });
  const list = h("div");
  const pick = (ms: number): void => {
    location.hash = to("requests", { from: Math.round(ms - AROUND_MS), to: Math.round(ms + AROUND_MS) }).slice(1);
  };
  const charts = {
    rate: new Chart({ title: "Requests", unit: "per second; click for the requests behind", format: short, onPick: pick,
      lines: [{ label: "ended", colour: "one", fill: true }, { label: "refused", colour: "act", dash: [4, 3] }, { label: "failed", colour: "two" }] }),
    first: new Chart({ title: "First token", unit: "time since the request's head", format: duration, onPick: pick,
      lines: [{ label: "p50", colour: "one" }, { label: "p95", colour: "two", dash: [5, 3] }] }),
    memory: new Chart({ title: "KV cache in use", unit: "share of the pool; lines at 85 and 95 %", max: 100, format: (value) => `${Math.round(value)} %`,
      levels: [{ value: 85, label: "85 %" }, { value: 95, label: "95 %" }], onPick: pick,
      lines: [{ label: "target", colour: "one", fill: true }, { label: "draft", colour: "two", dash: [5, 3] }] }),
    load: new Chart({ title: "Load", unit: "requests", format: short, onPick: pick,
      lines: [{ label: "on workers", colour: "one", fill: true }, { label: "waiting here", colour: "act", dash: [4, 3] }] }),
  };
  const table = new Table({ columns: workerColumns(), key: (row) => row.worker, whole: true, label: "the ten workers that are worst off",
    href: (row) => to("fleet", { worker: row.worker }), empty: "no workers yet: name them in the configuration, or start one" });
  const note = h("span", { class: "dim" });
  let samples: Sample[] = [];
  let last: NowView | undefined;

  const draw = (): void => {
    const times = samples.map((one) => one.at_ms);
    const marks = samples.flatMap((one) => (one.marks ?? []).map((text) => ({ at: one.at_ms, text })));
    const of = (value: (one: Sample) => number | undefined): (number | null)[] => samples.map((one) => value(one) ?? null);
    charts.rate.set(times, [of((one) => one.ended), of((one) => one.refused), of((one) => one.failed)], marks);
    charts.first.set(times, [of((one) => one.ttft_p50_ms), of((one) => one.ttft_p95_ms)], marks);
    charts.memory.set(times, [of((one) => percent(one.kv_target_permille)), of((one) => percent(one.kv_draft_permille))], marks);
    charts.load.set(times, [of((one) => one.serving), of((one) => one.waiting)], marks);
  };
  const show = (data: NowView): void => {
    shell.heard(data.at_ms);
    if (shell.paused()) return;
    last = data;
    renew(verdict, ...sentence(data));
    renew(list, conditionList(data.conditions, data.at_ms));
    table.set(data.worst);
    setText(note, `${data.worst.length} of ${count(data.workers)}, worst first`);
    if (data.sample && data.sample.at_ms !== samples[samples.length - 1]?.at_ms) {
      samples = [...samples, data.sample].slice(-SECONDS);
      draw();
    }
  };
  void view<{ samples: Sample[] }>("history").then((history) => {
    samples = [...history.samples, ...samples.filter((one) => one.at_ms > (history.samples[history.samples.length - 1]?.at_ms ?? 0))];
    draw();
    if (last) show(last);
  }).catch(() => undefined);
  const live = new Live<NowView>(() => "now", show, shell.state);

  return {
    element: h("div", {}, verdict, list, h("div", { class: "charts" }, ...Object.values(charts).map((chart) => chart.element)),
      section("Workers", h("span", {}, note, " ", link(to("fleet"), "all")), table.element),
      elsewhere("admin/views/now", "sum(rate(overdraft_requests_total[1m]))", "overdraft top")),
    close: () => {
      live.close();
      for (const chart of Object.values(charts)) chart.destroy();
    },
    move: (by) => table.move(by),
    open: () => table.open(),
  };
}

function percent(permille: number | undefined): number | undefined {
  return permille === undefined ? undefined : permille / 10;
}

/** The state in one sentence, with a word and a shape before it. */
function sentence(data: NowView): HTMLElement[] {
  const act = data.conditions.filter((one) => one.severity === "act").length;
  const watch = data.conditions.length - act;
  const [shape, word, kind] = act > 0 ? ["▲", `${act} to act on`, "act"] : watch > 0 ? ["◆", `${watch} to watch`, "watch"] : ["●", "OK", "good"];
  const figure = (value: string, unit: string): HTMLElement => h("span", { class: "golden" }, h("b", {}, value), " ", unit);
  return [
    h("span", { class: `badge ${kind}` }, h("span", { "aria-hidden": "true" }, shape ?? ""), ` ${word ?? ""}`),
    figure(short(data.serving), "in flight"),
    figure(short(data.waiting), "waiting"),
    figure(short(data.refused_5m), "refused in 5 min"),
    figure(short(data.failed_5m), "failed in 5 min"),
    figure(duration(data.ttft_p95_ms), "p95 first token"),
    ...data.pools.map((pool) => figure(`${pool.up} of ${pool.workers}`, `${pool.pool} workers up`)),
    ...(data.usd_per_million_tokens === undefined ? [] : [figure(`$${data.usd_per_million_tokens.toFixed(2)}`, "per M tokens today")]),
  ];
}
