// The order of the regions, and which of them are shown.

import type { Estimate, Region } from "./model";
import { keys, label } from "./region";
import { printable } from "./printable";

/** A region and what it is worth to the point that is looked at. */
export interface Row {
  key: string;
  label: string;
  region: Region;
  estimate: Estimate;
  /** Which of the region's estimates that is. */
  nth: number;
  rank: Rank;
}

/** Where an estimate stands: smaller is better. */
export type Rank = readonly [group: number, within: number];

export type Column = "region" | "slope" | "interval" | "verdict" | "blocks" | "share" | "production";

export interface Sort<C extends string> {
  column: C;
  /** The other way round than the column's own order. */
  reversed: boolean;
}

export const DEFAULT_SORT: Sort<Column> = { column: "interval", reversed: false };

export const VERDICTS = ["helps", "not-enough-data", "no-effect", "hurts", "not-trusted", "idle"] as const;

/** One row for each region that knows something about the point number `nth`. */
export function rows(regions: Region[], nth: number): Row[] {
  const named = keys(regions);
  return regions.flatMap((region, at) => {
    const estimate = region.points[nth];
    return estimate ? [{ key: named[at]!, label: label(region), region, estimate, nth, rank: rank(estimate) }] : [];
  });
}

/**
 * As in the terminal: by the lower end of the slope's interval; those that hurt come last, by the upper end, the worst
 * first among them.
 */
function rank({ verdict, slope, slope_lo, slope_hi }: Estimate): Rank {
  if (slope === null) return [3, 0];
  if (verdict === "hurts") return [2, slope_hi ?? Infinity];
  return [verdict === "helps" ? 0 : 1, -(slope_lo ?? -Infinity)];
}

/** Smaller numbers first; what is not known is always last. */
export const ascending = (a: number | null, b: number | null): number =>
  a === b ? 0 : a === null ? 1 : b === null ? -1 : a < b ? -1 : 1;

export const descending = (a: number | null, b: number | null): number =>
  ascending(a === null ? null : -a, b === null ? null : -b);

const byRank = (a: Row, b: Row): number => ascending(a.rank[0], b.rank[0]) || ascending(a.rank[1], b.rank[1]);

const ORDERS: Record<Column, (a: Row, b: Row) => number> = {
  region: (a, b) => (a.label < b.label ? -1 : a.label > b.label ? 1 : 0),
  slope: (a, b) => descending(a.estimate.slope, b.estimate.slope),
  interval: byRank,
  verdict: (a, b) => ascending(VERDICTS.indexOf(a.estimate.verdict), VERDICTS.indexOf(b.estimate.verdict)),
  blocks: (a, b) => descending(a.estimate.blocks, b.estimate.blocks),
  share: (a, b) => descending(a.region.share, b.region.share),
  production: (a, b) => descending(a.region.production_share ?? null, b.region.production_share ?? null),
};

export const COLUMNS = Object.keys(ORDERS) as Column[];

/** Whether a sort is one of a report's table. */
export const isColumn = (sort: Sort<string>): sort is Sort<Column> => (COLUMNS as string[]).includes(sort.column);

/** The rows in the order of `sort`; equal ones in the order of their rank. */
export function sorted(rows: Row[], { column, reversed }: Sort<Column>): Row[] {
  const order = ORDERS[column];
  const direction = reversed ? -1 : 1;
  return [...rows].sort((a, b) => direction * order(a, b) || byRank(a, b));
}

/** The rows that hold every word of `filter` in their text. */
export function filtered<R>(rows: R[], filter: string, textOf: (row: R) => string): R[] {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return rows;
  return rows.filter((row) => {
    const text = textOf(row);
    return words.every((word) => text.includes(word));
  });
}

/** Made once for each region: a user who types wants to see the letters at once. */
const texts = new WeakMap<Region, string>();

/** What a filter looks through: label, function and file, as they are shown and as they are. */
export function searched({ label, region }: Row): string {
  const known = texts.get(region);
  if (known !== undefined) return known;
  const names = `${label}\n${region.function ?? ""}\n${region.file ?? ""}`;
  const text = `${names}\n${printable(names)}`.toLowerCase();
  texts.set(region, text);
  return text;
}
