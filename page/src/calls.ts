// The stacks of a recording as trees: who called whom, from the program down, or around one function. Nothing here draws.

import type { Estimate, Report, Stacks } from "./model";
import { filtered } from "./ranking";
import { runtimeFrames } from "./runtime";

/** Frames that are the same function, called by the same callers. */
export interface Node {
  /** The place of the function in the data; −1 for the whole program. */
  function: number;
  parent: Node | null;
  /** Samples with it on the stack, and those of its own code. */
  total: number;
  own: number;
  /** Whether all of it is part of its caller's code. */
  inlined: boolean;
  /** Samples by the region that a line is. */
  lines: Map<number, number>;
  /** The widest first; */
  inside: Node[];
  /** and by function. */
  by: Map<number, Node>;
}

/** Names that stand for what is not known. */
export const TRUNCATED = "[truncated]";

const CALLER = 0;
const FUNCTION = 1;
const INLINED = 3;
const REGION = 4;
const OWN = 5;

/** Samples with each frame on the stack: its own and those of all that it calls. */
export function totals({ calls }: Stacks): number[] {
  const found = calls.map((call) => call[OWN]);
  for (let nth = calls.length - 1; nth >= 0; nth -= 1) {
    const caller = calls[nth]![CALLER];
    if (caller !== null) found[caller]! += found[nth]!;
  }
  return found;
}

const node = (of: number, parent: Node | null): Node => ({
  function: of,
  parent,
  total: 0,
  own: 0,
  inlined: true,
  lines: new Map(),
  inside: [],
  by: new Map(),
});

/** What `parent` calls that is the function `of`. */
function called(parent: Node, of: number): Node {
  let found = parent.by.get(of);
  if (!found) {
    found = node(of, parent);
    parent.by.set(of, found);
    parent.inside.push(found);
  }
  return found;
}

function inOrder(root: Node): Node {
  const open = [root];
  for (let next = open.pop(); next; next = open.pop()) {
    next.inside.sort((a, b) => b.total - a.total || a.function - b.function);
    open.push(...next.inside);
  }
  return root;
}

function add(to: Node, call: Stacks["calls"][number], total: number): void {
  to.total += total;
  to.own += call[OWN];
  to.inlined &&= call[INLINED] === 1;
  if (call[REGION] !== null) to.lines.set(call[REGION], (to.lines.get(call[REGION]) ?? 0) + total);
}

/** What stands for a program, where there are several. */
const PROGRAM = "[program]";

/** Whether a place is a source file, and none of Rust's or C++'s library. */
const isOwnCode = (place: string): boolean => /\.\w+$/.test(place) && !/^\/rustc\/|\/rustlib\/src\/|^\/usr\/(include|lib)\/|\.so(\.|$)/.test(place);

/** Which frames are the way to the program's own code. */
export const runtimeCalls = (stacks: Stacks): boolean[] =>
  runtimeFrames(
    stacks.calls.map((call) => call[CALLER]),
    (nth) => nameOf(stacks, stacks.calls[nth]![FUNCTION]),
    (nth) => placeOf(stacks, stacks.calls[nth]![FUNCTION]) === PROGRAM,
    (nth) => isOwnCode(placeOf(stacks, stacks.calls[nth]![FUNCTION])),
  );

/** The whole program; what `folded` frames call stands with their callers. */
export function tree(stacks: Stacks, total = totals(stacks), folded: boolean[] = []): Node {
  const root = node(-1, null);
  const made: Node[] = [];
  stacks.calls.forEach((call, nth) => {
    const [caller, of] = call;
    const parent = caller === null ? root : made[caller]!;
    made[nth] = folded[nth] ? parent : called(parent, of);
    if (!folded[nth]) add(made[nth]!, call, total[nth]!);
    if (caller === null) root.total += total[nth]!;
  });
  root.inlined = false;
  return inOrder(root);
}

/** Everything around one function: each of its samples is in both trees once. */
export interface Around {
  callers: Node;
  callees: Node;
}

/** Who calls a function, and what it calls. Where it calls itself, its outermost frame counts. */
export function around(stacks: Stacks, of: number, total = totals(stacks)): Around {
  const { calls } = stacks;
  const [callers, callees] = [node(of, null), node(of, null)];
  // The node of each frame that is inside of the function.
  const inside: (Node | undefined)[] = [];
  calls.forEach((call, nth) => {
    const caller = call[CALLER];
    const within = caller === null ? undefined : inside[caller];
    if (within) {
      inside[nth] = called(within, call[FUNCTION]);
      add(inside[nth]!, call, total[nth]!);
    } else if (call[FUNCTION] === of) {
      inside[nth] = callees;
      add(callees, call, total[nth]!);
      add(callers, call, total[nth]!);
      let at = callers;
      for (let next = caller; next !== null; next = calls[next]![CALLER]) {
        at = called(at, calls[next]![FUNCTION]);
        add(at, calls[next]!, total[nth]!);
      }
    }
  });
  // As a caller, a function has no samples of its own.
  const open = [...callers.inside];
  for (let next = open.pop(); next; next = open.pop()) {
    next.own = 0;
    open.push(...next.inside);
  }
  return { callers: inOrder(callers), callees: inOrder(callees) };
}

/** Samples of a function: in its own code, and with it on the stack, each once. */
export interface Sums {
  function: number;
  own: number;
  total: number;
}

/** The functions, those with most samples on their stacks first. */
export function sums({ calls, functions }: Stacks, total: number[]): Sums[] {
  const found = functions.map((_, of): Sums => ({ function: of, own: 0, total: 0 }));
  calls.forEach((call, nth) => {
    const of = found[call[FUNCTION]]!;
    of.own += call[OWN];
    let outer = call[CALLER];
    while (outer !== null && calls[outer]![FUNCTION] !== call[FUNCTION]) outer = calls[outer]![CALLER];
    if (outer === null) of.total += total[nth]!;
  });
  return found.sort((a, b) => b.total - a.total || b.own - a.own);
}

export const nameOf = (stacks: Stacks, of: number): string => stacks.texts[stacks.functions[of]?.[0] ?? -1] ?? "?";

/** Where a function is: its file, or else its image. */
export function placeOf({ texts, functions }: Stacks, of: number): string {
  const [, file, image] = functions[of] ?? [0, null, null];
  return texts[file ?? image ?? -1] ?? "";
}

/** The estimate for a function, or else for the line of it with most samples. */
export function estimateOf(report: Report, stacks: Stacks, of: Pick<Node, "function" | "lines">, point: number): Estimate | null {
  const widest = [...of.lines].sort(([, a], [, b]) => b - a)[0];
  const region = stacks.functions[of.function]?.[3] ?? widest?.[0];
  return region === undefined || region === null ? null : (report.regions[region]?.points[point] ?? null);
}

/** A box in pixels from the left, so many rows from the root. */
export interface Box {
  depth: number;
  from: number;
  width: number;
  /** The frames, or how many are too narrow to be read. */
  what: Node | number;
}

/** What is narrower cannot be read or hit: it is drawn together with its neighbours. */
export const LEAST = 3;
/** More boxes would make a browser slow: the widest are drawn. None is wider than its caller, so that none is without it. */
export const MOST = 10_000;

/** What is drawn on `width` pixels: the way to `focus` over the whole width, and everything inside it. */
export function boxes(focus: Node, width: number): Box[] {
  const way: Node[] = [];
  for (let next: Node | null = focus; next; next = next.parent) way.unshift(next);
  const found = way.slice(0, -1).map((what, depth): Box => ({ depth, from: 0, width, what }));
  const open: Box[] = [{ depth: way.length - 1, from: 0, width, what: focus }];
  for (let box = open.pop(); box; box = open.pop()) {
    found.push(box);
    const { what, depth, from } = box;
    if (typeof what === "number") continue;
    let [at, narrow, room] = [from, 0, 0];
    const inside: Box[] = [];
    for (const child of what.inside) {
      const share = (box.width * child.total) / what.total;
      if (share < LEAST) {
        narrow += 1;
        room += share;
      } else {
        inside.push({ depth: depth + 1, from: at, width: share, what: child });
        at += share;
      }
    }
    if (room >= LEAST) inside.push({ depth: depth + 1, from: at, width: room, what: narrow });
    // From left to right, each with what it calls.
    open.push(...inside.reverse());
  }
  if (found.length <= MOST) return found;
  const widest = new Set([...found].sort((a, b) => b.width - a.width || a.depth - b.depth).slice(0, MOST));
  return found.filter((box) => widest.has(box));
}

/** Where an arrow key leads from box number `at`, −1 if nowhere; `up` leads towards the root. */
export function neighbour(boxes: Box[], at: number, key: string, [up, down] = ["ArrowUp", "ArrowDown"]): number {
  const from = boxes[at];
  if (!from || typeof from.what === "number") return -1;
  const { parent, inside } = from.what;
  if (key === up || key === down) return boxes.findIndex(({ what }) => what === (key === up ? parent : inside[0]));
  const by = { ArrowRight: 1, ArrowLeft: -1 }[key];
  if (!by) return -1;
  // Boxes of a row come from left to right.
  for (let nth = at + by; boxes[nth]; nth += by) {
    if (boxes[nth]!.depth === from.depth && typeof boxes[nth]!.what !== "number") return nth;
  }
  return -1;
}

/** Functions whose names hold every word that is looked for; null while nothing is. */
export function search(stacks: Stacks, wanted: string): Set<number> | null {
  if (!wanted.trim()) return null;
  const text = (of: number): string => `${nameOf(stacks, of)}\n${placeOf(stacks, of)}`.toLowerCase();
  return new Set(filtered([...stacks.functions.keys()], wanted, text));
}

/** Samples with any of these functions on the stack, each once. */
export function samplesOf(root: Node, found: Set<number>): number {
  let sum = 0;
  const open = [root];
  for (let next = open.pop(); next; next = open.pop()) {
    if (found.has(next.function)) sum += next.total;
    else open.push(...next.inside);
  }
  return sum;
}
