// Starts the real binary with a configuration, and a real Chromium before it.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { sleep, startWorkers } from "./fleet.mjs";

const BINARY = process.env.OVERDRAFT_BINARY ?? "../../../target/debug/overdraft";
const CHROMIUM = process.env.OVERDRAFT_CHROMIUM ?? "/usr/bin/chromium";
const PATIENCE_MS = 20_000;

/** Starts a gateway with this configuration (JSON is YAML); `dashboard` is the page's address. */
export async function startGateway(config) {
  const folder = mkdtempSync(join(tmpdir(), "overdraft-dash-"));
  const file = join(folder, "overdraft.yaml");
  writeFileSync(file, JSON.stringify({ listen: "127.0.0.1:0", ...config }));
  const child = spawn(BINARY, ["serve", "--config", file], { stdio: ["ignore", "pipe", "pipe"] });
  let told = "";
  const address = new Promise((found, failed) => {
    const hear = (piece) => {
      told += piece;
      const match = /http:\/\/(127\.0\.0\.1:\d+)/.exec(told);
      if (match) found(match[1]);
    };
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
    child.on("exit", () => failed(new Error(`the gateway ended:\n${told}`)));
  });
  const timer = setTimeout(() => child.kill("SIGKILL"), 300_000);
  const base = `http://${await address}`;
  return {
    base, dashboard: `${base}/dashboard/`, pid: child.pid,
    stop: async () => {
      clearTimeout(timer);
      const gone = new Promise((done) => child.on("exit", done));
      child.kill("SIGTERM");
      setTimeout(() => child.kill("SIGKILL"), 3_000).unref();
      await gone;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** So many mock workers and a gateway before them that has seen each; `stop` ends both. */
export async function fleetOf(count, settings = {}, config = {}) {
  const fleet = await startWorkers(count, settings);
  const workers = fleet.workers.map(({ url }, index) => ({ url, name: `w${String(index + 1).padStart(2, "0")}` }));
  const gateway = await startGateway({ workers, ...config });
  await untilUp(gateway, count);
  return { fleet, gateway, stop: async () => { await gateway.stop(); fleet.stop(); } };
}

/** Waits until so many workers are up. */
export async function untilUp(gateway, count, headers = {}) {
  await until(async () => {
    const response = await fetch(`${gateway.base}/healthz`, { headers });
    const health = await response.json();
    return (health.workers_up ?? 0) >= count;
  }, `${count} workers are up`);
}

export async function until(holds, what) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    if (await Promise.resolve(holds()).catch(() => false)) return;
    if (Date.now() > end) throw new Error(`in vain: ${what}`);
    await sleep(50);
  }
}

export async function startBrowser() {
  return chromium.launch({ executablePath: CHROMIUM, headless: true, args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"] });
}

/** A tab whose errors fail the test: what the policy forbids, what throws, what alerts. */
export async function openTab(browser, address, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  const page = await context.newPage();
  const faults = [];
  page.on("pageerror", (error) => faults.push(`threw: ${error.message}`));
  page.on("console", (message) => {
    if (message.type() === "error" && !/status of (401|403|404|429|503)/.test(message.text())) faults.push(message.text());
  });
  page.on("dialog", (dialog) => {
    faults.push(`executed: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("request", (request) => {
    const { origin } = new URL(request.url());
    if (request.url().startsWith("http") && origin !== new URL(address).origin) faults.push(`loaded from elsewhere: ${request.url()}`);
  });
  await page.goto(address);
  return { page, faults, context };
}

export async function chat(gateway, body = {}, headers = {}) {
  const response = await fetch(`${gateway.base}/v1/chat/completions`, {
    method: "POST", headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify({ model: "llama-70b", max_tokens: 16, messages: [{ role: "user", content: "What is a KV cache?" }], ...body }),
  });
  await response.text();
  return { status: response.status, id: response.headers.get("x-request-id") };
}
