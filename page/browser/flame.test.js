// The page of `whatif flame`: what is in it alone. How the graph is zoomed, searched and gone through by keys is in stacks.test.js, contrast and widths
// in database.test.js.

import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { addressSays, command, start, visit } from "./browser.js";
import { flame, graph, withBoxes, worth } from "./flames.js";
import { Folder } from "./pages.js";
import { WHATIF } from "./recorded.js";

const folder = new Folder();
const worths = { parse: worth(0.45, "helps"), log: worth(-0.5, "hurts"), hash: worth(0.1, "not-enough-data") };
const small = flame(folder, "small", graph(
  ["main", 100,
    ["serve", 100, ["parse", 300, ["hash", 100]], ["log", 200, ["hash", 100], ["format", 50]]],
    ["idle_loop", 50]],
  worths,
));
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
  // Nothing but the file itself.
  expect(asked.filter((request) => !request.startsWith("GET file:"))).toEqual([]);
});

const drawing = () => page.getByRole("group", { name: /^Flame graph/ });
/** The boxes with this name, as they are drawn. */
const boxes = (name) => drawing().locator(`.call[aria-label^="${name} in "], .call[aria-label^="${name}:"]`);
const drawn = () => drawing().locator(".call").evaluateAll((all) => all.map((one) => one.getAttribute("aria-label").split(/ in |: /)[0]));
const rows = async () => (await page.locator("#functions tbody tr").allInnerTexts()).map((row) => row.split(/\s+/).join(" "));
const open = async (address) => {
  await page.goto(address);
  await drawing().waitFor();
};

test("the heading, how many samples there are, the warnings, and nothing of a map", async () => {
  await open(small);
  expect(await page.title()).toBe("whatif flame: cpu-clock on build-7, 2026-11-22 14:00 to 15:00");
  expect(await page.locator("h1").innerText()).toBe("cpu-clock on build-7, 2026-11-22 14:00 to 15:00");
  expect(await page.locator(".account").innerText()).toBe(
    "1\u202f000 samples of process server, 10 s of CPU time. Of all processes: expected 1\u202f200 = stored 1\u202f100 + unknown 60 + lost 40.",
  );
  expect(await page.locator(".warnings").innerText()).toContain("3.3 % of the samples were lost");
  expect(await page.locator(".map, .next").count()).toBe(0);
});

test("boxes are below what calls them, in the order of names; what is looked at is in the address", async () => {
  await open(small);
  expect(await drawn()).toEqual(["everything", "main", "idle_loop", "serve", "log", "format", "hash", "parse", "hash"]);
  expect(await boxes("parse").getAttribute("title")).toBe("parse in /usr/bin/server: 40.0 %, 30.0 % itself, 400 samples; slope 0.45 [0.40 … 0.50], helps");
  await page.keyboard.press("/");
  await page.keyboard.type("hash");
  await addressSays(page, "search", "hash");
  expect(await drawing().locator(".call.match").count()).toBe(2);
  expect(await page.locator(".calls-tools output").innerText()).toMatch(/^20\.0\s% of the samples$/);
});

test("colours say whose code it is, and stacks that begin nowhere are marked", async () => {
  const kinds = { server: "process", main: "program", memcpy: "library", sys_write: "kernel", made: "generated", wait: "waiting", odd: "unknown" };
  const data = graph(["server", 0, ["main", 10, ["memcpy", 200], ["sys_write", 200], ["made", 200], ["wait", 100]], ["odd", 200]], {}, kinds);
  data.cut = [6];
  await open(flame(folder, "kinds", data));
  for (const [name, kind] of Object.entries(kinds)) expect(await boxes(name).getAttribute("class"), name).toContain(kind);
  expect(await page.locator(".panel-flame .legend").innerText()).toContain("off-CPU time");
  expect(await drawing().locator(".call.cut").allInnerTexts()).toEqual(["odd"]);
  expect(await boxes("odd").getAttribute("title")).toContain("its callers are not known");
});

test("the table has what is in sight, and leads to it", async () => {
  await open(small);
  expect((await rows()).slice(0, 3).map((row) => row.replaceAll("\u00a0", " "))).toEqual(["30.0 % 40.0 % parse server ▲ 0.45", "20.0 % 20.0 % hash server ? 0.10", "20.0 % 35.0 % log server ▼ −0.50"]);
  await page.locator("#functions").getByRole("button", { name: "total" }).click();
  expect((await rows())[0]).toContain("100.0 % main");
  await boxes("log").click();
  expect((await rows()).map((row) => row.split(" ")[4])).toEqual(["log", "hash", "format"]);
  await page.locator("#functions tbody tr").nth(1).click();
  await page.keyboard.press("Enter");
  await addressSays(page, "search", "hash");
});

test("a difference is coloured, signed and listed", async () => {
  const data = graph(["main", 100, ["grown", 600], ["same", 200], ["new", 100]]);
  data.before = { asked: "2d..1d", samples: 1000, boxes: [400, 1000, 400, 400, 200, 200, 0, 0] };
  await open(flame(folder, "difference", data));
  expect(await page.locator("header .account").innerText()).toBe("B, compared with A: 2d..1d");
  expect(await boxes("grown").getAttribute("class")).toContain("worse");
  expect(await boxes("grown").innerText()).toMatch(/^\+20\.0\s% grown$/);
  expect(await boxes("new").getAttribute("title")).toMatch(/100 samples; \+10\.0\s% \(0\.0\s% before\)/);
  expect((await rows())[0]).toMatch(/^\+20\.0\s% 60\.0\s% 60\.0\s% grown/);
});

test("names of ten thousand letters, and such as mean harm, stay in their place", async () => {
  const long = `ns::${"very_".repeat(2000)}end`;
  const hostile = "</script><img src=x onerror=alert(1)>\u202egnp.exe\u0007";
  await page.setViewportSize({ width: 320, height: 568 });
  await open(flame(folder, "long", graph(["main", 0, [long, 500], [hostile, 500]])));
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(320);
  expect(await page.locator("#functions").innerText()).toContain("</script><img src=x onerror=alert(1)>\\u{202e}gnp.exe\\u{7}");
  const box = drawing().locator(".call").last();
  expect((await box.getAttribute("title")).length).toBeLessThan(1200);
  await box.click();
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(320);
  expect(await page.locator("img").count()).toBe(0);
});

test("a stack of two thousand frames can be gone through", async () => {
  const depth = 2000;
  const data = withBoxes(
    Array.from({ length: depth }, (_, nth) => `f${nth}`),
    Array.from({ length: depth }, (_, nth) => [nth - 1, nth, nth === depth - 1 ? 1000 : 0, 1000]).flat(),
  );
  await open(flame(folder, "deep", data));
  expect(await drawing().locator(".call").count()).toBe(depth + 1);
  await boxes(`f${depth - 1}`).click();
  await page.keyboard.press("ArrowUp");
  expect(await page.evaluate(() => document.activeElement.getAttribute("aria-label"))).toContain(`f${depth - 2} in `);
});

test("100,000 boxes can be looked at", async () => {
  await open(flame(folder, "large", large(100_000)));
  expect(await boxes("everything").count()).toBe(1);
  await drawing().locator(".call").nth(2).click();
  await page.getByRole("button", { name: "Show everything" }).click();
  expect(await drawing().locator(".call.around").count()).toBe(0);
});

test.skipIf(WHATIF === undefined)("`whatif flame` writes such a page", async (context) => {
  const [recorded, db, html] = ["perf.data", "db", "flame.html"].map((name) => join(folder.path, name));
  const loop = ["sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"];
  const perf = spawnSync("perf", ["record", "-q", "-e", "cpu-clock", "-F", "499", "-g", "-o", recorded, "--", ...loop], { encoding: "utf8" });
  if (perf.error || perf.status !== 0) context.skip(`perf cannot record here: ${perf.error ?? perf.stderr}`);
  command(WHATIF, ["import", recorded, "--db", db]);
  const said = command(WHATIF, ["flame", "--db", db, "-o", html]);
  await open(pathToFileURL(html).href);
  const samples = /^(\d+) samples/.exec(said)[1];
  expect((await page.locator(".account").innerText()).replaceAll("\u202f", "")).toMatch(new RegExp(`^${samples} samples`));
  // The process, and what it ran.
  expect(await drawing().locator(".call.process").count()).toBeGreaterThan(0);
  expect(await drawing().locator(".call").count()).toBeGreaterThan(2);
});

/** As many boxes, in stacks of `deep` that are as wide as each other and have nothing in common but `main`. */
function large(number, deep = 1000) {
  const stacks = number / deep;
  const boxes = [[-1, 0, 0, stacks * deep]];
  for (let nth = 0; nth < number - 1; nth++) {
    const depth = nth % deep;
    boxes.push([depth === 0 ? 0 : nth, nth % 5000, 1, deep - depth]);
  }
  return withBoxes(Array.from({ length: 5000 }, (_, nth) => `module::function_${nth}`), boxes.flat());
}
