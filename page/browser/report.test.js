// A report, opened from disk: everything is there, and does what it says.

import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { abroad, addressSays, labels, start, visit } from "./browser.js";
import { contrast } from "./contrast.js";
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
  expect(asked.every((request) => request.startsWith("GET file:"))).toBe(true);
});

/** With the statistics open; the first screen is in first.test.js. */
const open = async (hash = "#") => {
  await page.goto(`${address}${hash}&details=open`);
  await page.locator("#regions").waitFor();
};

/** What the table should show for `requests`: the labels of the regions in the order of `compare`. */
const ranked = (compare) =>
  report.regions
    .map(({ name, kind, inclusive, file, line, share, mark, points: [, of] }) => ({
      // What is hot and worth nothing has a sign in front of it.
      sign: mark ? "○ " : "",
      label: `${name}${inclusive ? "+" : ""}${kind === "function" ? ` ${file.split("/").at(-1)}:${line}` : ""}`,
      share,
      of,
    }))
    .sort(compare)
    .map(({ sign, label }) => sign + label);

test("the sentence with its interval comes before the statistics", async () => {
  await open();
  expect(await page.locator(".sentence").innerText()).toMatch(/20\s% less time in hash \(hash\.c:80\) makes requests 13\.0\s%\s±\s0\.6\s% shorter/);
});

test("the table, the curve, the source, the reasons and the time are drawn", async () => {
  await open();
  expect(await page.title()).toBe("server – whatif");
  expect(await labels(page)).toContain("hash hash.c:80");
  expect(await page.locator(".curve path.band").count()).toBeGreaterThan(0);
  expect(await page.locator(".curve .baseline rect").count()).toBe(1);
  expect(await page.locator(".timeline line.change").count()).toBe(1);
  // There are dots: the canvas is not empty.
  const inked = await page.locator(".curve canvas").evaluate((canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return data.reduce((sum, value, nth) => sum + (nth % 4 === 3 && value > 0), 0);
  });
  expect(inked).toBeGreaterThan(200);
  expect(await page.locator(".listing").innerText()).toContain("0xcbf29ce484222325ull");
  expect(await page.locator(".evidence").innerText()).toMatch(/95\s% interval/);
  expect(await page.locator("#blocks tbody tr").count()).toBeGreaterThan(10);
});

test("a report in one piece is the same", async () => {
  await open();
  const seen = await page.locator("#page").innerText();
  await page.goto(`${folder.wholePage("whole", JSON.stringify(report))}#details=open`);
  await expect.poll(() => page.locator("#page").innerText()).toBe(seen);
});

test("what is damaged or missing is said to be", async () => {
  await page.goto(folder.wholePage("damaged", '{"version":'));
  await page.getByText("The data of this page is damaged").waitFor();
  await page.goto(folder.wholePage("nothing", "null"));
  await page.getByText("There is no report in this page").waitFor();
});

test("a single run has no band and looks like it", async () => {
  await open("#region=compress+gzip.c%3A640");
  expect(await page.locator(".curve .estimate.bare").count()).toBe(1);
  const bands = await page.locator(".curve path.band").evaluateAll((found) => found.map((band) => band.getAttribute("d")));
  expect(bands.join("")).toBe("");
  expect(await page.locator(".curve figcaption").innerText()).toContain("there is no band");
});

test("throughput and latency are apart", async () => {
  await open();
  const points = page.getByRole("navigation", { name: "Progress points" });
  expect(await points.getByRole("group").count()).toBe(2);
  await points.getByRole("button", { name: "lookup" }).click();
  await addressSays(page, "point", "latency:lookup");
  await expect.poll(() => page.locator(".ranking h3").innerText()).toBe("What makes the latency of lookup shorter");
  expect(await points.getByRole("button", { name: "jobs" }).isDisabled()).toBe(true);
});

test("a click on a head sorts, and the address says so; an address sorts, too", async () => {
  await open();
  await page.getByRole("button", { name: "share" }).click();
  await addressSays(page, "sort", "share");
  const byShare = ranked((a, b) => b.share - a.share);
  expect(await labels(page)).toEqual(byShare);
  expect(await page.locator("th[aria-sort=descending]").innerText()).toContain("share");
  await page.getByRole("button", { name: "share" }).click();
  await addressSays(page, "sort", "-share");
  expect(await labels(page)).toEqual([...byShare].reverse());
  await page.evaluate(() => (location.hash = "sort=region&details=open"));
  await expect.poll(() => labels(page)).toEqual(ranked((a, b) => (a.label < b.label ? -1 : 1)));
});

test("as it comes, the lower end of the interval orders the table, and what hurts is last", async () => {
  await open();
  const shown = await labels(page);
  const low = new Map(report.regions.map((region) => [region.name, region.points[1]]));
  const estimates = shown.map((label) => low.get(label.replace(/^○ /, "").replace(/\+? .*|\+$/, "")));
  const helping = estimates.filter(({ verdict }) => verdict === "helps").map(({ slope_lo }) => slope_lo);
  expect(helping.length).toBeGreaterThan(3);
  expect(helping).toEqual([...helping].sort((a, b) => b - a));
  expect(estimates.findIndex(({ verdict }) => verdict !== "helps")).toBe(helping.length);
  expect(estimates.filter(({ slope }) => slope !== null).at(-1).verdict).toBe("hurts");
});

test("what is typed into the filter is in the address, and the other way round", async () => {
  await open();
  await page.getByLabel("Filter").fill("server.c mem");
  expect(await labels(page)).toEqual(["memcpy server.c:235"]);
  await addressSays(page, "filter", "server.c mem");
  await page.evaluate(() => (location.hash = "filter=hash.c%3A8&details=open"));
  await expect.poll(() => page.getByLabel("Filter").inputValue()).toBe("hash.c:8");
  await expect.poll(async () => (await labels(page)).sort()).toEqual(["hash hash.c:80", "hash.c:84", "hash.c:85"]);
  await page.getByLabel("Filter").fill("");
  await page.waitForFunction(() => !location.hash.includes("filter"));
});

test("a link leads to what it was copied from", async () => {
  await open();
  await page.getByRole("button", { name: "lookup", exact: true }).click();
  await page.getByRole("button", { name: "experiments" }).first().click();
  await page.getByLabel("Filter").fill("h");
  await page.getByRole("row", { name: /parse_header/ }).click();
  await page.getByLabel(/axes of this region alone/).check();
  await addressSays(page, "axes", "own");
  const [link, seen] = [page.url(), await page.locator("main").innerText()];
  const other = await visit(browser);
  await other.page.goto(link);
  await expect.poll(() => other.page.locator("main").innerText()).toBe(seen);
  expect(seen).toContain("parse_header");
  expect(other.complaints).toEqual([]);
  await other.close();
});

test("everything is reached from the keyboard", async () => {
  await open();
  const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.textContent);
  await page.keyboard.press("/");
  expect(await focused()).toBe("filter");
  await page.keyboard.type("hash");
  await page.keyboard.press("Enter");
  expect(await focused()).toBe("regions");
  const shown = await labels(page);
  await page.keyboard.press("Home");
  await addressSays(page, "region", shown[0]);
  await page.keyboard.press("ArrowDown");
  await addressSays(page, "region", shown[1]);
  expect(await page.locator("#regions tr[aria-selected=true] td").first().innerText()).toBe(shown[1]);
  await page.keyboard.press("Enter");
  expect(await focused()).toBe("details");
  expect(await page.locator("#details h2").innerText()).toBe(shown[1]);
  await page.keyboard.press("Escape");
  expect(await focused()).toBe("regions");
  await page.keyboard.press("Escape");
  await addressSays(page, "region", "");
  expect(await page.locator("#details").innerText()).toContain("Choose a region");
  await page.keyboard.press("/");
  await page.keyboard.press("Escape");
  expect(await page.getByLabel("Filter").inputValue()).toBe("");
});

test("Tab goes through every control in the order of the page, and shows where it is", async () => {
  await open();
  await page.evaluate(() => document.querySelector(".fold").click());
  // What is folded away is reached when it is opened.
  const wanted = await page.evaluate(
    () => [...document.querySelectorAll("button:not(:disabled, [tabindex='-1']), input, summary, [tabindex='0']")].filter((one) => one.checkVisibility()).length,
  );
  const places = [];
  for (let nth = 0; nth < wanted; nth++) {
    await page.keyboard.press("Tab");
    places.push(
      await page.evaluate(() => {
        const now = document.activeElement;
        const all = [...document.querySelectorAll("*")];
        return { at: all.indexOf(now), name: now.tagName, outline: getComputedStyle(now).outlineStyle };
      }),
    );
  }
  expect(places.filter(({ name }) => name === "BODY")).toEqual([]);
  expect(places.map(({ at }) => at)).toEqual([...new Set(places.map(({ at }) => at))].sort((a, b) => a - b));
  expect(places.filter(({ outline }) => outline === "none")).toEqual([]);
});

test("boxes by place are as wide as their samples, and lead to their region", async () => {
  await open();
  const box = (name) => page.locator(".icicle button", { hasText: name }).first();
  const width = async (name) => (await box(name).boundingBox()).width;
  expect((await width("hash.c:85")) / (await width("server"))).toBeCloseTo(0.24, 2);
  expect((await width("log_line")) / (await width("server"))).toBeCloseTo(0.05, 2);
  expect(await box("hash.c:84").getAttribute("aria-label")).toMatch(/^hash\.c:84: 11\.0 % of the samples; helps, slope 0\.18 \(0\.02\)$/);
  // What helps is blue, what hurts orange, what nobody tried grey.
  const colour = (name) => box(name).evaluate((of) => {
    const canvas = document.createElement("canvas").getContext("2d");
    canvas.fillStyle = getComputedStyle(of).backgroundColor;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  });
  const [blue, orange, grey] = [await colour("hash.c:85"), await colour("hash.c:93"), await colour("hash.c")];
  expect(blue[2] - blue[0]).toBeGreaterThan(60);
  expect(orange[0] - orange[2]).toBeGreaterThan(60);
  expect(Math.max(...grey.slice(0, 3)) - Math.min(...grey.slice(0, 3))).toBeLessThan(10);
  await box("parse_header").click();
  await addressSays(page, "region", "parse_header http.c:211");
  expect(await page.locator("#details h2").innerText()).toBe("parse_header http.c:211");
  // A place with others inside fills the width; the address keeps it.
  await box("hash.c").click();
  await addressSays(page, "in", "/srv/src/hash.c");
  await expect.poll(async () => (await width("hash.c:85")) / (await width("server"))).toBeCloseTo(0.24 / (0.24 + 0.11 + 0.04 + 0.06), 2);
  await page.reload();
  expect((await width("hash.c:85")) / (await width("server"))).toBeGreaterThan(0.5);
  await page.getByRole("button", { name: "Show the whole program" }).click();
  await page.waitForFunction(() => !location.hash.includes("in="));
  // And by keys.
  await box("server").focus();
  for (const key of ["ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight", "Enter"]) await page.keyboard.press(key);
  await addressSays(page, "region", "hash.c:85");
  expect(await page.locator(".icicle [aria-pressed=true]").getAttribute("aria-label")).toMatch(/^hash\.c:85/);
});

test("left and right read the curve", async () => {
  await open("#region=hash+hash.c%3A80");
  await page.locator(".curve .plot").focus();
  await page.keyboard.press("ArrowRight");
  expect(await page.locator(".readout").innerText()).toMatch(/^10 % less time there: gain .* ± /);
  await page.keyboard.press("ArrowRight");
  expect(await page.locator(".readout").innerText()).toMatch(/^20 % less time there/);
});

test("a dot that is clicked is marked in the table of experiments", async () => {
  await open("#region=hash+hash.c%3A80&axes=own");
  await page.locator("#blocks tbody tr:not(.gap)").nth(3).click();
  const ring = page.locator(".curve .pointed");
  await ring.scrollIntoViewIfNeeded();
  const box = await ring.boundingBox();
  await page.keyboard.press("Escape");
  await expect.poll(() => ring.count()).toBe(0);
  await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
  await expect.poll(() => page.locator("#blocks tr[aria-selected=true]").count()).toBe(1);
});

for (const theme of ["light", "dark"]) {
  test(`${theme} is as the system says, and can be read`, async () => {
    await page.emulateMedia({ colorScheme: theme });
    await open();
    expect(await page.evaluate(() => document.documentElement.dataset.theme)).toBe(theme);
    const paper = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    expect(paper).toBe(theme === "light" ? "rgb(255, 255, 255)" : "rgb(21, 24, 28)");
    const pale = await page.evaluate(contrast, ["h1", "h2", "p", "td", "th", "li", "dd", "dt", "button", "label", "legend", "output", "summary", "span", "code", "small", "strong", "svg text"]);
    expect(pale).toEqual([]);
  });
}

test("the button changes the colours, and the address keeps them", async () => {
  await page.emulateMedia({ colorScheme: "light" });
  await open();
  await page.getByRole("button", { name: /^Colours/ }).click();
  await addressSays(page, "theme", "light");
  await page.getByRole("button", { name: /^Colours/ }).click();
  await addressSays(page, "theme", "dark");
  expect(await page.evaluate(() => document.documentElement.dataset.theme)).toBe("dark");
  await page.reload();
  expect(await page.evaluate(() => document.documentElement.dataset.theme)).toBe("dark");
});

test("on paper there is everything to read and nothing to click", async () => {
  await page.emulateMedia({ colorScheme: "dark" });
  await open();
  const paper = await page.pdf({ format: "A4", printBackground: false });
  expect(paper.subarray(0, 4).toString()).toBe("%PDF");
  expect(paper.toString("latin1").match(/\/Type ?\/Page\b/g).length).toBeGreaterThan(1);
  // What the page does before it is printed, seen on the screen: as wide as a sheet of A4 between its margins.
  await page.setViewportSize({ width: 690, height: 1000 });
  await page.emulateMedia({ media: "print" });
  await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  await expect.poll(() => labels(page)).toHaveLength(report.regions.length);
  expect(await page.evaluate(() => document.documentElement.dataset.theme)).toBe("light");
  for (const control of [".filter", ".keys", ".theme", "#details header button", ".slider input", ".command button"]) {
    expect(await page.locator(control).first().isVisible(), control).toBe(false);
  }
  for (const text of ["h1", ".brings", ".badge", ".warnings ul", "#pieces", ".reasons", "#regions", ".curve svg", ".listing", ".evidence", ".icicle", ".timeline svg", ".notes"]) {
    expect(await page.locator(text).first().isVisible(), text).toBe(true);
  }
  // The rows that the screen shows when asked are printed, too.
  expect(await page.locator("#pieces > li").count()).toBe(report.answer.points[0].pieces.length);
  const cut = await page.locator(".grid, .listing, .warnings, .scroll, .grid th, .grid td, .pieces div").evaluateAll((found) =>
    found
      .filter((box) => box.scrollHeight > box.clientHeight + 1 || box.scrollWidth > box.clientWidth + 1)
      .map((box) => `${box.tagName} ${box.className} ${box.textContent.slice(0, 40)}`),
  );
  expect(cut).toEqual([]);
  await page.evaluate(() => dispatchEvent(new Event("afterprint")));
  expect(await page.evaluate(() => document.documentElement.dataset.theme)).toBe("dark");
});

test("a narrow window scrolls tables, not the page", async () => {
  await page.setViewportSize({ width: 400, height: 800 });
  await open();
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(400);
});
