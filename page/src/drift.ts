// Drift in words, as in the terminal: where the program's speed changed while it was measured, and whether its code
// mattered as much before and after.

import type { Era, PointKind, Region, Report, WholeEstimate } from "./model";
import { duration, fixed, threeDigits } from "./format";
import { label } from "./region";
import { printable } from "./printable";

interface Rate {
  rate_per_s: number | null;
  rate_lo: number | null;
  rate_hi: number | null;
}

/** A point, by what it is called in every list of the report. */
export interface PointName {
  point: string;
  kind: PointKind;
}

const isOf = (point: PointName) => (entry: PointName): boolean =>
  entry.point === point.point && entry.kind === point.kind;

/** One sentence for each change of the rate of a point, within a run and from one run to another. */
export function changes(report: Report, point: PointName): string[] {
  const name = `\`${printable(point.point)}\``;
  const what = point.kind === "latency" ? `the rate at which ${name} ends` : `throughput of ${name}`;
  const within = report.drift.filter(isOf(point)).flatMap(({ session, segments }) =>
    pairs(segments).map(([before, after]) =>
      said(`${what}${inRun(report, session)}`, duration(before.end_ns), before, after),
    ),
  );
  const between = report.run_drift.filter(isOf(point)).flatMap(({ segments }) =>
    pairs(segments).map(([before, after]) => said(what, `run ${before.sessions.at(-1) ?? 0}`, before, after)),
  );
  return [...within, ...between];
}

function said(what: string, when: string, before: Rate, after: Rate): string {
  const change = (after.rate_per_s ?? NaN) / (before.rate_per_s ?? NaN) - 1;
  const how =
    change < 0
      ? `fell by ${fixed(-change * 100, 0)} %`
      : Number.isFinite(change)
        ? `rose by ${fixed(change * 100, 0)} %`
        : "began";
  const rates = `(from ${rate(before)} to ${rate(after)})`;
  return `${what} ${how} after ${when} ${rates}: results before and after are kept apart`;
}

/** `1002/s ± 12`. */
export function rate({ rate_per_s, rate_lo, rate_hi }: Rate): string {
  if (rate_per_s === null) return "an unknown rate";
  const known = `${threeDigits(rate_per_s)}/s`;
  return rate_lo === null || rate_hi === null ? known : `${known} ± ${threeDigits((rate_hi - rate_lo) / 2)}`;
}

/** What each part of the recording says by itself, if two of them certainly differ. */
export function eras(report: Report, region: Region, estimate: WholeEstimate): string | null {
  if (!estimate.eras_differ) return null;
  const parts = estimate.eras.map((era) => {
    const of = (value: number | null): string => (value === null ? "?" : fixed(value, 2));
    return `${of(era.slope)} [${of(era.slope_lo)}, ${of(era.slope_hi)}] ${part(report, estimate, era)}`;
  });
  return `${printable(label(region))}, \`${printable(estimate.point)}\`: the slope was ${parts.join(", ")}`;
}

/** Which part of the recording that is: `until 40 s`, `from 40 s on`, `in runs 13 to 24`. */
function part(report: Report, point: PointName, { session, segment }: Era): string {
  const all = report.drift.filter(isOf(point)).find((drift) => drift.session === session)?.segments ?? [];
  const own = all[segment];
  if (all.length > 1 && own) {
    const run = inRun(report, session);
    if (segment === 0) return `until ${duration(own.end_ns)}${run}`;
    if (segment === all.length - 1) return `from ${duration(own.start_ns)} on${run}`;
    return `from ${duration(own.start_ns)} to ${duration(own.end_ns)}${run}`;
  }
  const stretches = report.run_drift.find(isOf(point))?.segments ?? [];
  const runs = stretches.find(({ sessions }) => sessions.includes(session))?.sessions ?? [];
  return runs.length > 1 ? `in runs ${runs[0]} to ${runs.at(-1)}` : `in run ${session}`;
}

const inRun = (report: Report, session: number): string => (report.sessions.length > 1 ? ` in run ${session}` : "");

function pairs<T>(list: T[]): [T, T][] {
  return list.slice(1).map((after, nth) => [list[nth]!, after]);
}
