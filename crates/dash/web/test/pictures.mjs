// Takes the pictures of the documentation: every page before a fleet of mock workers under a load.
import { mkdirSync } from "node:fs";
import { sleep, startWorkers } from "./fleet.mjs";
import { chat, openTab, startBrowser, startGateway, untilUp } from "./harness.mjs";

const OUT = new URL("../../../../docs/images/", import.meta.url).pathname;
/** Seconds of load before the first picture, so that the graphs have a past. */
const SECONDS = Number(process.env.OVERDRAFT_PICTURE_SECONDS ?? 75);
const QUESTIONS = ["What is a KV cache?", "Summarise the attached contract.", "Write a haiku about memory.", "Translate this to French."];
const tenants = ["acme", "globex", "initech"];

mkdirSync(OUT, { recursive: true });
const targets = await startWorkers(18, { tokens: 24, pace: 12, kv: (worker) => Math.min(0.97, 0.35 + 0.035 * worker.index + 0.03 * Math.random()), drafts: (() => { const began = Date.now(); return (worker) => Math.round((Date.now() - began) / 10) + worker.index; })() });
const drafts = await startWorkers(4, { model: "llama-8b", tokens: 24, pace: 4, kv: () => 0.22 });
const name = (prefix) => ({ url }, index) => ({ url, name: `${prefix}${String(index + 1).padStart(2, "0")}` });
const gateway = await startGateway({
  workers: [...targets.workers.map(name("t")), ...drafts.workers.map((worker, index) => ({ ...name("d")(worker, index), pool: "draft" }))],
  keys: tenants.map((tenant) => ({ tenant, key: `key-of-${tenant}-0123456789` })),
  cascades: { fast: { draft: "llama-8b", target: "llama-70b", mode: "gate", threshold: "40%", tokenizers: "any", prices: { draft: { prompt: 0.04, completion: 0.15 }, target: { prompt: 0.2, completion: 0.6 } } } },
  cache: { mode: "on", reuse: "deterministic" },
});
await untilUp(gateway, 22);

let going = true;
let sent = 0;
const client = async (index) => {
  while (going) {
    sent += 1;
    const tenant = tenants[(index + (sent % 3 === 0 ? 1 : 0)) % tenants.length];
    const context = "The parties agree as follows. ".repeat(20 * (1 + (sent % 7)));
    const ask = { model: sent % 3 === 0 ? "fast" : "llama-70b", stream: true, temperature: sent % 11 === 0 ? 0 : 0.7, messages: [{ role: "system", content: `${tenant}: ${context}` }, { role: "user", content: `${QUESTIONS[sent % 4]} ${sent % 11 === 0 ? "" : sent}` }] };
    await chat(gateway, ask, { authorization: `Bearer key-of-${tenant}-0123456789`, "x-request-id": `req_${(0x7f3a00 + sent * 7919).toString(16)}` }).catch(() => undefined);
    await sleep(80 + 200 * Math.random() * (1 + Math.sin(Date.now() / 9_000)));
  }
};
const load = Promise.all(Array.from({ length: 24 }, (_, index) => client(index)));
await sleep((SECONDS * 1_000) / 2);
targets.workers[4].failing = true;
targets.workers[11].late = 30_000;
await fetch(`${gateway.base}/admin/workers/t08/drain`, { method: "POST" });
await sleep((SECONDS * 1_000) / 2);

const browser = await startBrowser();
const take = async (file, hash, options = {}, prepare = async () => undefined) => {
  const { page, context, faults } = await openTab(browser, `${gateway.dashboard}#/${hash}`, { viewport: { width: 1280, height: 800 }, ...options });
  await page.waitForSelector(".status.live");
  await sleep(1_200);
  await prepare(page);
  await page.screenshot({ path: `${OUT}dashboard-${file}.png` });
  if (faults.length > 0) console.log(file, faults);
  await context.close();
};
const dark = { colorScheme: "dark" };
await take("now", "now");
await take("fleet", "fleet", dark);
await take("requests", "requests");
// The first that failed there was sent there by its cost; the last ones were trials, of which there is less to tell.
const { rows } = await (await fetch(`${gateway.base}/admin/views/requests?failed_at=t05&outcome=ok&limit=1000`)).json();
await take("why", `requests/${rows.at(-1)?.id ?? ""}`);
await take("queue", "queue");
await take("cache", "cache", dark);
await take("cascade", "cascade");
await take("speculation", "speculation", dark);
await take("cost", "cost");
await take("health", "health");
await take("play", "play", {}, async (page) => {
  await page.fill("input[type=password]", "key-of-acme-0123456789");
  await page.keyboard.press("Tab");
  await page.waitForSelector("select option[value='llama-70b']", { state: "attached" });
  await page.selectOption("select[aria-label=model]", "llama-70b");
  await page.click("text=Send");
  await page.waitForSelector(".decision");
  await sleep(300);
});
await take("narrow", "now", { viewport: { width: 390, height: 844 }, deviceScaleFactor: 1 });
going = false;
await load;
await browser.close();
await gateway.stop();
targets.stop();
drafts.stop();
console.log(`pictures are in ${OUT}; ${sent} requests were sent`);
