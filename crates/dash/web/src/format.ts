// Numbers with their units, and times with their zone.

const NONE = "–";
const grouped = new Intl.NumberFormat("en-US");

export function count(value: number | undefined): string {
  return value === undefined ? NONE : grouped.format(Math.round(value));
}

/** 1,234 stays; from 10,000 on in thousands and millions. */
export function short(value: number | undefined): string {
  if (value === undefined) return NONE;
  if (value < 10_000) return grouped.format(Math.round(value));
  if (value < 1_000_000) return `${trim(value / 1_000)}k`;
  if (value < 1_000_000_000) return `${trim(value / 1_000_000)}M`;
  return `${trim(value / 1_000_000_000)}G`;
}

function trim(value: number): string {
  return value < 100 ? value.toFixed(1).replace(/\.0$/, "") : grouped.format(Math.round(value));
}

export function tokens(value: number | undefined): string {
  return value === undefined ? NONE : `${short(value)} tok`;
}

export function duration(ms: number | undefined): string {
  if (ms === undefined) return NONE;
  if (ms === 0) return "0 ms";
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  const seconds = Math.round(ms / 1_000);
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3_600)} h ${Math.floor((seconds % 3_600) / 60)} min`;
  return `${Math.floor(seconds / 86_400)} d ${Math.floor((seconds % 86_400) / 3_600)} h`;
}

/** A share of one as a percentage. */
export function percent(share: number | undefined, digits = 0): string {
  return share === undefined || Number.isNaN(share) ? NONE : `${(share * 100).toFixed(digits)} %`;
}

export function ratio(part: number | undefined, whole: number | undefined): number | undefined {
  return part === undefined || !whole ? undefined : part / whole;
}

export function bytes(value: number): string {
  if (value < 1_024) return `${value} B`;
  if (value < 1_048_576) return `${trim(value / 1_024)} KiB`;
  if (value < 1_073_741_824) return `${trim(value / 1_048_576)} MiB`;
  return `${trim(value / 1_073_741_824)} GiB`;
}

/** Millionths of a dollar. */
export function dollars(micro: number | undefined): string {
  if (micro === undefined) return NONE;
  const usd = micro / 1_000_000;
  if (usd === 0) return "$0";
  if (Math.abs(usd) < 0.01) return `$${usd.toFixed(6)}`;
  return `$${usd.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
}

let utc = localStorage.getItem("overdraft.utc") === "1";

export function isUtc(): boolean {
  return utc;
}

export function toggleUtc(): void {
  utc = !utc;
  localStorage.setItem("overdraft.utc", utc ? "1" : "0");
}

/** The zone's short name, always shown beside times. */
export function zone(): string {
  if (utc) return "UTC";
  const parts = new Intl.DateTimeFormat("en-US", { timeZoneName: "short" }).formatToParts(new Date());
  return parts.find((part) => part.type === "timeZoneName")?.value ?? "local";
}

const two = (value: number): string => String(value).padStart(2, "0");

/** A time of day to the millisecond. */
export function clock(ms: number, withMillis = true): string {
  const at = new Date(ms);
  const [hour, minute, second] = utc
    ? [at.getUTCHours(), at.getUTCMinutes(), at.getUTCSeconds()]
    : [at.getHours(), at.getMinutes(), at.getSeconds()];
  const text = `${two(hour)}:${two(minute)}:${two(second)}`;
  return withMillis ? `${text}.${String(at.getMilliseconds()).padStart(3, "0")}` : text;
}

/** Hours and minutes, for axes. */
export function minutes(ms: number): string {
  return clock(ms, false).slice(0, 5);
}

/** The next round number from there on. */
export function ceiling(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 4, 5, 10].find((step) => value <= step * power) ?? 10) * power;
}

export function iso(ms: number): string {
  return new Date(ms).toISOString();
}

/** The two letters of how a request ended, in words. */
export function ending(code: string): string {
  const who: Record<string, string> = {
    "-": "whole", C: "client left", c: "client stopped reading", S: "worker failed", s: "worker too slow",
    P: "not acceptable", R: "refused: no room", D: "cut by the drain", I: "defect of the gateway",
  };
  const when: Record<string, string> = {
    R: "while it was judged", Q: "in the queue", C: "while connecting", H: "before the first token", D: "between tokens",
  };
  const [first = "-", second = "-"] = code;
  const phase = when[second];
  return phase === undefined ? (who[first] ?? code) : `${who[first] ?? code}, ${phase}`;
}
