// The shell: navigation, keyboard, what the link to the gateway is doing, and the page that the address names.

import "uplot/dist/uPlot.min.css";
import "./style.css";
import { type LinkState, setToken, token } from "./api";
import { add, fill, h, setClass, setText } from "./dom";
import { duration, isUtc, toggleUtc, zone } from "./format";
import { cache } from "./pages/cache";
import { cascade } from "./pages/cascade";
import { costs } from "./pages/cost";
import { fleet } from "./pages/fleet";
import { health } from "./pages/health";
import type { Maker, Page, Shell } from "./pages/index";
import { now } from "./pages/now";
import { play } from "./pages/play";
import { queue } from "./pages/queue";
import { requests } from "./pages/requests";
import { speculation } from "./pages/speculation";
import { place } from "./route";

const pages: { name: string; title: string; key: string; make: Maker }[] = [
  { name: "now", title: "Now", key: "n", make: now }, { name: "fleet", title: "Fleet", key: "f", make: fleet }, { name: "requests", title: "Requests", key: "r", make: requests },
  { name: "queue", title: "Queue", key: "q", make: queue }, { name: "cache", title: "Cache", key: "c", make: cache }, { name: "cascade", title: "Cascade", key: "d", make: cascade },
  { name: "speculation", title: "Speculation", key: "s", make: speculation }, { name: "cost", title: "Cost", key: "m", make: costs }, { name: "health", title: "Health", key: "h", make: health },
  { name: "play", title: "Play", key: "p", make: play },
];

/** Figures older than this are grey. */
const STALE_MS = 5_000;

let page: Page | null = null;
let paused = false;
/** When data came last, by the browser's clock; the gateway's may be another. */
let heardHere = 0;
let linkState: LinkState = "connecting";
let linkWhy = "";

const content = h("main", { id: "content", tabindex: -1 });
const nav = h("nav", { "aria-label": "pages" });
const status = h("span", { class: "status", role: "status" });
const banner = h("div", { class: "banner", role: "alert", hidden: true });
const zoneButton = h("button", { type: "button", title: "UTC or local time (u)", onclick: () => switchZone() });
const pauseButton = h("button", { type: "button", title: "hold what is shown (.)", onclick: () => pause() });
const themeButton = h("button", { type: "button", title: "light or dark (t)", onclick: () => switchTheme() });
const help = h("dialog", { class: "help" }, h("h2", {}, "Keys"), h("dl", {}, ...[["g then a letter", `goes to a page: ${pages.map((one) => `${one.key} ${one.title}`).join(", ")}`], ["/", "finds"], ["j k, Enter", "moves through rows and opens one"], ["Esc", "goes back"], [".", "holds what is shown"], ["u", "UTC or local time"], ["t", "light or dark"], ["?", "this list"]]
  .flatMap(([key, what]) => [h("dt", {}, key), h("dd", {}, what)])), h("form", { method: "dialog" }, h("button", {}, "Close")));

for (const one of pages) nav.append(h("a", { href: `#/${one.name}`, "data-page": one.name, title: `g ${one.key}` }, one.title));

const shell: Shell = {
  state(state, why = "") {
    [linkState, linkWhy] = [state, why];
    if (state === "refused") signIn(why);
    showStatus();
  },
  heard() {
    heardHere = Date.now();
    showStatus();
  },
  paused: () => paused,
};

function showStatus(): void {
  const age = Date.now() - heardHere;
  const isStale = heardHere > 0 && age > STALE_MS && linkState !== "live";
  const words: Record<LinkState, [string, string]> = { connecting: ["○", "connecting"], live: ["●", heardHere === 0 ? "ready" : `live, ${(Math.max(0, age) / 1_000).toFixed(1)} s old`], broken: ["▲", "stream broke, trying again"], paused: ["◆", "held"], refused: ["■", "signed out"] };
  const [shape, word] = words[paused ? "paused" : linkState];
  setText(status, `${shape} ${word}`);
  setClass(status, `status ${paused ? "paused" : linkState}`);
  document.body.classList.toggle("stale", isStale);
  banner.hidden = linkState !== "broken";
  if (linkState === "broken") setText(banner, `No data for ${duration(age)}: ${linkWhy}. What is shown is old.`);
}
window.setInterval(showStatus, 1_000);

function signIn(why: string): void {
  const field = h("input", { type: "password", autocomplete: "current-password", placeholder: "admin.token", "aria-label": "admin token" });
  const form = h("form", { class: "signin", onsubmit: (event) => { event.preventDefault(); setToken(field.value.trim()); show(); } },
    h("h2", {}, "For operators"), h("p", {}, token() === "" ? why : `That token was not accepted. ${why}`), h("p", { class: "dim" }, "The token stays in this tab and goes nowhere but to this gateway."), h("div", { class: "filters" }, field, h("button", { class: "primary" }, "Sign in")));
  page?.close?.();
  page = null;
  fill(content, form);
  field.focus();
}

/** A field that somebody types into. */
interface Held { page: string; label: string; typed: string | undefined; caret: [number, number] | undefined; scroll: number }

/** The field that has the focus. A filter that has been set changes the address and so draws its page anew, while
 * somebody types into the next one already. */
function held(): Held | null {
  const field = document.activeElement;
  if (!(field instanceof HTMLInputElement || field instanceof HTMLSelectElement) || !content.contains(field)) return null;
  const [page, label] = [content.dataset["page"] ?? "", field.getAttribute("aria-label") ?? ""];
  if (field instanceof HTMLSelectElement) return { page, label, typed: undefined, caret: undefined, scroll: window.scrollY };
  const { selectionStart: start, selectionEnd: end } = field;
  return { page, label, typed: field.value === field.defaultValue ? undefined : field.value, caret: start === null || end === null ? undefined : [start, end], scroll: window.scrollY };
}

/** Gives the focus back, with what was typed and where. */
function giveBack({ label, typed, caret, scroll }: Held): void {
  const field = [...content.querySelectorAll<HTMLInputElement | HTMLSelectElement>("input, select")].find((one) => one.getAttribute("aria-label") === label);
  if (field === undefined) return;
  if (typed !== undefined) field.value = typed;
  field.focus({ preventScroll: true });
  if (caret !== undefined && field instanceof HTMLInputElement) field.setSelectionRange(...caret);
  window.scrollTo(0, scroll);
}

function show(): void {
  const { page: name, rest } = place();
  const typing = held();
  const wanted = pages.find((one) => one.name === name) ?? pages[0]!;
  page?.close?.();
  page = null;
  [linkState, heardHere] = ["connecting", 0];
  document.title = `${wanted.title} · Overdraft`;
  for (const anchor of nav.querySelectorAll("a")) {
    if (anchor.dataset["page"] === wanted.name) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
  }
  nav.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  fill(content);
  const made = wanted.make(place(), shell);
  if (linkState as LinkState === "refused") return;
  page = made;
  fill(content, made.element);
  content.dataset["page"] = `${wanted.name}/${rest}`;
  window.scrollTo(0, 0);
  if (typing !== null && typing.page === content.dataset["page"]) giveBack(typing);
  showStatus();
}

function pause(): void {
  paused = !paused;
  setText(pauseButton, paused ? "▶ go on" : "❚❚ hold");
  pauseButton.setAttribute("aria-pressed", String(paused));
  showStatus();
}

function switchZone(): void {
  toggleUtc();
  setText(zoneButton, isUtc() ? "UTC" : zone());
  if (page?.zoned) page.zoned();
  else show();
}

function switchTheme(): void {
  const isDark = document.documentElement.dataset["theme"] === "dark" || (document.documentElement.dataset["theme"] === undefined && window.matchMedia("(prefers-color-scheme: dark)").matches);
  setTheme(isDark ? "light" : "dark");
}

function setTheme(theme: string | null): void {
  if (theme !== null) {
    document.documentElement.dataset["theme"] = theme;
    localStorage.setItem("overdraft.theme", theme);
  }
  const isDark = document.documentElement.dataset["theme"] === "dark" || (theme === null && window.matchMedia("(prefers-color-scheme: dark)").matches);
  setText(themeButton, isDark ? "☀ light" : "☾ dark");
  window.dispatchEvent(new Event("overdraft-theme"));
}

let going = false;
document.addEventListener("keydown", (event) => {
  const target = event.target as HTMLElement;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (target.matches("input, textarea, select")) {
    if (event.key === "Escape") target.blur();
    return;
  }
  if (going) {
    going = false;
    const to = pages.find((one) => one.key === event.key);
    if (to) location.hash = `/${to.name}`;
    return;
  }
  const acts: Record<string, () => void> = {
    g: () => { going = true; window.setTimeout(() => { going = false; }, 1_500); },
    "/": () => { const field = content.querySelector<HTMLElement>("input[type=search]"); if (field) field.focus(); else location.hash = "/requests"; },
    j: () => page?.move?.(1), k: () => page?.move?.(-1), ".": pause, u: switchZone, t: switchTheme, "?": () => help.showModal(),
    Enter: () => { if (target === document.body || target.classList.contains("table")) page?.open?.(); }, Escape: () => { if (!help.open) history.back(); },
  };
  const act = acts[event.key];
  if (act) {
    if (event.key === "/" || event.key === "?") event.preventDefault();
    act();
  }
});

const stored = localStorage.getItem("overdraft.theme");
setTheme(stored === "light" || stored === "dark" ? stored : null);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTheme(localStorage.getItem("overdraft.theme")));
setText(zoneButton, isUtc() ? "UTC" : zone());
setText(pauseButton, "❚❚ hold");
add(document.getElementById("app") as HTMLElement,
  h("a", { class: "skip", href: "#content", onclick: (event) => { event.preventDefault(); content.focus(); } }, "to the content"),
  h("header", {}, h("a", { class: "brand", href: "#/now" }, h("img", { src: "icon.svg", alt: "", width: 20, height: 20 }), "Overdraft"), nav, h("div", { class: "tools" }, status, pauseButton, zoneButton, themeButton, h("button", { type: "button", title: "keys (?)", onclick: () => help.showModal() }, "?"))),
  banner, content, help);
window.addEventListener("hashchange", show);
show();
