// Cascade: does asking the draft first pay?

import { Live } from "../api";
import { h, link, renew } from "../dom";
import { count, percent } from "../format";
import { elsewhere, empty, facts, gauge, section, tile } from "../parts";
import { to } from "../route";
import type { CascadeRow, CascadeView } from "../types";
import type { Page, Place, Shell } from "./index";

export function cascade(_place: Place, shell: Shell): Page {
  const body = h("div");
  const live = new Live<CascadeView>(() => "cascade", (data) => {
    shell.heard(data.at_ms);
    if (shell.paused()) return;
    renew(body, ...(data.cascades.length === 0 ? [empty("No cascade is configured.",
      "A cascade asks a small model first and the target where that is not good enough. `cascades: {NAME: {draft: SMALL, target: LARGE, mode: shadow}}` compares answers in the background and changes none; this page then says whether it would pay.")]
      : data.cascades.map(card)));
  }, shell.state);
  return { element: h("div", {}, body, elsewhere("admin/views/cascade", "speculative_acceptance_ratio", "curl localhost:8080/admin/views/cascade")), close: () => live.close() };
}

function card(one: CascadeRow): HTMLElement {
  const known = one.acceptance !== undefined && one.break_even !== undefined;
  const pays = known && (one.acceptance ?? 0) >= (one.break_even ?? 1);
  const verdict = !one.on ? h("span", { class: "state watch" }, h("span", { "aria-hidden": "true" }, "◆"), ` off: ${off[one.off_reason ?? ""] ?? one.off_reason ?? "unknown"}`)
    : !known ? h("span", { class: "state dim" }, h("span", { "aria-hidden": "true" }, "○"), one.break_even === undefined ? " on; without `prices` nobody knows whether it pays" : " on; nothing was judged in the last five minutes")
    : h("span", { class: `state ${pays ? "good" : "act"}` }, h("span", { "aria-hidden": "true" }, pays ? "●" : "▲"), pays ? " on, and it pays" : " on, and it costs more than the target alone");
  const harmless = one.loss.estimate <= one.loss_allowed;
  const top = Math.max(one.loss.high, one.loss_allowed) * 1.15 || 1;
  const interval = h("span", { class: "bar tall interval", role: "img", "aria-label": `loss ${percent(one.loss.estimate, 2)}, between ${percent(one.loss.low, 2)} and ${percent(one.loss.high, 2)}` });
  const [range, point, limit] = [h("i", { class: `used ${harmless ? "" : "act"}` }), h("i", { class: "point" }), h("i", { class: "peak" })];
  range.style.left = `${(100 * one.loss.low) / top}%`;
  range.style.width = `${(100 * (one.loss.high - one.loss.low)) / top}%`;
  point.style.left = `${(100 * one.loss.estimate) / top}%`;
  limit.style.left = `${(100 * one.loss_allowed) / top}%`;
  interval.append(range, point, limit);
  return section(one.cascade, h("span", {}, verdict, " · ", link(to("requests", { model: one.cascade }), "its requests")),
    h("div", { class: "tiles" },
      tile("accepted in 5 min", percent(one.acceptance), one.acceptance === undefined ? "nothing was judged" : gauge(one.acceptance, one.break_even, "acceptance against break-even", known && !pays ? "act" : "")),
      tile("pays from", percent(one.break_even), one.break_even === undefined ? "set `prices` to know" : "accepted drafts: the line in the bar"),
      tile("answers worse than the target's", percent(one.loss.estimate, 2), h("span", {}, interval, h("span", { class: "dim" }, `${percent(one.loss.low, 2)} to ${percent(one.loss.high, 2)}; ${percent(one.loss_allowed, 1)} allowed (line)`))),
      tile("given since the start", percent(one.judged === 0 ? undefined : one.served / one.judged), `${count(one.served)} of ${count(one.judged)} drafts judged`)),
    facts([["draft", one.draft], ["target", one.target], ["mode", one.mode], ["comparisons learnt from", count(one.labels)], ["compared at least", percent(one.shadow, 1)], ["tokenizers", one.tokenizers]]));
}

const off: Record<string, string> = { harm: "its answers were worse than is allowed", useless: "its answers are good too seldom to pay", refused: "the draft is refused", slow: "the draft makes clients wait too long", failing: "the draft's workers fail" };
