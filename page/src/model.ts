// The report as Rust writes it: the same fields in the same order as docs/json.md, which says what they mean.
// Speedups and gains are fractions, times are nanoseconds, and what is not known is null.

import { type Comparison, isComparison, isWhole } from "./comparison";

export const VERSION = 1;

export type PointKind = "throughput" | "latency";
export type Verdict = "helps" | "no-effect" | "hurts" | "not-enough-data" | "idle" | "not-trusted";
type Maybe = number | null;
/** What cost and worth say together. */
export type Mark = "hot-but-does-not-matter" | "matters-but-is-not-hot";

export interface Report {
  version: number;
  sentence: string;
  /** What the first screen says; missing in reports of earlier versions. */
  answer?: Answer;
  sessions: Session[];
  points: Point[];
  /** Which samples the shares in production are of; null or missing if none are known. */
  production?: { since_unix_s: number; until_unix_s: number; hosts: number } | null;
  /** The programs that ran as one, those with most time first; empty for a single one, missing in reports of earlier versions. */
  programs?: ProgramTime[];
  /** What threads do while nothing is delayed; empty for a single one, missing in reports of earlier versions. */
  threads?: Threads[];
  /** What Go's runtime took of the CPU time; null for programs that are not in Go, missing in reports of earlier versions. */
  go?: { collector_share: number; runtime_share: number } | null;
  regions: Region[];
  /** Who called whom; null or missing in recordings without. */
  stacks?: Stacks | StacksSummary | null;
  /** Whether the regions are in an element of their own, because they are many: then there are none until it has come. */
  regions_apart?: boolean;
  drift: Drift[];
  run_drift: RunDrift[];
  left_out: LeftOut;
  doubts: Doubts;
  warnings: Warning[];
  /** Only in the data of the page: the baseline windows of each point that is not idle. */
  baselines?: Baselines[];
}

/** What the first screen says, in the words of the terminal. */
export interface Answer {
  /** One for each point that is not idle; where there is none, one without a point. */
  points: PointAnswer[];
  /** The command that was measured, how often, and for how long; not there in reports of earlier versions. */
  measured?: string | null;
  /** What to type next. */
  next: Next[];
}

export interface Next {
  step: string;
  why: string;
  command: string;
}

export interface PointAnswer {
  point: string | null;
  kind: PointKind | null;
  /** How far it can be relied on; null where nothing tells. */
  badge: Badge | null;
  /** In large letters; null, or not there in reports of earlier versions, where the sentence stands there. */
  headline?: string | null;
  /** The code to make faster first; null where nothing is known to help. */
  change: string | null;
  brings: string | null;
  /** Whether anything else may be worth as much. */
  rest?: string | null;
  /** What has to be known before it is acted on, a sentence or two each. */
  notes?: string[];
  /** What explains it, a sentence each. */
  causes: string[];
  /** The most useful first, then those that are not estimated, by their share. */
  pieces: Piece[];
  more_pieces: number;
}

export type Quality = "good" | "noisy" | "too-little" | "not-trusted";

export interface Badge {
  quality: Quality;
  words: string;
  cause: string;
  advice: string | null;
}

/** A gain at a speedup, and its 95 % interval. */
export type CurvePoint = [speedup: number, gain: number, lo: Maybe, hi: Maybe];

/** A function with its lines, or a line by itself. */
export interface Piece {
  name: string;
  label: string;
  /** Its position among the regions; null if it is not estimated. */
  region: Maybe;
  state: "measured" | "begun" | "sampled";
  verdict: Verdict | null;
  /** The same in words, as the terminal has it; not in reports of earlier versions. */
  verdict_words?: string | null;
  share: Maybe;
  production_share?: Maybe;
  mark?: Mark | null;
  experiments: number;
  /** At how many speedups. */
  tried: number;
  curve: CurvePoint[];
  note: string | null;
  lines: Piece[];
}

/** What the processes of a program took of all runs. */
export interface ProgramTime {
  name: string;
  /** The name, and how many processes ran it. */
  title: string;
  /** Why it could not be followed; null for what was profiled. Then the time is the least that it can be. */
  obstacle: string | null;
  processes: number;
  samples: number;
  cpu_ns: number;
  share: number;
}

/** Threads that do the same work: shares of their time. */
export interface Threads {
  name: string;
  /** The name, and how many there are. */
  title: string;
  count: number;
  watched_ns: number;
  running: number;
  runnable: number;
  for_threads: number;
  external: number;
}

export interface Session {
  id: number;
  started_unix_ns: number;
  program: string;
  arguments: string[];
  directory: string;
  host: string;
  kernel: string;
  cpus: number;
  seed: string;
  whatif_version: string;
  sampler: string;
  sample_period_ns: number;
  repeat: number;
  finished: boolean;
  duration_ns: Maybe;
  exit_code: Maybe;
  exit_signal: Maybe;
  /** Whether whatif ended it, because its time was over or the answer was known. */
  stopped?: boolean;
  samples: number;
  lost_samples: number;
  /** Those that a timer has taken. */
  timed_samples?: number;
}

export interface Point {
  name: string;
  kind: PointKind;
  visits: number;
  rate_per_s: Maybe;
  latency_ns: Maybe;
  /** How long the slow ones take; empty or missing where single pieces of work are not known. */
  quantiles?: { share: number; latency_ns: number }[];
  unsteady: { windows: number; growing: number; shrinking: number } | null;
  idle: boolean;
}

export interface Region {
  kind: "function" | "line";
  name: string;
  function: string | null;
  file: string | null;
  line: Maybe;
  inclusive: boolean;
  image: { path: string; build_id: string | null };
  /** Where it has to be told, because regions are in more than one; null or missing otherwise. */
  program?: string | null;
  samples: number;
  share: Maybe;
  production_share?: Maybe;
  mark?: Mark | null;
  windows: number;
  verdict: Verdict;
  /** Whether the rules of virtual time did what they should have done; null or missing where that is not known. */
  audit?: { trusted: boolean; reason: string | null; advice: string | null; doubts: string[] } | null;
  /** One per entry of the report's points, in that order. */
  points: Estimate[];
  /** Where the rest is: see parts.ts. Without it the region is whole. */
  part?: number;
}

/** A region with everything that is known about it. */
export interface WholeRegion extends Region {
  phase: number;
  points: WholeEstimate[];
  snippet: { first_line: number; text: string } | null;
}

/** What a table says about one region and one point. */
export interface Estimate {
  point: string;
  kind: PointKind;
  verdict: Verdict;
  blocks: number;
  slope: Maybe;
  slope_se: Maybe;
  slope_lo: Maybe;
  slope_hi: Maybe;
  effect: Maybe;
  effect_lo: Maybe;
  effect_hi: Maybe;
  /** The lowest and the highest gain of the curve and its band; null if there is none. Only in regions with a part. */
  span?: [lo: number, hi: number] | null;
}

/** Everything that is known about one region and one point. */
export interface WholeEstimate extends Estimate {
  disturbed_blocks: number;
  more_blocks: Maybe;
  method_error: number;
  handover_error?: number;
  slice_error?: number;
  waking_error?: number;
  in_sections?: number;
  clock_error?: number;
  crowding_shift?: number;
  limit_shift?: number;
  crowding_below?: number;
  crowding_above?: number;
  chance: Maybe;
  /** What it does to the slow ones. */
  quantiles?: { share: number; effect: Maybe; effect_lo: Maybe; effect_hi: Maybe }[];
  max_gain: Maybe;
  max_gain_lo: Maybe;
  max_gain_hi: Maybe;
  bend: Maybe;
  bend_lo: Maybe;
  bend_hi: Maybe;
  pairing: number;
  kept_apart: boolean;
  eras: Era[];
  eras_differ: boolean;
  /** The curve, ascending; the first is the baseline. */
  speedups: AtSpeedup[];
  /** Only in the data of the page: one per experiment. */
  dots?: Dot[];
}

export interface Era {
  session: number;
  segment: number;
  blocks: number;
  slope: Maybe;
  slope_lo: Maybe;
  slope_hi: Maybe;
}

export interface AtSpeedup {
  speedup: number;
  gain: Maybe;
  raw_gain: Maybe;
  lo: Maybe;
  hi: Maybe;
  windows: number;
}

/** An experiment: speedup, gain of the whole run, session, number, and why it was left out (null if it counts). */
export type Dot = [speedup: number, gain: Maybe, session: number, block: number, leftOut: string | null];

export interface Drift {
  session: number;
  point: string;
  kind: PointKind;
  segments: Segment[];
}

export interface Segment {
  start_ns: number;
  end_ns: number;
  windows: number;
  rate_per_s: Maybe;
  rate_lo: Maybe;
  rate_hi: Maybe;
}

export interface RunDrift {
  point: string;
  kind: PointKind;
  segments: { sessions: number[]; rate_per_s: Maybe; rate_lo: Maybe; rate_hi: Maybe }[];
}

export interface LeftOut {
  regions_without_baseline: number;
  regions_with_few_speedups: number;
  windows_unbalanced: number;
  windows_cut: number;
  windows_overdrawn: number;
  windows_unpaired: number;
}

export interface Doubts {
  windows: number;
  windows_busy: number;
  windows_unmatched: number;
}

export interface Warning {
  session: number;
  code: string;
  message: string;
  advice: string;
}

/** Lists that refer to each other by position: see docs/json.md. */
export interface Stacks {
  samples: number;
  truncated_samples: number;
  missing_samples: number;
  texts: string[];
  functions: [name: number, file: Maybe, image: Maybe, region: Maybe][];
  /** Callers come before what they call. */
  calls: [caller: Maybe, of: number, line: Maybe, inlined: number, region: Maybe, own: number, weightNs: number][];
  part?: undefined;
}

/** Where the stacks are: see parts.ts. */
export interface StacksSummary {
  part: number;
}

/** The windows of a point without speedup. */
export interface Baselines {
  point: string;
  kind: PointKind;
  part?: number;
}

export interface WholeBaselines extends Baselines {
  /** In the order of time. */
  windows: [session: number, startNs: number, elapsedNs: number, visits: number, ratePerS: Maybe][];
}

/** Whether `value` can be drawn; the reason in words if not. */
export function check(value: unknown): Report | Comparison | string {
  if (typeof value !== "object" || value === null) return "The data of this page is not a report.";
  const report = value as Partial<Report>;
  const { version, sentence, answer, sessions, points, regions, drift, run_drift, left_out, doubts, warnings } = report;
  if (version !== VERSION) {
    return `This page reads version ${VERSION} of the report, and the data is of version ${String(version)}: write the page again, with one whatif.`;
  }
  if (isComparison(value)) {
    return isWhole(value) ? value : "The data of this page is not a whole comparison: write the page again.";
  }
  const lists = [sessions, points, regions, drift, run_drift, warnings];
  const answered = answer === undefined || (Array.isArray(answer.points) && Array.isArray(answer.next));
  if (typeof sentence !== "string" || !lists.every(Array.isArray) || !left_out || !doubts || !answered) {
    return "The data of this page is not a whole report: write the page again.";
  }
  return value as Report;
}
