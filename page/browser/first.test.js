// The first screen: what to speed up, what that brings, and what to type next, by mouse and by keyboard.

import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { abroad, addressSays, start, visit } from "./browser.js";
import { fixture, Folder } from "./pages.js";

const folder = new Folder();
const report = fixture("realistic");
const address = folder.page("realistic", report);
let browser;
let visitor;
let page;

beforeAll(async () => (browser = await start()));
afterAll(async () => {
  await browser.close();
  folder.remove();
});
beforeEach(async () => {
  visitor = await visit(browser);
  page = visitor.page;
});
afterEach(async () => {
  const { complaints, asked } = visitor;
  await visitor.close();
  expect(complaints).toEqual([]);
  expect(abroad(asked)).toEqual([]);
});

const open = async (hash = "") => {
  await page.goto(address + hash);
  await page.locator("#pieces").waitFor();
};
const row = (name) => page.locator("#pieces > li").filter({ has: page.locator(".name", { hasText: name }) }).first();
const box = async (locator) => locator.boundingBox();

test("the answer, how sure it is, and the warnings come first, and the statistics are closed", async () => {
  await open();
  expect(await page.locator("h1").innerText()).toBe("Speed up hash (hash.c:80) first");
  expect(await page.locator(".brings").innerText()).toMatch(/^20\s% less time there → 13\.0\s% less time per requests \(12\.4 to 13\.7\)/);
  expect(await page.locator(".badge").innerText()).toBe("✓ good");
  await page.locator(".warnings summary").click();
  expect(await page.getByRole("complementary", { name: "Warnings" }).innerText()).toContain("taskset -c 2,3 whatif run -- PROGRAM");
  expect(await page.locator("#regions").count()).toBe(0);
  expect(await page.locator("#statistics").evaluate(({ open }) => open)).toBe(false);
});

test("bars lie on the side that they mean, as long as their gains, and whiskers are the intervals", async () => {
  await open();
  const line = await box(row("hash").locator("line.zero"));
  const zero = line.x + line.width / 2;
  const bar = async (name) => box(row(name).locator("rect.bar").first());
  const [hash, header] = [await bar("hash"), await bar("parse_header")];
  expect(Math.abs(hash.x - zero)).toBeLessThan(1);
  const gain = (name) => report.answer.points[0].pieces.find(({ label }) => label.startsWith(name)).less_time;
  expect(hash.width / header.width).toBeCloseTo(gain("hash ") / gain("parse_header"), 0);
  // A line of `hash` hurts: it lies left of zero.
  await page.locator(".fold").first().click();
  const hurts = await box(page.locator("#pieces .hurts rect.bar").first());
  expect(Math.abs(hurts.x + hurts.width - zero)).toBeLessThan(1);
  const whiskers = await box(row("hash").locator(".whiskers").first());
  expect(whiskers.x).toBeLessThan(hash.x + hash.width);
  expect(whiskers.x + whiskers.width).toBeGreaterThan(hash.x + hash.width);
  // Cost and worth: `lookup` has the largest share.
  const share = async (name) => (await box(row(name).locator("rect.share").first())).width;
  expect((await share("log_line")) / (await share("lookup"))).toBeCloseTo(0.05 / 0.47, 1);
});

test("the slider changes the gains, by keys, too, and the address keeps it", async () => {
  await open();
  const gain = () => row("hash").locator(".gain strong").first().innerText();
  expect(await gain()).toBe("13.0 %");
  await page.getByRole("slider").focus();
  for (let nth = 0; nth < 4; nth++) await page.keyboard.press("ArrowRight");
  await addressSays(page, "speedup", "40");
  expect(await gain()).toBe("26 %");
  expect(await page.locator(".slider output").innerText()).toMatch(/^40\s%$/);
  await page.keyboard.press("End");
  await addressSays(page, "speedup", "100");
  await page.reload();
  expect(await page.locator(".slider output").innerText()).toMatch(/^100\s%$/);
});

test("lines fold under their function, by Enter, too", async () => {
  await open();
  const fold = page.locator(".fold").first();
  await fold.focus();
  await page.keyboard.press("Enter");
  expect(await fold.getAttribute("aria-expanded")).toBe("true");
  expect(await row("hash").locator("ul .name").allInnerTexts()).toEqual(["hash.c:85", "hash.c:84", "hash.c:95", "hash.c:93"]);
  await page.keyboard.press("Enter");
  expect(await row("hash").locator("ul .name").count()).toBe(0);
});

test("what was not tried is listed, and says how far it is", async () => {
  await open();
  await page.getByRole("button", { name: /^Show \d+ more$/ }).click();
  expect(await row("send_file").innerText()).toContain("tried at 3 of 5 speedups");
  expect(await row("epoll_wait").innerText()).toContain("not tried yet");
});

test("a piece of code leads to its statistics, and the address keeps that they are open", async () => {
  await open();
  await row("parse_header").locator(".name").click();
  await addressSays(page, "details", "open");
  await addressSays(page, "region", "parse_header http.c:211");
  await expect.poll(() => page.locator("#details h2").innerText()).toBe("parse_header http.c:211");
  await expect.poll(() => page.evaluate(() => document.activeElement.id)).toBe("details");
  await page.reload();
  expect(await page.locator("#details h2").innerText()).toBe("parse_header http.c:211");
  await page.locator("#statistics > summary").click();
  await page.waitForFunction(() => !location.hash.includes("details"));
  expect(await page.locator("#regions").count()).toBe(0);
});

test("keys open the statistics, and are left to the browser while they are closed", async () => {
  await open();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  expect(await page.locator("#regions").count()).toBe(0);
  await page.keyboard.press("/");
  await page.keyboard.type("memcpy");
  await addressSays(page, "filter", "memcpy");
  await addressSays(page, "details", "open");
});

test("commands are copied", async () => {
  await visitor.context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await open();
  // That it can be opened is not told to who has opened it.
  const copy = page.locator(".reasons .command").nth(1).getByRole("button");
  await copy.click();
  await expect.poll(() => copy.innerText()).toBe("Copied");
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(report.answer.next[2].command);
});

test("where the clipboard is closed, the command is selected", async () => {
  await page.addInitScript(() => {
    Object.defineProperty(navigator, "clipboard", { value: { writeText: () => Promise.reject(new Error("no")) } });
  });
  await open();
  await page.locator(".reasons .command").first().getByRole("button").click();
  await expect.poll(() => page.evaluate(() => String(getSelection()))).toBe(report.answer.next[1].command);
});

test("on a phone the code, the gain and the badge are on screen at once", async () => {
  await page.setViewportSize({ width: 390, height: 844 });
  await open();
  for (const what of ["h1", ".brings", ".badge", "#pieces .verdict >> nth=0"]) {
    const { y, height } = await box(page.locator(what));
    expect(y + height, what).toBeLessThan(844);
  }
});

test("a report of an earlier version has the same rows", async () => {
  const { answer: _, candidates: __, ...old } = report;
  await page.goto(folder.page("old", old));
  expect(await page.locator("h1").innerText()).toMatch(/^20\s% less time in hash/);
  await expect.poll(() => row("hash").locator(".gain strong").first().innerText()).toBe("13.0 %");
});
