// The map over time: what is where, what a cell says, and where keys lead. Nothing here draws.

import { fixed } from "../format";
import type { Gap, Heat, HeatRow } from "./answers";
import * as clock from "./clock";
import type { Span } from "./view";

/** Narrower columns cannot be told apart or hit. */
export const LEAST = 4;

/** How many columns to ask for on so many pixels: in steps, so that a window that is resized does not ask all the time. */
export function columnsFor(width: number): number {
  return Math.min(400, Math.max(20, Math.floor(width / LEAST / 20) * 20));
}

export interface Cell {
  row: number;
  column: number;
}

/** The time that the map shows. */
export const shown = ({ start, column_s, columns }: Heat): Span => ({ from: start, to: start + column_s * columns });

/** The time of some columns, from one to the other, both included, in either order. */
export function spanOf(heat: Heat, one: number, other: number): Span {
  const [first, last] = [Math.min(one, other), Math.max(one, other)];
  return { from: heat.start + first * heat.column_s, to: heat.start + (last + 1) * heat.column_s };
}

/** Where a span is on the map, as shares of its width; null if it is elsewhere. */
export function place(heat: Heat, { from, to }: Span): { left: number; right: number } | null {
  const all = shown(heat);
  const at = (time: number): number => Math.min(1, Math.max(0, (time - all.from) / (all.to - all.from)));
  return to <= all.from || from >= all.to ? null : { left: at(from), right: at(to) };
}

/** What a cell is, in the unit of the map; null where nothing was collected. */
export function value(heat: Heat, row: HeatRow, column: number): number | null {
  const scale = (row.own?.scale ?? heat.scale)[column] ?? null;
  return scale === null ? null : row.cells[column]! * scale;
}

/** The largest cell; more than nothing. */
export function largest(heat: Heat): number {
  let most = 0;
  for (const row of heat.rows) for (let nth = 0; nth < heat.columns; nth += 1) most = Math.max(most, value(heat, row, nth) ?? 0);
  return most || 1;
}

/** Two digits that matter: `0.052`, `1.3`, `24`. */
export function short(number: number): string {
  const size = Math.abs(number);
  if (size === 0) return "0";
  return fixed(number, size >= 9.95 ? 0 : size >= 0.995 ? 1 : size >= 0.0995 ? 2 : 3);
}

const count = (number: number): string => String(number).replace(/\B(?=(\d{3})+$)/g, "\u202f");

/** Seconds of a column that lie in gaps. */
export function missing(gaps: Gap[], { from, to }: Span): number {
  return gaps.reduce((sum, [begin, end]) => sum + Math.max(0, Math.min(end, to) - Math.max(begin, from)), 0);
}

/** What a cell says in words. */
export function describe(heat: Heat, { row: at, column }: Cell, name: (text: string) => string): string {
  const row = heat.rows[at];
  if (!row) return "";
  const span = spanOf(heat, column, column);
  const when = clock.span(span.from, span.to);
  const scale = (row.own?.scale ?? heat.scale)[column] ?? null;
  if (scale === null) return `${name(row.name)}, ${when}: not collected`;
  const samples = row.cells[column]!;
  const [low, high] = [row.lo[column]! * scale, row.hi[column]! * scale];
  const gone = missing(row.own?.gaps ?? heat.gaps, span);
  const part = gone > 0 ? `; nothing was collected for ${clock.length(gone)} of ${clock.length(heat.column_s)}` : "";
  const lost = heat.lost[column]! > 0.01 * heat.expected[column]! ? `; ${short((100 * heat.lost[column]!) / heat.expected[column]!)} % of the samples were lost` : "";
  return `${name(row.name)}, ${when}: ${short(samples * scale)} ${heat.unit} [${short(low)} … ${short(high)}], ${count(samples)} sample${samples === 1 ? "" : "s"}${part}${lost}`;
}

/** Where a key leads; null if it is no key that moves. */
export function moved(heat: Heat, { row, column }: Cell, key: string): Cell | null {
  const page = Math.max(1, Math.round(heat.columns / 10));
  const steps: Record<string, [rows: number, columns: number]> = {
    ArrowLeft: [0, -1],
    ArrowRight: [0, 1],
    ArrowUp: [-1, 0],
    ArrowDown: [1, 0],
    PageUp: [0, -page],
    PageDown: [0, page],
    Home: [0, -heat.columns],
    End: [0, heat.columns],
  };
  const step = steps[key];
  if (!step) return null;
  const within = (number: number, most: number): number => Math.min(Math.max(number, 0), most);
  return { row: within(row + step[0], heat.rows.length - 1), column: within(column + step[1], heat.columns - 1) };
}

export const sameColumns = (one: Heat, other: Heat): boolean => one.start === other.start && one.column_s === other.column_s && one.columns === other.columns;

/** The cell of another map that shows what a cell of this one does: the same row at the same time; null if that one has none. */
export function carried(from: Heat, to: Heat, cell: Cell): Cell | null {
  const was = from.rows[cell.row];
  const row = to.rows.findIndex(({ name, image }) => name === was?.name && image === was.image);
  const column = Math.floor((from.start + (cell.column + 0.5) * from.column_s - to.start) / to.column_s);
  return row < 0 || from.by !== to.by || column < 0 || column >= to.columns ? null : { row, column };
}

/** The cell under a place of the plot. */
export function cellAt(heat: Heat, x: number, y: number, width: number, rowHeight: number): Cell {
  const within = (number: number, most: number): number => Math.min(Math.max(Math.floor(number), 0), most);
  return {
    row: within(y / rowHeight, heat.rows.length - 1),
    column: within((x / Math.max(1, width)) * heat.columns, heat.columns - 1),
  };
}

/** What restricts a question to a row; null if nothing does. */
export function restriction(by: string, name: string): { filter: "machine" | "cgroup" | "process" | "image"; pattern: string } | null {
  if (name === "[none]") return null;
  switch (by) {
    case "machine":
    case "process":
    case "image":
      return { filter: by, pattern: name };
    case "cgroup":
    case "unit":
      return { filter: "cgroup", pattern: name };
    default:
      return null;
  }
}
