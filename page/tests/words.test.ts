// The words of the page against those of the terminal (crates/report/tests/golden).

import { expect, test } from "vitest";
import { changes, eras } from "../src/drift";
import * as prose from "../src/prose";
import { estimate, point, realistic, region } from "./example";

test("what a region does", () => {
  expect(prose.claim(region(), estimate())).toBe("20 % less time in `hash.c:88` makes `requests` 11 % ± 3 % shorter.");
  const hurts = estimate({ verdict: "hurts", slope: -0.5, slope_lo: -0.6, slope_hi: -0.4, effect: -0.1, effect_lo: -0.12, effect_hi: -0.08, kind: "latency" });
  const work = region({ kind: "function", name: "work", inclusive: true });
  expect(prose.claim(work, hurts)).toBe(
    "20 % less time in `work` with all it calls (hash.c:88) makes the latency of `requests` 10 % ± 2 % longer: contention.",
  );
  const of = { program: "worker" };
  expect(prose.claim(region(of), estimate())).toContain("less time in `hash.c:88` of `worker` makes");
  expect(prose.claim({ ...work, ...of }, hurts)).toContain("in `work` of `worker` with all it calls (hash.c:88) makes");
  // Up first and down later.
  const both = estimate({ verdict: "hurts", slope: -0.5, slope_lo: -0.6, slope_hi: -0.4 });
  expect(prose.claim(region(), both)).toBe(
    "Less time in `hash.c:88` makes `requests` longer over all speedups (slope −0.50 ± 0.10), though 11 % ± 3 % shorter at 20 %: contention.",
  );
  const open = estimate({ verdict: "not-enough-data", more_blocks: 1, effect_lo: null });
  expect(prose.claim(region(), open)).toBe(
    "Not enough data yet to say what less time in `hash.c:88` does to `requests`: measure a little longer, into the same recording (about one more experiment on it, as it looks now).",
  );
  expect(prose.claim(region(), estimate({ verdict: "no-effect" }))).toBe("Less time in `hash.c:88` has no effect on `requests`.");
});

// The same numbers as in crates/profile/src/answer/needed.rs.
test("how much more is needed is one sentence, and its two numbers agree", () => {
  for (const [experiments, made, wanted] of [
    [1, 20, "measure a little longer, into the same recording (about one more experiment on it, as it looks now)"],
    [1, 1, "measure as long again, into the same recording (about one more experiment on it, as it looks now)"],
    [40, 20, "measure about 2 times as long again, into the same recording (about 40 more experiments on it, as it looks now)"],
    [1_000_000, 20, "more experiments will not settle it: the error of the method is as large as the effect"],
    [900, 20, "measure much more, on a quiet machine if you can"],
    [5, 0, "let the program run longer (about 5 more experiments on it, as it looks now)"],
  ] as const) {
    expect(prose.needed(experiments, made)).toBe(wanted);
  }
  for (let made = 2; made < 200; made++) expect(prose.needed(1, made)).not.toContain("times as long");
});

test("a run that whatif stopped was not killed", () => {
  const [session] = realistic().sessions;
  const stopped = { ...session!, exit_code: null, exit_signal: 15, duration_ns: 20e9 };
  expect(prose.run({ ...stopped, stopped: true })).toContain("stopped by whatif after 20.0 s; ");
  expect(prose.run(stopped)).toContain("20.0 s, killed by signal 15; ");
});

test("where nothing is known to help, the sentence takes the place of the heading, if it is about this point", () => {
  const report = realistic();
  const [requests, lookup] = report.answer!.points;
  const open = { ...lookup!, change: null };
  expect(prose.heading({ ...report, answer: { points: [{ ...requests!, change: null }, open], next: [] } }, open)).toBe(report.sentence);
  expect(prose.heading({ ...report, answer: { points: [requests!, open], next: [] } }, open)).toBe(
    "Nothing that was tried is known to make the latency of `lookup` shorter.",
  );
  const { answer: _, ...old } = report;
  expect(prose.heading(old, open)).toBe(report.sentence);
});

test("where another bottleneck takes over", () => {
  const bend = { bend: 0.6, bend_lo: 0.55, bend_hi: 0.65 };
  expect(prose.limit(estimate(bend))).toBe(
    "Worth up to 50 % ± 5 %; beyond a speedup of 60 % ± 5 % something else begins to limit.",
  );
  // Where it may lie anywhere, it is told of no place.
  expect(prose.limit(estimate({ bend: 0.4, bend_lo: 0.07, bend_hi: 0.79 }))).toBe("Worth up to 50 % ± 5 %; the curve bends somewhere (40 % ± 36 %).");
  expect(prose.limit(estimate())).toBeNull();
});

test("a region that runs in a part of the run", () => {
  const unlock = region({ kind: "function", name: "unlock", file: "sqlite3.c", line: 72456, phase: 0.92 });
  expect(prose.phase(unlock, estimate({ slope: 0.27 }))).toBe(
    "unlock sqlite3.c:72456 runs in 92 % of the run: its slope is 0.29 while it does, and 0.27 over the whole run.",
  );
});

test("progress points", () => {
  expect(prose.describe(point())).toBe("requests: 127687 visits, 10062 per second without speedups");
  expect(prose.describe(point({ name: "idle", visits: 0, idle: true }))).toBe("idle: never visited while it was measured");
  expect(prose.describe(point({ name: "lookup", kind: "latency", latency_ns: 398_000 }))).toBe(
    "lookup (latency): 127687 visits, 10062 per second without speedups, 398 µs from begin to end in the mean; percentiles are not known",
  );
  const quantiles = [{ share: 0.5, latency_ns: 300_000 }, { share: 0.99, latency_ns: 2_000_000 }];
  expect(prose.describe(point({ kind: "latency", latency_ns: 398_000, quantiles }))).toContain(
    " in the mean, median 300 µs, 99th percentile 2.00 ms",
  );
});

test("what a region does to the slow ones", () => {
  const quantiles = [
    { share: 0.5, effect: 0.1, effect_lo: 0.08, effect_hi: 0.12 },
    { share: 0.95, effect: null, effect_lo: null, effect_hi: null },
  ];
  expect(prose.percentiles(estimate({ quantiles }))).toBe("20 % less time: median 10 % ± 2 % shorter.");
  expect(prose.percentiles(estimate())).toBeNull();
});

test("an unsteady latency", () => {
  expect(prose.describe(point({ unsteady: { windows: 40, growing: 3, shrinking: 0 } }))).toContain(
    "; 3 of 40 measurements were unstable: the queue was growing; latency is not in a steady state",
  );
});

test("runs, doubts and what was left out", () => {
  const [session] = realistic().sessions;
  expect(prose.run({ ...session!, program: "/bin/server", arguments: ["--port", "80 80"], duration_ns: 10e9, samples: 9000 })).toBe(
    "/bin/server --port '80 80': 10.0 s, exit code 0; 9000 samples every 1.00 ms (perf task-clock)",
  );
  expect(prose.doubts({ windows: 40, windows_busy: 10, windows_unmatched: 0 })).toEqual([
    "10 of 40 measurements (25 %) were made while other programs used more than 10 % of the machine",
  ]);
  expect(prose.leftOut({ ...realistic().left_out, regions_with_few_speedups: 0, windows_cut: 0, windows_unbalanced: 1 })).toEqual([
    "1 measurement whose delays did not balance",
  ]);
});

test("a warning is said once", () => {
  const warning = { session: 1, code: "busy", message: "busy", advice: "stop it" };
  expect(prose.counted([warning, { ...warning, session: 2 }, { ...warning, code: "other" }])).toEqual([
    { warning, runs: 2 },
    { warning: { ...warning, code: "other" }, runs: 1 },
  ]);
});

test("changes of speed", () => {
  const report = realistic();
  const requests = { point: "requests", kind: "throughput" } as const;
  expect(changes(report, requests)).toEqual([
    "throughput of `requests` fell by 15 % after 40.0 s (from 10062/s ± 81.0 to 8553/s ± 113): results before and after are kept apart",
  ]);
  const differing = report.regions.find(({ points }) => points[1]!.eras_differ)!;
  expect(eras(report, differing, differing.points[1]!)).toBe(
    "hash.c:85, `requests`: the slope was 0.62 [0.57, 0.67] until 40.0 s, 0.40 [0.34, 0.46] from 40.1 s on",
  );
});

test("changes from run to run", () => {
  const segment = { rate_per_s: 100, rate_lo: 90, rate_hi: 110 };
  const report = {
    ...realistic(),
    drift: [],
    run_drift: [
      {
        point: "requests",
        kind: "throughput" as const,
        segments: [
          { ...segment, sessions: [1, 2] },
          { ...segment, rate_per_s: 150, sessions: [3, 4] },
        ],
      },
    ],
  };
  expect(changes(report, { point: "requests", kind: "throughput" })).toEqual([
    "throughput of `requests` rose by 50 % after run 2 (from 100/s ± 10.0 to 150/s ± 10.0): results before and after are kept apart",
  ]);
});

test("when it was measured, and by which whatif", () => {
  const session = (minute: number, of: object = {}) => ({ ...realistic().sessions[0]!, started_unix_ns: (1_760_000_000 + 60 * minute) * 1e9, ...of });
  expect(prose.recorded([session(0)])).toBe("2025-10-09 08:53 UTC, whatif 0.1.0");
  expect(prose.recorded([session(0), session(1), session(2)])).toBe("2025-10-09 08:53 to 08:55 UTC, whatif 0.1.0");
  expect(prose.recorded([session(0), session(1440, { whatif_version: "0.2.0" })])).toBe("2025-10-09 08:53 to 2025-10-10 08:53 UTC, whatif 0.1.0, 0.2.0");
  expect(prose.recorded([session(0, { started_unix_ns: 0, whatif_version: "" })])).toBe("");
});
