// A report in parts: its summary says all that the table needs, and the parts the rest, when they come.

import { expect, test } from "vitest";
// @ts-expect-error: a script without types
import { inParts } from "../scripts/fill.mjs";
import { gains } from "../src/axes";
import { check, type Report } from "../src/model";
import { read, REGIONS, whole, wholeWindows, withRegions } from "../src/parts";
import { rows, sorted, COLUMNS } from "../src/ranking";
import { realistic } from "./example";

const full = realistic();
const { summary, parts }: { summary: Report; parts: object[] } = inParts(full);
const behind = (part: number | typeof REGIONS): string | null =>
  part !== REGIONS && parts[part] ? JSON.stringify(parts[part]) : null;

test("the summary is a report, and orders as the whole does", () => {
  expect(check(summary)).toBe(summary);
  for (const column of COLUMNS) {
    const keys = (report: Pick<Report, "regions">) => sorted(rows(report.regions, 1), { column, reversed: false }).map(({ key }) => key);
    expect(keys(summary)).toEqual(keys(full));
  }
});

test("axes are the same before the curves have come", () => {
  const of = (report: Pick<Report, "regions">) => gains(report.regions.map(({ points }) => points[1]!));
  expect(of(summary)[0]).toBeCloseTo(of(full)[0], 5);
  expect(of(summary)[1]).toBeCloseTo(of(full)[1], 5);
  const nothing = { ...full.regions[0]!.points[1]!, span: null };
  expect(gains([nothing])).toEqual(gains([]));
});

test("the whole comes later, once, and only if it is sound", () => {
  const [first, second, third] = summary.regions;
  read.value = null;
  expect(whole(first!)).toBeUndefined();
  read.value = behind;
  expect(whole(first!)).toEqual(full.regions[0]);
  expect(whole(first!)).toBe(whole(first!));
  expect(wholeWindows(summary.baselines![0]!)).toEqual(full.baselines![0]);
  read.value = () => '{"half":';
  expect(whole(second!)).toBeNull();
  read.value = () => null;
  expect(whole(third!)).toBeNull();
  // What is whole already needs no part.
  expect(whole(full.regions[0]!)).toBe(full.regions[0]);
});

test("a long list of regions comes later, too", () => {
  const many = { ...full, regions: Array.from({ length: 501 }, () => full.regions[0]!) };
  const apart: { summary: Report; regions: object[]; parts: object[] } = inParts(many);
  expect(check(apart.summary)).toBe(apart.summary);
  expect([apart.summary.regions, apart.summary.regions_apart, apart.parts.length]).toEqual([[], true, 501 + full.baselines!.length]);
  read.value = null;
  expect(withRegions(apart.summary)).toBe(apart.summary);
  read.value = (part) => (part === REGIONS ? JSON.stringify(apart.regions) : null);
  const known = withRegions(apart.summary)!;
  expect([known.regions.length, known.regions_apart]).toEqual([501, false]);
  expect(withRegions(known)).toBe(known);
  expect(withRegions(summary)).toBe(summary);
  read.value = () => "null";
  expect(withRegions(apart.summary)).toBeNull();
});
