// Gains of the first screen: what a piece of code is worth at any speedup, and the axis that all of them share.

import { fixed, type Interval } from "./format";
import type { CurvePoint, Piece } from "./model";
import { ticks } from "./scale";

/** The speedup that verdicts and sentences are told for. */
export const REFERENCE = 0.2;

/** A gain; its interval is null where it is not known. */
export interface Gain {
  value: number;
  lo: number | null;
  hi: number | null;
}

/** The gain at `speedup` (0 to 1), by straight lines between what was tried; null beyond the largest that was. */
export function gainAt(curve: CurvePoint[], speedup: number): Gain | null {
  let [before, value, lo, hi]: CurvePoint = [0, 0, 0, 0];
  for (const point of curve) {
    const [at, ...to] = point;
    if (speedup <= at + 1e-9) {
      const part = (speedup - before) / (at - before);
      const between = (from: number | null, to: number | null): number | null =>
        from === null || to === null ? null : from + part * (to - from);
      return { value: between(value, to[0])!, lo: between(lo, to[1]), hi: between(hi, to[2]) };
    }
    [before, value, lo, hi] = point;
  }
  return null;
}

/** A gain in per cent, and its interval without the sign: `8 %` and `6 to 10`, with as many decimals as it is worth. */
export function inWords({ value, lo, hi }: Gain): { value: string; range: string | null } {
  const known: Interval | null = lo === null || hi === null ? null : { value, lo, hi };
  const half = known ? (known.hi - known.lo) / 2 : 1;
  const decimals = half < 0.0095 || Math.abs(value) < 0.0095 ? 1 : 0;
  // An end beside zero never seems to be zero: whether the interval holds it decides what is known.
  const isHidden = (end: number): boolean => end !== 0 && Math.abs(end) < 0.005;
  const ends = known && (isHidden(known.lo) || isHidden(known.hi)) ? 1 : decimals;
  // No more time disappears than there was, however far an interval reaches.
  const digits = (of: number, decimals: number): string => fixed(Math.min(of, 1) * 100, decimals);
  return { value: `${digits(value, decimals)} %`, range: known && `${digits(known.lo, ends)} to ${digits(known.hi, ends)}` };
}

/** Of an axis without anything on it. */
const LEAST = 0.05;
/** Beyond that nothing is drawn: an interval can be as wide as it likes. */
const MOST_BELOW = -1;

export interface Axis {
  lo: number;
  hi: number;
  ticks: number[];
}

/** An axis that holds the gains of `pieces` at `speedup`; those of which too little is known only if there are no others. */
export function axisOf(pieces: Piece[], speedup: number): Axis {
  const settled = pieces.filter(({ verdict }) => verdict !== null && verdict !== "not-enough-data" && verdict !== "idle");
  let [lo, hi] = [0, LEAST];
  for (const { curve } of settled.length > 0 ? settled : pieces) {
    const gain = gainAt(curve, speedup);
    if (!gain) continue;
    lo = Math.min(lo, gain.lo ?? gain.value);
    hi = Math.max(hi, gain.hi ?? gain.value);
  }
  lo = Math.max(lo, MOST_BELOW);
  hi = Math.min(hi, 1);
  const all = ticks(lo, hi, 5);
  const step = all.length > 1 ? all[1]! - all[0]! : hi;
  const [first, last] = [Math.floor(lo / step + 1e-6), Math.ceil(hi / step - 1e-6)];
  const places = Array.from({ length: last - first + 1 }, (_, nth) => Number(((first + nth) * step).toFixed(6)));
  // Zero stands a little inside, so that what hurts has a side.
  const least = first < 0 ? places[0]! : Number((-step / 4).toFixed(6));
  return { lo: least, hi: places.at(-1)!, ticks: places };
}
