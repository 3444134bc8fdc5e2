// Puts a report into the built page, as Rust does, so that it can be opened from disk.
//
//     node scripts/fill.mjs fixtures/realistic.json dist/realistic.html

import { readFileSync, writeFileSync } from "node:fs";

/** `page` with `json` in its data element. A "<" could end the element; JSON has another way to write it. */
export function fill(page, json) {
  const empty = '<script type="application/json" id="whatif-data">null</script>';
  if (page.split(empty).length !== 2) throw new Error("the page has no empty data element");
  return page.replace(empty, () => empty.replace("null", () => json.replaceAll("<", "\\u003c")));
}

const [from, to] = process.argv.slice(2);
if (from && to) {
  const page = readFileSync(new URL("../dist/page.html", import.meta.url), "utf8");
  writeFileSync(to, fill(page, readFileSync(from, "utf8").trim()));
}
