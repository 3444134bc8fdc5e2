// What the first screen says of the point that is looked at: as Rust says it, or, in reports of earlier versions, as far as
// the regions tell.

import { REFERENCE } from "./gain";
import type { CurvePoint, Piece, Point, PointAnswer, Report } from "./model";
import { whole } from "./parts";
import { printable } from "./printable";
import { rows, sorted, DEFAULT_SORT } from "./ranking";
import { inSentence } from "./region";

/** More pieces are not made of a report without an answer. */
const DERIVED = 200;

/** The answer for `point`, which is number `nth`. */
export function answerFor(report: Report, point: Point | null, nth: number): PointAnswer {
  const { answer } = report;
  if (!answer) return derived(report, point, nth);
  const found = point && answer.points.find((of) => of.point === point.name && of.kind === point.kind);
  return found ?? answer.points.find((of) => of.point === null) ?? { ...nothing(point), pieces: [] };
}

const nothing = (point: Point | null): PointAnswer => ({
  point: point?.name ?? null,
  kind: point?.kind ?? null,
  badge: null,
  change: null,
  brings: null,
  causes: [],
  pieces: [],
  more_pieces: 0,
});

/** One piece for each region, the most useful first; without a heading of its own, so that the sentence takes its place. */
function derived(report: Report, point: Point | null, nth: number): PointAnswer {
  const positions = new Map(report.regions.map((region, at) => [region, at]));
  const ranked = sorted(rows(report.regions, nth), DEFAULT_SORT);
  const pieces = ranked.slice(0, DERIVED).map(({ label, region, estimate }): Piece => {
    const { speedups } = whole(region)?.points[nth] ?? {};
    const curve = (speedups ?? []).flatMap(({ speedup, gain, lo, hi }): CurvePoint[] =>
      speedup === 0 || gain === null ? [] : [[speedup, gain, lo, hi]],
    );
    const { effect, effect_lo, effect_hi } = estimate;
    const tried = curve.length;
    // What the sentence says is what the bar shows, though it may not have been tried itself.
    const place = curve.findIndex(([speedup]) => speedup >= REFERENCE);
    if (effect !== null && (tried === 0 || (place >= 0 && curve[place]![0] > REFERENCE)))
      curve.splice(Math.max(place, 0), 0, [REFERENCE, effect, effect_lo, effect_hi]);
    return {
      name: inSentence(region),
      label: printable(label),
      region: positions.get(region) ?? null,
      state: "measured",
      verdict: estimate.verdict,
      share: region.share,
      production_share: region.production_share ?? null,
      mark: region.mark ?? null,
      experiments: estimate.blocks,
      tried,
      curve,
      note: null,
      lines: [],
    };
  });
  return { ...nothing(point), pieces, more_pieces: Math.max(0, ranked.length - DERIVED) };
}
