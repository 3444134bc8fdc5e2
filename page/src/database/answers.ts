// What whatif answers about a database, as JSON (docs/json.md; crates/whatif/src/continuous/page).

/** A share, 0 to 1, with its 95 % interval. */
export interface Share {
  value: number;
  lo: number;
  hi: number;
}

export interface Books {
  expected: number;
  stored: number;
  unknown: number;
  lost: number;
}

export interface Note {
  code: string;
  message: string;
  advice: string;
}

export interface Heading {
  event: string;
  machines: string[];
  cpus: number;
  since: number | null;
  until: number | null;
  selection: string[];
  books: Books;
  rate: number;
  samples: number;
  nanos_per_sample: number | null;
  with_idle: boolean;
  warnings: Note[];
}

export type Gap = [from: number, to: number];
/** What one sample of a column is; null where nothing was collected. */
export type Scale = (number | null)[];

export interface HeatRow {
  name: string;
  image: string;
  samples: number;
  share: Share;
  cpu_ns: number | null;
  worth: Worth | null;
  cells: number[];
  lo: number[];
  hi: number[];
  own: { scale: Scale; gaps: Gap[] } | null;
}

export interface Heat {
  kind: "heat";
  heading: Heading;
  by: string;
  start: number;
  column_s: number;
  columns: number;
  unit: string;
  scale: Scale;
  expected: number[];
  lost: number[];
  samples: number[];
  gaps: Gap[];
  more_gaps: number;
  rows: HeatRow[];
  more: number;
}

export interface Worth {
  slope: number;
  lo: number | null;
  hi: number | null;
  verdict: string;
  line: string | null;
  recording: string;
  other_build: boolean;
}

export interface Name {
  name: string;
  image: string;
  kind: string;
  worth: Worth | null;
}

export interface Flame {
  heading: Heading;
  time: string;
  names: Name[];
  /** Parent (or −1), name, samples alone, samples in all; four numbers for each box, flat. */
  boxes: number[];
  cut: number[];
  before: { asked: string; samples: number; boxes: number[] } | null;
  left_out: number;
}

/** What `whatif flame` writes: a page with nothing but this. */
export interface FlamePage {
  kind: "flame";
  flame: Flame;
}

export interface TopRow {
  name: string;
  image: string;
  samples: number;
  share: Share;
  cpu_ns: number | null;
  total: number | null;
  total_share: number | null;
  worth: Worth | null;
  mark: string | null;
}

export interface Top {
  heading: Heading;
  rows: TopRow[];
  more: number;
  not_hot: TopRow[];
  recordings: string[];
}

export interface Change {
  name: string;
  image: string;
  a: Share;
  b: Share;
  difference: Share;
  certain: number;
  worth: Worth | null;
}

export interface Side {
  heading: Heading;
  spans: number;
  span_s: number;
}

export interface Difference {
  a: Side;
  b: Side;
  changes: Change[];
  more: number;
}

export interface SpanAnswer {
  kind: "span";
  table: Top;
  flame: Flame;
  next: string[];
}

export interface DifferenceAnswer {
  kind: "difference";
  table: Difference;
  flame: Flame;
  next: string[];
}

export type Filters = Record<(typeof FILTERS)[number], string>;
export const FILTERS = ["machine", "cgroup", "process", "image", "where", "event", "epoch"] as const;

/** What the page begins with; a page that is a file has its answers as well. */
export interface Beginning {
  kind: "database";
  database: string;
  first: { since: number | null; until: number | null; idle: boolean } & { [filter in keyof Filters]: string | null };
  by: string[];
  heats?: Heat[];
  span?: SpanAnswer;
}
