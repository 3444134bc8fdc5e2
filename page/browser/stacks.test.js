// The stacks of a report: zoomed, searched, gone through by keys, light and dark, wide and narrow.

import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { start, visit } from "./browser.js";
import { contrast } from "./contrast.js";
import { fixture, Folder } from "./pages.js";

const folder = new Folder();

/** The usual report, in which `hash` is a region that helps, `log_line` one that does not matter, and line 93 of `lookup` one that hurts. */
function withStacks() {
  const report = fixture("realistic");
  const region = (name) => report.regions.findIndex((of) => of.name === name);
  const names = ["main", "serve", "lookup", "hash", "log_line", "write", "[truncated]", "/srv/src/hash.c", "/lib/libc.so.6"];
  const functions = [
    [0, 7, null, null],
    [1, 7, null, null],
    [2, 7, null, null],
    [3, 7, null, region("hash")],
    [4, 7, null, region("log_line")],
    [5, null, 8, null],
    [6, null, null, null],
  ];
  const calls = [
    [null, 0, 3, 0, null, 0, 0],
    [0, 1, 5, 0, null, 100, 100],
    [1, 2, 93, 0, region("hash.c:93"), 200, 200],
    [2, 3, 85, 1, region("hash.c:85"), 400, 400],
    [1, 4, 17, 0, null, 100, 100],
    [4, 5, null, 0, null, 50, 50],
    [null, 6, null, 0, null, 0, 0],
    [6, 3, 85, 0, region("hash.c:85"), 150, 150],
  ];
  report.stacks = {
    samples: 1000,
    weight_ns: 1e9,
    truncated_samples: 150,
    missing_samples: 0,
    missing_weight_ns: 0,
    texts: names,
    functions,
    calls,
  };
  return report;
}

const address = folder.wholePage("stacks", JSON.stringify(withStacks()));
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
  const { complaints } = visitor;
  await visitor.close();
  expect(complaints).toEqual([]);
});

const open = async () => {
  await page.goto(address);
  await graph().waitFor();
};
const graph = () => page.getByRole("group", { name: /^Flame graph/ });
const boxes = (name, within = graph()) => within.locator(`.call[aria-label^="${name} in "], .call[aria-label^="${name}:"]`);
const width = async (name) => (await boxes(name).first().boundingBox()).width;
const all = async () => (await graph().boundingBox()).width;

test("boxes are as wide as their samples, below what calls them, and say what they are worth", async () => {
  await open();
  expect((await width("serve")) / (await all())).toBeCloseTo(0.85, 2);
  const [lookup, serve] = [await boxes("lookup").boundingBox(), await boxes("serve").boundingBox()];
  expect(lookup.y).toBeGreaterThanOrEqual(serve.y + 20);
  const looks = async (name) => (await boxes(name).first().getAttribute("class")).split(" ");
  expect(await looks("hash")).toContain("helps");
  expect(await looks("log_line")).toContain("no-effect");
  expect(await looks("lookup")).toContain("hurts");
  expect(await boxes("hash").first().innerText()).toMatch(/^▲ hash\s*\+13\s%$/);
  expect(await boxes("lookup").getAttribute("title")).toMatch(/^lookup in \/srv\/src\/hash\.c: 600 samples, 60\.0 %, 20\.0 % in its own code; 20 % faster gains −/);
});

test("a click zooms and shows the function's callers and callees, Escape leads back", async () => {
  await open();
  await boxes("lookup").click();
  expect(await width("lookup")).toBeGreaterThan((await all()) - 3);
  expect(await width("serve")).toBeGreaterThan((await all()) - 3);
  expect(await page.locator(".sandwich h3").innerText()).toBe("Around lookup");
  const callers = page.getByRole("group", { name: /^Callers/ });
  const [serve, lookup] = [await boxes("serve", callers).boundingBox(), await boxes("lookup", callers).boundingBox()];
  expect(serve.y).toBeLessThan(lookup.y);
  const callees = page.getByRole("group", { name: /^Callees/ });
  expect(await callees.locator(".call").allInnerTexts()).toHaveLength(2);
  await page.keyboard.press("Escape");
  expect((await width("serve")) / (await all())).toBeCloseTo(0.85, 2);
  expect(await page.getByRole("button", { name: "Show the whole program" }).isDisabled()).toBe(true);
  // The table leads to another function.
  await page.locator(".calls-list button", { hasText: "write" }).click();
  expect(await page.locator(".sandwich h3").innerText()).toBe("Around write");
});

test("a search marks boxes, counts stacks once, and shortens the table", async () => {
  await open();
  const field = page.locator(".calls-tools input");
  await field.fill("HASH lookup");
  expect(await page.locator(".calls-tools output").innerText()).toBe("1 of 7 functions, on 60.0 % of the stacks");
  await field.fill("hash.c h");
  expect(await page.locator(".calls-tools output").innerText()).toContain("on 100.0 % of the stacks");
  await field.fill("write");
  expect(await graph().locator(".match").count()).toBe(1);
  expect(await page.locator(".calls-list tbody tr").count()).toBe(1);
  // A slash is a letter here.
  await field.press("/");
  expect(await field.inputValue()).toBe("write/");
  await field.press("Escape");
  expect(await field.inputValue()).toBe("");
});

test("everything is reached from the keyboard", async () => {
  await open();
  const focused = () => page.evaluate(() => document.activeElement.getAttribute("aria-label")?.split(/ in |: /)[0]);
  await page.getByRole("button", { name: "Show the whole program" }).evaluate((of) => of.previousElementSibling.previousElementSibling.querySelector("input").focus());
  await page.keyboard.press("Tab");
  const said = [await focused()];
  for (const key of ["ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp"]) {
    await page.keyboard.press(key);
    said.push(await focused());
  }
  expect(said).toEqual(["server", "main", "serve", "lookup", "log_line", "lookup", "hash, inlined", "lookup"].map((name) => name.replace(", inlined", "")));
  await page.keyboard.press("Enter");
  expect(await page.locator(".sandwich h3").innerText()).toBe("Around lookup");
  expect(await graph().locator("[tabindex='0']").count()).toBe(1);
  const ring = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  expect(ring).toBe("solid");
});

for (const scheme of ["light", "dark"]) {
  test(`${scheme} can be read`, async () => {
    await page.emulateMedia({ colorScheme: scheme });
    await open();
    const texts = [".stacks"];
    expect(await page.evaluate(contrast, texts)).toEqual([]);
    await boxes("lookup").click();
    await page.locator(".calls-tools input").fill("hash");
    expect(await page.evaluate(contrast, texts)).toEqual([]);
  });
}

test("nothing is cut off or lies over anything at any width", async () => {
  for (const size of [320, 390, 768, 1440, 2560]) {
    await page.setViewportSize({ width: size, height: 900 });
    await open();
    const { x, width } = await page.locator(".stacks").boundingBox();
    expect(x + width, `${size}`).toBeLessThanOrEqual(size);
    const over = await page.evaluate(() => {
      const here = document.querySelector(".stacks").getBoundingClientRect();
      const others = [...document.querySelectorAll("main > section:not(.stacks), main > .ranking")];
      return others.filter((of) => {
        const there = of.getBoundingClientRect();
        return there.top < here.bottom - 1 && here.top < there.bottom - 1 && there.left < here.right && here.left < there.right;
      }).length;
    });
    expect(over, `${size}`).toBe(0);
  }
});

test("what starts the program is folded until it is asked for, and boxes are coloured by module where nothing is certain", async () => {
  await page.goto(folder.page("plain", fixture("plain")));
  await graph().waitFor();
  expect(await boxes("_start").count()).toBe(0);
  expect(await boxes("viewer::main").count()).toBe(1);
  expect(await boxes("render_frame").getAttribute("class")).toContain("module m0");
  expect(await page.locator(".stacks .legend").first().innerText()).toMatch(/main\.rs\s+std\s+parse\.rs\s+libc\.so\.6/);
  await page.getByLabel("Runtime frames").check();
  expect(await boxes("_start").count()).toBe(1);
  expect(await boxes("std::rt::lang_start_internal").count()).toBe(1);
});
