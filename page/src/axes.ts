// What the axes of a curve span, and what of it is known: everything about a plot that can be said without drawing it.

import type { AtSpeedup, Estimate, WholeEstimate } from "./model";

/** The least that the axis of gains spans, so that noise around nothing does not look like something. */
const LEAST_TOP = 0.1;
const LEAST_BOTTOM = -0.05;

/**
 * The lowest and the highest gain that curves and their bands reach. Those about which too little is known do not
 * count, if there are others: one wild band would make all others flat.
 */
export function gains(estimates: Estimate[]): [lo: number, hi: number] {
  const settled = estimates.filter(({ verdict }) => verdict !== "not-enough-data" && verdict !== "idle");
  let [bottom, top] = [LEAST_BOTTOM, LEAST_TOP];
  for (const estimate of settled.length > 0 ? settled : estimates) {
    const span = spanOf(estimate);
    if (span === null) continue;
    bottom = Math.min(bottom, span[0]);
    top = Math.max(top, span[1]);
  }
  // Beyond a hundred per cent there is nothing to see but noise.
  const margin = 0.04 * (Math.min(top, 1) - Math.max(bottom, -1));
  return [Math.max(bottom, -1) - margin, Math.min(top, 1) + margin];
}

/** The lowest and the highest gain of the curve and its band: as the summary says, or else read off the curve. */
function spanOf(estimate: Estimate): [lo: number, hi: number] | null {
  if (estimate.span !== undefined) return estimate.span;
  let [lowest, highest] = [Infinity, -Infinity];
  for (const { gain, lo, hi } of (estimate as WholeEstimate).speedups) {
    if (gain === null) continue;
    lowest = Math.min(lowest, lo ?? gain);
    highest = Math.max(highest, hi ?? gain);
  }
  return lowest > highest ? null : [lowest, highest];
}

export interface Stretch {
  /** Whether the intervals of these points are known; without them there is no band, and the line is dashed. */
  known: boolean;
  /** The points, after the one where the line comes from. */
  line: { speedup: number; gain: number }[];
  band: { speedup: number; lo: number; hi: number }[];
}

/**
 * The curve in stretches, cut where the gain is not known, and where its interval starts or ends to be known. It comes
 * from no speedup and no gain. The interval at the baseline is that of the baseline's own level: see `baseline`.
 */
export function stretches(speedups: AtSpeedup[]): Stretch[] {
  const found: Stretch[] = [];
  let before: Stretch["line"] = [{ speedup: 0, gain: 0 }];
  let open: Stretch | undefined;
  for (const { speedup, gain, lo, hi } of speedups) {
    if (speedup === 0) continue;
    if (gain === null) {
      before = [];
      open = undefined;
      continue;
    }
    const known = lo !== null && hi !== null;
    if (!open || open.known !== known) {
      open = { known, line: before, band: [] };
      found.push(open);
    }
    open.line.push({ speedup, gain });
    if (known) open.band.push({ speedup, lo, hi });
    before = [{ speedup, gain }];
  }
  return found;
}

/** The baseline's own interval, at speedup 0. */
export function baseline(speedups: AtSpeedup[]): { lo: number; hi: number } | null {
  const first = speedups.find(({ speedup }) => speedup === 0);
  return first && first.lo !== null && first.hi !== null ? { lo: first.lo, hi: first.hi } : null;
}

/** Whether no point of the curve but the baseline has an interval. */
export function isBare(speedups: AtSpeedup[]): boolean {
  return speedups.every(({ speedup, lo, hi }) => speedup === 0 || lo === null || hi === null);
}

export interface Lane {
  session: number;
  /** When it starts and ends on the common axis of time, in ns. */
  start: number;
  end: number;
}

/** Runs one after the other on one axis of time, with a little room between them. */
export function lanes(sessions: { id: number; length: number }[]): Lane[] {
  const total = sessions.reduce((sum, { length }) => sum + length, 0);
  const gap = sessions.length > 1 ? (0.1 * total) / (sessions.length - 1) : 0;
  let start = 0;
  return sessions.map(({ id, length }, nth) => {
    if (nth > 0) start += gap;
    const lane = { session: id, start, end: start + length };
    start = lane.end;
    return lane;
  });
}
