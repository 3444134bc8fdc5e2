import { expect, test } from "vitest";
import { baseline, gains, isBare, lanes, stretches } from "../src/axes";
import type { AtSpeedup } from "../src/model";
import { estimate } from "./example";

const at = (speedup: number, gain: number | null, half: number | null): AtSpeedup => ({
  speedup,
  gain,
  raw_gain: gain,
  lo: gain === null || half === null ? null : gain - half,
  hi: gain === null || half === null ? null : gain + half,
  windows: 4,
});

test("axes hold all curves and bands, and never less than some", () => {
  expect(gains([])[0]).toBeLessThan(-0.05);
  expect(gains([])[1]).toBeGreaterThan(0.1);
  const [lo, hi] = gains([estimate({ speedups: [at(0.5, 0.25, 0.125), at(1, 0.5, 0.25)] }), estimate({ speedups: [at(1, -0.25, 0.125)] })]);
  expect(lo).toBeCloseTo(-0.375 - 0.045);
  expect(hi).toBeCloseTo(0.75 + 0.045);
});

test("what nobody knows does not flatten what somebody does", () => {
  const wild = estimate({ verdict: "not-enough-data", speedups: [at(1, 0, 9)] });
  expect(gains([wild, estimate({ speedups: [at(1, 0.4, 0.1)] })])[1]).toBeLessThan(0.6);
  expect(gains([wild])[1]).toBeCloseTo(1.08);
});

test("the curve starts at nothing, and its band where it is known", () => {
  expect(stretches([at(0, 0, 0.125), at(0.5, 0.25, 0.125)])).toEqual([
    {
      known: true,
      line: [{ speedup: 0, gain: 0 }, { speedup: 0.5, gain: 0.25 }],
      band: [{ speedup: 0.5, lo: 0.125, hi: 0.375 }],
    },
  ]);
  expect(baseline([at(0, 0, 0.125)])).toEqual({ lo: -0.125, hi: 0.125 });
  expect(baseline([at(0, 0, null)])).toBeNull();
});

test("without intervals there is no band", () => {
  const single = [at(0, 0, 0.1), at(0.5, 0.2, null), at(1, 0.4, null)];
  const [only, ...others] = stretches(single);
  expect(others).toEqual([]);
  expect(only).toMatchObject({ known: false, band: [] });
  expect(only!.line).toHaveLength(3);
  expect(isBare(single)).toBe(true);
  expect(isBare([...single, at(0.7, 0.3, 0.1)])).toBe(false);
});

test("the curve is cut where it is not known", () => {
  const found = stretches([at(0.2, 0.1, 0.1), at(0.4, null, null), at(0.6, 0.3, 0.1), at(0.8, 0.4, null)]);
  expect(found.map(({ known, line }) => [known, line.map(({ speedup }) => speedup)])).toEqual([
    [true, [0, 0.2]],
    [true, [0.6]],
    [false, [0.6, 0.8]],
  ]);
});

test("runs stand one after the other", () => {
  expect(lanes([{ id: 7, length: 10 }])).toEqual([{ session: 7, start: 0, end: 10 }]);
  expect(lanes([{ id: 1, length: 10 }, { id: 2, length: 30 }])).toEqual([
    { session: 1, start: 0, end: 10 },
    { session: 2, start: 14, end: 44 },
  ]);
  expect(lanes([])).toEqual([]);
});
