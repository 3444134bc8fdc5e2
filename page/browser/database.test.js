// The page of a database in a browser: a span is brushed and another one compared, by mouse and by keyboard; what was not
// collected is seen; nothing is printed over anything.

import { spawn, spawnSync } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { abroad, addressSays, command, start, visit } from "./browser.js";
import { contrast } from "./contrast.js";
import { alone, GAP, START, Whatif } from "./databases.js";
import { overprint } from "./overprint.js";
import { Folder } from "./pages.js";
import { WHATIF } from "./recorded.js";

let browser;
const folder = new Folder();

beforeAll(async () => (browser = await start()));
afterAll(async () => {
  await browser.close();
  folder.remove();
});

const MAP = ".map-plot";

/** Drags from the middle of one column to that of another. */
async function drag(page, from, to, options = {}) {
  const box = await page.locator(MAP).boundingBox();
  const at = (column) => box.x + ((column + 0.5) * box.width) / 20;
  const y = box.y + 30;
  if (options.alt) await page.keyboard.down("Alt");
  await page.mouse.move(at(from), y);
  await page.mouse.down();
  await page.mouse.move(at((from + to) / 2), y);
  await page.mouse.move(at(to), y);
  await page.mouse.up();
  if (options.alt) await page.keyboard.up("Alt");
}

describe("served", () => {
  let whatif;
  let visitor;
  let page;

  beforeEach(async () => {
    whatif = new Whatif();
    await whatif.listen();
    visitor = await visit(browser, { viewport: { width: 1440, height: 1000 } });
    page = visitor.page;
    await page.goto(whatif.address);
    await page.locator(".panel .call").first().waitFor();
  });
  afterEach(async () => {
    expect(abroad(visitor.asked)).toEqual([]);
    expect(visitor.complaints.filter((text) => !text.includes("422"))).toEqual([]);
    await visitor.close();
    await whatif.close();
  });

  const minute = (column) => START + 60 * column;
  /** Waits until this is the last question below the map. */
  const askedFor = async (text) => expect.poll(() => whatif.asked.filter((one) => !one.includes("/api/heat")).at(-1)).toBe(text);

  test("a span is brushed, another one compared, and 'back' leads back", async () => {
    expect(await page.locator("h1").innerText()).toBe("CPU time on build-7");
    await askedFor("GET /api/span?");
    await drag(page, 2, 5);
    await askedFor(`GET /api/span?since=${minute(2)}&until=${minute(6)}`);
    await addressSays(page, "a", `${minute(2)}..${minute(6)}`);
    expect(await page.locator(".chosen h2").innerText()).toContain("(4 min)");
    expect(await page.locator(".map-brush.A").count()).toBe(1);
    expect(await page.locator(".next code").first().innerText()).toContain(`--since ${minute(2)} --until ${minute(6)}`);

    // From right to left, for the second one.
    await page.getByRole("button", { name: "Compare with a second span" }).click();
    await drag(page, 18, 15);
    await askedFor(`GET /api/diff?since1=${minute(2)}&until1=${minute(6)}&since2=${minute(15)}&until2=${minute(19)}`);
    await page.locator(".panel-table h3", { hasText: "What is different" }).waitFor();
    const cells = page.locator("#functions tbody tr").first().locator("td");
    expect(await cells.allInnerTexts()).toEqual(["+20.0 %", "± 2.0", "serve::answer server", "10.0 %", "30.0 %", "▲ 0.42"]);
    expect(await page.locator(".call.worse").count()).toBeGreaterThan(0);
    expect(await page.locator(".call.better[data-nth]").count()).toBeGreaterThan(0);
    expect(await page.locator(".call.worse", { hasText: "+20.0 % serve::answer" }).count()).toBe(1);
    await page.getByRole("button", { name: "Swap A and B" }).click();
    await askedFor(`GET /api/diff?since1=${minute(15)}&until1=${minute(19)}&since2=${minute(2)}&until2=${minute(6)}`);
    await addressSays(page, "b", `${minute(2)}..${minute(6)}`);

    await page.goBack();
    await addressSays(page, "b", `${minute(15)}..${minute(19)}`);
    await page.goBack();
    await page.locator(".panel-table h3", { hasText: "What costs most" }).waitFor();
    // The address alone shows the same.
    const address = page.url();
    expect(address).toContain(`a=${minute(2)}..${minute(6)}`);
    await page.goto("about:blank");
    await page.goto(address);
    await page.locator(".map-brush.A").waitFor();
    await askedFor(`GET /api/span?since=${minute(2)}&until=${minute(6)}`);
  });

  test("with Alt held down the second span is dragged at once", async () => {
    await drag(page, 0, 3);
    await addressSays(page, "a", `${minute(0)}..${minute(4)}`);
    await drag(page, 16, 19, { alt: true });
    await askedFor(`GET /api/diff?since1=${minute(0)}&until1=${minute(4)}&since2=${minute(16)}&until2=${minute(20)}`);
    await page.getByRole("button", { name: "Leave B out" }).click();
    await askedFor(`GET /api/span?since=${minute(0)}&until=${minute(4)}`);
    await page.getByRole("button", { name: "Zoom in to A" }).click();
    await expect.poll(() => whatif.asked.filter((text) => text.includes("/api/heat")).at(-1)).toContain(`since=${minute(0)}&until=${minute(4)}`);
    await page.getByRole("button", { name: "Show all time" }).click();
    await addressSays(page, "since", null);
  });

  test("keys that come before the map is drawn again are not lost", async () => {
    await page.locator(MAP).focus();
    await page.locator(MAP).evaluate((map) => {
      for (const key of ["ArrowRight", "ArrowDown", "ArrowRight"]) map.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    });
    await expect.poll(() => page.locator("#map-said").innerText()).toMatch(/^compiler, 2026-09-21 14:01/);
  });

  test("the keyboard does all of it", async () => {
    await page.locator(MAP).focus();
    for (const key of ["ArrowRight", "ArrowDown", "ArrowRight"]) await page.keyboard.press(key);
    await expect.poll(() => page.locator("#map-said").innerText()).toMatch(/^compiler, .*: 0\.\d+ cores \[.* … .*\], \d+ samples$/);
    for (let nth = 0; nth < 3; nth++) await page.keyboard.press("Shift+ArrowRight");
    await page.keyboard.press("Enter");
    await askedFor(`GET /api/span?since=${minute(1)}&until=${minute(5)}`);
    await page.keyboard.press("End");
    for (let nth = 0; nth < 2; nth++) await page.keyboard.press("Alt+Shift+ArrowLeft");
    await page.keyboard.press("Enter");
    await askedFor(`GET /api/diff?since1=${minute(1)}&until1=${minute(5)}&since2=${minute(17)}&until2=${minute(20)}`);
    await page.keyboard.press("Escape");
    await askedFor(`GET /api/span?since=${minute(1)}&until=${minute(5)}`);
    await page.keyboard.press("Escape");
    await askedFor("GET /api/span?");
    // Everything else is reached by Tab.
    const reached = new Set();
    for (let nth = 0; nth < 40; nth++) {
      await page.keyboard.press("Tab");
      reached.add(await page.evaluate(() => document.activeElement.id || document.activeElement.className || document.activeElement.tagName));
    }
    expect([...reached]).toEqual(expect.arrayContaining(["search", "functions"]));
    await page.keyboard.press("/");
    expect(await page.evaluate(() => document.activeElement.id)).toBe("search");
    await page.keyboard.type("memcpy");
    await expect.poll(() => page.locator(".call.match").count()).toBe(1);
    expect(await page.locator("#functions tbody tr:not(.gap)").count()).toBe(1);
  });

  test("what was not collected is neither nothing nor little", async () => {
    expect(await page.locator(".map-gap").innerText()).toBe("not collected");
    expect(await page.locator(".gaps summary").innerText()).toBe("1 gap, 3.3 min in all, in which nothing was collected");
    const box = await page.locator(MAP).boundingBox();
    const column = (nth) => box.x + ((nth + 0.5) * box.width) / 20;
    await page.mouse.move(column(11), box.y + 5);
    expect(await page.locator("#map-said").innerText()).toContain("not collected");
    // 50 of its seconds were.
    await page.mouse.move(column(9), box.y + 5);
    expect(await page.locator("#map-said").innerText()).toContain("nothing was collected for 10 s of 1 min");
    await page.mouse.move(column(3), box.y + 4 * 22 + 5);
    expect(await page.locator("#map-said").innerText()).toMatch(/backup, .*: 0 cores \[0 … .*\], 0 samples/);
    const colours = await page.locator(`${MAP} canvas`).evaluate(
      (canvas, { gap, start }) => {
        const pen = canvas.getContext("2d");
        const row = (4.5 * canvas.height) / 8;
        const { data } = pen.getImageData(0, Math.round(row), canvas.width, 1);
        const seen = (from, to) => {
          const [left, right] = [from, to].map((time) => Math.round(((time - start) / 1200) * canvas.width));
          return new Set(Array.from({ length: right - left - 4 }, (_, nth) => data.slice(4 * (left + 2 + nth), 4 * (left + 2 + nth) + 3).join(" "))).size;
        };
        return { gap: seen(...gap), zero: seen(start, start + 500) };
      },
      { gap: GAP, start: START },
    );
    expect(colours.zero).toBe(1);
    expect(colours.gap).toBeGreaterThan(1);
  });

  test("rows restrict, patterns restrict, and both can be left out", async () => {
    await page.locator(".map-names button").nth(1).click();
    await expect.poll(() => whatif.asked.at(-1)).toContain("process=compiler");
    expect(await page.locator(".restrictions").innerText()).toContain("process compiler");
    await page.getByRole("button", { name: "Leave process out" }).click();
    await expect.poll(() => whatif.asked.at(-1)).not.toContain("process=");
    await page.locator(".restrict select").selectOption("image");
    await page.locator(".restrict input").fill("libc*");
    await page.locator(".restrict input").press("Enter");
    await expect.poll(() => whatif.asked.at(-1)).toContain("image=libc*");
    await page.locator("#by").selectOption("function");
    await expect.poll(() => whatif.asked.filter((text) => text.includes("/api/heat")).at(-1)).toContain("by=function");
  });

  test("the page tells why there is no answer, and asks for the next one", async () => {
    whatif.refuse = "there are no samples of process x\n  choose another time";
    await drag(page, 2, 5);
    await page.locator(".refused").waitFor();
    expect(await page.locator(".refused").innerText()).toBe("there are no samples of process x\nchoose another time");
    whatif.refuse = null;
    await drag(page, 3, 6);
    await page.locator(".panel .call").first().waitFor();
    expect(await page.locator(".refused").count()).toBe(0);
  });
});

describe.skipIf(WHATIF === undefined)("a real database", () => {
  test("the page says what the terminal says, of all of it and of a span", async (context) => {
    const db = join(folder.path, "db");
    const busy = spawn(process.execPath, ["-e", "const end = Date.now() + 3500; while (Date.now() < end);"]);
    const words = ["collect", "--db", db, "--duration", "3", "--interval", "1s", "--resolution", "1s", "--quiet"];
    const { status, stderr } = spawnSync(WHATIF, words, { encoding: "utf8" });
    busy.kill();
    if (status !== 0) return context.skip(`nothing could be collected: ${stderr}`);
    const server = spawn(WHATIF, ["open", "--no-browser", "--db", db], { stdio: ["ignore", "pipe", "ignore"] });
    const visitor = await visit(browser);
    try {
      let address;
      for await (const line of createInterface(server.stdout)) {
        address = line;
        break;
      }
      const { page } = visitor;
      await page.goto(address);
      const says = async (words) => {
        const top = JSON.parse(command(WHATIF, ["top", "--json", "--db", db, ...words]));
        const account = `${String(top.heading.samples).replace(/\B(?=(\d{3})+$)/g, "\u202f")} samples`;
        await page.locator(".panel .account", { hasText: account }).waitFor();
        const [first] = top.rows;
        await expect.poll(() => page.locator("#functions tbody tr").first().locator("td").nth(0).innerText()).toBe(`${(100 * first.share.value).toFixed(1)} %`);
      };
      await says([]);
      await page.locator(MAP).focus();
      for (const key of ["ArrowRight", "Shift+ArrowRight", "Enter"]) await page.keyboard.press(key);
      await page.waitForFunction(() => location.hash.includes("a="));
      const [from, to] = new URLSearchParams(new URL(page.url()).hash.slice(1)).get("a").split("..").map((at) => new Date(1000 * at).toISOString());
      await says(["--since", from, "--until", to]);
      expect(visitor.complaints).toEqual([]);
    } finally {
      server.kill("SIGINT");
      await visitor.close();
    }
  });
});

describe("as a file", () => {
  const address = folder.database("database", alone());

  test("the map, the table and the graph are there, and nothing is asked", async () => {
    const { page, close, complaints, asked } = await visit(browser);
    await page.goto(address);
    await page.locator(".panel .call").first().waitFor();
    await page.locator("#by").selectOption("function");
    expect(await page.locator(".map-names .verdict").allInnerTexts()).toEqual(["▲", "▼"]);
    await drag(page, 2, 5);
    expect(await page.locator(".map-brush").count()).toBe(0);
    expect(await page.locator("img").count()).toBe(0);
    expect([complaints, abroad(asked)]).toEqual([[], []]);
    await close();
  });

  for (const width of [320, 390, 768, 1440, 2560]) {
    test(`${width} pixels`, async () => {
      const { page, close, complaints } = await visit(browser, { viewport: { width, height: 900 } });
      await page.goto(address);
      await page.locator(".panel .call").first().waitFor();
      const height = await page.evaluate(() => document.documentElement.scrollHeight);
      for (const top of [0, height / 3, height]) {
        await page.evaluate((top) => scrollTo(0, top), top);
        expect(await page.evaluate(overprint), `${top}`).toEqual([]);
      }
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
      expect(complaints).toEqual([]);
      await close();
    });
  }

  test("eight rows, and what their time is made of, are in the first screen", async () => {
    const { page, close } = await visit(browser, { viewport: { width: 1440, height: 900 } });
    await page.goto(address);
    await page.locator(".panel .call").first().waitFor();
    expect(await page.locator(".map-names li").count()).toBe(8);
    for (const part of [".panel-flame .calls", "#functions tbody tr:nth-of-type(4)"]) {
      const box = await page.locator(part).boundingBox();
      expect(box.y + box.height, part).toBeLessThan(900);
    }
    for (const select of await page.getByRole("combobox").all()) expect(await select.evaluate((of) => of.labels.length)).toBe(1);
    const more = page.getByRole("button", { name: "Show 3 more rows" });
    await more.click();
    expect(await page.locator(".map-names li").count()).toBe(11);
    await page.getByRole("button", { name: "Show 8 rows" }).click();
    expect(await page.locator(".map-names li").count()).toBe(8);
    await close();
  });

  test("paper", async () => {
    const { page, close } = await visit(browser, { viewport: { width: 690, height: 1000 } });
    await page.goto(address);
    await page.locator(".panel .call").first().waitFor();
    await page.emulateMedia({ media: "print" });
    await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
    await page.waitForFunction(() => document.documentElement.dataset.theme === "light");
    expect(await page.evaluate(overprint)).toEqual([]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(690);
    await close();
  });

  for (const colorScheme of ["light", "dark"]) {
    test(`${colorScheme} can be read`, async () => {
      const { page, close } = await visit(browser, { colorScheme });
      await page.goto(address);
      await page.locator(".panel .call").first().waitFor();
      for (const opened of await page.locator(".warnings summary, .gaps summary").all()) await opened.click();
      expect(await page.evaluate(contrast, ["body"])).toEqual([]);
      await close();
    });
  }
});
