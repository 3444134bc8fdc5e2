// `whatif run --live` of a real program: numbers that come while it runs, a region that is pinned, and the end.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { abroad, ran, start, visit } from "./browser.js";
import { Folder } from "./pages.js";
import { built, WHATIF } from "./recorded.js";

describe.skipIf(WHATIF === undefined)("a program that runs", () => {
  const folder = new Folder();
  let browser;
  let whatif;

  beforeAll(async () => (browser = await start()));
  afterAll(async () => {
    whatif?.kill("SIGKILL");
    await browser?.close();
    folder.remove();
  });

  test("is shown until its end, and after it", async () => {
    const program = built(folder.path);
    const words = ["run", "--live", "--no-browser", "-o", `${folder.path}/live.db`, "--region", "A", "--region", "B", "--duration", "30"];
    whatif = spawn(WHATIF, [...words, "--", program, "scale=0.1", "seconds=9"], { stdio: ["ignore", "ignore", "pipe"] });
    let address;
    const lines = createInterface(whatif.stderr);
    for await (const line of lines) {
      address = line.match(/http:\S+/)?.[0];
      if (address) break;
    }
    whatif.stderr.resume();
    const visitor = await visit(browser);
    const { page } = visitor;
    await page.goto(`${address}#details=open`);
    await page.getByText("● live").waitFor();
    const windows = () => page.locator("#regions tbody tr", { hasText: "A+" }).first().innerText();
    const before = await windows();
    await page.waitForFunction(
      (before) => [...document.querySelectorAll("#regions tbody tr")].some((row) => row.innerText.startsWith("A+") && row.innerText !== before),
      before,
    );
    await page.locator("#regions tbody tr", { hasText: "A+" }).first().click();
    await page.getByRole("button", { name: "Pin" }).click();
    await page.getByRole("button", { name: "Unpin" }).click();
    await page.getByRole("button", { name: "Pin", exact: true }).click();
    await page.getByRole("button", { name: "Unpin" }).waitFor();
    // The program ends, and what is known stays: an answer or none, as this machine gave it.
    await page.waitForFunction(() => !document.body.innerText.includes("● live"));
    expect(await page.locator("h1").innerText()).not.toBe("");
    expect(await page.locator("#regions tbody tr", { hasText: "A+" }).count()).toBeGreaterThan(0);
    expect(abroad(visitor.asked)).toEqual([]);
    expect(visitor.complaints).toEqual([]);
    await visitor.close();
    const ended = once(whatif, "exit");
    whatif.kill("SIGINT");
    expect(ran((await ended)[0])).toBe(true);
  });
});
