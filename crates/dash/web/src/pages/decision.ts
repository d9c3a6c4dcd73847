// The decision about a request: in a sentence, then with every candidate that lost by little.

import { h, link } from "../dom";
import { clock, count, dollars, duration, ending, iso, percent, ratio, zone } from "../format";
import { facts, gauge, prefixWords } from "../parts";
import { to } from "../route";
import type { Candidate, Decision, RequestDetail } from "../types";

const reasons: Record<string, string> = {
  chosen: "chosen", outscored: "another one was better", draining: "draining: takes nothing new", down: "down", last_resort: "does not answer as it should",
  circuit_open: "out for failing requests", probing: "out; one request finds out whether it still fails", refusing: "turned requests away lately",
  tried: "had failed this request", unproven: "nothing answered there lately", warming: "came up a moment ago and has its share", no_room: "does not fit into its cache",
  overloaded: "the session's worker, and overloaded", saturated: "had too much to do", costlier_than_waiting: "waiting for another was cheaper for all",
};

const parts: [keyof NonNullable<Candidate["cost"]>, string][] = [["wait_ms", "wait"], ["behind_ms", "behind"], ["fetch_ms", "fetch"], ["slowed_ms", "slowed"], ["displaced_ms", "displaced"], ["crowded_ms", "crowded"]];

export function requestFacts(detail: RequestDetail): HTMLElement {
  const saved = detail.cost_target_only_microusd !== undefined && detail.cost_microusd !== undefined ? detail.cost_target_only_microusd - detail.cost_microusd : undefined;
  return facts([
    ["ended", h("time", { title: iso(detail.ended_ms) }, `${clock(detail.ended_ms)} ${zone()}`)],
    ["status, end", `${detail.status === 0 ? "none sent" : detail.status}, ${detail.end} (${ending(detail.end)})`],
    ["refused because", detail.refused === undefined ? undefined : h("span", {}, h("b", {}, detail.refused), detail.refusal === undefined ? "" : `: ${detail.refusal}`)],
    ["model", detail.model ?? "–"], ["tenant", link(to("requests", { tenant: detail.tenant ?? "other" }), detail.tenant ?? "other")], ["priority", detail.priority ?? "–"],
    ["endpoint", `${detail.route}${detail.streamed ? ", streamed" : ""}`],
    ["worker", detail.worker === undefined ? "–" : link(to("fleet", { worker: detail.worker }), detail.worker)],
    ["prompt", detail.prompt_tokens === undefined ? "–" : `${count(detail.prompt_tokens)} tokens${detail.cached_tokens === undefined ? "" : `, ${count(detail.cached_tokens)} of them cached (${percent(ratio(detail.cached_tokens, detail.prompt_tokens))})`}`],
    ["answer", detail.completion_tokens === undefined ? "–" : `${count(detail.completion_tokens)} tokens`],
    ["queued", duration(detail.queued_ms)], ["first token", duration(detail.ttft_ms)], ["total", duration(detail.total_ms)],
    ["answered by", detail.served_by], ["response cache", detail.cache],
    ["cost", detail.cost_microusd === undefined ? (detail.prompt_tokens === undefined ? "–" : "no price configured") : `${dollars(detail.cost_microusd)}${saved === undefined ? "" : saved === 0 ? "" : saved > 0 ? `, ${dollars(saved)} less than the target alone` : `, ${dollars(-saved)} more than the target alone`}`],
  ]);
}

/** What the time went into. */
export function timeline(detail: RequestDetail): HTMLElement {
  const total = Math.max(detail.total_ms, 0.01);
  const first = detail.ttft_ms ?? total;
  const queued = Math.min(detail.queued_ms ?? 0, first);
  const spans: [string, number, string][] = [["queued", queued, "queued"], [detail.ttft_ms === undefined ? "answer" : "to the first token", first - queued, "first"], ["tokens", total - first, "data"]];
  const bar = h("div", { class: "timeline", role: "img", "aria-label": spans.map(([name, ms]) => `${name} ${duration(ms)}`).join(", ") });
  for (const [name, ms, kind] of spans) {
    if (ms <= 0) continue;
    const part = h("span", { class: kind, title: `${name}: ${duration(ms)}` });
    part.style.flexGrow = String(ms);
    bar.append(part);
  }
  const legend = h("div", { class: "legend" }, ...spans.filter(([, ms]) => ms > 0).map(([name, ms, kind]) => h("span", {}, h("i", { class: `block ${kind}`, "aria-hidden": "true" }), `${name} `, h("b", {}, duration(ms)))));
  return h("div", {}, bar, legend);
}

export function decisions(detail: RequestDetail): HTMLElement[] {
  if (detail.decisions.length === 0) {
    const why = detail.cache === "hit" || detail.cache === "coalesced" ? "The response cache had the answer, so no worker was asked."
      : detail.served_by === "draft" ? "The draft of a cascade answered; its own routing is not recorded."
      : detail.status >= 400 ? "It was refused before a worker was looked for." : "No worker was asked.";
    return [h("p", { class: "why" }, why)];
  }
  const last = detail.decisions.length - 1;
  return detail.decisions.map((one, index) => decision(one, `${last > 0 ? `${index + 1}. ` : ""}after ${duration(one.after_ms)}: `, index === last && detail.refused !== undefined));
}

/** One decision; `when` stands before its sentence, and it may have been the last before a refusal. */
export function decision(one: Decision, when = "", isRefused = false): HTMLElement {
  return h("article", { class: "decision" },
    h("p", { class: "why" }, when === "" ? null : h("span", { class: "dim" }, when), ...sentence(one, isRefused)),
    one.candidates.length === 0 ? null : candidates(one));
}

/** Whether the policy scored the candidates: neither a session nor the trial of a worker that had failed asks it. */
function isScored(one: Decision): boolean {
  return one.by !== "session" && one.by !== "trial";
}

const unscored: Record<string, string> = { session: "not its session's worker", trial: "not due for a trial" };

function score(one: Decision, value: number | undefined): string {
  if (value === undefined) return "–";
  return one.policy === "cost" ? duration(value / 1_000) : count(value);
}

function sentence(one: Decision, isRefused: boolean): (string | HTMLElement)[] {
  const text: (string | HTMLElement)[] = [];
  const prompt = `${count(one.prompt_tokens)} prompt tokens (${one.tokens}), about ${count(one.completion_tokens_expected)} to come. `;
  const [winner, second] = [one.candidates.find((candidate) => candidate.reason === "chosen"), one.candidates.find((candidate) => candidate.reason === "outscored")];
  if (one.choice === "send" && winner !== undefined) {
    text.push("Sent to ", h("b", {}, winner.worker), one.by === "trial" ? ", which had failed and was due for a trial: one request finds out whether it still fails, and the policy is not asked. " : one.sticky ? ", its session's worker. " : ` by the policy ${one.policy}. `);
    if (isScored(one) && second?.score !== undefined && winner.score !== undefined && one.lower_is_better && one.policy === "cost") {
      const more = second.score - winner.score;
      text.push(more > 2_000 ? `${second.worker} would have cost ${duration(more / 1_000)} more. ` : `${second.worker} was as good; the load decided. `);
    } else if (isScored(one) && second === undefined && one.candidates_left_out === 0 && one.candidates.length === 1) {
      text.push("No other worker serves the model. ");
    }
    if (one.prefix !== undefined) text.push(`Its prefix: ${prefixWords[one.prefix] ?? one.prefix}${winner.cached_tokens > 0 ? `; ${count(winner.cached_tokens)} of its tokens should have been cached where it went` : ""}. `);
    if (one.out_of_turn === true) text.push("It started before its turn, because its prompt was in use there. ");
  } else if (one.saturation !== undefined) {
    const { asked_tokens: asked, free_tokens: free, waits_for: what, retry_after_ms: after } = one.saturation;
    text.push(h("b", {}, "Every worker was saturated"), `: it needs about ${count(asked)} tokens and the most that is free on one worker is ${count(free)}. `,
      isRefused ? `It would have waited for ${awaited(what)}, and was refused. ` : `It waits for ${awaited(what)}, expected in ${duration(after)}. `);
  } else {
    text.push(h("b", {}, choices[one.choice] ?? one.choice), ". ");
  }
  text.push(h("span", { class: "dim" }, prompt));
  if (one.failed !== undefined) text.push(h("b", { class: "state act" }, h("span", { "aria-hidden": "true" }, "▲"), ` the attempt failed: ${one.failed}`));
  return text;
}

const awaited = (what: string): string => (what === "prefix" ? "the worker that has its prefix" : "room");

const choices: Record<string, string> = { none_up: "No worker that serves the model was up", none_left: "Every worker that could be asked had failed it", no_room: "It fits into no worker's cache", unknown_model: "No worker ever served the model" };

function scoreCell(one: Decision, { score: own, reason }: Candidate, worst: number): HTMLElement {
  const none = (text: string, why: string): HTMLElement => h("span", { class: "dim", title: why }, text);
  const shown = !isScored(one) ? none("–", "the policy was not asked")
    : own === undefined ? none("more than its rivals", "its wait alone was longer than all that another cost")
    : own === 0 && reason !== "chosen" && reason !== "outscored" ? none("–", "it was not in the running")
    : h("span", { class: "kv" }, gauge(own / worst, undefined, "score", reason === "chosen" ? "" : "dim"), h("span", { class: "figure" }, score(one, own)));
  return h("td", { class: "scorecol", "data-label": "score" }, shown);
}

function candidates(one: Decision): HTMLElement {
  const worst = Math.max(1, ...one.candidates.map((candidate) => candidate.score ?? 0));
  const body = h("tbody");
  for (const candidate of one.candidates) {
    const isChosen = candidate.reason === "chosen";
    const spread = candidate.cost === undefined ? "" : parts.filter(([key]) => (candidate.cost?.[key] ?? 0) > 0).map(([key, name]) => `${name} ${duration(candidate.cost?.[key])}`).join(" + ");
    body.append(h("tr", { class: isChosen ? "chosen" : "" },
      h("td", { class: "name", "data-label": "worker" }, link(to("fleet", { worker: candidate.worker }), candidate.worker)),
      h("td", { "data-label": "reason" }, isChosen ? "● chosen" : (candidate.reason === "outscored" ? unscored[one.by] : undefined) ?? reasons[candidate.reason] ?? candidate.reason),
      scoreCell(one, candidate, worst),
      h("td", { class: "dim parts", "data-label": "made of" }, spread === "" ? "–" : spread),
      h("td", { class: "right", "data-label": "cached" }, `${count(candidate.cached_tokens)} tok`), h("td", { class: "right", "data-label": "before it" }, `${count(candidate.queued_tokens)} tok`),
      h("td", { class: "right", "data-label": "requests" }, count(candidate.requests)), h("td", { class: "right", "data-label": "free" }, candidate.free_tokens === undefined ? "–" : `${count(candidate.free_tokens)} tok`)));
  }
  const head = ["worker", "why", one.policy === "cost" ? "cost (time)" : `score (${one.policy}, ${one.lower_is_better ? "less" : "more"} is better)`, "made of", "cached", "before it", "requests", "free"];
  return h("div", {}, h("div", { class: "table whole" }, h("table", { class: "candidates", "aria-label": "candidates" }, h("thead", {}, h("tr", {}, ...head.map((title, index) => h("th", { scope: "col", class: index > 3 ? "right" : "" }, title)))), body)),
    one.candidates_left_out > 0 ? h("p", { class: "dim" }, `${one.candidates_left_out} more candidates lost by more. POST admin/explain lists all of them as things are now.`) : null);
}
