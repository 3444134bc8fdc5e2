// Reports to test with.

import type { Point, Report, WholeEstimate, WholeRegion } from "../src/model";
import { check } from "../src/model";
import hostileText from "../fixtures/hostile.json?raw";
import plainText from "../fixtures/plain.json?raw";
import realisticText from "../fixtures/realistic.json?raw";
import unsettledText from "../fixtures/unsettled.json?raw";

type WholeReport = Omit<Report, "regions"> & { regions: WholeRegion[] };

function report(text: string): WholeReport {
  const found = check(JSON.parse(text));
  if (typeof found === "string") throw new Error(found);
  return found as unknown as WholeReport;
}

export const realistic = (): WholeReport => report(realisticText);
export const hostile = (): WholeReport => report(hostileText);
export const plain = (): WholeReport => report(plainText);
export const unsettled = (): WholeReport => report(unsettledText);

export function estimate(part: Partial<WholeEstimate> = {}): WholeEstimate {
  return {
    point: "requests",
    kind: "throughput",
    verdict: "helps",
    blocks: 20,
    disturbed_blocks: 0,
    more_blocks: null,
    slope: 0.54,
    slope_se: 0.02,
    slope_lo: 0.5,
    slope_hi: 0.57,
    method_error: 0.01,
    chance: 1e-9,
    effect: 0.11,
    effect_lo: 0.08,
    effect_hi: 0.14,
    max_gain: 0.5,
    max_gain_lo: 0.45,
    max_gain_hi: 0.55,
    bend: null,
    bend_lo: null,
    bend_hi: null,
    pairing: 1,
    kept_apart: false,
    eras: [],
    eras_differ: false,
    speedups: [],
    ...part,
  };
}

export function region(part: Partial<WholeRegion> = {}): WholeRegion {
  return {
    kind: "line",
    name: "hash.c:88",
    function: "work",
    file: "/src/hash.c",
    line: 88,
    inclusive: false,
    image: { path: "/bin/server", build_id: "ab12" },
    samples: 1000,
    share: 0.11,
    windows: 40,
    phase: 1,
    verdict: "helps",
    points: [estimate()],
    snippet: null,
    ...part,
  };
}

export function point(part: Partial<Point> = {}): Point {
  return {
    name: "requests",
    kind: "throughput",
    visits: 127687,
    rate_per_s: 10062,
    latency_ns: null,
    unsteady: null,
    idle: false,
    ...part,
  };
}
