// Fixtures as files that a browser can open.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { fill, fillInParts } from "../scripts/fill.mjs";

const here = (path) => new URL(`../${path}`, import.meta.url);

export const PAGE = readFileSync(here("dist/page.html"), "utf8");

/** The page of a database, without data. */
export const DATABASE_PAGE = readFileSync(here("dist/database.html"), "utf8");

export const fixture = (name) => JSON.parse(readFileSync(here(`fixtures/${name}.json`), "utf8"));

/** A folder for the files of one test file. */
export class Folder {
  path = mkdtempSync(join(tmpdir(), "whatif-page-"));

  /** The address of a page with `report` in it, in parts as Rust writes it. */
  page(name, report) {
    return this.#write(name, fillInParts(PAGE, report));
  }

  /** The same with `json` as it is. */
  wholePage(name, json) {
    return this.#write(name, fill(PAGE, json));
  }

  /** The page of a database with `data` in it. */
  database(name, data) {
    return this.#write(name, fill(DATABASE_PAGE, JSON.stringify(data)));
  }

  #write(name, html) {
    const file = join(this.path, `${name}.html`);
    writeFileSync(file, html);
    return pathToFileURL(file).href;
  }

  remove() {
    rmSync(this.path, { recursive: true });
  }
}
