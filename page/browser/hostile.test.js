// A report that means harm: names and sources are text, whatever they hold.

import { afterAll, beforeAll, expect, test } from "vitest";
import { abroad, labels, start, visit } from "./browser.js";
import { fixture, Folder } from "./pages.js";

const folder = new Folder();
const report = fixture("hostile");
/** Characters that hide or reorder what stands around them, but for tabs and line ends of the page itself. */
const TRICKS = "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff]";
let browser;
let visitor;
let page;

beforeAll(async () => {
  browser = await start();
  visitor = await visit(browser);
  page = visitor.page;
  await page.goto(`${folder.page("hostile", report)}#details=open`);
  await page.locator("#regions").waitFor();
});
afterAll(async () => {
  await browser.close();
  folder.remove();
});

test("every region can be looked at, and nothing of it becomes an element", async () => {
  const elements = () =>
    page.evaluate(() => {
      const made = "img, iframe, object, embed, link, base, form, a, b, script:not([type]), script[src], svg[onload], [onerror], [onload], [style*=url]";
      return [...document.querySelectorAll(made)].map((element) => element.outerHTML.slice(0, 60));
    });
  // The page's own script is all there is.
  expect(await elements()).toHaveLength(1);
  const rows = page.locator("#regions tbody tr:not(.gap)");
  const number = await rows.count();
  expect(number).toBe(report.regions.length);
  for (let nth = 0; nth < number; nth++) {
    await rows.nth(nth).click();
    await expect.poll(() => rows.nth(nth).getAttribute("aria-selected")).toBe("true");
    for (const more of await page.locator("#details .more").all()) await more.click();
    const seen = await page.evaluate((tricks) => document.getElementById("page").innerText.match(new RegExp(tricks, "gu")), TRICKS);
    expect(seen).toBeNull();
  }
  expect(await elements()).toHaveLength(1);
  expect(visitor.complaints).toEqual([]);
  expect(abroad(visitor.asked)).toEqual([]);
});

test("names are shown as what they are", async () => {
  const shown = await labels(page);
  expect(shown.some((label) => label.startsWith("</script><img src=x onerror=alert(1)>"))).toBe(true);
  expect(shown.some((label) => label.includes("evil\\u{202e}gnp.exe\\u{2066}hidden\\u{2069}"))).toBe(true);
  expect(shown.some((label) => label.includes("größe 大きさ שלום"))).toBe(true);
  expect(await page.locator("h1").innerText()).toContain("</script>");
  expect(await page.locator("#whatif-data").count()).toBe(1);
});

test("each of them has an address of its own, and is found again by it", async () => {
  // A visit of its own: after the last click of another test the address would still change.
  const { page, close } = await visit(browser);
  await page.goto(`${folder.page("hostile", report)}#details=open`);
  const rows = page.locator("#regions tbody tr:not(.gap)");
  const links = new Set();
  for (let nth = 0; nth < report.regions.length; nth++) {
    const before = await page.evaluate(() => location.href);
    await rows.nth(nth).click();
    await page.waitForFunction((before) => location.href !== before, before);
    links.add(await page.evaluate(() => location.href));
  }
  expect(links.size).toBe(report.regions.length);
  for (const link of [[...links].at(0), [...links].at(-1)]) {
    const other = await visit(browser);
    await other.page.goto(link);
    const at = await other.page.locator("#regions tr[aria-selected=true]").getAttribute("aria-rowindex");
    expect(Number(at)).toBe([...links].indexOf(link) + 2);
    await other.close();
  }
  await close();
});

test("lines of ten thousand letters do not make the page wider", async () => {
  expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
  const tall = await page.locator("#regions tbody tr:not(.gap)").evaluateAll((rows) => Math.max(...rows.map((row) => row.clientHeight)));
  expect(tall).toBe(28);
});

test("a script that got into the page would not run", async () => {
  const refused = page.waitForEvent("console", (message) => /Content Security Policy|TrustedScript/.test(message.text()));
  await page.evaluate(() => {
    const script = document.createElement("script");
    script.append("globalThis.harm = 1");
    document.body.append(script);
  });
  await refused;
  expect(await page.evaluate(() => "harm" in globalThis)).toBe(false);
  // Nor would it get out.
  const sent = await page.evaluate(() => fetch("http://127.0.0.1:9/").then(() => "sent", (error) => error.name));
  expect(sent).toBe("TypeError");
  expect(abroad(visitor.asked)).toEqual([]);
});
