// What `whatif open` serves and `whatif export` writes, of a real program: what Rust said is what the page shows, and
// nobody else sees it.

import { spawn } from "node:child_process";
import { createServer, request } from "node:http";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { abroad, command, labels, start, visit } from "./browser.js";
import { Folder } from "./pages.js";
import { record, WHATIF } from "./recorded.js";

/** How the table says what cost and worth say together. */
const SIGNS = { "hot-but-does-not-matter": "○", "matters-but-is-not-hot": "◆" };

describe.skipIf(WHATIF === undefined)("a real recording", () => {
  const folder = new Folder();
  let browser;
  let recording;
  let report;
  let server;
  let address;

  beforeAll(async () => {
    browser = await start();
    recording = record(folder.path, "mutex");
    report = JSON.parse(command(WHATIF, ["report", "--json", recording]));
    server = spawn(WHATIF, ["open", "--no-browser", recording], { stdio: ["ignore", "pipe", "ignore"] });
    for await (const line of createInterface(server.stdout)) {
      address = line;
      break;
    }
  });
  afterAll(async () => {
    server?.kill("SIGINT");
    await browser?.close();
    folder.remove();
  });

  /** Draws the page at `address`, and everything that it should hold. */
  async function reads(address) {
    const visitor = await visit(browser);
    const { page } = visitor;
    await page.goto(`${address}#details=open`);
    await page.locator("#regions").waitFor();
    const spoken = (text) => text.replace(/[\s`]+/g, " ").replace(/ ([,.;:])/g, "$1").trim();
    expect(spoken(await page.locator("#statistics > .sentence").innerText())).toContain(spoken(report.sentence));
    // On a busy machine, a short recording may have no answer yet.
    const [{ headline, brings, badge, pieces }] = report.answer.points;
    expect(spoken(await page.locator("h1").innerText())).toBe(spoken(headline ?? report.sentence));
    const said = spoken(await page.locator("main").innerText());
    const next = report.answer.next.filter(({ step }) => step !== "open").map(({ command }) => command);
    for (const text of [brings, badge.words, badge.cause, ...next]) {
      if (text !== null) expect(said).toContain(spoken(text));
    }
    const shown = await page.locator("#pieces > li .name").evaluateAll((names) => names.map((name) => name.textContent));
    expect(shown).toEqual(pieces.slice(0, 10).map(({ label }) => label));
    expect(report.regions.length).toBeGreaterThanOrEqual(2);
    expect((await labels(page)).sort()).toEqual(
      report.regions
        .map(({ name, kind, inclusive, line, mark }) => {
          const place = kind === "function" ? ` mutex.c:${line}` : "";
          return `${mark ? `${SIGNS[mark]} ` : ""}${name}${inclusive ? "+" : ""}${place}`;
        })
        .sort(),
    );
    const [first] = report.regions;
    await page.locator("#regions tbody tr").filter({ hasText: first.name }).first().click();
    expect(await page.locator(".listing").innerText()).toContain("REGION static void A(void) { WORK(a); }");
    const [{ blocks, disturbed_blocks }] = first.points;
    expect(await page.locator(".evidence").innerText()).toContain(`${blocks} experiment`);
    // Those that were left out for other reasons are listed, too.
    expect(Number(await page.locator("#blocks").getAttribute("aria-rowcount"))).toBeGreaterThan(blocks + disturbed_blocks);
    expect(await page.locator(".notes").innerText()).toContain("scale=0.1");
    expect(visitor.complaints).toEqual([]);
    expect(abroad(visitor.asked)).toEqual([]);
    await visitor.close();
    return visitor.asked;
  }

  test("`whatif open` shows it", async () => {
    expect(address).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/\?token=[0-9a-f]{32}$/);
    const asked = await reads(address);
    // The source went to the browser in the page, and nothing came back.
    expect(asked).toEqual([`GET ${address}`]);
  });

  test("`whatif export` writes it", async () => {
    const file = join(folder.path, "mutex.html");
    command(WHATIF, ["export", "--format", "html", "-o", file, recording]);
    const asked = await reads(pathToFileURL(file).href);
    expect(asked).toEqual([`GET ${pathToFileURL(file).href}`]);
  });

  /** The status of an answer to `headers`, and its headers. */
  const ask = (url, headers = {}) =>
    new Promise((done, failed) => {
      request(url, { headers }, (answer) => {
        answer.resume();
        done({ status: answer.statusCode, headers: answer.headers });
      })
        .on("error", failed)
        .end();
    });

  test("nobody sees it without the token, or under another name", async () => {
    const { origin, host } = new URL(address);
    expect((await ask(address)).status).toBe(200);
    expect((await ask(`${origin}/`)).status).toBe(403);
    expect((await ask(`${origin}/?token=${"0".repeat(32)}`)).status).toBe(403);
    expect((await ask(address, { Host: "evil.example" })).status).toBe(421);
    expect((await ask(address, { Host: host.replace("127.0.0.1", "localhost") })).status).toBe(421);
  });

  test("no other origin reads it, and none frames it", async () => {
    const other = createServer((_, answer) => answer.writeHead(200, { "Content-Type": "text/html" }).end("<title>other</title>"));
    await new Promise((done) => other.listen(0, "127.0.0.1", done));
    const visitor = await visit(browser);
    await visitor.page.goto(`http://127.0.0.1:${other.address().port}/`);
    const seen = await visitor.page.evaluate(async (address) => {
      const read = (mode) => fetch(address, { mode }).then((answer) => answer.type, (error) => error.name);
      const frame = document.createElement("iframe");
      frame.src = address;
      const loaded = new Promise((done) => frame.addEventListener("load", done));
      document.body.append(frame);
      await loaded;
      let framed;
      try {
        framed = frame.contentDocument ? "read" : "opaque";
      } catch (error) {
        framed = error.name;
      }
      const script = document.createElement("script");
      script.src = address;
      const included = new Promise((done) => {
        script.onload = () => done("loaded");
        script.onerror = () => done("refused");
      });
      document.body.append(script);
      return { cors: await read("cors"), opaque: await read("no-cors"), framed, included: await included };
    }, address);
    expect(seen).toEqual({ cors: "TypeError", opaque: "TypeError", framed: "opaque", included: "refused" });
    // What stands in the frame is the browser's own page about a refusal.
    const inside = await visitor.page.frames()[1].evaluate(() => document.documentElement.textContent);
    expect(inside).not.toContain("mutex");
    await visitor.close();
    other.closeAllConnections();
    await new Promise((done) => other.close(done));
  });
});
