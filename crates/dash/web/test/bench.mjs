// Measures the page in a real Chromium: how soon a request is on it, and how much of a core it takes before 300 workers.
// Prints a table and a line per claim, as every bench does; ends with 1 when one falls short.
import { sleep } from "./fleet.mjs";
import { chat, fleetOf, openTab, startBrowser } from "./harness.mjs";

const isQuick = process.argv.includes("--quick");
const ASKED = isQuick ? 5 : 20;
const WATCHED_MS = isQuick ? 5_000 : 20_000;
const ROWS = "table[aria-label='requests that have ended'] tbody tr.opens";
const [APPEARS_MS, SHARE] = [1_000, 0.3];
const unknown = process.argv.slice(2).find((argument) => argument !== "--quick");
if (unknown !== undefined) {
  console.error(`\`${unknown}\` is not an argument of this bench; it takes --quick alone`);
  process.exit(2);
}

const browser = await startBrowser();
console.log(`browser       Chromium ${browser.version()}`);
const claims = [...await appearances(), ...await shares()];
await browser.close();
console.log();
for (const { figure, value, aim } of claims) console.log(`claim S4 ${figure}=${value.toFixed(2)} aim<=${aim} ${value <= aim ? "holds" : "falls short"}`);
process.exitCode = claims.every(({ value, aim }) => value <= aim) ? 0 : 1;

/** Milliseconds from the end of an answer until its row is drawn, the slowest of some. */
async function appearances() {
  const { gateway, stop } = await fleetOf(3);
  const { page } = await openTab(browser, `${gateway.dashboard}#/requests`);
  await page.waitForSelector(".status.live");
  const times = [];
  for (let asked = 0; asked < ASKED; asked += 1) {
    await chat(gateway, { stream: true });
    const ended = performance.now();
    await page.waitForFunction(([rows, count]) => document.querySelectorAll(rows).length > count, [ROWS, asked], { timeout: 10_000 });
    times.push(performance.now() - ended);
  }
  await stop();
  times.sort((left, right) => left - right);
  const [median, slowest] = [times[Math.floor(times.length / 2)], times.at(-1)];
  console.log(`a request appears after ${median.toFixed(0)} ms (median of ${ASKED}), ${slowest.toFixed(0)} ms (slowest)`);
  return [{ figure: "appears_ms", value: slowest, aim: APPEARS_MS }];
}

/** Which part of a core the page's main thread takes, page by page, while requests come as fast as eight clients can send. */
async function shares() {
  const { gateway, stop } = await fleetOf(300, { kv: (worker) => (worker.index % 97) / 100 });
  let [going, sent] = [true, 0];
  const load = Promise.all(Array.from({ length: 8 }, async () => { for (; going; sent += 1) await chat(gateway, { stream: false }); }));
  const { page } = await openTab(browser, gateway.dashboard);
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Performance.enable");
  const busy = async () => (await cdp.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value;
  const claims = [];
  console.log("page          share of a core  requests/s");
  for (const name of ["fleet", "requests", "now"]) {
    await page.goto(`${gateway.dashboard}#/${name}`);
    await page.waitForSelector(".status.live");
    await sleep(1_500);
    const [begun, at, before] = [await busy(), performance.now(), sent];
    await page.mouse.wheel(0, 600);
    await sleep(WATCHED_MS);
    const seconds = (performance.now() - at) / 1_000;
    const share = (await busy() - begun) / seconds;
    console.log(`${name.padEnd(13)} ${share.toFixed(3).padStart(15)} ${((sent - before) / seconds).toFixed(0).padStart(11)}`);
    claims.push({ figure: `${name}_core`, value: share, aim: SHARE });
  }
  going = false;
  await load;
  await stop();
  return claims;
}
