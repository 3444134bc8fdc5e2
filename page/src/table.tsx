// The regions, ranked by what they are worth to one point.

import { COLUMNS, type Column, type Row } from "./ranking";
import { range, share, slope, threeDigits } from "./format";
import { DETAILS, Filter, TABLE } from "./filter";
import { Grid, type GridColumn } from "./grid";
import { covered, MARK_WORDS } from "./prose";
import { change, point, report, selected, sharedGains, shownRows, total, view } from "./state";
import { Sparkline } from "./sparkline";
import { Name } from "./text";
import type { Mark } from "./model";
import { VerdictMark } from "./verdict";

/** At a glance what cost and worth say together; nothing where they go together. */
function MarkSign({ mark }: { mark: Mark | null | undefined }) {
  if (!mark) return null;
  const { sign, words } = MARK_WORDS[mark];
  return (
    <span role="img" aria-label={words} title={words}>
      {sign}{" "}
    </span>
  );
}

const KNOWN_COLUMNS: GridColumn<Row, Column | "gain">[] = [
  {
    id: "region",
    head: "region",
    title: "A function or a line; + means with all it calls",
    rising: true,
    cell: ({ label, region }) => (
      <>
        <MarkSign mark={region.mark} />
        <Name text={label} />
      </>
    ),
  },
  {
    id: "verdict",
    head: "verdict",
    title: "What the interval says",
    width: "9em",
    cell: ({ estimate }) => <VerdictMark verdict={estimate.verdict} />,
  },
  {
    id: "slope",
    head: "slope (se)",
    title: "Gain per speedup, and its standard error: with 0.50, 20 % less time here is 10 % less time per round",
    numeric: true,
    width: "8.4em",
    cell: ({ estimate }) => slope(estimate.slope, estimate.slope_se),
  },
  {
    id: "interval",
    head: "95 % interval",
    title: "Of the slope. The order is that of its lower end; what hurts comes last, the worst first",
    numeric: true,
    width: "8.6em",
    cell: ({ estimate }) => range(estimate.slope_lo, estimate.slope_hi),
  },
  {
    id: "blocks",
    head: "experiments",
    title: "Each is measured with the speedup and without it",
    numeric: true,
    width: "8em",
    cell: ({ estimate }) => estimate.blocks,
  },
  {
    id: "share",
    head: "share",
    title: "Of all CPU time",
    numeric: true,
    width: "4.8em",
    cell: ({ region }) => share(region.share),
  },
  {
    id: "production",
    head: "prod.",
    title: "Of the program's samples in production",
    numeric: true,
    width: "4.8em",
    cell: ({ region }) => share(region.production_share ?? null),
  },
  {
    id: "gain",
    head: "gain",
    title: "At small to full speedups; the same scale in all rows",
    width: "76px",
    cell: (row) => <Sparkline row={row} gains={sharedGains.value} />,
  },
];

const SHOWN = KNOWN_COLUMNS.map((column) => ({
  ...column,
  sortable: (COLUMNS as string[]).includes(column.id),
}));

export function RegionTable() {
  const { sort } = view.value;
  const rows = shownRows.value;
  const of = point.value;
  const production = report.value?.production;
  const columns = production ? SHOWN : SHOWN.filter(({ id }) => id !== "production");
  const marks = new Set(report.value?.regions.flatMap(({ mark }) => (mark ? [mark] : [])));
  if (!of) return null;
  if (total.value === 0) return <p>No region was tried often enough to say anything about it.</p>;
  return (
    <>
      <Filter shown={rows.length} total={total.value} />
      {rows.length === 0 && <p>No region has all of these words in its name or file.</p>}
      <Grid
        id={TABLE}
        label="Regions"
        columns={columns}
        rows={rows}
        keyOf={({ key }) => key}
        sort={sort}
        onSort={(column) => {
          if (column === "gain") return;
          change({ sort: { column, reversed: column === sort.column && !sort.reversed } });
        }}
        selected={selected.value?.key ?? null}
        onSelect={({ key }) => change({ region: key })}
        onEnter={() => document.getElementById(DETAILS)?.focus()}
        onEscape={() => change({ region: null })}
      />
      <p class="legend">
        slope: gain per speedup, so that with 0.50, 20&nbsp;% less time there is 10&nbsp;% less time per round; its standard
        error (se), then its 95&nbsp;% interval. share: of all CPU time.
        {production && ` prod.: of the program's samples in production (${covered(production)}).`} gain: at small to full
        speedups. {[...marks].map((mark) => `${MARK_WORDS[mark].sign} ${MARK_WORDS[mark].words}. `)}
        {of.rate_per_s !== null && `Without speedups: ${threeDigits(of.rate_per_s)} per second.`}
      </p>
    </>
  );
}
