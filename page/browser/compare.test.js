// Two recordings compared: a fixture, and what `whatif compare --html` writes.

import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { abroad, addressSays, command, labels, start, visit } from "./browser.js";
import { contrast } from "./contrast.js";
import { fixture, Folder } from "./pages.js";
import { record, WHATIF } from "./recorded.js";

const folder = new Folder();
const address = folder.page("comparison", fixture("comparison"));
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
  expect(visitor.complaints).toEqual([]);
  expect(abroad(visitor.asked)).toEqual([]);
  await visitor.close();
});

test("the verdict, the warning, the points and the regions", async () => {
  await page.goto(address);
  expect(await page.locator("h1").innerText()).toMatch(/^17\s%\s±\s1 less time per requests$/);
  const [top, below] = [await page.locator(".measured").allInnerTexts(), await page.locator(".headline .beside").innerText()];
  expect(top[0]).toMatch(/^Before: server --port 8080: 3 runs, 180 s in all; 2025-10-09 08:53 to 08:55 UTC, whatif 0\.1\.0$/);
  expect(top[1]).toMatch(/^After: /);
  expect(below).toBe("hash.c:12 became critical, and hash.c:95 is worth less than before.");
  await page.locator(".warnings summary").click();
  expect(await page.getByRole("complementary", { name: "Warnings" }).innerText()).toContain("record both again, by turns");
  expect((await page.locator(".plain tbody tr").first().innerText()).split(/\s*\t\s*/)).toEqual([
    "requests",
    "▲ less time",
    "17.0 %",
    "16.0 to 17.9 %",
    "1.2 ×",
    "9993 per second",
    "12035 per second",
  ]);
  expect(await labels(page)).toEqual([
    "hash.c:12",
    "hash.c:95 was hash.c:88",
    "hash.c:7",
    "hash.c:90",
    "evil\\u{202e} was </script><b>x",
    "hash.c:40",
  ]);
  expect(await page.title()).toBe("server – whatif");
});

test("sort, filter, region and point are in the address, and keys lead through it", async () => {
  await page.goto(address);
  await page.getByRole("button", { name: "before", exact: true }).click();
  await addressSays(page, "sort", "before");
  expect((await labels(page))[0]).toContain("hash.c:95");
  await page.keyboard.press("/");
  await page.keyboard.type("hash.c:9");
  await addressSays(page, "filter", "hash.c:9");
  await page.keyboard.press("Enter");
  await page.keyboard.press("End");
  await addressSays(page, "region", "hash.c:90");
  await page.keyboard.press("Enter");
  expect(await page.evaluate(() => document.activeElement.id)).toBe("details");
  expect(await page.locator("#details").innerText()).toContain("this recording does not have the region");
  await page.keyboard.press("Escape");
  expect(await page.evaluate(() => document.activeElement.id)).toBe("regions");
  await page.getByRole("button", { name: "lookup" }).click();
  await addressSays(page, "point", "latency:lookup");
  expect(await page.locator("h1").innerText()).toMatch(/^Not certain: 1\.8\s%\s±\s2\.4 less latency of lookup$/);
  const seen = await page.locator("main").innerText();
  await page.reload();
  expect(await page.locator("main").innerText()).toBe(seen);
});

for (const theme of ["light", "dark"]) {
  test(`${theme} can be read, and fits`, async () => {
    await page.emulateMedia({ colorScheme: theme });
    await page.setViewportSize({ width: 420, height: 800 });
    await page.goto(address);
    expect(await page.evaluate(contrast, ["h1", "h2", "p", "td", "th", "li", "dd", "dt", "button", "label", "summary", "span", "svg text"])).toEqual([]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(420);
  });
}

test.skipIf(WHATIF === undefined)("`whatif compare --html` writes what it says", async () => {
  const [before, after] = [record(folder.path, "before"), record(folder.path, "after", ["A=0.5"])];
  const file = join(folder.path, "compared.html");
  const said = command(WHATIF, ["compare", before, after, "--html", file]);
  const { sentence, point, points, regions } = JSON.parse(command(WHATIF, ["compare", "--json", before, after]));
  const spoken = (text) => text.replace(/[\s`]+/g, " ").trim();
  await page.goto(pathToFileURL(file).href);
  expect(spoken(await page.locator("h1").innerText())).toBe(spoken(points[point].headline));
  expect(spoken(said)).toContain(spoken(sentence));
  expect(await labels(page)).toHaveLength(regions.length);
  // The rows stand in the order of the terminal.
  const lines = said.split("\n");
  const at = (await labels(page)).map((label) => lines.findIndex((line) => line.startsWith(`  ${label} `)));
  expect(at).toEqual([...at].sort((a, b) => a - b));
  expect(at[0]).toBeGreaterThan(0);
  expect(await page.locator(".notes").innerText()).toContain("A=0.5");
});
