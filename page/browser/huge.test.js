// Recordings that are too large: the first screen is there before the rest has come.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { fillInParts } from "../scripts/fill.mjs";
import { HUGE, huge } from "../scripts/huge.mjs";
import { abroad, labels, start, visit } from "./browser.js";
import { Folder, PAGE } from "./pages.js";

const folder = new Folder();
const files = {};
let browser;

beforeAll(async () => {
  for (const [name, size] of Object.entries(HUGE)) {
    const file = join(folder.path, `${name}.html`);
    writeFileSync(file, fillInParts(PAGE, huge(size)));
    files[name] = pathToFileURL(file).href;
  }
  browser = await start();
});
afterAll(async () => {
  await browser.close();
  folder.remove();
});

/** When the browser has painted the answer and the pieces of code, in ms since it began to load the page. */
async function painted(page, address) {
  await page.addInitScript(() => {
    const seen = new MutationObserver(() => {
      if (!document.querySelector("h1") || !document.querySelector("#pieces .chart")) return;
      seen.disconnect();
      // A frame is painted before a message that was sent in it arrives.
      requestAnimationFrame(() => {
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = () => (globalThis.painted = performance.now());
        port2.postMessage(0);
      });
    });
    seen.observe(document, { childList: true, subtree: true });
  });
  await page.goto(address);
  await page.waitForFunction(() => globalThis.painted && performance.getEntriesByName("first-contentful-paint").length > 0);
  return page.evaluate(() => Math.max(globalThis.painted, performance.getEntriesByName("first-contentful-paint")[0].startTime));
}

for (const name of Object.keys(HUGE)) {
  test(`${name}: the answer and the pieces of code are painted`, async () => {
    const visitor = await visit(browser);
    console.log(`${name}: first paint after ${Math.round(await painted(visitor.page, files[name]))} ms`);
    expect(visitor.complaints).toEqual([]);
    expect(abroad(visitor.asked)).toEqual([]);
    await visitor.close();
  });
}

test("all of a million windows is there in the end", async () => {
  const visitor = await visit(browser);
  const { page } = visitor;
  await page.goto(`${files["huge-windows"]}#details=open`);
  await page.locator("#blocks").waitFor();
  expect(await page.locator("#blocks").getAttribute("aria-rowcount")).toBe(String(1 + HUGE["huge-windows"].most));
  for (const plot of [".curve", ".timeline"]) {
    const inked = await page.locator(`${plot} canvas`).evaluate((canvas) => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      return data.reduce((sum, value, nth) => sum + (nth % 4 === 3 && value > 0), 0);
    });
    expect(inked, plot).toBeGreaterThan(5000);
  }
  expect(visitor.complaints).toEqual([]);
  await visitor.close();
});

test("20,000 regions are sorted, filtered and gone through", async () => {
  const visitor = await visit(browser);
  const { page } = visitor;
  await page.goto(`${files["huge-regions"]}#details=open`);
  await page.locator("#details .curve").waitFor();
  await page.getByLabel("Filter").fill("Class19998<");
  await expect.poll(() => labels(page)).toHaveLength(2);
  expect(await page.locator(".filter output").innerText()).toBe("2 of 20000 regions");
  await page.getByLabel("Filter").fill("");
  await page.locator("#regions").focus();
  await page.keyboard.press("End");
  await page.waitForFunction(() => document.querySelector("#regions tr[aria-selected=true]")?.ariaRowIndex === "20001");
  const [last] = (await labels(page)).slice(-1);
  await expect.poll(() => page.locator("#details h2").innerText()).toContain(last.slice(0, 20));
  await page.locator("#details .curve").waitFor();
  expect(visitor.complaints).toEqual([]);
  await visitor.close();
});
