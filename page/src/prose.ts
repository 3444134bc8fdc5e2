// What the terminal says in words, in the same words.

import type {
  Doubts,
  Estimate,
  LeftOut,
  Mark,
  Point,
  PointAnswer,
  Region,
  Report,
  Session,
  Verdict,
  Warning,
  WholeEstimate,
  WholeRegion,
} from "./model";
import type { Change, PointChange } from "./comparison";
import { count, duration, fixed, interval, type Interval, percent, plusMinus, threeDigits } from "./format";
import { inSentence, label } from "./region";
import { printable } from "./printable";

/** The speedup of the sentence, at which `effect` is read off the curve. */
const REFERENCE = "20 %";

/** A sign besides the colour and the word, so that a table can be read at a glance by everyone. */
export const VERDICT_WORDS: Record<Verdict, { sign: string; word: string }> = {
  helps: { sign: "▲", word: "helps" },
  "no-effect": { sign: "=", word: "no effect" },
  hurts: { sign: "▼", word: "hurts" },
  "not-enough-data": { sign: "?", word: "too little data" },
  idle: { sign: "–", word: "idle" },
  "not-trusted": { sign: "✗", word: "not trusted" },
};

/** What cost and worth say together, at a glance and in words. */
export const MARK_WORDS: Record<Mark, { sign: string; words: string }> = {
  "hot-but-does-not-matter": { sign: "○", words: "hot, but does not matter" },
  "matters-but-is-not-hot": { sign: "◆", words: "matters, but is not hot" },
};

export const wordOf = (verdict: Verdict): string => VERDICT_WORDS[verdict].word;

/** What became of a region between two recordings; `look` is the colour of a verdict. */
export const CHANGE_WORDS: Record<Change, { sign: string; word: string; look: Verdict }> = {
  "became-critical": { sign: "▲", word: "became critical", look: "helps" },
  "no-longer-critical": { sign: "▼", word: "no longer critical", look: "hurts" },
  more: { sign: "▲", word: "more", look: "helps" },
  less: { sign: "▼", word: "less", look: "hurts" },
  unchanged: { sign: "=", word: "unchanged", look: "no-effect" },
  "cannot-tell": { sign: "?", word: "cannot tell yet", look: "not-enough-data" },
  "only-before": { sign: "–", word: "only before", look: "idle" },
  "only-after": { sign: "–", word: "only after", look: "idle" },
};

/** What became of a point. */
export function changeOf({ change, kind }: PointChange): string {
  const words = {
    better: kind === "latency" ? "▲ shorter" : "▲ less time",
    worse: kind === "latency" ? "▼ longer" : "▼ more time",
    "cannot-tell": "? cannot tell",
    "only-before": "– only before",
    "only-after": "– only after",
  };
  return words[change];
}

export const LEFT_OUT_WORDS: Record<string, string> = {
  unbalanced: "its delays did not balance",
  cut: "the program ended first",
  overdrawn: "more delay than time",
  unpaired: "no baseline beside it",
  straddling: "the program's speed may have changed between it and its baseline",
  disturbed: "it or its baseline took many times as long as the other",
  short: "too short for this point",
};

const subject = ({ point, kind }: Estimate): string =>
  kind === "latency" ? `the latency of \`${printable(point)}\`` : `\`${printable(point)}\``;

/** "What makes `requests` faster". */
export function title({ name, kind }: Pick<Point, "name" | "kind">): string {
  const shown = `\`${printable(name)}\``;
  return kind === "latency" ? `What makes the latency of ${shown} shorter` : `What makes ${shown} faster`;
}

/** What the slider asks, after "If a piece of code took 20 % less time,". */
export function question({ name, kind }: Pick<Point, "name" | "kind">): string {
  const shown = `\`${printable(name)}\``;
  return kind === "latency" ? `how much shorter would the latency of ${shown} be?` : `how much less time would each ${shown} take?`;
}

/** What stands in the place of the code to make faster, where nothing is known to help. */
export function heading({ answer, sentence }: Report, { point, kind }: PointAnswer): string {
  // The sentence is about the point that something helps.
  const elsewhere = answer?.points.some(({ change }) => change !== null);
  if (!elsewhere || point === null) return sentence;
  const shown = kind === "latency" ? `the latency of \`${printable(point)}\`` : `\`${printable(point)}\``;
  return `Nothing that was tried is known to make ${shown} ${kind === "latency" ? "shorter" : "faster"}.`;
}

/** Less than this share more is "a little longer", and more than so many times are "much more". */
const [LITTLE, TIMES] = [0.5, 8.5];
/** So many stand for: no number of them would settle it. */
const NEVER = 1_000_000;
/** Half an interval of a bend that is told of is no wider. */
const KNOWN_BEND = 0.2;

/** How much more would settle what is not known, in one sentence. */
export function needed(experiments: number, made: number): string {
  if (experiments >= NEVER) return "more experiments will not settle it: the error of the method is as large as the effect";
  const number = experiments === 1 ? "one more experiment" : `${experiments} more experiments`;
  const more = `about ${number} on it, as it looks now`;
  const again = experiments / Math.max(made, 1);
  if (made === 0) return `let the program run longer (${more})`;
  if (again <= LITTLE) return `measure a little longer, into the same recording (${more})`;
  if (again <= 1) return `measure as long again, into the same recording (${more})`;
  return again < TIMES
    ? `measure about ${Math.ceil(again)} times as long again, into the same recording (${more})`
    : "measure much more, on a quiet machine if you can";
}

/** A gain that is not 0 when it is rounded. */
const isSeen = (gain: number): boolean => Math.abs(gain) >= 0.0005;

/** What is known about one region and one point, in a sentence. */
export function claim(region: Region, estimate: WholeEstimate): string {
  const { verdict, effect, effect_lo, effect_hi, slope: of, slope_lo, slope_hi, more_blocks, blocks } = estimate;
  const known = interval(effect, effect_lo, effect_hi);
  const [here, point] = [inSentence(region), subject(estimate)];
  switch (verdict) {
    case "helps":
    case "hurts": {
      const better = verdict === "helps";
      const word = (better: boolean): string => (better ? "shorter" : "longer");
      const contention = better ? "" : ": contention";
      const slope = interval(of, slope_lo, slope_hi);
      // A curve that goes up first and down later, or the other way round.
      if (known && slope && isSeen(known.value) && known.value > 0 !== better) {
        const half = fixed((slope.hi - slope.lo) / 2, 2);
        const though = `though ${plusMinus(known, better)} ${word(!better)} at ${REFERENCE}`;
        return `Less time in ${here} makes ${point} ${word(better)} over all speedups (slope ${fixed(slope.value, 2)} ± ${half}), ${though}${contention}.`;
      }
      const much = known ? ` ${plusMinus(known, !better)}` : "";
      return `${REFERENCE} less time in ${here} makes ${point}${much} ${word(better)}${contention}.`;
    }
    case "no-effect":
      return `Less time in ${here} has no effect on ${point}.`;
    case "idle":
      return `Most experiments saw no visit of ${point}, so nothing is said about it.`;
    case "not-trusted": {
      const why = region.audit?.reason ?? "its audit does not balance";
      const advice = region.audit?.advice ? `; ${printable(region.audit.advice)}` : "";
      return `The numbers for ${inSentence(region)} are not to be trusted: ${printable(why)}${advice}.`;
    }
    case "not-enough-data": {
      const now = known ? ` (now ${plusMinus(known)} at ${REFERENCE})` : "";
      const more = more_blocks === null ? "let the program run longer" : needed(more_blocks, blocks);
      return `Not enough data yet to say what less time in ${here} does to ${point}${now}: ${more}.`;
    }
  }
}

/** What it costs, if that does not go together with what it is worth, or if production knows. */
export function cost({ share, production_share, mark }: Region): string | null {
  const here = share === null ? null : `${percent(share)} of the time here`;
  const there = production_share == null ? null : `${percent(production_share, 1)} of the time in production`;
  if (there === null && !mark) return null;
  const words = mark ? `It ${mark === "hot-but-does-not-matter" ? "is " : ""}${MARK_WORDS[mark].words}: ` : "It has ";
  return `${words}${[here, there].filter(Boolean).join(", ")}.`;
}

/** Which samples the shares in production are of. */
export function covered(production: NonNullable<Report["production"]>): string {
  const day = (seconds: number): string => new Date(seconds * 1000).toISOString().slice(0, 10);
  const { since_unix_s, until_unix_s, hosts } = production;
  const [since, until] = [day(since_unix_s), day(until_unix_s)];
  return `${count(hosts, "machine")}, ${since === until ? since : `${since} to ${until}`}`;
}

/** What a region that helps is worth at most, and where more begins to bring less, if that is known. */
export function limit(estimate: WholeEstimate): string | null {
  const bend = interval(estimate.bend, estimate.bend_lo, estimate.bend_hi);
  const most = interval(estimate.max_gain, estimate.max_gain_lo, estimate.max_gain_hi);
  if (estimate.verdict !== "helps" || !bend || !most) return null;
  const bends = isKnownBend(bend)
    ? `beyond a speedup of ${plusMinus(bend)} something else begins to limit`
    : `the curve bends somewhere (${plusMinus(bend)})`;
  return `Worth up to ${plusMinus(most)}; ${bends}.`;
}

/** Whether a bend is known so well that there is a place to tell. */
export const isKnownBend = ({ lo, hi }: Interval): boolean => (hi - lo) / 2 <= KNOWN_BEND + 1e-9;

/** That a region runs in a part of the run only. */
export function phase(region: WholeRegion, estimate: Estimate): string | null {
  if (region.phase >= 1) return null;
  const slopes =
    estimate.slope === null
      ? ""
      : `: its slope is ${fixed(estimate.slope / region.phase, 2)} while it does, and ${fixed(estimate.slope, 2)} over the whole run`;
  return `${printable(label(region))} runs in ${percent(region.phase)} of the run${slopes}.`;
}

/** A progress point, as listed. */
export function describe(point: Point): string {
  const name = `${printable(point.name)}${point.kind === "latency" ? " (latency)" : ""}: `;
  const visits =
    point.visits === 0
      ? "never visited while it was measured"
      : point.rate_per_s === null
        ? `${point.visits} visits, none of them without speedup`
        : `${point.visits} visits, ${threeDigits(point.rate_per_s)} per second without speedups`;
  const latency =
    point.latency_ns === null ? "" : `, ${duration(point.latency_ns)} from begin to end in the mean${slow(point)}`;
  const idle =
    point.idle && point.visits > 0 ? "; idle: most experiments saw none, so nothing is known about it" : "";
  return name + visits + latency + idle + unsteady(point);
}

function slow({ quantiles }: Point): string {
  if (!quantiles || quantiles.length === 0) return "; percentiles are not known";
  return quantiles.map((one) => `, ${percentile(one.share)} ${duration(one.latency_ns)}`).join("");
}

function percentile(share: number): string {
  return share === 0.5 ? "median" : `${Math.round(share * 100)}th percentile`;
}

/** What a region does to the slow ones. */
export function percentiles(estimate: WholeEstimate): string | null {
  const known = (estimate.quantiles ?? []).flatMap(({ share, effect, effect_lo, effect_hi }) => {
    const gain = interval(effect, effect_lo, effect_hi);
    return gain ? [`${percentile(share)} ${plusMinus(gain)}`] : [];
  });
  return known.length === 0 ? null : `${REFERENCE} less time: ${known.join(", ")} shorter.`;
}

function unsteady({ unsteady }: Point): string {
  if (!unsteady || unsteady.growing + unsteady.shrinking === 0) return "";
  const { windows, growing, shrinking } = unsteady;
  const queue = shrinking === 0 ? "growing" : growing === 0 ? "shrinking" : "growing or shrinking";
  return `; ${growing + shrinking} of ${windows} measurements were unstable: the queue was ${queue}; latency is not in a steady state`;
}

/** One run: its command, how it ended, and its samples. */
export function run(session: Session): string {
  const took = session.duration_ns === null ? "unknown time" : duration(session.duration_ns);
  const end = !session.finished
    ? "unfinished: it still runs, or whatif was killed"
    : session.stopped
      ? `stopped by whatif after ${took}${session.exit_code ? `, exit code ${session.exit_code}` : ""}`
      : session.exit_code !== null
        ? `${took}, exit code ${session.exit_code}`
        : session.exit_signal !== null
          ? `${took}, killed by signal ${session.exit_signal}`
          : `${took}, its end was not seen`;
  const lost = session.lost_samples === 0 ? "" : `, ${session.lost_samples} lost`;
  const { samples: all, timed_samples: timed = 0 } = session;
  const share = (100 * timed) / Math.max(all, 1);
  const byTimer = share >= 0.5 && timed < all ? `, ${share.toFixed(0)} % of them by a timer` : "";
  const samples = `${all} samples${lost} every ${duration(session.sample_period_ns)} (${printable(session.sampler)}${byTimer})`;
  return `${command(session)}: ${end}; ${samples}`;
}

/** When it was measured, from the first run to the last, and by which whatif. */
export function recorded(sessions: Session[]): string {
  const minute = ({ started_unix_ns: of }: Session): string => new Date(of / 1e6).toISOString().slice(0, 16).replace("T", " ");
  const known = sessions.filter(({ started_unix_ns }) => started_unix_ns > 0).sort((a, b) => a.started_unix_ns - b.started_unix_ns);
  const [first, last] = [known[0], known.at(-1)].map((of) => of && minute(of));
  const until = first?.slice(0, 10) === last?.slice(0, 10) ? last?.slice(11) : last;
  const when = first === undefined ? [] : [first === last ? `${first} UTC` : `${first} to ${until} UTC`];
  const versions = [...new Set(sessions.map(({ whatif_version }) => printable(whatif_version)))].filter(Boolean);
  return [...when, versions.length > 0 ? `whatif ${versions.join(", ")}` : ""].filter(Boolean).join(", ");
}

/** Which machine and which whatif measured it. */
export function provenance({ whatif_version, host, kernel, cpus, seed }: Session): string {
  return printable(`whatif ${whatif_version} on ${host} (Linux ${kernel}, ${count(cpus, "CPU")}), seed ${seed}`);
}

/** As it would be typed, near enough. */
export function command({ program, arguments: words }: Session): string {
  return [program, ...words]
    .map(printable)
    .map((word) => (word === "" || /\s/u.test(word) ? `'${word}'` : word))
    .join(" ");
}

/** Doubts about experiments that count nevertheless. */
export function doubts({ windows, windows_busy, windows_unmatched }: Doubts): string[] {
  const listed: [number, string][] = [
    [windows_busy, "made while other programs used more than 10 % of the machine"],
    [windows_unmatched, "left with more ends than begins: their latencies are not known"],
  ];
  return listed
    .filter(([number]) => number > 0)
    .map(([number, what]) => `${number} of ${windows} measurements (${percent(number / windows)}) were ${what}`);
}

/** What no estimate uses, counted. */
export function leftOut(left: LeftOut): string[] {
  const listed: [number, string, string][] = [
    [left.regions_without_baseline, "region", "without a baseline"],
    [left.regions_with_few_speedups, "region", "tried at fewer than five speedups"],
    [left.windows_unbalanced, "measurement", "whose delays did not balance"],
    [left.windows_cut, "measurement", "cut short"],
    [left.windows_overdrawn, "measurement", "with more delay than time"],
    [left.windows_unpaired, "measurement", "without a baseline beside it"],
  ];
  return listed.filter(([number]) => number > 0).map(([number, noun, why]) => `${count(number, noun)} ${why}`);
}

/** Whether the answer says the same already. */
export function isTold({ badge, notes = [] }: PointAnswer, { code, message }: Doubt): boolean {
  const noted = (part: string): boolean => notes.some((note) => note.includes(part));
  if (code === "chosen-point") return noted("No unit of work is marked");
  if (code === "chosen-files") return noted(printable(message).slice(1));
  return badge !== null && badge.cause === printable(message);
}

export type Doubt = Pick<Warning, "code" | "message" | "advice">;

/** Each warning once, and how many runs raised it. */
export function counted(warnings: Doubt[]): { warning: Doubt; runs: number }[] {
  const listed = new Map<string, { warning: Doubt; runs: number }>();
  for (const warning of warnings) {
    const key = JSON.stringify([warning.code, warning.message, warning.advice]);
    const known = listed.get(key);
    if (known) known.runs += 1;
    else listed.set(key, { warning, runs: 1 });
  }
  return [...listed.values()];
}
