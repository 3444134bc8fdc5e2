// A program that still runs: a server is played that speaks the protocol of src/source.ts.

import { createServer } from "node:http";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { abroad, addressSays, labels, start, visit } from "./browser.js";
import { fixture, PAGE } from "./pages.js";

const QUERY = "?token=7";

/** Serves the page without data, a report, and the events that a test sends. */
class Whatif {
  report = fixture("realistic");
  asked = [];
  streams = new Set();
  pinned = [];
  refuse = false;
  #server = createServer((request, response) => this.#answer(request, response));

  async listen() {
    await new Promise((done) => this.#server.listen(0, "127.0.0.1", done));
    this.origin = `http://127.0.0.1:${this.#server.address().port}`;
  }

  #answer({ method, url }, response) {
    this.asked.push(`${method} ${url}`);
    const { pathname, searchParams } = new URL(url, "http://x");
    const say = (status, type, text) => response.writeHead(status, { "Content-Type": type, "Cache-Control": "no-store" }).end(text);
    if (searchParams.get("token") !== "7") return say(403, "text/plain", "no");
    if (method === "GET" && pathname === "/") return say(200, "text/html; charset=utf-8", PAGE);
    if (method === "GET" && pathname === "/data.json") return say(200, "application/json", JSON.stringify(this.report));
    if (method === "POST" && pathname === "/pin") {
      if (this.refuse) return say(409, "text/plain", "no");
      this.pinned.push(searchParams.get("region"));
      return say(200, "text/plain", "");
    }
    if (method !== "GET" || pathname !== "/events") return say(404, "text/plain", "nothing");
    response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
    // Whoever loses the connection tries again at once.
    response.write("retry: 50\n\n");
    this.streams.add(response);
    response.on("close", () => this.streams.delete(response));
  }

  send(value) {
    for (const stream of this.streams) stream.write(`data: ${JSON.stringify(value)}\n\n`);
  }

  drop() {
    for (const stream of this.streams) stream.destroy();
  }

  close() {
    this.drop();
    return new Promise((done) => this.#server.close(done).closeAllConnections());
  }
}

let browser;
let whatif;
let visitor;
let page;

beforeAll(async () => (browser = await start()));
afterAll(() => browser.close());
beforeEach(async () => {
  whatif = new Whatif();
  await whatif.listen();
  visitor = await visit(browser);
  page = visitor.page;
});
afterEach(async () => {
  expect(abroad(visitor.asked)).toEqual([]);
  expect(visitor.asked.filter((request) => !request.includes(whatif.origin))).toEqual([]);
  await visitor.close();
  await whatif.close();
});

const open = async () => {
  await page.goto(`${whatif.origin}/${QUERY}#details=open`);
  await page.getByText("● live").waitFor();
};

/** The report that would come next, when something else is known. */
const saying = (sentence, more = {}) => {
  const { answer, ...report } = whatif.report;
  const points = answer.points.map((point) => ({ ...point, change: null, brings: null, rest: null }));
  return { ...report, answer: { ...answer, points }, sentence, ...more };
};

test("it asks its own server for the report, and shows what comes", async () => {
  await open();
  expect(await page.locator("h1").innerText()).toBe("Speed up hash (hash.c:80) first");
  expect(whatif.asked.filter((request) => !request.includes("favicon"))).toEqual([
    `GET /${QUERY}`,
    `GET /data.json${QUERY}`,
    `GET /events${QUERY}`,
  ]);
  whatif.send(saying("Now it is known better."));
  await page.getByRole("heading", { name: "Now it is known better." }).waitFor();
  expect(visitor.complaints).toEqual([]);
});

test("what somebody looks at stays when new numbers come", async () => {
  await open();
  await page.getByLabel("Filter").fill("hash");
  await page.locator("#regions tr", { hasText: "hash.c:84" }).click();
  await addressSays(page, "region", "hash.c:84");
  // The regions change places, and there is one more.
  const regions = whatif.report.regions.map((region) => ({ ...region, samples: region.samples + 1 })).reverse();
  whatif.send(saying("More.", { regions: [{ ...regions[0], name: "hash_more" }, ...regions] }));
  await page.getByRole("heading", { name: "More." }).waitFor();
  expect(await page.getByLabel("Filter").inputValue()).toBe("hash");
  expect(await page.locator("#regions tr[aria-selected=true] td").first().innerText()).toBe("hash.c:84");
  expect(await page.locator("#details h2").innerText()).toBe("hash.c:84");
  expect((await labels(page)).some((label) => label.startsWith("hash_more"))).toBe(true);
});

test("a region can be pinned and let go, and a refusal is said", async () => {
  await open();
  await page.getByRole("row", { name: /compress/ }).click();
  whatif.refuse = true;
  await page.getByRole("button", { name: "Pin" }).click();
  await page.getByRole("button", { name: /not possible/ }).waitFor();
  whatif.refuse = false;
  await page.getByRole("button", { name: /^Pin/ }).click();
  await page.getByRole("button", { name: "Unpin", pressed: true }).waitFor();
  expect(whatif.pinned).toEqual(["compress"]);
  expect(whatif.asked).toContain("POST /pin?region=compress&token=7");
  await page.getByRole("button", { name: "Unpin" }).click();
  await page.getByRole("button", { name: "Pin", exact: true, pressed: false }).waitFor();
  expect(whatif.pinned).toEqual(["compress", ""]);
  // Somebody does it on another page.
  whatif.send({ pinned: "compress" });
  await page.getByRole("button", { name: "Unpin" }).waitFor();
  whatif.send({ pinned: null });
  await page.getByRole("button", { name: "Pin", exact: true }).waitFor();
});

test("a lost connection is said, and tried again", async () => {
  await open();
  await page.evaluate(() => {
    // Every mark that was shown, because the next may come soon.
    globalThis.marks = [];
    const mark = document.querySelector(".mark");
    new MutationObserver(() => globalThis.marks.push(mark.textContent)).observe(mark, { subtree: true, childList: true, characterData: true });
  });
  whatif.drop();
  await page.waitForFunction(() => globalThis.marks.some((mark) => mark.includes("does not answer")));
  await page.getByText("● live").waitFor();
  whatif.send(saying("Back again."));
  await page.getByRole("heading", { name: "Back again." }).waitFor();
});

test("the end is said, and nobody is asked after it", async () => {
  await open();
  whatif.send(saying("The last word."));
  whatif.send({ ended: true });
  await page.getByText("the program has ended").waitFor();
  expect(await page.locator("h1").innerText()).toBe("The last word.");
  await expect.poll(() => whatif.streams.size).toBe(0);
  expect(await page.getByRole("button", { name: /pin/i }).count()).toBe(0);
  expect(visitor.complaints).toEqual([]);
});

test("a report that cannot be read is said to be so", async () => {
  whatif.report = { version: 99 };
  await page.goto(`${whatif.origin}/${QUERY}`);
  await page.getByText("write the page again").waitFor();
});

test("without the token there is nothing", async () => {
  const answer = await page.goto(`${whatif.origin}/`);
  expect(answer.status()).toBe(403);
});
