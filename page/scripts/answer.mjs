// The first screen of reports that nobody measured: in real ones Rust makes it (crates/profile/src/answer). Enough of the same,
// for tests and for looking at the page.

const MINUS = "\u2212";
const MOST_PIECES = 200;

const printable = (text) => text.replace(/[\p{Cc}\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb\u{e0000}-\u{e0fff}]/gu, (c) => ({ "\t": "\\t", "\n": "\\n", "\r": "\\r" })[c] ?? `\\u{${c.codePointAt(0).toString(16)}}`);
const place = ({ file, line }) => (file === null ? null : `${file.split("/").at(-1)}:${line}`);
const isFunction = ({ kind }) => kind === "function";

function label(region) {
  const name = region.inclusive ? `${region.name}+` : region.name;
  return printable(isFunction(region) && region.file !== null ? `${name} ${place(region)}` : name);
}

function inSentence(region) {
  const name = `\`${region.name}\`${region.inclusive ? " with all it calls" : ""}`;
  return printable(isFunction(region) && region.file !== null ? `${name} (${place(region)})` : name);
}

const perCent = (value, decimals) => `${(value * 100).toFixed(decimals)} %`.replace("-", MINUS);
const rate = (value) => (value < 1e3 ? value.toPrecision(3) : value < 1e4 ? value.toFixed(0) : `${(value / 1e3).toPrecision(3)} k`);

function brings(point, { effect, effect_lo, effect_hi, max_gain }) {
  const decimals = effect_hi - effect_lo < 0.019 ? 1 : 0;
  const [less, lo, hi] = [effect, effect_lo, effect_hi].map((value) => perCent(value, decimals));
  const what = point.kind === "latency" ? `less latency of \`${printable(point.name)}\`` : `less time per \`${printable(point.name)}\``;
  const then =
    point.kind === "latency"
      ? `, ${Math.round(point.latency_ns / 1e3)} µs → ${Math.round((point.latency_ns * (1 - effect)) / 1e3)} µs`
      : point.rate_per_s === null
        ? ""
        : `, ${rate(point.rate_per_s)} → ${rate(point.rate_per_s / (1 - effect))} per second`;
  return `20 % less time there → ${less} ${what} (${lo.replace(" %", "")} to ${hi.replace(" %", "")})${then}; at most ${perCent(max_gain, 0)}`;
}

function piece(region, at, nth) {
  const of = region.points[nth];
  const known = of.speedups.filter(({ speedup, gain }) => speedup > 0 && gain !== null);
  return {
    name: inSentence(region),
    label: label(region),
    region: at,
    state: "measured",
    verdict: of.verdict,
    share: region.share,
    production_share: region.production_share ?? null,
    mark: region.mark ?? null,
    experiments: of.blocks,
    tried: known.length,
    less_time: of.effect,
    less_time_lo: of.effect_lo,
    less_time_hi: of.effect_hi,
    max_less_time: of.max_gain,
    max_less_time_lo: of.max_gain_lo,
    max_less_time_hi: of.max_gain_hi,
    curve: known.map(({ speedup, gain, lo, hi }) => [speedup, gain, lo, hi].map((value) => value && Number(value.toFixed(5)))),
    note: null,
    lines: [],
  };
}

const ofCandidate = (candidate) => ({
  name: inSentence({ inclusive: false, ...candidate }),
  label: label({ inclusive: false, ...candidate }),
  region: null,
  state: candidate.experiments > 0 ? "begun" : "sampled",
  verdict: null,
  share: candidate.share,
  production_share: null,
  mark: null,
  experiments: candidate.experiments,
  tried: candidate.tried,
  less_time: null,
  less_time_lo: null,
  less_time_hi: null,
  max_less_time: null,
  max_less_time_lo: null,
  max_less_time_hi: null,
  curve: [],
  note: null,
  lines: [],
});

/** Lines under their function, at the place of whichever comes first. */
function folded(regions, pieces) {
  const groups = new Map();
  for (const one of pieces) {
    const { inclusive, function: of, file, kind } = regions[one.region] ?? {};
    const key = one.region === null || inclusive || of === null ? Symbol("alone") : JSON.stringify([of, file]);
    groups.set(key, [...(groups.get(key) ?? []), { one, kind }]);
  }
  return [...groups.values()].map((group) => {
    const whole = group.find(({ kind }) => kind === "function") ?? group[0];
    return { ...whole.one, lines: group.filter((other) => other !== whole).map(({ one }) => one) };
  });
}

function badge(best, pieces, report) {
  if (report.doubts.windows_busy > 0.25 * report.doubts.windows) {
    const share = Math.round((100 * report.doubts.windows_busy) / report.doubts.windows);
    return { quality: "noisy", words: "noisy", cause: `other programs used the machine in ${share} % of the experiments`, advice: "stop them, or measure on a quiet machine" };
  }
  if (best) return { quality: "good", words: "good", cause: `${best.experiments} experiments settle it`, advice: null };
  const open = pieces.find(({ verdict }) => verdict === "not-enough-data");
  const cause = open ? `${open.experiments} experiments on ${open.name} do not settle it` : "no experiment was completed";
  return { quality: "too-little", words: "too little data", cause, advice: "let the program run longer, or give it more work" };
}

/** In the order of the gain that is read beside them, but for the first of each kind. */
function byGain(pieces) {
  const kind = ({ verdict }) => (verdict === null ? 3 : ({ helps: 0, hurts: 2 }[verdict] ?? 1));
  const kinds = [0, 1, 2, 3].map((wanted) => pieces.filter((one) => kind(one) === wanted));
  const inOrder = ([first, ...rest]) => [first, ...rest.sort((a, b) => (b.less_time ?? -9) - (a.less_time ?? -9))];
  return kinds.flatMap((of, nth) => (nth < 2 && of.length > 0 ? inOrder(of) : of));
}

/** What the first screen says of `report`. */
export function answer(report, { causes = () => [] } = {}) {
  const { points, regions, candidates, sessions } = report;
  const others = candidates.map(ofCandidate);
  const worth = (nth) => (a, b) => {
    const of = ({ points }) => (points[nth].verdict === "hurts" ? -10 : (points[nth].slope_lo ?? -5));
    return of(b.region) - of(a.region);
  };
  const listed = (nth) =>
    regions
      .map((region, at) => ({ region, at }))
      .filter(({ region }) => region.points[nth].slope !== null)
      .sort(worth(nth))
      .map(({ region, at }) => piece(region, at, nth));
  const program = sessions.at(-1).program.split("/").at(-1);
  const file = `${printable(program)}.db`;
  const { arguments: words, duration_ns } = sessions.at(-1);
  const measured = `\`${printable([program, ...words].join(" "))}\`: one run of ${(duration_ns / 1e9).toFixed(1)} s`;
  const found = points.flatMap((point, nth) => {
    if (point.idle) return [];
    const pieces = byGain(folded(regions, [...listed(nth), ...others]));
    const best = pieces[0]?.verdict === "helps" ? pieces[0] : null;
    return [
      {
        point: point.name,
        kind: point.kind,
        badge: badge(best, pieces, report),
        change: best && best.name,
        brings: best && brings(point, regions[best.region].points[nth]),
        rest: best && "Nothing else you could change is worth more.",
        causes: causes(point),
        pieces: pieces.slice(0, MOST_PIECES),
        more_pieces: Math.max(0, pieces.length - MOST_PIECES),
      },
    ];
  });
  if (found.length > 0) {
    const best = found.find(({ change }) => change !== null);
    const named = best && regions[best.pieces[0].region].name;
    const next = [{ step: "open", why: "see the curves, the source and the evidence", command: `whatif open ${file}` }];
    if (best) {
      next.push({ step: "deeper", why: "see what the number rests on", command: `whatif report --explain ${/^[\w:.]+$/.test(named) ? named : "'…'"} ${file}` });
      next.push({ step: "compare", why: "when it is changed, measure again and compare", command: `whatif run -o after.db -- ./${printable(program)} && whatif compare ${file} after.db` });
    }
    return { points: found, measured, next };
  }
  const byShare = (a, b) => (b.share ?? 0) - (a.share ?? 0);
  return {
    points: [
      {
        point: null,
        kind: null,
        badge: {
          quality: "too-little",
          words: "too little data",
          cause: "no progress point is marked, so that only the plain profile is known",
          advice: "let `whatif points` suggest places, and name one with -p",
        },
        change: null,
        brings: null,
        rest: null,
        causes: [],
        pieces: [...others].sort(byShare).slice(0, MOST_PIECES),
        more_pieces: 0,
      },
    ],
    measured,
    next: [
      { step: "open", why: "see the curves, the source and the evidence", command: `whatif open ${file}` },
      { step: "deeper", why: "find a place that counts the program's work", command: `whatif points -- ./${printable(program)}` },
      ...others
        .filter(({ label, share }) => !/^(std|core|alloc)::/.test(label) && label.includes(" ") && share >= 0.05)
        .sort(byShare)
        .slice(0, 3)
        .map(({ label, share }) => ({
          step: "point",
          why: `count each call of \`${label.split(" ")[0]}\`, if that is a unit of work: ${perCent(share, 0)} of the CPU time is in it`,
          command: `whatif run -p ${label.split(" ")[0]} -- ./${printable(program)}`,
        })),
    ],
  };
}
