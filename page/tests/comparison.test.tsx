// Two recordings compared: the order of what changed, what rows are called, and what is drawn.

import { renderToString } from "preact-render-to-string";
import { beforeEach, expect, test } from "vitest";
import comparisonText from "../fixtures/comparison.json?raw";
import { App } from "../src/app";
import { CHANGE_COLUMNS, changeRows, changesInOrder, type Comparison, isComparison, slopesOf, textOf } from "../src/comparison";
import { DEFAULT_VIEW } from "../src/hash";
import { check } from "../src/model";
import { DEFAULT_SORT, filtered } from "../src/ranking";
import { change, selectedKey, show, shownKeys, status, view } from "../src/state";
import { realistic } from "./example";

const fixture = (): Comparison => JSON.parse(comparisonText);

beforeEach(() => {
  view.value = DEFAULT_VIEW;
  status.value = { is: "recorded" };
});

test("what there is to say comes first, as in the terminal", () => {
  const rows = changesInOrder(changeRows(fixture().regions, 0), DEFAULT_SORT);
  expect(rows.map(({ slope }) => slope.change)).toEqual([
    "became-critical",
    "less",
    "only-after",
    "only-before",
    "cannot-tell",
    "unchanged",
  ]);
  const reversed = changesInOrder(rows, { column: "change", reversed: true });
  expect(reversed.map(({ key }) => key)).toEqual(rows.map(({ key }) => key).reverse());
  for (const column of CHANGE_COLUMNS) expect(changesInOrder(rows, { column, reversed: false })).toHaveLength(rows.length);
});

test("a line that moved is found by both of its names", () => {
  const rows = changeRows(fixture().regions, 0);
  const moved = rows.find(({ was }) => was === "hash.c:88")!;
  expect([moved.label, moved.key]).toEqual(["hash.c:95", "hash.c:95"]);
  for (const words of ["hash.c:88", "hash.c:95"]) expect(filtered(rows, words, textOf)).toEqual([moved]);
  const [one] = fixture().regions;
  expect(new Set(changeRows([one!, one!, one!], 0).map(({ key }) => key)).size).toBe(3);
  expect(changeRows([one!], 7)).toEqual([]);
});

test("one wild interval does not make the others flat", () => {
  const [first] = changeRows(fixture().regions, 0);
  const wild = { verdict: "not-enough-data" as const, blocks: 2, slope: 0, slope_se: 9, slope_lo: -90, slope_hi: 90 };
  expect(slopesOf([{ ...first!, slope: { ...first!.slope, after: wild } }])).toEqual([-1, 1.5]);
  expect(slopesOf([])).toEqual([-0.1, 0.5]);
});

test("it is told from a report, and checked", () => {
  expect(isComparison(fixture())).toBe(true);
  expect(isComparison(realistic())).toBe(false);
  expect(check(fixture())).toEqual(fixture());
  expect(check({ ...fixture(), version: 2 })).toContain("version");
  expect(check({ ...fixture(), regions: null })).toContain("not a whole comparison");
  expect(check({ ...fixture(), after: null })).toContain("not a whole comparison");
});

test("the number comes first, of the point that the sentence is about, and of an earlier version the sentence", () => {
  const { points, ...rest } = fixture();
  const drawn = (comparison: Comparison): string => (show(comparison), renderToString(<App source={null} />));
  expect(drawn({ ...rest, points, point: 1 })).toMatch(/<h1>Not certain: 1\.8\s%\s±\s2\.4 less latency of /);
  expect(drawn({ ...rest, points: points.map(({ headline: _, ...point }) => point) })).toMatch(/<h1 class="sentence">.*takes 17\s%/);
});

test("it is drawn for every region and point, and a report in its place", () => {
  show(fixture());
  const page = (): string => renderToString(<App source={null} />);
  expect(page()).toContain("12035 per second");
  expect(page()).toMatch(/<h1>17\s%\s±\s1 less time per /);
  for (const { name, kind } of fixture().points) {
    change({ point: `${kind}:${name}` });
    for (const key of shownKeys.value) {
      change({ region: key });
      expect(selectedKey.value).toBe(key);
      expect(page()).not.toMatch(/undefined|NaN/);
    }
  }
  change({ region: "hash.c:95", point: "" });
  expect(page()).toContain("it certainly differs: it is worth less than before");
  expect(page()).not.toContain("<b>x");
  show(realistic() as never);
  expect(page()).toContain("The answer");
});
