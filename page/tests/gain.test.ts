// Gains of the first screen, and the axis that they share.

import { expect, test } from "vitest";
import { axisOf, gainAt, inWords } from "../src/gain";
import type { CurvePoint, Piece } from "../src/model";

const curve: CurvePoint[] = [
  [0.2, 0.1, 0.08, 0.12],
  [0.6, 0.2, 0.18, 0.22],
];

const piece = (part: Partial<Piece>): Piece => ({
  name: "`work`",
  label: "work",
  region: 0,
  state: "measured",
  verdict: "helps",
  share: 0.1,
  experiments: 9,
  tried: 5,
  curve,
  note: null,
  lines: [],
  ...part,
});

// The same numbers as in crates/profile/src/answer/words.rs.
test("between two speedups a gain is between theirs, and from none at no speedup", () => {
  const at = (speedup: number) => {
    const gain = gainAt(curve, speedup);
    return gain && Number(gain.value.toFixed(6));
  };
  expect([0, 0.1, 0.2, 0.4, 0.6, 0.7].map(at)).toEqual([0, 0.05, 0.1, 0.15, 0.2, null]);
  const { lo, hi } = gainAt(curve, 0.1)!;
  expect([lo!, hi!].map((end) => end.toFixed(4))).toEqual(["0.0400", "0.0600"]);
  expect(gainAt([], 0.2)).toBeNull();
  expect(gainAt([[0.2, 0.1, null, null]], 0.1)).toEqual({ value: 0.05, lo: null, hi: null });
});

test("numbers are as exact as their interval", () => {
  expect(inWords({ value: 0.08, lo: 0.06, hi: 0.1 })).toEqual({ value: "8 %", range: "6 to 10" });
  expect(inWords({ value: 0.08, lo: 0.076, hi: 0.084 })).toEqual({ value: "8.0 %", range: "7.6 to 8.4" });
  expect(inWords({ value: 0.016, lo: -0.004, hi: 0.036 })).toEqual({ value: "2 %", range: "−0.4 to 3.6" });
  expect(inWords({ value: -0.1, lo: null, hi: null })).toEqual({ value: "−10 %", range: null });
});

test("the axis holds what is settled, and zero stands inside of it", () => {
  const wild = piece({ verdict: "not-enough-data", curve: [[0.2, 0.1, -9, 9]] });
  const hurts = piece({ verdict: "hurts", curve: [[0.2, -0.07, -0.09, -0.05]] });
  expect(axisOf([piece({}), wild], 0.2)).toEqual({ lo: -0.0125, hi: 0.15, ticks: [0, 0.05, 0.1, 0.15] });
  expect(axisOf([piece({}), hurts], 0.2).lo).toBe(-0.1);
  expect(axisOf([piece({})], 0.6).hi).toBe(0.25);
  for (const pieces of [[wild], [], [piece({ curve: [] })]]) {
    for (const speedup of [0.05, 0.2, 1]) {
      const { lo, hi, ticks } = axisOf(pieces, speedup);
      expect(lo).toBeLessThan(0);
      expect(hi).toBeGreaterThan(0);
      expect(hi).toBeLessThanOrEqual(1);
      expect(ticks).toContain(0);
      expect(ticks.length).toBeLessThan(14);
    }
  }
});
