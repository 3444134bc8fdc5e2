// What the page knows and what it looks at. Everything else is computed from these.

import { batch, computed, effect, signal } from "@preact/signals";
import { answerFor } from "./answers";
import { gains } from "./axes";
import { changeRows, type ChangeRow, changesInOrder, type Comparison, isComparison, textOf } from "./comparison";
import { DEFAULT_VIEW, read, type View, written } from "./hash";
import type { Point, PointAnswer, PointKind, Report } from "./model";
import { type Place, places, withCallees } from "./places";
import { DEFAULT_SORT, filtered, isColumn, type Row, rows, searched, sorted } from "./ranking";
import type { Status } from "./source";

export const report = signal<Report | null>(null);
/** Instead of a report. */
export const comparison = signal<Comparison | null>(null);
export const status = signal<Status>({ is: "loading" });
/** The region that most experiments are spent on, because the user wanted it. */
export const pinned = signal<string | null>(null);
export const view = signal<View>(DEFAULT_VIEW);
/** The experiment that is pointed at, in the table or in the curve: "session number". */
export const pointed = signal<string | null>(null);

export function change(part: Partial<View>): void {
  view.value = { ...view.peek(), ...part };
}

/** Looks at region number `at` of the report, with everything that is known about it. */
export function choose(at: number): void {
  const region = report.peek()?.regions[at];
  const row = allRows.peek().find((row) => row.region === region);
  // The list of regions may still come.
  change(row ? { region: row.key, details: true } : { details: true });
}

/** Draws this from now on. */
export function show(value: Report | Comparison): void {
  const compared = isComparison(value) ? value : null;
  batch(() => {
    comparison.value = compared;
    report.value = compared ? null : (value as Report);
  });
}

/** How the address calls a point. */
export const pointKey = ({ name, kind }: { name: string; kind: PointKind }): string => `${kind}:${name}`;

/** Which of `points` the address names; -1 if none. */
const wantedPoint = (points: { name: string; kind: PointKind }[]): number =>
  points.findIndex((point) => pointKey(point) === view.value.point);

/** The number of the point that is looked at: the one of the address, or else the first that is not idle. */
export const pointNumber = computed<number>(() => {
  const points = report.value?.points ?? [];
  const found = wantedPoint(points);
  return found >= 0 ? found : Math.max(0, points.findIndex((point) => !point.idle));
});

export const point = computed<Point | null>(() => report.value?.points[pointNumber.value] ?? null);

/** What the first screen says of it. */
export const answer = computed<PointAnswer | null>(() =>
  report.value && answerFor(report.value, point.value, pointNumber.value),
);

const allRows = computed<Row[]>(() => rows(report.value?.regions ?? [], pointNumber.value));
const sort = computed(() => view.value.sort);
const filter = computed(() => view.value.filter);
const sortedRows = computed<Row[]>(() => {
  const by = sort.value;
  return sorted(allRows.value, isColumn(by) ? by : DEFAULT_SORT);
});

/** How many regions there are, shown or not. */
export const total = computed<number>(() => allRows.value.length);

/** The rows of the table, in its order. */
export const shownRows = computed<Row[]>(() => filtered(sortedRows.value, filter.value, searched));

/** The region that is looked at: the one of the address, or else the first of the table. */
export const selected = computed<Row | null>(() => {
  const wanted = view.value.region;
  if (wanted === null) return null;
  return allRows.value.find(({ key }) => key === wanted) ?? shownRows.value[0] ?? null;
});

/** The same of a comparison: its point, its regions, those that are shown, and the one that is looked at. */
export const comparedPoint = computed<number>(() => {
  const found = wantedPoint(comparison.value?.points ?? []);
  return found >= 0 ? found : (comparison.value?.point ?? 0);
});
export const allChanges = computed<ChangeRow[]>(() => changeRows(comparison.value?.regions ?? [], comparedPoint.value));
export const shownChanges = computed<ChangeRow[]>(() =>
  filtered(changesInOrder(allChanges.value, sort.value), filter.value, textOf),
);
export const selectedChange = computed<ChangeRow | null>(() => {
  const wanted = view.value.region;
  if (wanted === null) return null;
  return allChanges.value.find(({ key }) => key === wanted) ?? shownChanges.value[0] ?? null;
});

/** What up and down go through, whatever is shown. */
export const shownKeys = computed<string[]>(() => (comparison.value ? shownChanges : shownRows).value.map(({ key }) => key));
export const selectedKey = computed<string | null>(() => (comparison.value ? selectedChange : selected).value?.key ?? null);

/** The gains that the axes of all curves of the point span. */
export const sharedGains = computed(() => gains(allRows.value.map(({ estimate }) => estimate)));

/** The samples by place, coloured for the point. */
export const program = computed<Place | null>(() => report.value && places(report.value, allRows.value));
export const inclusiveRows = computed<Row[]>(() => withCallees(allRows.value));

/** The regions of each source file, for the point that is looked at. */
export const rowsByFile = computed<Map<string, Row[]>>(() => {
  const files = new Map<string, Row[]>();
  for (const row of allRows.value) {
    const { file } = row.region;
    if (file === null) continue;
    const others = files.get(file);
    if (others) others.push(row);
    else files.set(file, [row]);
  }
  return files;
});

/** Browsers stop pages that change their address more than a few times a second. */
const REST_MS = 200;

/** Keeps the view and the address the same, whichever of them changes. */
export function followAddress(): void {
  // What this page has written itself, if an event will tell of it: by then the user may look at something else.
  let ours: string | null = null;
  const fromAddress = (): void => {
    const found = read(location.hash);
    const isOurs = written(found) === ours;
    ours = null;
    if (!isOurs && written(found) !== written(view.peek())) view.value = found;
  };
  fromAddress();
  addEventListener("hashchange", fromAddress);
  let timer = 0;
  effect(() => {
    const hash = written(view.value);
    clearTimeout(timer);
    timer = setTimeout(() => {
      if (hash === written(read(location.hash))) return;
      try {
        history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
      } catch {
        // Where a file may not replace its own address.
        ours = hash;
        location.replace(`#${hash}`);
      }
    }, REST_MS);
  });
}
