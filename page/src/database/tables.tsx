// The tables beside the flame graph: what a span is made of, and what is different between two.

import { useMemo, useState } from "preact/hooks";
import { percent } from "../format";
import { Grid, type GridColumn } from "../grid";
import type { Sort } from "../ranking";
import { Name } from "../text";
import type { Change, Difference, Share, Top, TopRow, Worth } from "./answers";
import { cpuTime } from "./clock";
import { signed, type Sum, WORTH_SIGNS, worthInWords } from "./flames";

const half = ({ value, lo, hi }: Share): number => Math.max(hi - value, value - lo);
const around = (share: Share): string => `± ${(100 * half(share)).toFixed(half(share) < 0.00995 ? 2 : 1)}`;
const last = (path: string): string => (path.startsWith("[") ? path : (path.split("/").at(-1) ?? path));

function WorthCell({ worth }: { worth: Worth | null }) {
  if (!worth) return null;
  const kind = { helps: "better", hurts: "worse" }[worth.verdict] ?? "";
  return (
    <span class={`verdict ${kind}`} title={worthInWords(worth)}>
      {WORTH_SIGNS[worth.verdict] ?? ""} {worth.slope.toFixed(2).replace("-", "−")}
      {worth.other_build && " ≈"}
    </span>
  );
}

type TopColumn = "self" | "interval" | "total" | "cpu" | "samples" | "worth" | "function";
type ChangeColumn = "a" | "b" | "difference" | "interval" | "worth" | "function";

const MARKS: Record<string, [sign: string, words: string]> = {
  "hot-but-does-not-matter": ["○", "hot, but does not matter"],
  "matters-but-is-not-hot": ["◆", "matters, but is not hot"],
};

function FunctionCell({ name, image, mark }: { name: string; image: string; mark: string | null }) {
  const [sign, words] = MARKS[mark ?? ""] ?? [];
  return (
    <>
      {sign && (
        <span role="img" aria-label={words} title={words}>
          {sign}{" "}
        </span>
      )}
      <Name text={name} />{" "}
      <small class="where">
        <Name text={last(image)} limit={40} />
      </small>
    </>
  );
}

const TOP: (GridColumn<TopRow, TopColumn> & { by(row: TopRow): number | string })[] = [
  { id: "self", head: "self", title: "The share of the samples whose instruction is in the function", numeric: true, width: "5.4em", cell: (row) => percent(row.share.value, 1), by: (row) => row.samples },
  { id: "interval", head: "95 %", title: "Half of the interval of the share, in per cent", width: "5em", cell: (row) => around(row.share), by: (row) => half(row.share) },
  { id: "function", head: "function", title: "Its name, and the file that it is in", rising: true, cell: (row) => <FunctionCell {...row} />, by: (row) => row.name },
  { id: "total", head: "total", title: "With all that it calls", numeric: true, width: "5.8em", cell: (row) => (row.total_share === null ? "" : percent(row.total_share, 1)), by: (row) => row.total ?? -1 },
  { id: "cpu", head: "CPU time", title: "What its samples stand for", numeric: true, width: "6.4em", cell: (row) => row.cpu_ns !== null && <span title={`${row.samples} samples`}>{cpuTime(row.cpu_ns)}</span>, by: (row) => row.cpu_ns ?? -1 },
  { id: "samples", head: "samples", title: "Samples in it", numeric: true, width: "5.6em", cell: (row) => row.samples, by: (row) => row.samples },
  { id: "worth", head: "worth", title: "What making it faster is worth: the slope of a causal recording", numeric: true, width: "6.4em", cell: (row) => <WorthCell worth={row.worth} />, by: (row) => row.worth?.slope ?? -99 },
];

const CHANGES: (GridColumn<Change, ChangeColumn> & { by(row: Change): number | string })[] = [
  { id: "difference", head: "B − A", title: "How much more of the samples of B than of A", numeric: true, width: "6.4em", cell: (row) => <DifferenceCell row={row} />, by: (row) => Math.abs(row.certain) * 1e3 + Math.abs(row.difference.value) },
  { id: "interval", head: "95 %", title: "Half of the interval of the difference, in per cent; ? where it may be nothing", width: "6em", cell: (row) => `${around(row.difference)}${row.certain === 0 ? " ?" : ""}`, by: (row) => half(row.difference) },
  { id: "function", head: "function", title: "Its name, and the file that it is in", rising: true, cell: (row) => <FunctionCell {...row} mark={null} />, by: (row) => row.name },
  { id: "a", head: "A", title: "Its share in A", numeric: true, width: "5.4em", cell: (row) => percent(row.a.value, 1), by: (row) => row.a.value },
  { id: "b", head: "B", title: "Its share in B", numeric: true, width: "5.4em", cell: (row) => percent(row.b.value, 1), by: (row) => row.b.value },
  { id: "worth", head: "worth", title: "What making it faster is worth: the slope of a causal recording", numeric: true, width: "6.4em", cell: (row) => <WorthCell worth={row.worth} />, by: (row) => row.worth?.slope ?? -99 },
];

function DifferenceCell({ row: { difference, certain } }: { row: Change }) {
  const kind = certain === 0 ? "cannot-tell" : difference.value > 0 ? "worse" : "better";
  return <span class={`verdict ${kind}`}>{signed(difference.value)}</span>;
}

interface Shown {
  /** What the names of functions must hold. */
  wanted: string;
  onChoose(name: string): void;
}

/** A table of functions, sorted by any column. */
function Functions<R extends { name: string; image: string }, C extends string>({
  id,
  label,
  columns: known,
  rows,
  first,
  more,
  wanted,
  onChoose,
}: Shown & {
  id: string;
  label: string;
  columns: (GridColumn<R, C> & { by(row: R): number | string })[];
  rows: R[];
  first: C;
  more: number;
}) {
  const [sort, setSort] = useState<Sort<C>>({ column: first, reversed: false });
  const [selected, setSelected] = useState<string | null>(null);
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  const keyOf = (row: R): string => `${row.name}\n${row.image}`;
  const sorted = useMemo(() => {
    const column = known.find(({ id }) => id === sort.column)!;
    const rises = (column.rising ?? false) !== sort.reversed;
    const order = (a: number | string, b: number | string): number => (a < b ? -1 : a > b ? 1 : 0);
    return [...rows].sort((a, b) => (rises ? 1 : -1) * order(column.by(a), column.by(b)));
  }, [rows, sort]);
  const listed = sorted.filter((row) => words.every((word) => keyOf(row).toLowerCase().includes(word)));
  const columns = known.map((column) => ({ ...column, sortable: true }));
  return (
    <>
      <Grid
        id={id}
        label={`${label}: arrow keys choose one, Enter points it out in the flame graph`}
        columns={columns}
        rows={listed}
        keyOf={keyOf}
        sort={sort}
        onSort={(column) => setSort({ column, reversed: column === sort.column && !sort.reversed })}
        selected={selected}
        onSelect={(row) => setSelected(keyOf(row))}
        onEnter={() => selected && onChoose(selected.split("\n")[0]!)}
        onEscape={() => setSelected(null)}
      />
      <p class="legend">
        {listed.length < rows.length && `${listed.length} of ${rows.length} functions have these words. `}
        {more > 0 && `${more} more functions are not listed.`}
      </p>
    </>
  );
}

export function TopTable({ top, ...shown }: Shown & { top: Top }) {
  const hasWorth = top.recordings.length > 0;
  const isClock = top.heading.nanos_per_sample !== null;
  const columns = TOP.filter(({ id }) => (id === "worth" ? hasWorth : id !== (isClock ? "samples" : "cpu")));
  return (
    <>
      <Functions {...shown} id="functions" label="Functions" columns={columns} rows={top.rows} first="self" more={top.more} />
      {top.not_hot.length > 0 && (
        <>
          <h3>These matter, but are not hot</h3>
          <ul class="not-hot">
            {top.not_hot.map((row) => (
              <li key={`${row.name}\n${row.image}`}>
                <FunctionCell {...row} /> <WorthCell worth={row.worth} />
              </li>
            ))}
          </ul>
        </>
      )}
      {hasWorth && (
        <p class="legend">
          worth: gain per speedup. ▲ helps, = does not matter, ▼ hurts, ? not known yet. ○ hot, but does not matter. ≈ of another build. From{" "}
          <Name text={top.recordings.join(", ")} />.
        </p>
      )}
    </>
  );
}

type SumColumn = "difference" | "self" | "total" | "function" | "worth";

/** The functions of a flame graph: shares of `now` samples, and of those `before` in what it is compared with. */
export function SumTable({ sums, now, before, ...shown }: Shown & { sums: Sum[]; now: number; before: number | null }) {
  const more = ({ total, was }: Sum): number => total / Math.max(1, now) - was / Math.max(1, before ?? 0);
  const share = (samples: number): string => percent(samples / Math.max(1, now), 1);
  const columns: (GridColumn<Sum, SumColumn> & { by(row: Sum): number | string })[] = [
    { id: "difference", head: "B − A", title: "How much more of all samples have it on their stack", numeric: true, width: "6.4em", cell: (row) => signed(more(row)), by: (row) => Math.abs(more(row)) },
    { id: "self", head: "self", title: "The share of the samples whose instruction is in the function", numeric: true, width: "5.4em", cell: (row) => share(row.own), by: (row) => row.own },
    { id: "total", head: "total", title: "With all that it calls", numeric: true, width: "5.8em", cell: (row) => share(row.total), by: (row) => row.total },
    { id: "function", head: "function", title: "Its name, and the file that it is in", rising: true, cell: (row) => <FunctionCell {...row} mark={null} />, by: (row) => row.name },
    { id: "worth", head: "worth", title: "What making it faster is worth: the slope of a causal recording", numeric: true, width: "6.4em", cell: (row) => <WorthCell worth={row.worth} />, by: (row) => row.worth?.slope ?? -99 },
  ];
  const has = { difference: before !== null, worth: sums.some(({ worth }) => worth) } as Partial<Record<SumColumn, boolean>>;
  const listed = columns.filter(({ id }) => has[id] ?? true);
  return <Functions {...shown} id="functions" label="Functions" columns={listed} rows={sums} first={listed[0]!.id} more={0} />;
}

export function ChangeTable({ difference, ...shown }: Shown & { difference: Difference }) {
  const hasWorth = difference.changes.some(({ worth }) => worth);
  const columns = CHANGES.filter(({ id }) => id !== "worth" || hasWorth);
  const { a, b } = difference;
  const from = (spans: number): string => (spans > 0 ? `${spans} spans of time` : "counts alone");
  return (
    <>
      <Functions {...shown} id="functions" label="What is different" columns={columns} rows={difference.changes} first="difference" more={difference.more} />
      <p class="legend">
        Shares of the samples; the most certain difference first, ? where it may be nothing. Intervals are from {from(a.spans)} in A, from{" "}
        {from(b.spans)} in B.
      </p>
    </>
  );
}
