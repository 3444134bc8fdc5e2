// What is different in another recording: the points, then what each region is worth now and was before.

import {
  type ChangeColumn,
  type ChangeRow,
  type Comparison,
  type Level,
  type PointChange,
  slopesOf,
  type Slope,
} from "./comparison";
import { DETAILS, Filter, TABLE } from "./filter";
import { count, duration, factor, fixed, interval, percent, range, slope as slopeText, threeDigits, UNKNOWN } from "./format";
import { Grid, type GridColumn } from "./grid";
import { Below, Measured, StatusMark } from "./headline";
import { Runs } from "./notes";
import { Points } from "./points";
import { CHANGE_WORDS, changeOf, wordOf } from "./prose";
import { linear } from "./scale";
import { allChanges, change, comparedPoint, selectedChange, shownChanges, view } from "./state";
import { Long, Name, Prose } from "./text";
import { ThemeButton } from "./theme";
import type { Status } from "./source";
import { Warnings } from "./warnings";

export function Compared({ comparison, status }: { comparison: Comparison; status: Status }) {
  const { points, before, after } = comparison;
  const point = points[comparedPoint.value] ?? null;
  return (
    <>
      <header class="controls">
        <StatusMark status={status} />
        <Points points={points} now={point} />
        <p class="keys">
          <kbd>/</kbd> filter <kbd>↑</kbd> <kbd>↓</kbd> choose <kbd>Esc</kbd> back
        </p>
      </header>
      <main class="compared">
        <section class="headline" aria-label="The answer">
          {[before, after].map((recording, nth) => (
            <Measured key={nth} name={nth === 0 ? "Before" : "After"} {...recording} />
          ))}
          <Headline point={point} sentence={comparison.sentence} />
          <p class="legend">The number after ± is half the 95&nbsp;% interval.</p>
        </section>
        <Warnings warnings={comparison.warnings} />
        <section>
          <h2>Progress points, without speedups</h2>
          <PointTable points={points} />
        </section>
        {point && (
          <section class="ranking">
            <h2>
              <Prose text={`What regions are worth to ${point.kind === "latency" ? "the latency of " : ""}\`${point.name}\``} />
            </h2>
            <ChangeTable />
          </section>
        )}
        {selectedChange.value && <Sides row={selectedChange.value} />}
      </main>
      <section class="notes">
        <div>
          <h2>Runs before</h2>
          <Runs sessions={before.sessions} />
        </div>
        <div>
          <h2>Runs after</h2>
          <Runs sessions={after.sessions} />
        </div>
      </section>
      <footer>
        <ThemeButton now={view.value.theme} onChange={(theme) => change({ theme })} />
      </footer>
    </>
  );
}

/** What became of the point that is looked at: the number first. */
function Headline({ point, sentence }: { point: PointChange | null; sentence: string }) {
  if (!point?.headline) {
    return (
      <h1 class="sentence">
        <Prose text={sentence} />
      </h1>
    );
  }
  const { headline, brings, rest } = point;
  return (
    <>
      <h1>
        <Prose text={headline} />
      </h1>
      <Below brings={brings} rest={rest} />
    </>
  );
}

function PointTable({ points }: { points: PointChange[] }) {
  if (points.length === 0) return <p>The recordings have no progress points.</p>;
  return (
    <div class="scroll">
      <table class="plain">
        <thead>
          <tr>
            <th scope="col">point</th>
            <th scope="col">verdict</th>
            <th scope="col" class="number">less time</th>
            <th scope="col" class="number">95 % interval</th>
            <th scope="col" class="number">throughput</th>
            <th scope="col" class="number">before</th>
            <th scope="col" class="number">after</th>
          </tr>
        </thead>
        <tbody>
          {points.map((point) => (
            <tr key={`${point.kind} ${point.name}`}>
              <td>
                <Name text={point.name} />
                {point.kind === "latency" && " (latency)"}
              </td>
              <td>
                <span class={`verdict ${point.change}`}>{changeOf(point)}</span>
              </td>
              <td class="number">{percent(point.gain, 1)}</td>
              <td class="number">
                {point.gain_lo === null || point.gain_hi === null
                  ? UNKNOWN
                  : `${fixed(100 * point.gain_lo, 1)} to ${percent(point.gain_hi, 1)}`}
              </td>
              <td class="number">{factor(point.throughput_factor ?? null)}</td>
              <td class="number">{levelOf(point, point.before)}</td>
              <td class="number">{levelOf(point, point.after)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** As in the terminal. */
function levelOf({ kind }: PointChange, level: Level | null): string {
  if (level === null) return "not there";
  if (level.period_ns === null) return "not visited";
  return kind === "latency" ? duration(level.period_ns) : `${threeDigits(1e9 / level.period_ns)} per second`;
}

const COLUMNS: GridColumn<ChangeRow, ChangeColumn | "interval" | "picture">[] = [
  {
    id: "region",
    head: "region",
    title: "A function or a line; + means with all it calls",
    rising: true,
    cell: ({ label, was }) => (
      <>
        <Name text={label} />
        {was !== null && (
          <span class="legend">
            {" "}
            was <Name text={was} />
          </span>
        )}
      </>
    ),
  },
  {
    id: "change",
    head: "change",
    title: "What is certain among all regions and points together",
    width: "12.5em",
    cell: ({ slope }) => <ChangeMark row={slope.change} />,
  },
  {
    id: "before",
    head: "before",
    title: "Gain per speedup in the first recording",
    numeric: true,
    width: "5.4em",
    cell: ({ slope }) => number(slope.before?.slope ?? null),
  },
  {
    id: "after",
    head: "after",
    title: "Gain per speedup in the second recording",
    numeric: true,
    width: "5em",
    cell: ({ slope }) => number(slope.after?.slope ?? null),
  },
  {
    id: "difference",
    head: "difference",
    title: "The slope after, less the slope before",
    numeric: true,
    width: "6.6em",
    rising: true,
    cell: ({ slope }) => number(slope.difference),
  },
  {
    id: "interval",
    head: "95 % interval",
    title: "Of the difference, by itself",
    numeric: true,
    width: "9em",
    cell: ({ slope }) => range(slope.difference_lo, slope.difference_hi),
  },
  {
    id: "picture",
    head: "slopes",
    title: "Hollow: before; filled: after; with their 95 % intervals, on one scale in all rows",
    width: "156px",
    cell: (row) => <Picture row={row} />,
  },
];

const number = (value: number | null): string => (value === null ? UNKNOWN : fixed(value, 2));

function ChangeMark({ row }: { row: ChangeRow["slope"]["change"] }) {
  const { sign, word, look } = CHANGE_WORDS[row];
  return (
    <span class={`verdict ${look}`}>
      <span aria-hidden="true">{sign}</span> {word}
    </span>
  );
}

const SORTABLE: string[] = ["region", "before", "after", "difference", "change"];
const SHOWN = COLUMNS.map((column) => ({ ...column, sortable: SORTABLE.includes(column.id) }));

function ChangeTable() {
  const { sort } = view.value;
  const rows = shownChanges.value;
  const total = allChanges.value.length;
  if (total === 0) return <p>No region was tried in either recording.</p>;
  const known = SORTABLE.includes(sort.column) ? sort : { column: "change", reversed: false };
  return (
    <>
      <Filter shown={rows.length} total={total} />
      {rows.length === 0 && <p>No region has all of these words in its name or file.</p>}
      <Grid
        id={TABLE}
        label="Regions"
        columns={SHOWN}
        rows={rows}
        keyOf={({ key }) => key}
        sort={known}
        onSort={(column) => {
          if (column === "interval" || column === "picture") return;
          change({ sort: { column, reversed: column === known.column && !known.reversed } });
        }}
        selected={selectedChange.value?.key ?? null}
        onSelect={({ key }) => change({ region: key })}
        onEnter={() => document.getElementById(DETAILS)?.focus()}
        onEscape={() => change({ region: null })}
      />
      <p class="legend">
        slope: gain per speedup, in the first recording and in the second; then their difference and its 95&nbsp;% interval.
        Verdicts allow for how many regions there are: of 20 comparisons in which nothing changed, one reports a change.
        Hollow: before; filled: after.
      </p>
    </>
  );
}

const [WIDTH, HEIGHT] = [140, 22];

function Picture({ row: { slope } }: { row: ChangeRow }) {
  const x = linear(...slopesOf(allChanges.value), 4, WIDTH - 4);
  return (
    <svg class="sparkline change" width={WIDTH} height={HEIGHT} aria-hidden="true">
      <line class="zero" x1={x.at(0)} x2={x.at(0)} y1={0} y2={HEIGHT} />
      <SlopeMark of={slope.before} x={x} y={6} side="before" />
      <SlopeMark of={slope.after} x={x} y={15} side="after" />
    </svg>
  );
}

function SlopeMark({ of, x, y, side }: { of: Slope | null; x: ReturnType<typeof linear>; y: number; side: string }) {
  if (!of || of.slope === null) return null;
  const at = (value: number): number => x.at(x.clamp(value));
  const known = interval(of.slope, of.slope_lo, of.slope_hi);
  return (
    <g class={`${side} ${of.verdict}`}>
      {known && <line x1={at(known.lo)} x2={at(known.hi)} y1={y} y2={y} />}
      <circle cx={at(of.slope)} cy={y} r={3} />
    </g>
  );
}

/** One region in both recordings. */
function Sides({ row: { key, label, was, slope, region } }: { row: ChangeRow }) {
  const known = interval(slope.difference, slope.difference_lo, slope.difference_hi);
  const facts: [string, string][] = [
    ["before", sideOf(slope.before, region.before === null)],
    ["after", sideOf(slope.after, region.after === null)],
    [
      "difference",
      known
        ? `${slopeText(slope.difference, slope.difference_se)} (in brackets: its standard error), 95 % interval ${range(known.lo, known.hi)}`
        : "not known: both recordings must have tried the region, in five experiments or more",
    ],
    ["change", RULE[slope.change]],
  ];
  const back = (event: KeyboardEvent): void => {
    if (event.key === "Escape" && !event.defaultPrevented) document.getElementById(TABLE)?.focus();
  };
  return (
    <section id={DETAILS} class="details" tabIndex={-1} aria-label="The chosen region" onKeyDown={back}>
      <header>
        <h2>
          <Long key={key} text={label} limit={200} />
        </h2>
        <ChangeMark row={slope.change} />
        <button type="button" title="Nothing is chosen then" onClick={() => change({ region: null })}>
          Close
        </button>
      </header>
      {was !== null && (
        <p>
          It was <Name text={was} /> before.
        </p>
      )}
      <div class="evidence">
        <dl>
          {facts.map(([term, text]) => (
            <div key={term}>
              <dt>{term}</dt>
              <dd>
                <Prose text={text} />
              </dd>
            </div>
          ))}
        </dl>
      </div>
    </section>
  );
}

function sideOf(of: Slope | null, isMissing: boolean): string {
  if (isMissing) return "this recording does not have the region";
  if (of === null || of.slope === null) return "not tried often enough";
  const slope = `slope ${slopeText(of.slope, of.slope_se)}, 95 % interval ${range(of.slope_lo, of.slope_hi)}`;
  return `${wordOf(of.verdict)}; ${slope}; ${count(of.blocks, "experiment")}`;
}

const RULE: Record<ChangeRow["slope"]["change"], string> = {
  "became-critical": "it certainly differs; it helps now and did not, and the two intervals do not overlap",
  "no-longer-critical": "it certainly differs; it helped and does not now, and the two intervals do not overlap",
  more: "it certainly differs: it is worth more than before, or hurts less",
  less: "it certainly differs: it is worth less than before, or hurts more",
  unchanged: "the interval of the difference is within ±0.1",
  "cannot-tell": "the interval of the difference is too wide to say more",
  "only-before": "the second recording does not have the region",
  "only-after": "the first recording does not have the region",
};
