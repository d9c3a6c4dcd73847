// Queue: who waits, and who was refused?

import { Live, view } from "../api";
import { Chart } from "../chart";
import { h, link, renew, setText } from "../dom";
import { clock, count, percent, ratio, short, zone } from "../format";
import { elsewhere, gauge, section, tile } from "../parts";
import { to } from "../route";
import type { FleetView, QueueView, Sample } from "../types";
import type { Page, Place, Shell } from "./index";

const remedies: Record<string, string> = {
  queue_full: "as many waited as may: more workers, or `admission.queue`", tenant_full: "its tenant had as many waiting as it may: its own load is in its way",
  too_late: "it would have waited too long: more workers, or more patience in `admission.first_token`", late: "it waited as long as its priority may: more workers",
  none_up: "no worker that serves the model was up: see the fleet", no_room: "it fits into no worker's cache beside what is there",
  threshold: "every worker was past the limit and the model's requests do not wait", budget_requests: "its key had spent its requests a minute",
  budget_tokens: "its key had spent its tokens a minute", draining: "the gateway was shutting down", requests: "as many requests were in flight as may: `limits.requests`",
  streams: "as many streams were open as may: `limits.streams`", bodies: "its client was still sending as many bodies as it may: see `limits.requests`",
  deadline: "its own deadline (`x-overdraft-deadline-ms`, or its key's) would have passed, or passed, while it waited", held_full: "as many requests waited for a worker to come up as may: `admission.hold`",
};
const WORST = 12;
/** The bars end at so much of the capacity, so that one sees who crosses the line. */
const SCALE = 1.2;

export function queue(_place: Place, shell: Shell): Page {
  const tiles = h("div", { class: "tiles" });
  const refusals = h("div");
  const pressure = h("div", { class: "pressure" });
  const since = h("span", { class: "dim" });
  const pick = (ms: number): void => { location.hash = to("requests", { outcome: "refused", from: Math.round(ms - 5_000), to: Math.round(ms + 5_000) }).slice(1); };
  const chart = new Chart({ title: "Waiting and refused", unit: "requests; click for those refused then", format: short, onPick: pick,
    lines: [{ label: "waiting", colour: "one", fill: true }, { label: "refused per second", colour: "act", dash: [4, 3] }] });
  const draw = async (): Promise<void> => {
    const [history, fleet] = await Promise.all([view<{ samples: Sample[] }>("history"), view<FleetView>("fleet")]);
    const { samples } = history;
    chart.set(samples.map((one) => one.at_ms), [samples.map((one) => one.waiting), samples.map((one) => one.refused)]);
    renew(pressure, ...pressures(fleet));
  };
  const timer = window.setInterval(() => { if (!shell.paused() && !document.hidden) void draw().catch(() => undefined); }, 2_000);
  void draw().catch(() => undefined);
  const live = new Live<QueueView>(() => "queue", (data) => {
    shell.heard(data.at_ms);
    if (shell.paused()) return;
    renew(tiles, ...data.waiting.map((one) => tile(`waiting with priority ${one.priority}`, count(one.requests), "requests")), tile("tokens that wait", short(data.waiting_tokens), "prompts and expected answers"));
    setText(since, `since the start at ${clock(data.started_ms, false)} ${zone()}`);
    renew(refusals, data.refusals.length === 0 ? h("p", { class: "calm" }, "● none was refused") : refusalTable(data));
  }, shell.state);
  return {
    element: h("div", {}, section("Waiting now", link(to("requests", { outcome: "refused" }), "refused requests"), tiles, h("div", { class: "charts wide" }, chart.element)),
      section("Predicted peak against capacity", "the fullest workers; a request waits where its peak would cross the line", pressure),
      section("Refusals", since, refusals), elsewhere("admin/views/queue", "sum by (reason) (rate(router_rejections_total[5m]))", "overdraft top --page requests")),
    close: () => { live.close(); window.clearInterval(timer); chart.destroy(); },
  };
}

function pressures(fleet: FleetView): HTMLElement[] {
  const peak = (one: FleetView["workers"][number]): number => ratio(Math.max(one.kv_peak_tokens ?? 0, one.kv_used_tokens ?? 0), one.kv_capacity_tokens) ?? -1;
  const rows = fleet.workers.filter((one) => peak(one) >= 0).sort((a, b) => peak(b) - peak(a)).slice(0, WORST);
  if (rows.length === 0) return [h("p", { class: "dim" }, "no worker tells its KV capacity")];
  return rows.map((one) => {
    const share = peak(one);
    return h("div", { class: "line" }, link(to("fleet", { worker: one.worker }), one.worker), gauge(share / SCALE, fleet.valve_permille / 1_000 / SCALE, `predicted peak ${percent(share)} of capacity`, share >= 1 ? "act" : share >= 0.85 ? "watch" : ""),
      h("span", { class: "figure" }, `${share >= 1 ? "▲ " : share >= 0.85 ? "◆ " : ""}${percent(share)} of ${short(one.kv_capacity_tokens)} tok`));
  });
}

function refusalTable(data: QueueView): HTMLElement {
  const body = h("tbody");
  for (const one of [...data.refusals].sort((a, b) => b.requests - a.requests)) {
    body.append(h("tr", {}, h("td", { class: "name" }, one.reason), h("td", {}, one.priority), h("td", { class: "right" }, count(one.requests)), h("td", { class: "dim wrap" }, remedies[one.reason] ?? "")));
  }
  return h("div", { class: "table whole" }, h("table", { "aria-label": "refusals" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "reason"), h("th", { scope: "col" }, "priority"), h("th", { scope: "col", class: "right" }, "requests"), h("th", { scope: "col" }, "what it means"))), body));
}
