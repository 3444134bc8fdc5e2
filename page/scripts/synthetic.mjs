// Reports that nobody measured, for tests and for looking at the page. Random numbers come from a seed: the same call
// makes the same report.

/** A small generator of numbers from 0 to 1 (mulberry32). */
export function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** About normal: twelve uniform ones added up. */
const noise = (rng, sd) => sd * (Array.from({ length: 12 }, rng).reduce((a, b) => a + b, 0) - 6);

const round = (value, digits = 5) => Number(value.toFixed(digits));

/** One region's entry for one point. `slope` is the truth; `bend` the speedup beyond which nothing is gained. */
export function estimate(rng, point, { slope, bend = null, blocks, sd = 0.05, dots = true, known = true, digits = 5 }) {
  const round = (value) => Number(value.toFixed(digits));
  const truth = (speedup) => slope * (bend === null ? speedup : Math.min(speedup, bend));
  const tried = [0.1, 0.2, 0.25, 0.4, 0.5, 0.6, 0.75, 0.85, 1].filter((_, nth) => nth < 4 || blocks > 8);
  const se = (2.2 * sd) / Math.sqrt(Math.max(blocks, 1));
  const off = noise(rng, se);
  const near = (value, half) => (known ? [round(value - half), round(value + half)] : [null, null]);
  const speedups = [{ speedup: 0, gain: 0, raw_gain: 0, lo: null, hi: null, windows: blocks }];
  [speedups[0].lo, speedups[0].hi] = near(0, 1.6 * se);
  for (const speedup of tried) {
    const gain = truth(speedup) + off * speedup;
    const [lo, hi] = near(gain, 2 * se * speedup);
    const raw_gain = round(gain + noise(rng, 1.5 * se));
    speedups.push({ speedup, gain: round(gain), raw_gain, lo, hi, windows: Math.max(1, Math.round(blocks / tried.length)) });
  }
  const found = truth(0.5) / 0.5 + off;
  const [slope_lo, slope_hi] = near(found, 2 * se);
  const [effect_lo, effect_hi] = near(found * 0.2, 0.4 * se);
  const most = Math.max(0, ...speedups.map(({ gain }) => gain));
  const [max_gain_lo, max_gain_hi] = near(most, 2 * se);
  const verdict =
    !known || blocks < 5
      ? "not-enough-data"
      : slope_lo > 0.02
        ? "helps"
        : slope_hi < -0.02
          ? "hurts"
          : slope_lo > -0.05 && slope_hi < 0.05
            ? "no-effect"
            : "not-enough-data";
  const entry = {
    point: point.name,
    kind: point.kind,
    verdict,
    blocks,
    disturbed_blocks: blocks > 20 ? 1 : 0,
    more_blocks: verdict === "not-enough-data" && known ? Math.round(20 + 40 * rng()) : null,
    slope: round(found),
    slope_se: known ? round(se) : null,
    slope_lo,
    slope_hi,
    method_error: 0.008,
    chance: known ? Number(Math.exp(-Math.abs(found) / se).toFixed(9)) : null,
    effect: round(found * 0.2),
    effect_lo,
    effect_hi,
    max_gain: round(most),
    max_gain_lo,
    max_gain_hi,
    bend,
    bend_lo: bend === null ? null : round(bend - 0.06),
    bend_hi: bend === null ? null : round(bend + 0.08),
    pairing: 0.62,
    kept_apart: false,
    eras: [],
    eras_differ: false,
    speedups,
  };
  if (dots) {
    entry.dots = Array.from({ length: blocks }, (_, block) => {
      const speedup = tried[Math.floor(rng() * tried.length)];
      const leftOut = rng() < 0.06 ? (rng() < 0.5 ? "disturbed" : "unbalanced") : null;
      const gain = truth(speedup) + noise(rng, leftOut ? 4 * sd : sd);
      return [speedup, round(gain), 1, block, leftOut];
    });
  }
  return entry;
}

/** A region without its points. */
export function region(of) {
  return {
    kind: "line",
    name: "hash.c:88",
    function: null,
    file: null,
    line: null,
    inclusive: false,
    image: { path: "/srv/bin/server", build_id: "ab12cd34ef56" },
    samples: 1000,
    share: 0.1,
    windows: 40,
    phase: 1,
    verdict: "not-enough-data",
    points: [],
    snippet: null,
    ...of,
  };
}

/** A piece of code of which too little is known for an estimate. */
export function candidate(of) {
  return { kind: "function", name: "work", function: "work", file: "/srv/src/server.c", line: 10, samples: 100, share: 0.01, experiments: 0, tried: 0, ...of };
}

/** One run of the program. */
export function session(of) {
  return {
    id: 1,
    started_unix_ns: 1760000000000000000,
    program: "/srv/bin/server",
    arguments: ["--port", "8080"],
    directory: "/srv",
    host: "box",
    kernel: "6.12",
    cpus: 8,
    seed: "18446744073709551614",
    options: {},
    whatif_version: "0.1.0",
    sampler: "perf task-clock",
    sample_period_ns: 1000000,
    kernel_time: true,
    repeat: 0,
    fixed_regions: false,
    fixed_speedups: false,
    finished: true,
    duration_ns: 60000000000,
    exit_code: 0,
    exit_signal: null,
    samples: 96214,
    sample_weight_ns: 96214000000,
    lost_samples: 0,
    images: [{ path: "/srv/bin/server", build_id: "ab12cd34ef56" }],
    ...of,
  };
}

/** A report with nothing in it. */
export function report(of) {
  return {
    version: 1,
    sentence: "No experiment was completed: let the program run longer, or give it more work.",
    sessions: [session()],
    points: [],
    regions: [],
    candidates: [],
    drift: [],
    run_drift: [],
    left_out: {
      regions_without_baseline: 0,
      regions_with_few_speedups: 0,
      windows_unbalanced: 0,
      windows_cut: 0,
      windows_overdrawn: 0,
      windows_unpaired: 0,
    },
    doubts: { windows: 0, windows_busy: 0, windows_unmatched: 0 },
    warnings: [],
    ...of,
  };
}

/** The best verdict first, as in the report. */
export function inOrder(regions) {
  const worth = ({ points: [of] }) => (of.verdict === "hurts" ? -10 : (of.slope_lo ?? -5));
  for (const region of regions) region.verdict = region.points[0].verdict;
  return regions.sort((a, b) => worth(b) - worth(a));
}

/** Windows without speedup over one minute, with a fall of the rate. */
export function baselines(rng, point, { rate, until, change, windows = 240, session = 1 }) {
  const [length, gap] = [120e6, 60e9 / windows];
  return {
    point: point.name,
    kind: point.kind,
    windows: Array.from({ length: windows }, (_, nth) => {
      const start = Math.round(nth * gap + 1e7);
      const now = start < until ? rate : rate * change;
      const visits = Math.max(0, Math.round((now * length) / 1e9 + noise(rng, Math.sqrt((now * length) / 1e9))));
      return [session, start, length, visits, round(visits / (length / 1e9), 2)];
    }),
  };
}
