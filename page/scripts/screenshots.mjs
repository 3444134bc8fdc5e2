// Pictures of the page to look at: every fixture, and recordings if there are any, in light and dark, on a phone, on the narrowest and the
// widest screen, and on paper (a PDF; a PNG of each sheet where pdftoppm is installed). They are written into screenshots/, which is not committed.
//
//     npm run screenshots
//     WHATIF=../target/release/whatif npm run screenshots -- RECORDING…     of these recordings, too
//     WHATIF=… npm run screenshots -- --readme RECORDING                    the pictures of the README, ../docs/images/*.png

import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { command, start, visit } from "../browser/browser.js";
import { fillInParts } from "./fill.mjs";

const here = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));
const words = process.argv.slice(2);
const forReadme = words[0] === "--readme";
const recordings = forReadme ? words.slice(1) : words;
const { WHATIF, ONLY } = process.env;
if (recordings.length > 0 && !WHATIF) throw new Error("say where whatif is: WHATIF=../target/release/whatif npm run screenshots -- RECORDING");

const folder = mkdtempSync(join(tmpdir(), "whatif-page-"));
const exported = recordings.map((recording) => {
  const name = basename(recording).replace(/\.\w+$/, "");
  const file = join(folder, `${name}.html`);
  command(WHATIF, ["export", "--format", "html", "-o", file, recording]);
  return { name, file };
});
const browser = await start();
const troubles = [];

/** What `see` does with the page in `file`, as a visitor with these options. */
async function open(file, hash, options, see) {
  const { page, complaints, close } = await visit(browser, options);
  await page.goto(pathToFileURL(file).href + hash);
  await page.locator("h1").waitFor();
  await see(page);
  troubles.push(...complaints);
  await close();
}

const VIEWS = {
  light: { viewport: { width: 1440, height: 900 }, colorScheme: "light" },
  dark: { viewport: { width: 1440, height: 900 }, colorScheme: "dark" },
  phone: { viewport: { width: 390, height: 844 }, colorScheme: "light", deviceScaleFactor: 2 },
  "320": { viewport: { width: 320, height: 700 }, colorScheme: "light", deviceScaleFactor: 2 },
  "768": { viewport: { width: 768, height: 1024 }, colorScheme: "light" },
  "2560": { viewport: { width: 2560, height: 1300 }, colorScheme: "dark" },
};

async function toLookAt() {
  const to = here("screenshots");
  rmSync(to, { recursive: true, force: true });
  mkdirSync(to, { recursive: true });
  const built = readFileSync(here("dist/page.html"), "utf8");
  const fixtures = readdirSync(here("fixtures")).filter((name) => name.endsWith(".json"));
  for (const fixture of fixtures) {
    const name = fixture.replace(".json", "");
    const file = join(folder, `${name}.html`);
    writeFileSync(file, fillInParts(built, JSON.parse(readFileSync(here(`fixtures/${fixture}`), "utf8"))));
    exported.push({ name, file });
  }
  for (const { name, file } of exported.filter(({ name }) => !ONLY || ONLY === name)) {
    for (const [view, options] of Object.entries(VIEWS)) {
      await open(file, "", options, (page) => page.screenshot({ path: join(to, `${name}-${view}.png`), fullPage: true }));
    }
    await open(file, "", VIEWS.phone, (page) => page.screenshot({ path: join(to, `${name}-phone-first.png`) }));
    for (const view of ["light", "phone"]) {
      await open(file, "#details=open", VIEWS[view], (page) => page.screenshot({ path: join(to, `${name}-${view}-details.png`), fullPage: true }));
    }
    const paper = join(to, `${name}-print.pdf`);
    await open(file, "", VIEWS.dark, (page) => page.pdf({ path: paper, format: "A4", margin: { top: "15mm", bottom: "15mm", left: "14mm", right: "14mm" } }));
    const { error } = spawnSync("pdftoppm", ["-r", "70", "-png", paper, join(to, `${name}-print`)]);
    if (error) console.log(`${name}-print.pdf stays a PDF: pdftoppm is not installed (apt-get install poppler-utils)`);
  }
  console.log(`screenshots/: ${readdirSync(to).length} files`);
}

const WIDTH = 1200;
const MOST_BYTES = 200 * 1000;

async function forTheReadme({ file }) {
  const images = here("../docs/images");
  mkdirSync(images, { recursive: true });
  await open(file, "#details=open", { viewport: { width: WIDTH, height: 900 }, colorScheme: "light" }, async (page) => {
    /** What is from the top of one element to the bottom of another, with a margin. */
    const picture = async (name, first, last) => {
      const [from, to] = [await page.locator(first).first().boundingBox(), await page.locator(last).first().boundingBox()];
      const top = Math.max(0, from.y - 16);
      const path = join(images, `${name}.png`);
      await page.screenshot({ path, fullPage: true, clip: { x: 0, y: top, width: WIDTH, height: to.y + to.height + 16 - top } });
      const { size } = statSync(path);
      console.log(`docs/images/${name}.png: ${Math.round(size / 1000)} KB`);
      if (size > MOST_BYTES) throw new Error(`${name}.png is too large for a README`);
    };
    await page.locator(".curve").waitFor();
    await picture("report", "header", ".pieces");
    await picture("places", ".places", ".places");
  });
}

if (forReadme) await forTheReadme(exported[0] ?? { file: "" });
else await toLookAt();
await browser.close();
rmSync(folder, { recursive: true });
if (troubles.length > 0) throw new Error(troubles.join("\n"));
