// Puts a report into the built page, as Rust does, so that it can be opened from disk.
//
//     node scripts/fill.mjs fixtures/realistic.json dist/realistic.html

import { readFileSync, writeFileSync } from "node:fs";

/** The list of more regions than that comes after the first look. */
const MANY_REGIONS = 500;

/** A "<" could end the element; JSON has another way to write it. */
const safe = (json) => json.replaceAll("<", "\\u003c");

/** `page` with `json` in its data element, whole. */
export function fill(page, json) {
  const empty = '<script type="application/json" id="whatif-data">null</script>';
  if (page.split(empty).length !== 2) throw new Error("the page has no empty data element");
  return page.replace(empty, () => empty.replace("null", () => safe(json)));
}

/** The same with summaries of the regions in the data element, and the rest behind the script. */
export function fillInParts(page, report) {
  // A comparison is short.
  if ("before" in report) return fill(page, JSON.stringify(report));
  const { summary, regions, parts } = inParts(report);
  const [before, after] = fill(page, JSON.stringify(summary)).split("</body>");
  if (after === undefined) throw new Error("the page has no end");
  const elements = parts.map((part, nth) => {
    return `<script type="application/json" id="whatif-part-${nth}">${safe(JSON.stringify(part))}</script>\n`;
  });
  if (regions) elements.unshift(`<script type="application/json" id="whatif-regions">${safe(JSON.stringify(regions))}</script>\n`);
  return [before, ...elements, "</body>", after].join("");
}

/** As in docs/json.md. */
export function inParts(report) {
  const parts = [];
  const apart = (whole) => parts.push(whole) - 1;
  const regions = report.regions.map((region) => {
    const { kind, name, function: of, file, line, inclusive, image, samples, share, production_share, mark, windows, verdict } = region;
    const points = region.points.map(short);
    return { kind, name, function: of, file, line, inclusive, image, samples, share, production_share, mark, windows, verdict, points, part: apart(region) };
  });
  const baselines = report.baselines?.map((of) => ({ point: of.point, kind: of.kind, part: apart(of) }));
  if (regions.length > MANY_REGIONS) return { summary: { ...report, regions: [], regions_apart: true, baselines }, regions, parts };
  return { summary: { ...report, regions, baselines }, regions: null, parts };
}

const rounded = (value) => (value === null ? null : Number(value.toFixed(6)));

function short({ point, kind, verdict, blocks, speedups, ...of }) {
  const names = ["slope", "slope_se", "slope_lo", "slope_hi", "effect", "effect_lo", "effect_hi"];
  const known = speedups.filter(({ gain }) => gain !== null);
  const span = [Math.min(...known.map(({ gain, lo }) => lo ?? gain)), Math.max(...known.map(({ gain, hi }) => hi ?? gain))];
  return {
    point,
    kind,
    verdict,
    blocks,
    ...Object.fromEntries(names.map((name) => [name, rounded(of[name])])),
    span: known.length === 0 ? null : span.map(rounded),
  };
}

const [from, to] = process.argv.slice(2);
if (from?.endsWith(".json") && to?.endsWith(".html")) {
  const page = readFileSync(new URL("../dist/page.html", import.meta.url), "utf8");
  writeFileSync(to, fillInParts(page, JSON.parse(readFileSync(from, "utf8"))));
}
