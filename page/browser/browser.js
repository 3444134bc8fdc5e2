// A Chromium of Debian, watched: whatever a page complains about, asks for or opens is remembered.

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

/** What it is started with: nothing that asks the network by itself. */
const QUIET = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** The one without a window takes half the time that the whole browser takes. */
const PLACES = ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"];

/** Where the browser is: `CHROMIUM`, or where Debian puts it. */
export const CHROMIUM = process.env.CHROMIUM ?? PLACES.find((place) => existsSync(place)) ?? PLACES.at(-1);

export const start = () => chromium.launch({ executablePath: CHROMIUM, args: QUIET });

/** A visitor of a page: a context of its own, and what the page did that it should not. */
export async function visit(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(300_000);
  const complaints = [];
  const asked = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("dialog", (dialog) => {
    complaints.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("popup", () => complaints.push("a window opened"));
  context.on("request", (request) => asked.push(`${request.method()} ${request.url()}`));
  return { page, context, complaints, asked, close: () => context.close() };
}

/** Requests to anywhere but this file and this machine. */
export const abroad = (asked) => asked.filter((request) => !/^\w+ (file:|http:\/\/127\.0\.0\.1:|data:|blob:)/.test(request));

/** What follows "#" in the address once it says `wanted` about `field`. */
export async function addressSays(page, field, wanted) {
  await page.waitForFunction(
    ([field, wanted]) => new URLSearchParams(location.hash.slice(1)).get(field) === wanted,
    [field, wanted],
  );
}

/** The labels of the rows that the table shows, in its order. */
export const labels = (page) =>
  page.locator("#regions tbody tr:not(.gap) td:first-child").evaluateAll((cells) => cells.map((cell) => cell.textContent));

/** Whether a command ended as it should. */
const succeeded = (status) => status === 0;

/** Whether `whatif run` ended as it should, with an answer or, as on a busy machine, without one (docs/using.md has the numbers). */
export const ran = (status) => status === 0 || (status >= 94 && status <= 101);

/** Runs a command and gives what it printed. */
export function command(program, words, { isFine = succeeded, ...options } = {}) {
  const { status, stdout, stderr, error } = spawnSync(program, words, { encoding: "utf8", ...options });
  if (error || !isFine(status)) throw new Error(`${program} ${words.join(" ")}: ${error ?? `${status}\n${stderr}`}`);
  return stdout;
}
