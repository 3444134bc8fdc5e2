// A table that draws only the rows in view, so that it does not matter how many there are.

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { printing } from "./printing";
import type { Sort } from "./ranking";

export interface GridColumn<R, C extends string> {
  id: C;
  head: string;
  /** What the head means, in a sentence. */
  title: string;
  /** Set to the right. */
  numeric?: boolean;
  /** A CSS width; the rest of the room goes to the columns without one. */
  width?: string;
  /** Whether the head is a button that sorts. */
  sortable?: boolean;
  /** Whether the column's own order goes from small to large, or from A to Z. */
  rising?: boolean;
  cell(row: R): ComponentChildren;
}

interface Props<R, C extends string> {
  id: string;
  label: string;
  columns: GridColumn<R, C>[];
  rows: R[];
  keyOf(row: R): string;
  sort?: Sort<string>;
  onSort?(column: C): void;
  selected: string | null;
  onSelect(row: R): void;
  onEnter?: () => void;
  onEscape?: (() => void) | undefined;
}

const ROW = 28;
const OVERSCAN = 8;
/** Before it was measured. */
const FIRST_HEIGHT = 620;
const MOST_ON_PAPER = 200;

/** Which of `total` rows of `row` pixels are in view, and a few before and after. */
export function inView(total: number, scrolled: number, height: number, row = ROW): [from: number, to: number] {
  // A user who filters while scrolled far down still sees the last rows.
  const top = Math.min(scrolled, Math.max(0, total * row - height));
  const from = Math.max(0, Math.floor(top / row) - OVERSCAN);
  return [from, Math.min(total, Math.ceil((top + height) / row) + OVERSCAN)];
}

/** Where `key` leads from row number `at` of `total`; null if it is no key that moves. */
export function moved(key: string, at: number, total: number, page: number): number | null {
  const steps: Record<string, number> = {
    ArrowDown: at + 1,
    ArrowUp: at < 0 ? 0 : at - 1,
    PageDown: at + page,
    PageUp: at - page,
    Home: 0,
    End: total - 1,
  };
  const to = steps[key];
  return to === undefined || total === 0 ? null : Math.min(Math.max(to, 0), total - 1);
}

export function Grid<R, C extends string>(props: Props<R, C>) {
  const { id, columns, rows, keyOf, selected } = props;
  const box = useRef<HTMLDivElement>(null);
  const [scrolled, setScrolled] = useState(0);
  const [height, setHeight] = useState(FIRST_HEIGHT);
  const at = selected === null ? -1 : rows.findIndex((row) => keyOf(row) === selected);

  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const watch = new ResizeObserver(() => setHeight(element.clientHeight));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);

  useLayoutEffect(() => {
    const element = box.current;
    if (!element || at < 0) return;
    // The head covers the first row's height of the view.
    const [top, bottom] = [at * ROW, (at + 2) * ROW];
    if (top < element.scrollTop) element.scrollTop = top;
    else if (bottom > element.scrollTop + element.clientHeight) element.scrollTop = bottom - element.clientHeight;
  }, [selected, at]);

  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target !== event.currentTarget) return; // a button in the head
    const page = Math.max(1, Math.floor(height / ROW) - 2);
    const to = moved(event.key, at, rows.length, page);
    if (to !== null) props.onSelect(rows[to]!);
    else if (event.key === "Enter" && props.onEnter) props.onEnter();
    else if (event.key === "Escape" && props.onEscape) props.onEscape();
    else return;
    event.preventDefault();
  };

  const [from, to] = printing.value ? [0, Math.min(rows.length, MOST_ON_PAPER)] : inView(rows.length, scrolled, height);
  return (
    <div
      class="grid"
      ref={box}
      onScroll={(event) => {
        const row = Math.floor(event.currentTarget.scrollTop / ROW) * ROW;
        if (row !== scrolled) setScrolled(row);
      }}
    >
      <table
        id={id}
        role="grid"
        tabIndex={0}
        aria-label={props.label}
        aria-rowcount={rows.length + 1}
        aria-activedescendant={at >= from && at < to ? `${id}-${at}` : undefined}
        onKeyDown={onKeyDown}
      >
        <colgroup>
          {columns.map(({ id, width }) => (
            <col key={id} style={width ? { width } : {}} />
          ))}
        </colgroup>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map((column) => (
              <Head key={column.id} column={column} sort={props.sort} onSort={props.onSort} />
            ))}
          </tr>
        </thead>
        <tbody>
          <Gap rows={from} columns={columns.length} />
          {rows.slice(from, to).map((row, nth) => {
            const key = keyOf(row);
            return (
              <tr
                key={key}
                id={`${id}-${from + nth}`}
                aria-rowindex={from + nth + 2}
                aria-selected={key === selected}
                onClick={() => props.onSelect(row)}
              >
                {columns.map((column) => (
                  <td key={column.id} class={column.numeric ? "number" : undefined}>
                    {column.cell(row)}
                  </td>
                ))}
              </tr>
            );
          })}
          {!printing.value && <Gap rows={rows.length - to} columns={columns.length} />}
        </tbody>
      </table>
      {printing.value && to < rows.length && <p>… and {rows.length - to} more.</p>}
    </div>
  );
}

/** Stands for rows that are not drawn. */
function Gap({ rows, columns }: { rows: number; columns: number }) {
  if (rows <= 0) return null;
  return (
    <tr aria-hidden="true" class="gap">
      <td colSpan={columns} style={{ height: `${rows * ROW}px` }} />
    </tr>
  );
}

interface HeadProps<R, C extends string> {
  column: GridColumn<R, C>;
  sort: Sort<string> | undefined;
  onSort: ((column: C) => void) | undefined;
}

function Head<R, C extends string>({ column, sort, onSort }: HeadProps<R, C>) {
  const isSorted = sort?.column === column.id;
  const kind = column.numeric ? "number" : undefined;
  // A button would not be printed again on the next sheet.
  if (!column.sortable || !onSort || printing.value) {
    return (
      <th scope="col" class={kind} title={column.title}>
        {column.head}
      </th>
    );
  }
  const rises = isSorted && sort.reversed !== (column.rising ?? false);
  return (
    <th scope="col" class={kind} aria-sort={!isSorted ? "none" : rises ? "ascending" : "descending"}>
      <button type="button" title={column.title} onClick={() => onSort(column.id)}>
        {column.head}
        <span aria-hidden="true">{isSorted ? (rises ? " ↑" : " ↓") : ""}</span>
      </button>
    </th>
  );
}
