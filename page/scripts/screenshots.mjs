// Pictures for the README, of a real recording:
//
//     WHATIF=../target/release/whatif npm run screenshots -- RECORDING     writes ../docs/images/*.png

import { mkdirSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { command, start, visit } from "../browser/browser.js";

const WIDTH = 1200;
const MOST_BYTES = 200 * 1000;

const [recording] = process.argv.slice(2);
const { WHATIF } = process.env;
if (!recording || !WHATIF) throw new Error("say which: WHATIF=../target/release/whatif npm run screenshots -- RECORDING");

const images = fileURLToPath(new URL("../../docs/images/", import.meta.url));
mkdirSync(images, { recursive: true });
const folder = mkdtempSync(join(tmpdir(), "whatif-page-"));
const file = join(folder, "report.html");
command(WHATIF, ["export", "--format", "html", "-o", file, recording]);

const browser = await start();
const { page, complaints } = await visit(browser, { viewport: { width: WIDTH, height: 900 }, colorScheme: "light" });
await page.goto(pathToFileURL(file).href);
await page.locator(".curve").waitFor();

/** What is from the top of one element to the bottom of another, with a margin. */
async function picture(name, first, last) {
  const [from, to] = [await page.locator(first).first().boundingBox(), await page.locator(last).first().boundingBox()];
  const top = Math.max(0, from.y - 16);
  const path = join(images, `${name}.png`);
  await page.screenshot({ path, fullPage: true, clip: { x: 0, y: top, width: WIDTH, height: to.y + to.height + 16 - top } });
  const { size } = statSync(path);
  console.log(`docs/images/${name}.png: ${Math.round(size / 1000)} KB`);
  if (size > MOST_BYTES) throw new Error(`${name}.png is too large for a README`);
}

await picture("report", "header", ".curve .plot");
await picture("places", ".places", ".places");
await browser.close();
rmSync(folder, { recursive: true });
if (complaints.length > 0) throw new Error(complaints.join("\n"));
