// The flame graph of `whatif flame`: zoomed, searched, gone through by keys, light and dark, small and large.

import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { command, start, visit } from "./browser.js";
import { contrast } from "./contrast.js";
import { flame, graph, withBoxes, worth } from "./flames.js";
import { Folder } from "./pages.js";
import { WHATIF } from "./recorded.js";

/** More buttons would make a browser slow; the script draws the widest ones. */
const MOST = 10_000;

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

/** The boxes with this name, as they are drawn. */
const boxes = (name) => page.locator(`#graph .box[aria-label^="${name} — "]`);
const width = async (name) => (await boxes(name).first().boundingBox()).width;
const drawn = () => page.locator("#graph .box").evaluateAll((all) => all.map((one) => one.getAttribute("aria-label").split(/ — |: /)[0]));
/** The name of the box that has the keyboard. */
const focused = () => page.evaluate(() => document.activeElement.getAttribute("aria-label")?.split(/ — |: /)[0] ?? document.activeElement.id);
const said = async () => `${await page.locator("#where").innerText()}: ${await page.locator("#cost").innerText()}`;
const all = async () => (await page.locator("#graph").boundingBox()).width;

test("the heading, the books and the warnings are there", async () => {
  await page.goto(small);
  expect(await page.title()).toBe("whatif flame: cpu-clock on build-7, 2026-11-22 14:00 to 15:00, process server");
  expect(await page.locator("#account").innerText()).toBe(
    "1\u202f000 samples here. Of all: expected 1\u202f200 = stored 1\u202f100 + unknown 60 + lost 40; 97.0 a second and CPU.",
  );
  expect(await page.locator("#warnings").innerText()).toBe("! 3.3 % of the samples were lost — see when and why: whatif status");
  expect(await page.locator("#legend").innerText()).toContain("making it faster helps");
  expect(await page.locator("#narrow").isVisible()).toBe(false);
});

test("boxes are as wide as their samples, below what calls them, in the order of names", async () => {
  await page.goto(small);
  expect(await drawn()).toEqual(["all", "main", "idle_loop", "serve", "log", "parse", "format", "hash", "hash"]);
  expect((await width("serve")) / (await all())).toBeCloseTo(0.85, 2);
  expect((await width("log")) / (await all())).toBeCloseTo(0.35, 2);
  const [main, serve, idle] = [await boxes("main").boundingBox(), await boxes("serve").boundingBox(), await boxes("idle_loop").boundingBox()];
  expect(serve.y).toBeGreaterThanOrEqual(main.y + main.height);
  expect(serve.x).toBeCloseTo(idle.x + idle.width, 0);
});

test("a click zooms, and the button and Escape lead back", async () => {
  await page.goto(small);
  await boxes("parse").click();
  expect(await drawn()).toEqual(["all", "main", "serve", "parse", "hash"]);
  expect(await width("parse")).toBeCloseTo(await all(), 0);
  expect((await width("hash")) / (await all())).toBeCloseTo(0.25, 2);
  expect(await width("serve")).toBeCloseTo(await all(), 0);
  expect(await focused()).toBe("parse");
  await boxes("main").click();
  expect(await drawn()).toHaveLength(9);
  await boxes("log").click();
  await page.getByRole("button", { name: "Show everything" }).click();
  expect(await drawn()).toHaveLength(9);
  expect(await focused()).toBe("all");
  await boxes("log").click();
  await page.keyboard.press("Escape");
  expect(await drawn()).toHaveLength(9);
  expect(await page.getByRole("button", { name: "Show everything" }).isDisabled()).toBe(true);
});

test("what is pointed at is told, with what it is worth", async () => {
  await page.goto(small);
  expect(await said()).toBe("all: 1\u202f000 samples");
  await boxes("parse").hover();
  expect(await said()).toBe("parse — /usr/bin/server: 40.0 %, 30.0 % itself, 400 samples; slope 0.45 [0.40 … 0.50] helps");
  expect(await boxes("parse").getAttribute("title")).toBe(await said());
});

test("a search marks boxes, and counts samples once", async () => {
  await page.goto(small);
  const before = await page.locator("#graph .box").first().elementHandle();
  await page.getByLabel("Search").fill("HASH");
  expect(await page.locator(".box.found").evaluateAll((found) => found.map((box) => box.textContent))).toEqual(["hash", "hash"]);
  expect(await page.locator("#found").innerText()).toBe("20.0 % of the samples");
  // What is called from what was found is part of it.
  await page.getByLabel("Search").fill("r");
  expect(await page.locator("#found").innerText()).toBe("85.0 % of the samples");
  await page.getByLabel("Search").fill("zzz");
  expect(await page.locator("#found").innerText()).toBe("no function has this in its name");
  expect(await page.locator(".box.found").count()).toBe(0);
  // Nothing was drawn anew for that.
  expect(await before.evaluate((box) => box.isConnected)).toBe(true);
  await page.getByLabel("Search").fill("hash");
  await boxes("parse").click();
  expect(await page.locator(".box.found").count()).toBe(1);
  expect(await page.locator("#found").innerText()).toBe("20.0 % of the samples");
  // Escape takes back what was typed, then what was chosen.
  await page.keyboard.press("Escape");
  expect(await page.getByLabel("Search").inputValue()).toBe("");
  expect(await page.locator("#found").innerText()).toBe("");
  expect(await page.locator(".box.found").count()).toBe(0);
  expect(await drawn()).toHaveLength(5);
  await page.keyboard.press("Escape");
  expect(await drawn()).toHaveLength(9);
});

test("everything is reached from the keyboard", async () => {
  await page.goto(small);
  const said = [];
  for (const key of ["Tab", "Tab", "Tab", "ArrowDown", "ArrowDown", "ArrowLeft", "ArrowRight", "ArrowDown", "ArrowRight", "ArrowLeft", "ArrowUp"]) {
    await page.keyboard.press(key);
    said.push(await focused());
  }
  expect(said).toEqual(["search", "colours", "all", "main", "serve", "idle_loop", "serve", "parse", "parse", "log", "serve"]);
  expect(await page.locator("#where").innerText()).toBe("serve — /usr/bin/server");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  expect(await drawn()).toEqual(["all", "main", "serve", "parse", "hash"]);
  expect(await focused()).toBe("parse");
  // One box is reached by Tab, and it is where one was.
  expect(await page.locator("#graph [tabindex='0']").count()).toBe(1);
  await page.keyboard.press("Shift+Tab");
  expect(await focused()).toBe("colours");
  await page.keyboard.press("Tab");
  expect(await focused()).toBe("parse");
  await page.keyboard.press("Home");
  expect(await focused()).toBe("all");
  await page.keyboard.press("Enter");
  expect(await drawn()).toHaveLength(9);
  await page.keyboard.press("/");
  expect(await focused()).toBe("search");
  await page.keyboard.type("a/o");
  expect(await page.locator("#found").innerText()).toBe("no function has this in its name");
  await page.keyboard.press("Escape");
  await page.keyboard.type("lo");
  await page.keyboard.press("Enter");
  expect(await focused()).toBe("log");
  expect(await page.locator("#graph [tabindex='0']").count()).toBe(1);
});

test("what has the keyboard shows it, also at the edge and where it is narrow", async () => {
  const narrow = graph(["main", 990, ["narrow", 8], ["other", 1000]]);
  await page.goto(flame(folder, "narrow", narrow));
  for (const name of ["search", "colours", "all", "main", "narrow"]) {
    await page.keyboard.press(name === "main" || name === "narrow" ? "ArrowDown" : "Tab");
    if (name === "narrow") await page.keyboard.press("ArrowLeft");
    expect(await focused()).toBe(name);
    const ring = await page.evaluate(() => {
      const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement);
      return `${outlineStyle} ${outlineWidth}`;
    });
    expect(ring, name).toBe("solid 3px");
  }
  // Boxes do not lie over each other.
  const [one, two] = [await boxes("narrow").boundingBox(), await boxes("other").boundingBox()];
  expect(one.width).toBeGreaterThanOrEqual(2);
  expect(two.x).toBeGreaterThanOrEqual(one.x + one.width - 0.1);
  expect(await page.evaluate(() => getComputedStyle(document.getElementById("graph")).overflowClipMargin)).toBe("4px");
});

test("a window that is resized keeps zoom and keyboard", async () => {
  await page.goto(small);
  await boxes("log").click();
  await page.keyboard.press("ArrowDown");
  expect(await focused()).toBe("hash");
  await page.setViewportSize({ width: 500, height: 700 });
  await expect.poll(async () => Math.round(await width("log"))).toBe(Math.round(await all()));
  expect(await focused()).toBe("hash");
  expect(await drawn()).toEqual(["all", "main", "serve", "log", "format", "hash"]);
});

for (const scheme of ["light", "dark"]) {
  test(`${scheme} is as the system says, and can be read`, async () => {
    await page.emulateMedia({ colorScheme: scheme });
    await page.goto(small);
    const paper = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    expect(paper).toBe(scheme === "light" ? "rgb(255, 255, 255)" : "rgb(21, 24, 28)");
    const texts = ["h1", "p", "li", "label", "button", "span", "strong"];
    expect(await page.evaluate(contrast, texts)).toEqual([]);
    await page.getByLabel("Search").fill("hash");
    await boxes("log").click();
    expect(await page.evaluate(contrast, texts)).toEqual([]);
    expect(await page.evaluate(() => [...document.querySelectorAll("*")].filter((one) => getComputedStyle(one).opacity !== "1").length)).toBe(0);
    // What helps is blue, what hurts orange, what nobody tried grey.
    await page.keyboard.press("Escape");
    await page.keyboard.press("Escape");
    const colour = (name) => boxes(name).first().evaluate((of) => {
      const canvas = document.createElement("canvas").getContext("2d");
      canvas.fillStyle = getComputedStyle(of).backgroundColor;
      canvas.fillRect(0, 0, 1, 1);
      return [...canvas.getImageData(0, 0, 1, 1).data];
    });
    const [blue, orange, grey] = [await colour("parse"), await colour("log"), await colour("main")];
    expect(blue[2] - blue[0]).toBeGreaterThan(40);
    expect(orange[0] - orange[2]).toBeGreaterThan(40);
    expect(Math.max(...grey.slice(0, 3)) - Math.min(...grey.slice(0, 3))).toBeLessThan(15);
  });
}

test("boxes that are too narrow to read are one box with their number", async () => {
  const many = Array.from({ length: 300 }, (_, nth) => [`small_${nth}`, 1]);
  await page.goto(flame(folder, "many", graph(["main", 0, ["wide", 5000], ...many])));
  expect(await drawn()).toEqual(["all", "main", "wide"]);
  const rest = page.locator("#graph .rest");
  expect(await rest.innerText()).toBe("… 300");
  const [box, wide] = [await rest.boundingBox(), await boxes("wide").boundingBox()];
  expect(box.width / (await all())).toBeCloseTo(300 / 5300, 2);
  expect(box.x).toBeCloseTo(wide.x + wide.width, 0);
  expect(await page.locator("#narrow").innerText()).toContain("300 boxes");
});

test("colours say whose code it is, and stacks that begin nowhere are marked", async () => {
  const kinds = { server: "process", main: "program", memcpy: "library", sys_write: "kernel", made: "generated", odd: "unknown" };
  const data = graph(["server", 0, ["main", 10, ["memcpy", 200], ["sys_write", 200], ["made", 200]], ["odd", 200]], {}, kinds);
  data.cut = [5];
  await page.goto(flame(folder, "kinds", data));
  expect(await page.getByLabel("Colours").inputValue()).toBe("kind");
  for (const [name, kind] of Object.entries(kinds)) expect(await boxes(name).getAttribute("class"), name).toContain(kind);
  expect(await page.locator("#legend").innerText()).toContain("shared libraries");
  expect(await page.locator("#legend").innerText()).toContain("24.7 % of the samples: callers are not known beyond this");
  expect(await page.locator(".box.cut:not(.swatch)").evaluateAll((cut) => cut.map((box) => box.textContent))).toEqual(["odd"]);
  expect(await boxes("odd").getAttribute("title")).toContain("its callers are not known");
  expect(await boxes("server").getAttribute("title")).toContain("server — a process: 100.0 %");
});

test("the table has what is in sight, and leads to it", async () => {
  await page.goto(small);
  const rows = async () => (await page.locator("#rows tr").allInnerTexts()).map((row) => row.split(/\s+/).join(" "));
  expect((await rows()).slice(0, 3)).toEqual(["30.0 % 40.0 % parse", "20.0 % 20.0 % hash", "20.0 % 35.0 % log"]);
  await page.getByRole("button", { name: "total" }).click();
  expect((await rows())[0]).toBe("10.0 % 100.0 % main");
  await boxes("log").click();
  expect(await rows()).toEqual(["20.0 % 35.0 % log", "10.0 % 10.0 % hash", "5.0 % 5.0 % format"]);
  await page.locator("#rows button", { hasText: "hash" }).click();
  expect(await page.getByLabel("Search").inputValue()).toBe("hash");
  expect(await page.locator(".box.found").count()).toBe(1);
});

test("a difference is coloured, signed and listed", async () => {
  const data = graph(["main", 100, ["grown", 600], ["same", 200], ["new", 100]]);
  data.before = { asked: "2d..1d", samples: 1000, boxes: [400, 1000, 400, 400, 200, 200, 0, 0] };
  await page.goto(flame(folder, "difference", data));
  expect(await page.getByLabel("Colours").inputValue()).toBe("change");
  expect(await boxes("grown").textContent()).toBe("+20.0 % grown");
  expect(await boxes("grown").getAttribute("class")).toContain("worse");
  expect(await boxes("new").getAttribute("title")).toContain("10.0 %, 10.0 % itself, 100 samples; +10.0 % (0 % before)");
  expect(await page.locator("#legend").innerText()).toContain("Compared with 2d..1d, in shares of all samples:");
  expect(await page.locator("#cost").innerText()).toBe("1\u202f000 samples, 1\u202f000 before");
  const first = (await page.locator("#rows tr").first().innerText()).split(/\s+/).join(" ");
  expect(first).toBe("60.0 % 60.0 % +20.0 % grown");
});

test("nothing moves by itself", async () => {
  await page.emulateMedia({ reducedMotion: "reduce" });
  await page.goto(small);
  await boxes("log").click();
  const moving = await page.evaluate(() => {
    const scrolling = getComputedStyle(document.documentElement).scrollBehavior;
    return [document.getAnimations().length, scrolling];
  });
  expect(moving).toEqual([0, "auto"]);
});

test("names of ten thousand letters, and such as mean harm, stay in their place", async () => {
  const long = `ns::${"very_".repeat(2000)}end`;
  const hostile = "</script><img src=x onerror=alert(1)>\u202egnp.exe\u0007";
  await page.setViewportSize({ width: 320, height: 568 });
  await page.goto(flame(folder, "long", graph(["main", 0, [long, 500], [hostile, 500]])));
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(320);
  const top = async () => (await page.locator("#graph").boundingBox()).y;
  const before = await top();
  const box = page.locator("#graph .box").last();
  await box.hover();
  // The graph stays under the pointer.
  expect(await top()).toBe(before);
  expect(await page.locator("#where").innerText()).toMatch(/^ns::very_.*….*end — \/usr\/bin\/server$/);
  expect((await box.getAttribute("title")).length).toBeLessThan(1200);
  await box.click();
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(320);
  await page.keyboard.press("Escape");
  const shown = "</script><img src=x onerror=alert(1)>\\u{202e}gnp.exe\\u{7}";
  expect(await page.locator("#graph .box").nth(2).getAttribute("title")).toContain(shown);
  expect(await page.locator("img").count()).toBe(0);
});

test("a stack of two thousand frames can be read and gone through", async () => {
  const depth = 2000;
  const data = withBoxes(
    Array.from({ length: depth }, (_, nth) => `f${nth}`),
    Array.from({ length: depth }, (_, nth) => [nth - 1, nth, nth === depth - 1 ? 1000 : 0, 1000]).flat(),
  );
  await page.goto(flame(folder, "deep", data));
  expect(await page.locator("#graph .box").count()).toBe(depth + 1);
  await boxes(`f${depth - 1}`).click();
  expect(await page.locator("#graph .box").count()).toBe(depth + 1);
  // What is pointed at is told where one can see it.
  expect(await said()).toContain(`f${depth - 1} — `);
  const line = await page.locator("#said").boundingBox();
  expect(line.y).toBeGreaterThanOrEqual(0);
  expect(line.y + line.height).toBeLessThan(900);
  await page.keyboard.press("ArrowUp");
  expect(await focused()).toBe(`f${depth - 2}`);
  for (let nth = 0; nth < 60; nth++) await page.keyboard.press("ArrowUp");
  const [box, over] = [await boxes(`f${depth - 62}`).boundingBox(), await page.locator("#said").boundingBox()];
  expect(box.y).toBeGreaterThanOrEqual(over.y + over.height);
  await page.keyboard.press("Escape");
  expect(await page.evaluate(() => scrollY)).toBeLessThan(400);
});

test("of 100,000 boxes the widest are drawn, and the others when one zooms", async () => {
  const data = large(100_000);
  const address = flame(folder, "large", data);
  const begin = performance.now();
  await page.goto(address);
  await page.locator("#graph .box").first().waitFor();
  const opened = performance.now();
  const number = await page.locator("#graph .box").count();
  expect(number).toBeGreaterThan(1000);
  expect(number).toBeLessThanOrEqual(MOST);
  const missing = Number((await page.locator("#narrow").innerText()).split(" boxes")[0].replaceAll("\u202f", ""));
  expect(missing).toBe(100_001 - number);
  // None is drawn without the one that it is on.
  const orphans = await page.evaluate(() => {
    const boxes = [...document.querySelectorAll("#graph .box")].map((one) => one.getBoundingClientRect());
    const rows = new Map();
    for (const box of boxes) rows.set(box.top, (rows.get(box.top) ?? []).concat(box));
    const tops = [...rows.keys()].sort((a, b) => a - b);
    return tops.slice(1).filter((top, nth) => {
      const below = rows.get(tops[nth]);
      return !rows.get(top).every((box) => below.some((on) => on.left <= box.left + 0.1 && box.right <= on.right + 0.1));
    }).length;
  });
  expect(orphans).toBe(0);
  const searched = performance.now();
  await page.getByLabel("Search").fill("function_7");
  expect(await page.locator("#found").innerText()).toMatch(/^\d+\.\d+ % of the samples$/);
  const zoomed = performance.now();
  await page.locator("#graph .box").nth(2).click();
  // All of one stack, but for the last ones, which are too narrow even so.
  expect(await page.locator("#graph .box").count()).toBeGreaterThan(990);
  const end = performance.now();
  const ms = (from, to) => `${Math.round(to - from)} ms`;
  console.log(`100,000 boxes, ${number} drawn: opened after ${ms(begin, opened)}, searched in ${ms(searched, zoomed)}, zoomed in ${ms(zoomed, end)}`);
});

test.skipIf(WHATIF === undefined)("`whatif flame` writes such a page", async (context) => {
  const [recorded, db, html] = ["perf.data", "db", "flame.html"].map((name) => join(folder.path, name));
  const loop = ["sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"];
  const perf = spawnSync("perf", ["record", "-q", "-e", "cpu-clock", "-F", "499", "-g", "-o", recorded, "--", ...loop], { encoding: "utf8" });
  if (perf.error || perf.status !== 0) context.skip(`perf cannot record here: ${perf.error ?? perf.stderr}`);
  command(WHATIF, ["import", recorded, "--db", db]);
  const said = command(WHATIF, ["flame", "--db", db, "-o", html]);
  await page.goto(pathToFileURL(html).href);
  const samples = Number(/^(\d+) samples/.exec(said)[1]);
  expect((await page.locator("#cost").innerText()).replaceAll("\u202f", "")).toBe(`${samples} samples`);
  expect(await page.locator("#graph .box").count()).toBeGreaterThan(2);
  // The process, and what it ran.
  expect(await page.locator("#graph .box").nth(1).getAttribute("aria-label")).toContain(" — a process: ");
  await page.locator("#graph .box").nth(2).click();
  expect(await page.locator("#where").innerText()).toContain(" — /");
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
