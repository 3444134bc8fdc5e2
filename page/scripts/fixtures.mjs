// Writes fixtures/: realistic.json, a report as it should be; plain.json, one without a progress point; unsettled.json, one of which too
// little is known; hostile.json, one that means harm; and comparison.json, two recordings compared.
//
//     node scripts/fixtures.mjs

import { writeFileSync } from "node:fs";
import { answer } from "./answer.mjs";
import { baselines, candidate, estimate, inOrder, random, region, report, session } from "./synthetic.mjs";

const write = (name, value) =>
  writeFileSync(new URL(`../fixtures/${name}.json`, import.meta.url), `${JSON.stringify(value)}\n`);

const SOURCE = `static uint64_t hash(const char *key, size_t length)
{
	uint64_t h = 0xcbf29ce484222325ull;
	for (size_t i = 0; i < length; i++) {
		h ^= (unsigned char)key[i];
		h *= 0x100000001b3ull;
	}
	return h;
}

struct entry *lookup(struct table *table, const char *key)
{
	size_t length = strlen(key);
	pthread_mutex_lock(&table->lock);
	struct entry *entry = table->buckets[hash(key, length) % table->size];
	while (entry && strcmp(entry->key, key) != 0)
		entry = entry->next;
	pthread_mutex_unlock(&table->lock);
	return entry;
}
`;

function realistic() {
  const rng = random(7);
  const requests = { name: "requests", kind: "throughput" };
  const jobs = { name: "jobs", kind: "throughput" };
  const lookup = { name: "lookup", kind: "latency" };
  const snippet = { first_line: 80, text: SOURCE };
  const line = (number, share, truths) => ({
    of: { name: `hash.c:${number}`, file: "/srv/src/hash.c", line: number, function: "hash", share, snippet },
    truths,
  });
  const code = (name, file, number, share, truths, more = {}) => ({
    of: { kind: "function", name, function: name, file: `/srv/src/${file}`, line: number, share, ...more },
    truths,
  });
  const blocks = () => Math.round(14 + 40 * rng());
  const tried = [
    line(85, 0.24, [{ slope: 0.54, blocks: 58 }, { slope: 0.5, blocks: 58, sd: 0.08 }]),
    line(84, 0.11, [{ slope: 0.2, blocks: 40 }, { slope: 0.18, blocks: 40, sd: 0.08 }]),
    line(93, 0.04, [{ slope: -0.35, blocks: 31, sd: 0.06 }, { slope: -0.5, blocks: 31 }]),
    line(95, 0.06, [{ slope: 0.02, blocks: 22, sd: 0.15 }, { slope: 0.1, blocks: 22, sd: 0.2 }]),
    code("hash", "hash.c", 80, 0.36, [{ slope: 0.66, bend: 0.6, blocks: 49 }, { slope: 0.6, bend: 0.6, blocks: 49 }], { snippet }),
    code("lookup", "hash.c", 90, 0.47, [{ slope: 0.6, blocks: 44 }, { slope: 0.7, blocks: 44 }], { snippet, inclusive: true }),
    code("parse_header", "http.c", 211, 0.08, [{ slope: 0.12, blocks: 38 }, { slope: 0, blocks: 38 }], { phase: 0.92 }),
    code("log_line", "log.c", 17, 0.05, [{ slope: 0, blocks: 66, sd: 0.04 }, { slope: 0, blocks: 66, sd: 0.04 }]),
    code("compress", "gzip.c", 640, 0.1, [{ slope: 0.05, blocks: 3, known: false }, { slope: 0.1, blocks: 3, known: false }]),
    ...["accept_loop", "read_request", "write_all", "route", "malloc", "memcpy", "timer_wheel", "metrics_tick"].map(
      (name, nth) => code(name, "server.c", 30 + 41 * nth, 0.002 + 0.02 * rng(), [
        { slope: 0.05 * (rng() - 0.4), blocks: blocks(), sd: 0.12 },
        { slope: 0.05 * (rng() - 0.4), blocks: blocks(), sd: 0.12 },
      ]),
    ),
  ];
  const idle = { ...estimate(rng, jobs, { slope: 0, blocks: 0, dots: false, known: false }), verdict: "idle", slope: null, effect: null, max_gain: null, speedups: [] };
  const regions = tried.map(({ of, truths: [first, second] }) =>
    region({
      ...of,
      samples: Math.round(96214 * of.share),
      windows: 2 * first.blocks,
      points: [estimate(rng, requests, first), { ...idle }, estimate(rng, lookup, second)],
    }),
  );
  const parts = [
    { start_ns: 1e7, end_ns: 40e9, windows: 160, rate_per_s: 10062, rate_lo: 9981, rate_hi: 10143 },
    { start_ns: 40.1e9, end_ns: 59.9e9, windows: 80, rate_per_s: 8553, rate_lo: 8440, rate_hi: 8666 },
  ];
  const best = regions[0].points[0];
  best.kept_apart = true;
  best.pairing = 1;
  best.eras_differ = true;
  best.eras = [
    { session: 1, segment: 0, blocks: 40, slope: 0.62, slope_lo: 0.57, slope_hi: 0.67 },
    { session: 1, segment: 1, blocks: 18, slope: 0.4, slope_lo: 0.34, slope_hi: 0.46 },
  ];
  regions.find(({ name }) => name === "log_line").mark = "hot-but-does-not-matter";
  const found = report({
    sentence:
      "20 % less time in `hash` (hash.c:80) makes `requests` 13.0 % ± 0.6 % shorter; `lookup` with all it calls (hash.c:90) may be worth as much.",
    points: [
      { ...jobs, visits: 4, rate_per_s: 0.1, latency_ns: null, unsteady: null, idle: true },
      { ...requests, visits: 571204, rate_per_s: 9559, latency_ns: null, unsteady: null, idle: false },
      { ...lookup, visits: 571180, rate_per_s: 9558, latency_ns: 398000, unsteady: { windows: 240, growing: 9, shrinking: 4 }, idle: false },
    ],
    // In the order of the points: jobs, requests, lookup.
    regions: inOrder(regions).map((of) => ({ ...of, points: [of.points[1], of.points[0], of.points[2]] })),
    candidates: [
      candidate({ name: "send_file", function: "send_file", line: 402, samples: 2900, share: 0.03, experiments: 3, tried: 3 }),
      candidate({ name: "epoll_wait", function: "epoll_wait", file: null, line: null, samples: 1900, share: 0.02 }),
    ],
    drift: [
      { session: 1, point: "requests", kind: "throughput", segments: parts },
      { session: 1, point: "lookup", kind: "latency", segments: parts },
    ],
    run_drift: [],
    left_out: { ...report().left_out, regions_with_few_speedups: 12, windows_unbalanced: 5, windows_cut: 1 },
    doubts: { windows: 1294, windows_busy: 88, windows_unmatched: 0 },
    warnings: [
      {
        session: 1,
        code: "busy-machine",
        message: "other programs used 25 % of the machine",
        advice: "stop them, or give whatif its own CPUs: taskset -c 2,3 whatif run -- PROGRAM",
      },
    ],
    baselines: [
      baselines(rng, requests, { rate: 10062, until: 40e9, change: 0.85 }),
      baselines(rng, lookup, { rate: 10062, until: 40e9, change: 0.85 }),
    ],
  });
  const causes = ({ kind }) =>
    kind === "latency"
      ? []
      : [
          "From about 60 % less time in `hash` (hash.c:80) on, something else limits each `requests`.",
          "Less time in `hash.c:93` makes each `requests` longer: threads that leave it sooner get into each other's way, at a lock or in a cache.",
          "`log_line` (log.c:17) is hot with 5 % of the CPU time, but does not matter: it runs beside `hash` (hash.c:80), which finishes later.",
        ];
  return { ...found, answer: answer(found, { causes }) };
}

/** The names of functions that a program without marks spends its time in. */
const SAMPLED = ["render_frame", "std::collections::hash::map::HashMap<K,V,S>::insert", "memmove", "scene::Bounds::intersects", "compress_block", "parse", "next_token", "hash_bytes", "alloc::raw_vec::RawVec<T>::grow_one", "write_all", "checksum", "main", "read_line"];

/** The stacks of a Rust program: frames are `[name, file, ...samples of its own, and what it calls]`. */
function stacksOf(...outermost) {
  const [texts, functions, calls] = [[], [], []];
  const text = (of) => (texts.includes(of) ? texts.indexOf(of) : texts.push(of) - 1);
  const add = ([name, file, own, ...inside], caller) => {
    const found = functions.findIndex(([of, at]) => texts[of] === name && (at === null || texts[at] === file));
    const isImage = file.includes(".so");
    const of = found >= 0 ? found : functions.push([text(name), isImage ? null : text(file), isImage ? text(file) : null, null]) - 1;
    const at = calls.push([caller, of, null, 0, null, own, own * 1e6]) - 1;
    for (const one of inside) add(one, at);
  };
  for (const one of outermost) add(one, null);
  const samples = calls.reduce((sum, call) => sum + call[5], 0);
  return { samples, weight_ns: samples * 1e6, truncated_samples: 0, missing_samples: 0, missing_weight_ns: 0, texts, functions, calls };
}

const MAIN = "/home/me/viewer/src/main.rs";
const STD = "/rustc/29483883eed69d5fb4db01964cdf2af4d86e9cb2/library";
const LIBC = "/usr/lib/x86_64-linux-gnu/libc.so.6";
const GLAM = "/home/me/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/glam-0.27.0/src/vec3.rs";

const viewerStacks = () =>
  stacksOf(
    ["_start", LIBC, 0, ["__libc_start_main_impl", LIBC, 0, ["main", MAIN, 0, ["std::rt::lang_start_internal", `${STD}/std/src/rt.rs`, 1, ["std::sys::backtrace::__rust_begin_short_backtrace", `${STD}/std/src/sys/backtrace.rs`, 0,
      ["viewer::main", MAIN, 10,
        ["render_frame", MAIN, 310, ["scene::Bounds::intersects", "/home/me/viewer/src/scene.rs", 80, ["glam::Vec3::dot", GLAM, 40]], ["memmove", LIBC, 60]],
        ["compress_block", "/home/me/viewer/src/compress.rs", 60, ["std::collections::hash::map::HashMap<K,V,S>::insert", `${STD}/std/src/collections/hash/map.rs`, 150]],
        ["write_all", `${STD}/std/src/io/mod.rs`, 30, ["write", LIBC, 20]]]]]]]],
    ["clone3", LIBC, 0, ["start_thread", LIBC, 0, ["std::sys::thread::unix::Thread::new::thread_start", `${STD}/std/src/sys/thread/unix.rs`, 0, ["parse", "/home/me/viewer/src/parse.rs", 50, ["next_token", "/home/me/viewer/src/parse.rs", 90], ["memmove", LIBC, 40]]]]],
  );

/** No progress point: there is the plain profile. */
function plain() {
  const rng = random(3);
  const candidates = SAMPLED.map((name, nth) =>
    candidate({ name, function: name, file: nth === 2 ? null : "/home/me/viewer/src/main.rs", line: nth === 2 ? null : 40 + 31 * nth, samples: Math.round(9000 / (nth + 1)), share: 0.31 / (1 + nth * (1 + 0.2 * rng())) }),
  );
  const found = report({
    sentence: "There is no progress point to measure: mark one in the program with whatif::progress!() or WHATIF_PROGRESS.",
    sessions: [session({ program: "/home/me/viewer/target/release/viewer", arguments: ["scene.obj"], exit_code: null, exit_signal: 15, stopped: true, duration_ns: 20e9 })],
    candidates,
    stacks: viewerStacks(),
  });
  return { ...found, answer: answer(found) };
}

/** A short run on a busy machine. */
function unsettled() {
  const rng = random(5);
  const frames = { name: "frames", kind: "throughput" };
  const tried = [["render_frame", 0.41, 0.4], ["compress_block", 0.2, 0.1], ["parse", 0.08, 0]];
  const regions = tried.map(([name, share, slope], nth) =>
    region({ kind: "function", name, function: name, file: "/home/me/viewer/src/main.rs", line: 40 + 90 * nth, share, samples: Math.round(9000 * share), windows: 12, phase: nth === 1 ? 0.34 : 1, points: [estimate(rng, frames, { slope, blocks: 6 - nth, sd: 0.5 })] }),
  );
  for (const { points: [of] } of regions) of.verdict = "not-enough-data";
  const found = report({
    sentence: "Not enough data yet to say what makes `frames` faster; the best candidate is `render_frame` (main.rs:40) (now 8 % ± 18 % at 20 %): run it about 5 times as long (about 24 more experiments on it).",
    sessions: [session({ program: "/home/me/viewer/target/release/viewer", arguments: ["scene.obj"] })],
    points: [{ ...frames, visits: 910, rate_per_s: 15.2, latency_ns: null, unsteady: null, idle: false }],
    regions,
    stacks: viewerStacks(),
    candidates: SAMPLED.slice(2).map((name, nth) => candidate({ name, function: name, file: "/home/me/viewer/src/main.rs", line: 300 + nth, samples: 300, share: 0.06 / (nth + 1), experiments: nth < 4 ? 4 - nth : 0, tried: nth < 4 ? 4 - nth : 0 })),
    left_out: { ...report().left_out, regions_with_few_speedups: 4 },
    doubts: { windows: 60, windows_busy: 31, windows_unmatched: 0 },
    warnings: [{ session: 1, code: "busy-machine", message: "other programs used 61 % of the machine", advice: "stop them, or give whatif its own CPUs: taskset -c 2,3 whatif run -- PROGRAM" }],
    baselines: [baselines(rng, frames, { rate: 15.2, until: 60e9, change: 1, windows: 40 })],
    drift: [{ session: 1, point: "frames", kind: "throughput", segments: [{ start_ns: 0, end_ns: 60e9, windows: 40, rate_per_s: 15.2, rate_lo: 14.1, rate_hi: 16.3 }] }],
  });
  return { ...found, answer: answer(found) };
}

/** Names and sources that try to be markup, to hide, to reorder, or to take all the room. */
function hostile() {
  const rng = random(13);
  const point = { name: 'requests</script><script>alert("point")</script>', kind: "throughput" };
  const names = [
    "</script><img src=x onerror=alert(1)>",
    "\"'`><svg/onload=alert(2)>",
    "evil\u202egnp.exe\u2066hidden\u2069",
    "nul\u0000byte\u001b[31mred\u007f\u009b",
    "zero\u200bwidth\ufeff\u00ad\u{e0041}",
    "a\nb\tc\rd\u2028e",
    `operator<<${"(longer, ".repeat(1200)}`,
    "__proto__",
    "constructor",
    "",
    "größe 大きさ שלום",
    "same",
    "same",
    "&amp;lt; %20#region=x&sort=share",
  ];
  const text = [
    "int ok = 1; // </script><script>alert(3)</script>",
    "/* \u202e } \u2066if (admin)\u2069 \u2066 begin admins only */",
    `char *wide = "${"x".repeat(10000)}";`,
    "\tputs(\"\u0000\u001b]0;title\u0007\");",
    "<!-- --> <script> ]]>",
    "`backtick` ` '\"",
  ].join("\n");
  const regions = names.map((name, nth) =>
    region({
      kind: nth % 2 === 0 ? "function" : "line",
      name,
      function: name,
      file: nth === 2 ? "/srv/\u202ecod.c" : "/srv/</style><b>.c",
      line: 10 + (nth % 6),
      inclusive: nth % 3 === 0,
      windows: 20,
      points: [estimate(rng, point, { slope: 0.4 - 0.06 * nth, blocks: nth === 9 ? 2 : 20, known: nth !== 9 })],
      snippet: nth % 4 === 3 ? null : { first_line: 10, text },
    }),
  );
  // Numbers at the ends of what is allowed.
  regions[4].points[0].dots.push([1, -25, 1, 900, null], [0.5, null, 1, 901, "a reason\u202e nobody knows"]);
  regions[5].share = null;
  const found = report({
    sentence: `20 % less time in \`${names[0]}\` makes \`${point.name}\` 8 % ± 2 % shorter; \`unpaired backtick may be worth as much.`,
    sessions: [session({ program: "/srv/</script>", arguments: ["a b", "", "\u202e", "x".repeat(3000)], host: "<b>box</b>", exit_code: null, exit_signal: 9 })],
    points: [{ ...point, visits: 100, rate_per_s: null, latency_ns: null, unsteady: null, idle: false }],
    regions: inOrder(regions),
    warnings: [
      { session: 1, code: "x", message: `</script>\u202e${"long ".repeat(500)}`, advice: "<a href=javascript:alert(4)>do this</a>" },
      { session: 2, code: "x", message: "twice", advice: "" },
      { session: 1, code: "x", message: "twice", advice: "" },
    ],
    drift: [{ session: 1, point: point.name, kind: "throughput", segments: [{ start_ns: 0, end_ns: 0, windows: 0, rate_per_s: null, rate_lo: null, rate_hi: null }] }],
    candidates: names.slice(0, 8).map((name, nth) => candidate({ name, function: name, file: nth % 2 ? null : "/srv/\u202ecod.c", experiments: nth % 3, tried: nth % 3 })),
  });
  const causes = () => [`\`${names[0]}\` explains \u202e it, and \` an unpaired backtick does not.`];
  return { ...found, answer: answer(found, { causes }) };
}

/** Two recordings of a server: one line became quick, another took its place, and one moved. */
function comparison() {
  const slope = (value, half, verdict, blocks = 40) => ({
    verdict,
    blocks,
    slope: value,
    slope_se: half === null ? null : half / 2,
    slope_lo: half === null ? null : value - half,
    slope_hi: half === null ? null : value + half,
  });
  const nothing = (point) => ({ ...point, change: "cannot-tell", before: null, after: null, difference: null, difference_se: null, difference_lo: null, difference_hi: null });
  const requests = { point: "requests", kind: "throughput" };
  const lookup = { point: "lookup", kind: "latency" };
  const changed = (point, change, before, after) => {
    if (!before || !after) return { ...nothing(point), change, before, after };
    const half = Math.hypot((before.slope_hi - before.slope_lo) / 2, (after.slope_hi - after.slope_lo) / 2);
    const difference = after.slope - before.slope;
    return { point: point.point, kind: point.kind, change, before, after, difference, difference_se: half / 2, difference_lo: difference - half, difference_hi: difference + half };
  };
  const side = (name, line, windows = 80) => ({ name, function: "hash", file: "/srv/src/hash.c", line, image: { path: "/srv/bin/server", build_id: "ab12cd34ef56" }, windows });
  const of = (before, after, change, one, other) => ({
    kind: "line",
    inclusive: false,
    before,
    after,
    points: [changed(requests, change, one, other), nothing(lookup)],
  });
  const runs = (count, first) => Array.from({ length: count }, (_, nth) => session({ id: first + nth, started_unix_ns: 1760000000000000000 + nth * 7e10 }));
  return {
    version: 1,
    sentence: "`requests` takes 17 % ± 1 % less time than before (1.2 × the throughput); `hash.c:12` became critical, and `hash.c:95` is worth less than before.",
    point: 0,
    before: { measured: "`server --port 8080`: 3 runs, 180 s in all", sessions: runs(3, 1) },
    after: { measured: "`server --port 8080`: 3 runs, 180 s in all", sessions: runs(3, 4) },
    points: [
      { name: "requests", kind: "throughput", headline: "17 % ± 1 less time per `requests`", brings: "9993 → 12.0 k per second, 1.2 × the throughput", rest: "`hash.c:12` became critical, and `hash.c:95` is worth less than before.", change: "better", before: { period_ns: 100070, baselines: 120, runs: 3 }, after: { period_ns: 83090, baselines: 118, runs: 3 }, gain: 0.1697, gain_se: 0.0048, gain_lo: 0.16, gain_hi: 0.179, throughput_factor: 1.2044 },
      { name: "lookup", kind: "latency", headline: "Not certain: 1.8 % ± 2.4 less latency of `lookup`", brings: "Anything from 4.1 % shorter to 0.6 % longer fits the data", rest: "No region is known to be worth more or less than before.", change: "cannot-tell", before: { period_ns: 398000, baselines: 120, runs: 3 }, after: { period_ns: 391000, baselines: 118, runs: 3 }, gain: 0.0176, gain_se: 0.012, gain_lo: -0.006, gain_hi: 0.041, throughput_factor: null },
      { name: "jobs", kind: "throughput", headline: "`jobs` was not visited in both recordings, so that it cannot be compared", brings: null, rest: "No region was tried in both.", change: "only-before", before: { period_ns: null, baselines: 0, runs: 3 }, after: null, gain: null, gain_se: null, gain_lo: null, gain_hi: null, throughput_factor: null },
    ],
    regions: [
      of(side("hash.c:90", 90), null, "only-before", slope(0.08, 0.05, "helps"), null),
      of(side("hash.c:88", 88), side("hash.c:95", 95), "less", slope(0.54, 0.02, "helps"), slope(0.09, 0.03, "helps")),
      of(side("hash.c:40", 40), side("hash.c:40", 40), "unchanged", slope(0, 0.03, "no-effect"), slope(0.01, 0.03, "no-effect")),
      of(side("hash.c:12", 12), side("hash.c:12", 12), "became-critical", slope(-0.01, 0.03, "no-effect"), slope(0.54, 0.04, "helps")),
      of(null, side("hash.c:7", 7), "only-after", null, slope(0.25, 0.2, "helps", 9)),
      of(side("</script><b>x", 3, 4), side("evil\u202e", 4), "cannot-tell", slope(0.1, null, "not-enough-data", 2), slope(0.2, 0.4, "not-enough-data", 6)),
    ],
    warnings: [
      { code: "different-load", message: "other programs used 2 % of the machine before, and 19 % after", advice: "record both again, by turns" },
    ],
  };
}

write("comparison", comparison());
write("plain", plain());
write("realistic", realistic());
write("unsettled", unsettled());
write("hostile", hostile());
