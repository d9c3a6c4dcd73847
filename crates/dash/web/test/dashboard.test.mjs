// What the page promises, one sentence per test, in a real browser before the real binary.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { sleep, startWorkers } from "./fleet.mjs";
import { chat, fleetOf, openTab, startBrowser, startGateway, until, untilUp } from "./harness.mjs";

const PAGES = ["now", "fleet", "requests", "queue", "cache", "cascade", "speculation", "cost", "health", "play"];
const EVIL = '<img src=x onerror="alert(1)">';
/** How many draws are watched, and how many nodes one of them may change: less than each cell of 80 rows. A slow machine may take two or three for one. */
const [DRAWS, CHANGES] = [8, 1_000];
let browser;

before(async () => { browser = await startBrowser(); });
after(async () => { await browser?.close(); });

/** The field that has the focus, what is in it, and where its caret is. */
const focused = (page) => page.evaluate(() => {
  const field = document.activeElement;
  return { label: field.getAttribute("aria-label"), value: field.value, caret: field.selectionStart };
});

/** How many nodes each of the next `count` draws changes; a draw is what happens before the browser looks again. */
const changesOf = (page, count) => page.evaluate((wanted) => new Promise((done) => {
  const drawn = [];
  const watcher = new MutationObserver((records) => {
    drawn.push(records.length);
    if (drawn.length < wanted) return;
    watcher.disconnect();
    done(drawn);
  });
  watcher.observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
}), count);

test("a request appears with its reason", async () => {
  const { gateway, stop } = await fleetOf(3);
  const { page, faults } = await openTab(browser, `${gateway.dashboard}#/requests`);
  await page.waitForSelector(".status.live");
  const { id } = await chat(gateway, { stream: true });
  await page.locator("table[aria-label='requests that have ended'] tbody tr.opens").first().click();
  await page.waitForSelector(".decision");
  const why = await page.locator(".why").first().innerText();
  assert.match(why, /Sent to w0\d/);
  assert.equal(await page.locator("h2.id").innerText(), id);
  assert.equal(await page.locator("table.candidates tbody tr").count(), 3, "every candidate is told");
  assert.deepEqual(faults, []);
  await stop();
});

test("names with markup are text in every view", async () => {
  const fleet = await startWorkers(2, { model: EVIL });
  const key = "test-key-0123456789";
  const gateway = await startGateway({
    workers: fleet.workers.map(({ url }, index) => ({ url, name: `${EVIL}${index}` })), keys: [{ tenant: EVIL, key }],
  });
  await untilUp(gateway, 2);
  const told = { authorization: `Bearer ${key}` };
  await chat(gateway, { model: EVIL }, told);
  await chat(gateway, { model: `<script>alert(2)</script>`, messages: [{ role: "user", content: EVIL }] }, { ...told, "x-request-id": "r'onmouseover='alert(3)" });
  const { page, faults } = await openTab(browser, gateway.dashboard);
  for (const name of PAGES) {
    await page.goto(`${gateway.dashboard}#/${name}`);
    await page.waitForSelector(".status.live");
    await sleep(250);
    assert.equal(await page.locator("main img, main script").count(), 0, `${name} made an element of a name`);
  }
  await page.goto(`${gateway.dashboard}#/fleet`);
  await until(async () => (await page.locator("main").innerText()).includes(EVIL), "the worker's name is shown as text");
  await page.goto(`${gateway.dashboard}#/requests`);
  await until(async () => (await page.locator("main").innerText()).includes("<script>alert(2)"), "the model's name is shown as text");
  assert.deepEqual(faults, []);
  await gateway.stop();
  fleet.stop();
});

test("with an admin token no view is told without it, and the page asks for it", async () => {
  const fleet = await startWorkers(1);
  const gateway = await startGateway({ workers: [{ url: fleet.workers[0].url, name: "w1" }], admin: { token: "s3cret-token-of-the-test" } });
  await untilUp(gateway, 1);
  for (const path of [...PAGES.filter((name) => name !== "play" && name !== "health"), "history", "requests/x"]) {
    for (const kind of ["views", "events"]) {
      const { status } = await fetch(`${gateway.base}/admin/${kind}/${path}`);
      assert.ok(status === 403 || status === 404, `${kind}/${path} answered ${status}`);
    }
  }
  const { page, faults } = await openTab(browser, `${gateway.dashboard}#/fleet`);
  await page.fill(".signin input", "wrong");
  await page.click(".signin button");
  await page.waitForSelector(".signin");
  await page.fill(".signin input", "s3cret-token-of-the-test");
  await page.click(".signin button");
  await page.waitForSelector("text=w1");
  assert.deepEqual(faults, []);
  await gateway.stop();
  fleet.stop();
});

test("a page of another site reads nothing", async () => {
  const { gateway, stop } = await fleetOf(1);
  const ask = (headers) => fetch(`${gateway.base}/admin/views/now`, { headers }).then(({ status }) => status);
  assert.equal(await ask({}), 200);
  assert.equal(await ask({ "sec-fetch-site": "cross-site" }), 403);
  const { request } = await import("node:http");
  const rebound = await new Promise((done) => request(`${gateway.base}/admin/views/now`, { headers: { host: "evil.example" } }, (response) => { response.resume(); done(response.statusCode); }).end());
  assert.equal(rebound, 403, "a name that an attacker points at this machine is none of ours");
  await stop();
});

test("the page works behind a prefix, with the keyboard, and in both lights", async () => {
  const { gateway, stop } = await fleetOf(2);
  const { request, createServer } = await import("node:http");
  const proxy = createServer((from, to) => {
    const up = request(`${gateway.base}${from.url.replace("/ops/llm", "")}`, { method: from.method, headers: { ...from.headers, host: new URL(gateway.base).host } }, (answer) => {
      to.writeHead(answer.statusCode, answer.headers);
      answer.pipe(to);
    });
    from.pipe(up);
  });
  await new Promise((done) => proxy.listen(0, "127.0.0.1", done));
  const { page, faults } = await openTab(browser, `http://127.0.0.1:${proxy.address().port}/ops/llm/dashboard`);
  await page.waitForSelector(".status.live");
  await page.keyboard.press("g");
  await page.keyboard.press("f");
  await page.waitForSelector("text=w01");
  await page.keyboard.press("j");
  await page.waitForSelector("tr.selected");
  await page.keyboard.press("Enter");
  await until(async () => page.url().includes("worker="), "Enter opens the row");
  const finds = async () => (await page.evaluate(() => document.activeElement?.getAttribute("aria-label"))) === "find";
  // The view of the row may still be on its way.
  await until(async () => (await finds()) || (await page.keyboard.press("/"), finds()), "/ leads to the field that finds");
  await page.keyboard.press("Escape");
  const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const [one] = [await back(), await page.keyboard.press("t")];
  await until(async () => (await back()) !== one, "t changes the light");
  await page.keyboard.press("u");
  await page.waitForSelector("button:has-text('UTC')");
  assert.deepEqual(faults, []);
  proxy.closeAllConnections();
  proxy.close();
  await stop();
});

test("on a narrow screen nothing is wider than it", async () => {
  const { gateway, stop } = await fleetOf(4);
  for (let many = 0; many < 5; many += 1) await chat(gateway, { stream: true });
  const { page, faults } = await openTab(browser, gateway.dashboard, { viewport: { width: 390, height: 844 } });
  for (const name of PAGES) {
    await page.goto(`${gateway.dashboard}#/${name}`);
    await page.waitForSelector(".status.live");
    await sleep(200);
    const [wide, seen] = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
    assert.ok(wide <= seen, `${name} is ${wide} px wide`);
  }
  assert.deepEqual(faults, []);
  await stop();
});

test("a broken stream is told, and it comes back by itself", async () => {
  const { fleet, gateway, stop } = await fleetOf(1);
  const { page } = await openTab(browser, `${gateway.dashboard}#/fleet`);
  await page.waitForSelector(".status.live");
  await page.route("**/admin/events/**", (route) => route.abort());
  await page.evaluate(() => { location.hash = "/queue"; });
  await page.waitForSelector(".banner:not([hidden])");
  await page.unroute("**/admin/events/**");
  await page.waitForSelector(".status.live", { timeout: 15_000 });
  assert.equal(await page.locator(".banner").isVisible(), false);
  assert.ok(fleet.workers.length === 1);
  await stop();
});

test("the playground sends a prompt and shows where it went", async () => {
  const { gateway, stop } = await fleetOf(2);
  const { page, faults } = await openTab(browser, `${gateway.dashboard}#/play`);
  await page.waitForSelector("select option:has-text('llama-70b')", { state: "attached" });
  await page.click("text=Send");
  await page.waitForSelector(".decision");
  assert.match(await page.locator(".answer").innerText(), /word word/);
  assert.match(await page.locator(".why").innerText(), /Sent to w0/);
  assert.deepEqual(faults, []);
  await stop();
});

test("what is typed before the first data come is still there when they have come", async () => {
  const { gateway, stop } = await fleetOf(2);
  const { page, faults } = await openTab(browser, `${gateway.dashboard}#/now`);
  await page.waitForSelector(".status.live");
  let release;
  const released = new Promise((done) => { release = done; });
  await page.route("**/admin/events/fleet*", async (route) => { await released; await route.continue(); });
  await page.goto(`${gateway.dashboard}#/fleet`);
  await page.locator("input[aria-label=find]").pressSequentially("w02");
  await page.keyboard.press("ArrowLeft");
  release();
  await page.waitForSelector("option:has-text('llama-70b')", { state: "attached" });
  await page.keyboard.type("0");
  assert.deepEqual(await focused(page), { label: "find", value: "w002", caret: 3 });
  await page.keyboard.press("Backspace");
  await page.keyboard.press("Enter");
  await page.waitForSelector("text=1 of 2");
  assert.deepEqual(await focused(page), { label: "find", value: "w02", caret: 2 }, "a filter that is set keeps the focus");
  assert.match(page.url(), /text=w02/);
  assert.deepEqual(faults, []);
  await stop();
});

test("from one filter to the next by Tab nothing that is typed is lost", async () => {
  const { gateway, stop } = await fleetOf(1);
  const { page, faults } = await openTab(browser, `${gateway.dashboard}#/requests`);
  await page.waitForSelector(".status.live");
  await page.locator("input[aria-label=worker]").pressSequentially("w01");
  await page.keyboard.press("Tab");
  await page.keyboard.type("acme");
  await until(async () => page.url().includes("worker=w01"), "the first filter is set");
  await page.waitForSelector(".status.live");
  await page.keyboard.type(" u");
  assert.deepEqual(await focused(page), { label: "tenant", value: "acme u", caret: 6 });
  assert.deepEqual(faults, []);
  await stop();
});

test("news leave the focus and a selection where they are", async () => {
  const { gateway, stop } = await fleetOf(2);
  const { page, faults } = await openTab(browser, `${gateway.dashboard}#/fleet?worker=w01`);
  const link = page.locator(".detail a:has-text('its requests')");
  await link.focus();
  await page.evaluate(() => {
    const address = [...document.querySelectorAll(".detail dd")].find((one) => one.textContent.startsWith("http://"));
    window.getSelection().selectAllChildren(address);
    window.before = document.querySelector(".detail time").textContent;
  });
  await until(() => page.evaluate(() => document.querySelector(".detail time").textContent !== window.before), "news have come");
  const [word, selected] = await page.evaluate(() => [document.activeElement.textContent, window.getSelection().toString()]);
  assert.equal(word, "its requests");
  assert.match(selected, /^http:\/\/127/);
  assert.deepEqual(faults, []);
  await stop();
});

test("the playground keeps what was entered", async () => {
  const { gateway, stop } = await fleetOf(1);
  const { page, faults } = await openTab(browser, `${gateway.dashboard}#/play`);
  await page.waitForSelector("select option:has-text('llama-70b')", { state: "attached" });
  await page.fill("textarea", "How long is a token?");
  await page.click("text=Send");
  await page.waitForSelector(".decision");
  await page.click(".tools button[title^='UTC']");
  assert.equal(await page.locator(".decision").count(), 1, "another zone of time leaves the answer");
  await page.goto(`${gateway.dashboard}#/requests`);
  await page.waitForSelector(".status.live");
  await page.goto(`${gateway.dashboard}#/play`);
  assert.equal(await page.inputValue("textarea"), "How long is a token?");
  assert.deepEqual(faults, []);
  await stop();
});

test("a trial is told as one, and not as the policy's choice", async () => {
  const { fleet, gateway, stop } = await fleetOf(3, {}, { breaker: { open_first: "1s" } });
  fleet.workers[0].failing = true;
  let trial;
  await until(async () => {
    await chat(gateway);
    const { rows } = await (await fetch(`${gateway.base}/admin/views/requests?failed_at=w01&outcome=ok&limit=1`)).json();
    const detail = rows[0] && await (await fetch(`${gateway.base}/admin/views/requests/${rows[0].id}`)).json();
    trial = detail?.decisions[0].by === "trial" ? detail.id : undefined;
    return trial !== undefined;
  }, "a worker that is out is tried");
  const { page, faults } = await openTab(browser, `${gateway.dashboard}#/requests/${trial}`);
  await page.waitForSelector(".decision");
  assert.match(await page.locator(".why").first().innerText(), /Sent to w01, which had failed and was due for a trial/);
  const words = await page.locator(".decision").first().innerText();
  assert.match(words, /not due for a trial/);
  assert.doesNotMatch(words, /(?<![\d.])0 ms|as good|policy cost/);
  assert.deepEqual(faults, []);
  await stop();
});

test("300 workers and a stream of requests draw few rows, and few changes at a time", { timeout: 120_000 }, async () => {
  const { gateway, stop } = await fleetOf(300, { kv: (worker) => (worker.index % 97) / 100 });
  let going = true;
  const load = Promise.all(Array.from({ length: 8 }, async () => { while (going) await chat(gateway, { stream: false }); }));
  const { page, faults } = await openTab(browser, `${gateway.dashboard}#/fleet`);
  await page.waitForSelector("table[aria-label='workers'] tbody tr.opens");
  const rows = await page.locator("table[aria-label='workers'] tbody tr.opens").count();
  assert.ok(rows < 80, `${rows} rows are drawn`);
  for (const name of ["fleet", "requests", "now"]) {
    await page.goto(`${gateway.dashboard}#/${name}`);
    await page.waitForSelector(".status.live");
    const drawn = await changesOf(page, DRAWS);
    assert.ok(Math.max(...drawn) < CHANGES, `${name} changes ${drawn} nodes at a time`);
  }
  going = false;
  await load;
  assert.deepEqual(faults, []);
  await stop();
});
