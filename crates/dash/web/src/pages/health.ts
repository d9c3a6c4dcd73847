// Health: what holds now that somebody should know, and what is watched.

import { Live } from "../api";
import { h, renew, setText } from "../dom";
import { clock, count, duration, zone } from "../format";
import { conditionList, elsewhere, facts, section } from "../parts";
import type { NowView } from "../types";
import type { Page, Place, Shell } from "./index";

const watched: [string, string][] = [
  ["a worker is down, or its breaker is open", "act"], ["KV in use ≥ 95 % at a worker", "act"], ["KV in use ≥ 85 % at a worker", "watch"],
  ["refused ≥ 5 % of the requests in 5 min", "act"], ["failed ≥ 1 % of the requests in 5 min", "act"], ["accepted < 20 % of the drafted tokens in 5 min", "act"],
  ["accepted < 50 % of the drafted tokens in 5 min", "watch"], ["three reports of a worker have not come", "watch"], ["a worker drains", "watch"],
  ["a cascade is off", "watch"], ["the store does not answer", "watch"], ["a source of workers fails", "watch"],
];

export function health(_place: Place, shell: Shell): Page {
  const [list, about, note] = [h("div"), h("div"), h("span", { class: "dim" })];
  const live = new Live<NowView>(() => "now", (data) => {
    shell.heard(data.at_ms);
    if (shell.paused()) return;
    renew(list, conditionList(data.conditions, data.at_ms));
    setText(note, count(data.conditions.length));
    renew(about, facts([["release", data.version], ["running since", `${clock(data.started_ms, false)} ${zone()}, for ${duration(data.at_ms - data.started_ms)}`], ["gateways that share", count(data.gateways)],
      ["workers", data.pools.map((pool) => `${pool.up} of ${pool.workers} ${pool.pool}`).join(", ") || "none"], ["ended, refused, failed in 5 min", `${count(data.ended_5m)}, ${count(data.refused_5m)}, ${count(data.failed_5m)}`], ["first token p50, p95 in 5 min", `${duration(data.ttft_p50_ms)}, ${duration(data.ttft_p95_ms)}`]]));
  }, shell.state);
  return {
    element: h("div", {}, section("Holds now", note, list), section("This gateway", "", about),
      section("What is watched", "pages and pagers go by the same limits", h("ul", { class: "plain columns" }, ...watched.map(([what, kind]) => h("li", {}, h("span", { class: `state ${kind}` }, h("span", { "aria-hidden": "true" }, kind === "act" ? "▲" : "◆"), ` ${kind}`), " ", what)))),
      elsewhere("admin/views/now", "ALERTS{alertstate=\"firing\"}", "overdraft top")),
    close: () => live.close(),
  };
}
