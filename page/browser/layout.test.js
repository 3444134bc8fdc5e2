// Nothing is printed over anything, sticks out or is too pale: on phones, on wide screens and on paper, in light and dark.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { start, visit } from "./browser.js";
import { contrast } from "./contrast.js";
import { overprint } from "./overprint.js";
import { fixture, Folder } from "./pages.js";

const WIDTHS = [320, 390, 768, 1440, 2560];
const NAMES = ["realistic", "unsettled", "plain", "hostile", "comparison"];

const folder = new Folder();
let browser;

beforeAll(async () => (browser = await start()));
afterAll(async () => {
  await browser.close();
  folder.remove();
});

for (const name of NAMES) {
  describe(name, () => {
    const address = folder.page(name, fixture(name));

    for (const width of WIDTHS) {
      test(`${width} pixels`, async () => {
        const { page, close, complaints } = await visit(browser, { viewport: { width, height: 900 } });
        for (const hash of ["", "#details=open"]) {
          await page.goto(address + hash);
          await page.locator("h1").waitFor();
          for (const fold of await page.locator(".fold").all()) await fold.click();
          const height = await page.evaluate(() => document.documentElement.scrollHeight);
          // What stays in sight while the page is scrolled must not cover anything.
          for (const top of [0, height / 3, height]) {
            await page.evaluate((top) => scrollTo(0, top), top);
            expect(await page.evaluate(overprint), `${hash} ${top}`).toEqual([]);
          }
          expect(await page.evaluate(() => document.documentElement.scrollWidth), hash).toBeLessThanOrEqual(width);
        }
        expect(complaints).toEqual([]);
        await close();
      });
    }

    test("paper", async () => {
      const { page, close } = await visit(browser, { viewport: { width: 690, height: 1000 } });
      await page.goto(address);
      await page.emulateMedia({ media: "print" });
      await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
      await page.waitForFunction(() => document.documentElement.dataset.theme === "light");
      expect(await page.evaluate(overprint)).toEqual([]);
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(690);
      // No box cuts anything off.
      const cut = await page.locator(".scroll, .grid, .listing, .warnings, th, td, .pieces div").evaluateAll((found) =>
        found.filter((box) => box.scrollWidth > box.clientWidth + 1 && box.clientWidth > 0).map((box) => `${box.tagName} ${box.className} ${box.textContent.slice(0, 40)}`),
      );
      expect(cut).toEqual([]);
      await close();
    });

    for (const colorScheme of ["light", "dark"]) {
      test(`${colorScheme} can be read`, async () => {
        const { page, close } = await visit(browser, { colorScheme });
        await page.goto(`${address}#details=open`);
        await page.locator("h1").waitFor();
        for (const opened of await page.locator(".fold, .warnings summary").all()) await opened.click();
        expect(await page.evaluate(contrast, ["body"])).toEqual([]);
        await close();
      });
    }
  });
}
