// Speculation: how deep does each worker guess, why, and does it pay?

import { Live, view } from "../api";
import { fill, h, link, setText } from "../dom";
import { ceiling, count, duration, percent, ratio, short } from "../format";
import { elsewhere, empty, gauge, section } from "../parts";
import { to } from "../route";
import { Table } from "../table";
import type { Sample, SpeculationRow, SpeculationView } from "../types";
import type { Page, Place, Shell } from "./index";

/** Tokens that one step of the target yields: those accepted of a draft, and its own. */
function perStep(row: SpeculationRow): number | undefined {
  return row.drafts === 0 ? undefined : 1 + row.accepted_tokens / row.drafts;
}

function positionsCell(cell: HTMLElement, row: SpeculationRow): void {
  const shown = `${row.worker}:${row.drafts}`;
  if (cell.dataset["shown"] === shown) return;
  cell.dataset["shown"] = shown;
  const bars = h("span", { class: "positions", role: "img", "aria-label": row.accepted_by_position.map((many, index) => `position ${index + 1}: ${percent(ratio(many, row.drafts))}`).join(", ") });
  row.accepted_by_position.forEach((many, index) => {
    const share = ratio(many, row.drafts) ?? 0;
    const bar = h("i", { title: `position ${index + 1}: ${percent(share)} of the drafts were right up to here` });
    bar.style.height = `${Math.max(4, share * 100)}%`;
    bars.append(bar);
  });
  fill(cell, row.accepted_by_position.length === 0 ? h("span", { class: "dim" }, "not told") : bars);
}

export function speculation(_place: Place, shell: Shell): Page {
  const table = new Table<SpeculationRow>({ label: "workers that guess ahead", key: (row) => row.worker, empty: "no worker guesses ahead", href: (row) => to("fleet", { worker: row.worker }), sort: { column: 1, down: false }, columns: [
    { title: "worker", by: (row) => row.worker, card: true, kind: "name" },
    { title: "accepted in 5 min", hint: "share of the drafted tokens that were right", by: (row) => row.acceptance_5m, card: true, kind: "kvcol",
      cell: (cell, row) => { const share = row.acceptance_5m; fill(cell, share === undefined ? h("span", { class: "dim" }, "–") : h("span", { class: "kv" }, gauge(share, 0.5, "acceptance", share < 0.2 ? "act" : share < 0.5 ? "watch" : ""), h("span", { class: "figure" }, percent(share)))); } },
    { title: "by position", hint: "share of the drafts that were right up to each position", by: (row) => ratio(row.accepted_by_position[0], row.drafts), cell: positionsCell },
    { title: "tokens a step", hint: "one, and what was accepted of the draft", by: perStep, right: true, text: (row) => perStep(row)?.toFixed(2) ?? "–", card: true },
    { title: "depth", by: (row) => row.depth, right: true, text: (row) => row.depth === undefined ? "–" : `${row.depth} tok`, card: true },
    { title: "why this depth", by: (row) => row.reason, text: (row) => row.reason === undefined ? "not told" : `${row.policy ?? ""}: ${row.reason.replace(/-/g, " ")}` },
    { title: "requests", by: (row) => row.requests, right: true, text: (row) => count(row.requests) },
    { title: "drafted", by: (row) => row.draft_tokens, right: true, text: (row) => `${short(row.draft_tokens)} tok` },
  ] });
  const note = h("span", { class: "dim" });
  const body = h("div", {}, table.element);
  const scatter = h("canvas", { class: "scatter", role: "img", "aria-label": "tokens per second against time between two tokens, one point for each second" });
  const draw = async (): Promise<void> => points(scatter, (await view<{ samples: Sample[] }>("history")).samples);
  void draw().catch(() => undefined);
  const timer = window.setInterval(() => { if (!shell.paused() && !document.hidden) void draw().catch(() => undefined); }, 2_000);
  const live = new Live<SpeculationView>(() => "speculation", (data) => {
    shell.heard(data.at_ms);
    if (shell.paused()) return;
    table.set(data.workers);
    setText(note, count(data.workers.length));
    if (data.workers.length === 0) fill(body, empty("No worker guesses ahead.", "An engine with speculative decoding tells its drafts in its metrics (vLLM: `--speculative-config`; here: `overdraft worker --draft`), and appears here by itself."));
    else if (table.element.parentElement !== body) fill(body, table.element);
  }, shell.state);
  return {
    element: h("div", {}, section("Workers that guess ahead", note, body),
      section("Throughput against latency", h("span", { class: "dim" }, "one point for each second of the last quarter of an hour; to the right and low is better"), scatter),
      h("p", { class: "dim" }, "A draft pays where tokens a step exceed what a step costs more with it; ", link(to("cascade"), "a cascade"), " asks a draft for whole answers instead."),
      elsewhere("admin/views/speculation", "vllm:spec_decode_num_accepted_tokens_total", "overdraft tune URL")),
    close: () => { live.close(); window.clearInterval(timer); }, move: (by) => table.move(by), open: () => table.open(),
  };
}

function points(canvas: HTMLCanvasElement, samples: Sample[]): void {
  const shown = samples.filter((one) => one.tpot_p50_ms !== undefined && one.completion_tokens > 0);
  const [width, height, scale] = [canvas.clientWidth, 200, window.devicePixelRatio];
  canvas.width = width * scale;
  canvas.height = height * scale;
  const context = canvas.getContext("2d");
  if (context === null) return;
  const colour = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  context.scale(scale, scale);
  context.font = "11px system-ui, sans-serif";
  const [left, bottom] = [58, 26];
  const [most, slowest] = [ceiling(Math.max(1, ...shown.map((one) => one.completion_tokens))), ceiling(Math.max(1, ...shown.map((one) => one.tpot_p50_ms ?? 0)))];
  context.strokeStyle = colour("line");
  context.fillStyle = colour("dim");
  for (let step = 0; step <= 4; step += 1) {
    const y = 8 + ((height - bottom - 8) * step) / 4;
    context.beginPath(); context.moveTo(left, y); context.lineTo(width, y); context.stroke();
    context.textAlign = "right";
    context.fillText(duration(slowest * (1 - step / 4)), left - 6, y + 4);
    const x = left + ((width - left - 10) * step) / 4;
    context.textAlign = step === 0 ? "left" : step === 4 ? "right" : "center";
    context.fillText(`${short((most * step) / 4)} tok/s`, x, height - 6);
  }
  context.fillStyle = colour("one");
  shown.forEach((one, index) => {
    context.globalAlpha = 0.25 + (0.75 * index) / shown.length;
    const [x, y] = [left + ((width - left - 10) * one.completion_tokens) / most, 8 + (height - bottom - 8) * (1 - (one.tpot_p50_ms ?? 0) / slowest)];
    context.beginPath(); context.arc(x, y, 2.5, 0, 2 * Math.PI); context.fill();
  });
  context.globalAlpha = 1;
  if (shown.length === 0) { context.textAlign = "center"; context.fillStyle = colour("dim"); context.fillText("no streamed answer ended in the last quarter of an hour", left + (width - left) / 2, height / 2); }
}
