// Two recordings compared, as Rust writes it: the same fields as docs/json.md; and the order of what changed.

import type { PointKind, Region, Session, Verdict, Warning } from "./model";
import { printable } from "./printable";
import { label } from "./region";
import { ascending, descending, type Sort } from "./ranking";

type Maybe = number | null;

export interface Comparison {
  version: number;
  sentence: string;
  /** The position of the point that the sentence is about; null if none is in both. Missing in those of earlier versions, as are all texts below. */
  point?: Maybe;
  before: Recording;
  after: Recording;
  points: PointChange[];
  regions: RegionChange[];
  warnings: Pick<Warning, "code" | "message" | "advice">[];
}

export interface Recording {
  measured?: string | null;
  sessions: Session[];
}

export interface PointChange {
  name: string;
  kind: PointKind;
  /** In large letters. */
  headline?: string;
  brings?: string | null;
  rest?: string;
  change: "better" | "worse" | "cannot-tell" | "only-before" | "only-after";
  before: Level | null;
  after: Level | null;
  gain: Maybe;
  gain_se: Maybe;
  gain_lo: Maybe;
  gain_hi: Maybe;
  /** 1.8 is 1.8 times the throughput; null for a latency. */
  throughput_factor?: Maybe;
}

export interface Level {
  period_ns: Maybe;
  baselines: number;
  runs: number;
}

export interface RegionChange {
  kind: "function" | "line";
  inclusive: boolean;
  before: Side | null;
  after: Side | null;
  /** One per entry of the comparison's points, in that order. */
  points: SlopeChange[];
}

export type Side = Pick<Region, "name" | "function" | "file" | "line" | "image" | "program" | "windows">;

export type Change =
  | "became-critical"
  | "no-longer-critical"
  | "more"
  | "less"
  | "unchanged"
  | "cannot-tell"
  | "only-before"
  | "only-after";

export interface SlopeChange {
  point: string;
  kind: PointKind;
  change: Change;
  before: Slope | null;
  after: Slope | null;
  difference: Maybe;
  difference_se: Maybe;
  difference_lo: Maybe;
  difference_hi: Maybe;
}

export interface Slope {
  verdict: Verdict;
  blocks: number;
  slope: Maybe;
  slope_se: Maybe;
  slope_lo: Maybe;
  slope_hi: Maybe;
}

/** Whether the data are a comparison, and not a report. */
export const isComparison = (value: object): value is Comparison => "before" in value && "after" in value;

/** Whether everything is there that is drawn. */
export function isWhole({ sentence, before, after, points, regions, warnings }: Partial<Comparison>): boolean {
  return typeof sentence === "string" && [before?.sessions, after?.sessions, points, regions, warnings].every(Array.isArray);
}

/** A region, and what became of its effect on the point that is looked at. */
export interface ChangeRow {
  key: string;
  label: string;
  /** What it was called before, if that was something else. */
  was: string | null;
  region: RegionChange;
  slope: SlopeChange;
}

export function changeRows(regions: RegionChange[], nth: number): ChangeRow[] {
  const seen = new Map<string, number>();
  return regions.flatMap((region) => {
    const slope = region.points[nth];
    const side = region.after ?? region.before;
    if (!slope || !side) return [];
    const named = (of: Side): string => label({ ...region, ...of });
    const shown = named(side);
    const times = (seen.get(shown) ?? 0) + 1;
    seen.set(shown, times);
    const before = region.before && region.after && named(region.before);
    const key = times === 1 && shown !== "" ? shown : `${shown} #${times}`;
    return [{ key, label: shown, was: before === shown ? null : before, region, slope }];
  });
}

export type ChangeColumn = "region" | "before" | "after" | "difference" | "change";

/** What there is to say comes first. */
const RANKS: Record<Change, number> = {
  "became-critical": 0,
  "no-longer-critical": 1,
  more: 2,
  less: 2,
  "only-after": 3,
  "only-before": 4,
  "cannot-tell": 5,
  unchanged: 6,
};

/** How much there is to see. */
const weight = ({ difference, before, after }: SlopeChange): number =>
  Math.abs(difference ?? (after ?? before)?.slope ?? 0);

/** As in the terminal. */
const byChange = (a: ChangeRow, b: ChangeRow): number =>
  RANKS[a.slope.change] - RANKS[b.slope.change] || weight(b.slope) - weight(a.slope);

const ORDERS: Record<ChangeColumn, (a: ChangeRow, b: ChangeRow) => number> = {
  region: (a, b) => (a.label < b.label ? -1 : a.label > b.label ? 1 : 0),
  before: (a, b) => descending(a.slope.before?.slope ?? null, b.slope.before?.slope ?? null),
  after: (a, b) => descending(a.slope.after?.slope ?? null, b.slope.after?.slope ?? null),
  difference: (a, b) => ascending(a.slope.difference, b.slope.difference),
  change: byChange,
};

export const CHANGE_COLUMNS = Object.keys(ORDERS) as ChangeColumn[];

/** A column of a report's table means the usual order here. */
export function changesInOrder(rows: ChangeRow[], { column, reversed }: Sort<string>): ChangeRow[] {
  const known = CHANGE_COLUMNS.find((known) => known === column);
  const direction = known && reversed ? -1 : 1;
  return [...rows].sort((a, b) => direction * ORDERS[known ?? "change"](a, b) || byChange(a, b));
}

/** What a filter looks through. */
export function textOf({ label, was, region: { before, after } }: ChangeRow): string {
  const names = [label, was, ...[before, after].flatMap((side) => [side?.function, side?.file])].filter(Boolean).join("\n");
  return `${names}\n${printable(names)}`.toLowerCase();
}

/** The slopes that the pictures of all rows span. */
export function slopesOf(rows: ChangeRow[]): [lo: number, hi: number] {
  let [lo, hi] = [-0.1, 0.5];
  for (const { slope: { before, after } } of rows) {
    for (const side of [before, after]) {
      if (side?.slope == null) continue;
      // One wild interval would make all others flat.
      lo = Math.min(lo, Math.max(side.slope_lo ?? side.slope, -1));
      hi = Math.max(hi, Math.min(side.slope_hi ?? side.slope, 1.5));
    }
  }
  return [lo, hi];
}
