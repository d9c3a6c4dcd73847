// Cache: what does reuse bring?

import { Live, view } from "../api";
import { Chart } from "../chart";
import { h, renew } from "../dom";
import { bytes, count, percent, ratio, short } from "../format";
import { elsewhere, empty, gauge, prefixWords, section, tile } from "../parts";
import { to } from "../route";
import type { CacheView, Sample } from "../types";
import type { Page, Place, Shell } from "./index";

export function cache(_place: Place, shell: Shell): Page {
  const [answers, prefixes, fates] = [h("div"), h("div", { class: "tiles" }), h("div", { class: "pressure" })];
  const chart = new Chart({ title: "Prompt tokens found in a worker's cache", unit: "share of the prompt tokens of each second", max: 100, format: (value) => `${Math.round(value)} %`,
    onPick: (ms) => { location.hash = to("requests", { from: Math.round(ms - 5_000), to: Math.round(ms + 5_000) }).slice(1); }, lines: [{ label: "cached", colour: "one", fill: true }] });
  const draw = async (): Promise<void> => {
    const { samples } = await view<{ samples: Sample[] }>("history");
    chart.set(samples.map((one) => one.at_ms), [samples.map((one) => (one.prompt_tokens === 0 ? null : (100 * one.cached_tokens) / one.prompt_tokens))]);
  };
  void draw().catch(() => undefined);
  const timer = window.setInterval(() => { if (!shell.paused() && !document.hidden) void draw().catch(() => undefined); }, 2_000);
  const live = new Live<CacheView>(() => "cache", (data) => {
    shell.heard(data.at_ms);
    if (shell.paused()) return;
    renew(answers, responses(data));
    const found = ratio(data.recent_cached_tokens, data.recent_prompt_tokens);
    renew(prefixes, tile("of the log's prompt tokens", percent(found), `${short(data.recent_cached_tokens)} of ${short(data.recent_prompt_tokens)} tokens were not computed again`),
      tile("as engines count", percent(ratio(data.prefix_hit_tokens, data.prefix_queried_tokens)), `${short(data.prefix_hit_tokens)} of ${short(data.prefix_queried_tokens)} tokens since they started`));
    const all = data.fates.reduce((sum, [, many]) => sum + many, 0);
    renew(fates, ...(all === 0 ? [h("p", { class: "dim" }, "no decision yet")] : data.fates.map(([fate, many]) => h("div", { class: "line" }, h("span", { class: "name" }, fate.replace(/_/g, " ")),
      gauge(many / all, undefined, percent(many / all)), h("span", { class: "figure" }, `${percent(many / all)}, ${count(many)} requests`), h("span", { class: "dim wide-note" }, prefixWords[fate] ?? "")))));
  }, shell.state);
  return {
    element: h("div", {}, section("Answers given again", "the response cache", answers), section("Prefixes found again", "the KV caches of the workers", prefixes, h("div", { class: "charts wide" }, chart.element)),
      section("What routing made of prefixes", "the requests in the log", fates), elsewhere("admin/views/cache", "llm_cache_hit_ratio", "curl localhost:8080/admin/cache")),
    close: () => { live.close(); window.clearInterval(timer); chart.destroy(); },
  };
}

function responses(data: CacheView): HTMLElement {
  if (data.mode === "off") return empty("The response cache is off.", "`cache: {mode: observe}` counts how many answers could be given again without giving any; `on` gives them.");
  const served = data.hits + data.coalesced;
  const asked = served + data.misses;
  const tiles = h("div", { class: "tiles" });
  if (data.mode === "observe") {
    const would = data.would_hit + data.would_miss;
    tiles.append(tile("would be answered", percent(ratio(data.would_hit, would)), `${count(data.would_hit)} of ${count(would)} requests; mode observe gives none`));
  } else {
    tiles.append(tile("hit ratio", percent(ratio(served, asked)), `${count(served)} of ${count(asked)} requests that may be cached`), tile("shared in flight", count(data.coalesced), "requests that waited for an equal one"));
  }
  tiles.append(tile("passed by", count(data.bypasses), "requests that may not be answered so"), tile("kept", `${bytes(data.bytes)}`, `of ${bytes(data.bytes_max)}; ${count(data.entries)} answers${data.shared ? ", shared with other gateways" : ""}`));
  return tiles;
}
