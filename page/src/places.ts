// Samples by place: program, file, function, line. This is a tree of where code stands, not of who calls it (calls.ts).

import type { Estimate, Report } from "./model";
import type { Row } from "./ranking";

export interface Place {
  /** The names that lead to it, without the program's. */
  path: string[];
  name: string;
  /** How wide it is: its own samples, or those of what is in it, if that is more. */
  samples: number;
  /** The region that it is; null for a place that was not tried by itself. */
  row: Row | null;
  inside: Place[];
}

const PROGRAM_PATH: string[] = [];
export const NO_FILE = "without source";

/** A place while it is built. */
interface Growing extends Place {
  inside: Growing[];
  byName: Map<string, Growing>;
}

function grow(path: string[], name: string): Growing {
  return { path, name, samples: 0, row: null, inside: [], byName: new Map() };
}

function inside(place: Growing, name: string): Growing {
  const known = place.byName.get(name);
  if (known) return known;
  const found = grow([...place.path, name], name);
  place.byName.set(name, found);
  place.inside.push(found);
  return found;
}

const base = (path: string): string => path.slice(path.lastIndexOf("/") + 1);

/** What compilers call their own copies and pieces of a function. */
const PIECE = /(\.(part|constprop|isra|cold|lto_priv|llvm)(\.\d+)*)+$/;

/** `F@CALLER`: as much of F as is called from there. */
const isFromCaller = ({ region: { name, function: of } }: Row): boolean =>
  of !== null && name.includes("@") && !of.includes("@");

/** The tree of all regions that do not include what they call; those would be counted twice. */
export function places(report: Report, rows: Row[]): Place {
  const own = rows.filter(({ region }) => !region.inclusive);
  const images = new Set(own.map(({ region }) => region.image.path));
  const program = grow(PROGRAM_PATH, base(report.sessions.at(-1)?.program ?? ""));
  const functionOf = ({ region }: Row): string => (region.function ?? region.name).replace(PIECE, "");
  // A line that was inlined stands in another file, but belongs to the function that it runs in.
  const files = new Map<string, string | null>();
  const keyOf = (row: Row): string => JSON.stringify([row.region.image.path, functionOf(row)]);
  for (const row of own) if (row.region.kind === "function") files.set(keyOf(row), row.region.file);
  for (const row of own) {
    const { kind, file, image } = row.region;
    const isFunction = kind === "function";
    const within = files.get(keyOf(row)) ?? file;
    let place = program;
    if (images.size > 1) place = inside(place, base(image.path));
    place = inside(place, within ?? NO_FILE);
    if (isFunction || row.region.function !== null) place = inside(place, functionOf(row));
    if (!isFunction || isFromCaller(row)) place = inside(place, row.label);
    // Two regions of one name: the second is beside the first.
    if (place.row !== null) place = inside(program, row.key);
    place.row = row;
  }
  measure(program);
  program.samples = Math.max(program.samples, report.sessions.reduce((sum, { samples }) => sum + samples, 0));
  return program;
}

/** Counts, and puts in order: the widest first, but lines as they stand in the source. */
function measure(place: Growing): void {
  place.inside.forEach(measure);
  const sum = place.inside.reduce((sum, { samples }) => sum + samples, 0);
  place.samples = Math.max(place.row?.region.samples ?? 0, sum);
  const line = ({ row }: Growing): number => (row?.region.kind === "line" ? (row.region.line ?? 0) : 0);
  place.inside.sort((a, b) => line(a) - line(b) || b.samples - a.samples);
}

/** The regions that include what they call, the widest first: these overlap with others. */
export function withCallees(rows: Row[]): Row[] {
  return rows.filter(({ region }) => region.inclusive).sort((a, b) => b.region.samples - a.region.samples);
}

/** The places from the program to the one that `path` names, or as far as there are any. */
export function chain(program: Place, path: string[]): Place[] {
  const found = [program];
  for (const name of path) {
    const next = found.at(-1)!.inside.find((place) => place.name === name);
    if (!next) break;
    found.push(next);
  }
  return found;
}

/** A stretch of a row, in shares of the whole width. */
export interface Box {
  depth: number;
  from: number;
  width: number;
  /** The place, or how many are too narrow to be drawn, or 0 for what no region accounts for. */
  what: Place | number;
}

/** What is narrower is not drawn by itself. */
const LEAST = 0.0015;

/** What is drawn: the places of `chain` over the whole width, and everything inside its last one. */
export function boxes(chain: Place[]): Box[] {
  const found: Box[] = chain.slice(0, -1).map((what, depth) => ({ depth, from: 0, width: 1, what }));
  const lay = (place: Place, depth: number, from: number, width: number): void => {
    found.push({ depth, from, width, what: place });
    if (place.inside.length === 0) return;
    let at = from;
    let [narrow, room] = [0, 0];
    for (const child of place.inside) {
      const share = place.samples > 0 ? (width * child.samples) / place.samples : 0;
      if (share < LEAST) {
        narrow += 1;
        room += share;
        continue;
      }
      lay(child, depth + 1, at, share);
      at += share;
    }
    if (room >= LEAST) found.push({ depth: depth + 1, from: at, width: room, what: narrow });
    const rest = from + width - at - room;
    if (rest >= LEAST) found.push({ depth: depth + 1, from: from + width - rest, width: rest, what: 0 });
  };
  const last = chain.at(-1);
  if (last) lay(last, chain.length - 1, 0, 1);
  return found;
}

/** A slope from here on, up or down, has the full colour. */
const FULL = 0.5;
/** An interval with this half width or less looks as sure as possible. */
const SURE = 0.05;
/** An interval with this half width or more looks as unsure as possible. */
const UNSURE = 0.5;

export interface Look {
  /** From −1 to 1. */
  slope: number;
  /** From 0 to 1. */
  sure: number;
}

/** How an estimate is coloured; null for grey. */
export function look({ verdict, slope, slope_lo, slope_hi }: Estimate): Look | null {
  if (slope === null || verdict === "idle") return null;
  const half = slope_lo === null || slope_hi === null ? UNSURE : (slope_hi - slope_lo) / 2;
  const clamped = (value: number, most: number): number => Math.min(Math.max(value, -most), most);
  return { slope: clamped(slope / FULL, 1), sure: 1 - Math.max(0, clamped((half - SURE) / (UNSURE - SURE), 1)) };
}

/** Where an arrow key leads from box number `at`; null if nowhere. */
export function neighbour(boxes: Box[], at: number, key: string): number | null {
  const from = boxes[at];
  if (!from) return null;
  const middle = from.from + from.width / 2;
  const isPlace = ({ what }: Box): boolean => typeof what !== "number";
  const row = (depth: number): number[] => boxes.flatMap((box, nth) => (box.depth === depth && isPlace(box) ? [nth] : []));
  const beside = row(from.depth).sort((a, b) => boxes[a]!.from - boxes[b]!.from);
  switch (key) {
    case "ArrowRight":
      return beside[beside.indexOf(at) + 1] ?? null;
    case "ArrowLeft":
      return beside[beside.indexOf(at) - 1] ?? null;
    case "ArrowUp":
      return row(from.depth - 1).find((nth) => boxes[nth]!.from <= middle && middle <= boxes[nth]!.from + boxes[nth]!.width) ?? null;
    case "ArrowDown":
      return (
        row(from.depth + 1).find((nth) => boxes[nth]!.from >= from.from - 1e-9 && boxes[nth]!.from < from.from + from.width - 1e-9) ?? null
      );
    default:
      return null;
  }
}
