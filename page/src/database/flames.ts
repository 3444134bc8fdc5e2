// The boxes of a flame graph of a database: its tree, and what each says and looks like.

import type { Look } from "../boxes";
import type { Node } from "../calls";
import { fixed, percent } from "../format";
import { printable, shortened } from "../printable";
import { filtered } from "../ranking";
import { runtimeFrames } from "../runtime";
import type { Flame, Name, Worth } from "./answers";

/** A difference from here on, in shares of the samples, has the full colour. */
export const FULL_CHANGE = 0.05;
/** And a slope. */
export const FULL_SLOPE = 0.5;
const NAME = 200;

export type Colours = "change" | "worth" | "kind";

export const KINDS: Record<string, string> = {
  program: "a program's own code",
  library: "libraries, and Rust's std",
  kernel: "the kernel",
  generated: "made at run time (JIT)",
  waiting: "off-CPU time: what is below waits",
  unknown: "nothing known",
};

/** A box, and what it was before. */
export interface FlameNode extends Node {
  was: number;
  /** Whether it must have callers of which nothing is known. */
  isCut: boolean;
}

const NO_LINES = new Map<number, number>();

/** Which boxes are the way to the program's own code. */
export function runtimeBoxes({ names, boxes, cut }: Flame): boolean[] {
  const nth = [...Array(Math.floor(boxes.length / 4)).keys()];
  const name = (nth: number): Name | undefined => names[boxes[4 * nth + 1]!];
  const callers = nth.map((at) => (boxes[4 * at]! < 0 ? null : boxes[4 * at]!));
  const isCut = new Set(cut);
  return runtimeFrames(
    callers,
    (at) => name(at)?.name ?? "",
    (at) => name(at)?.kind === "process",
    (at) => name(at)?.kind === "program" || isCut.has(at),
  );
}

/**
 * All of it; its parts in the order of their names, so that two graphs of the same program look alike. What `folded` boxes call stands
 * with their callers.
 */
export function tree({ names, boxes, cut, before }: Flame, folded: boolean[] = []): FlameNode {
  const node = (of: number, parent: Node | null, own: number, total: number, was: number): FlameNode => ({
    function: of,
    parent,
    own,
    total,
    was,
    isCut: false,
    inlined: false,
    lines: NO_LINES,
    by: new Map(),
    inside: [],
  });
  const root = node(-1, null, 0, 0, before?.samples ?? 0);
  const made: FlameNode[] = [];
  for (let at = 0; at + 3 < boxes.length; at += 4) {
    const parent = made[boxes[at]!] ?? root;
    const [of, own, total, was] = [boxes[at + 1]!, boxes[at + 2]!, boxes[at + 3]!, before?.boxes[at / 2 + 1] ?? 0];
    if (!made[boxes[at]!]) root.total += total;
    if (folded[at / 4]) {
      made.push(parent);
      continue;
    }
    // What several folded ones call is one box.
    let one = parent.by.get(of) as FlameNode | undefined;
    if (!one) {
      one = node(of, parent, 0, 0, 0);
      parent.by.set(of, one);
    }
    one.own += own;
    one.total += total;
    one.was += was;
    made.push(one);
  }
  // What is gone has no width.
  for (const one of new Set([root, ...made])) one.inside = [...one.by.values()].filter(({ total }) => total > 0);
  for (const nth of cut) if (made[nth] && !folded[nth]) made[nth].isCut = true;
  const rank = new Map([...names.keys()].sort((a, b) => (names[a]!.name < names[b]!.name ? -1 : 1)).map((of, nth) => [of, nth]));
  for (const one of [root, ...made]) one.inside.sort((a, b) => rank.get(a.function)! - rank.get(b.function)!);
  return root;
}

/** A function in what is looked at: samples in its own code, and with it on the stack, each once; and how many those were before. */
export interface Sum extends Name {
  own: number;
  total: number;
  was: number;
}

/** The functions in `focus`. */
export function sums({ names }: Flame, focus: FlameNode): Sum[] {
  const found = new Map<number, Sum>();
  // How often each function is among the callers: a box is left after all that it calls.
  const around = new Map<number, number>();
  const open: [node: FlameNode, isLeft: boolean][] = [[focus, false]];
  for (let next = open.pop(); next; next = open.pop()) {
    const [node, isLeft] = next;
    const of = node.function;
    const times = around.get(of) ?? 0;
    around.set(of, isLeft ? times - 1 : times + 1);
    if (isLeft) continue;
    const name = names[of];
    if (name && name.kind !== "process") {
      const sum = found.get(of) ?? { ...name, own: 0, total: 0, was: 0 };
      sum.own += node.own;
      if (times === 0) [sum.total, sum.was] = [sum.total + node.total, sum.was + node.was];
      found.set(of, sum);
    }
    open.push([node, true]);
    // What has gone has no box, and was something before.
    for (const gone of node.by.values()) if (gone.total === 0) open.push([gone as FlameNode, false]);
    for (const inside of node.inside) open.push([inside as FlameNode, false]);
  }
  return [...found.values()];
}

/** What colours can mean here, the most telling first. */
export function offered({ names, before }: Flame): Colours[] {
  const hasWorth = names.some(({ worth }) => worth);
  return [...(before ? (["change"] as const) : []), ...(hasWorth ? (["worth"] as const) : []), "kind"];
}

/** A difference of shares. */
export const signed = (share: number): string => `${share < 0 ? "−" : "+"}${percent(Math.abs(share), 1)}`;

/** What making it faster is worth. */
export function worthInWords({ slope, lo, hi, verdict, line, other_build }: Worth): string {
  const interval = lo === null || hi === null ? "" : ` [${fixed(lo, 2)} … ${fixed(hi, 2)}]`;
  const of = line ? ` (${printable(shortened(line, NAME))})` : "";
  return `slope ${fixed(slope, 2)}${interval}, ${verdict.replaceAll("-", " ")}${of}${other_build ? ", of another build" : ""}`;
}

export const WORTH_SIGNS: Record<string, string> = { helps: "▲", hurts: "▼", "no-effect": "=", "not-enough-data": "?", "not-trusted": "?", idle: "?" };

/** The look of every box. */
export function lookOf(flame: Flame, root: FlameNode, colours: Colours): (node: Node) => Look {
  const [now, then] = [Math.max(1, root.total), Math.max(1, root.was)];
  return (of) => {
    const node = of as FlameNode;
    const name: Name = flame.names[node.function] ?? { name: "everything", image: "", kind: "whole", worth: null };
    const more = node.total / now - node.was / then;
    const cut = node.isCut ? " cut" : "";
    const place = name.image || KINDS[name.kind] || (name.kind === "process" ? "a process" : "");
    const then_ = flame.before ? `; ${signed(more)} (${percent(node.was / then, 1)} before)` : "";
    const worth = name.worth ? `; ${worthInWords(name.worth)}` : "";
    const own = node.function < 0 ? "" : `, ${percent(node.own / now, 1)} itself`;
    const where = place && ` in ${place}`;
    const said =
      `${printable(shortened(name.name + where, NAME))}: ${percent(node.total / now, 1)}${own}, ${node.total} samples` +
      `${then_}${worth}${node.isCut ? "; its callers are not known" : ""}`;
    const plain = { name: name.name, kind: `${name.kind}${cut}`, much: 0, sign: "", number: "", said };
    if (name.kind === "whole" || name.kind === "process" || colours === "kind") return plain;
    const part = (value: number, full: number): number => Math.round(100 * Math.min(1, Math.abs(value) / full));
    if (colours === "change") {
      return { ...plain, kind: `${more > 0 ? "worse" : "better"}${cut}`, much: part(more, FULL_CHANGE), sign: `${signed(more)} ` };
    }
    if (!name.worth) return { ...plain, kind: `untried${cut}` };
    const { slope, verdict } = name.worth;
    const kind = `${slope < 0 ? "worse" : "better"}${verdict === "not-enough-data" ? " unsure" : ""}${cut}`;
    return { ...plain, kind, much: part(slope, FULL_SLOPE), sign: `${WORTH_SIGNS[verdict] ?? ""} `, number: fixed(slope, 2) };
  };
}

/** Functions whose names hold every word that is looked for; null while nothing is. */
export function search({ names }: Flame, wanted: string): Set<number> | null {
  if (!wanted.trim()) return null;
  return new Set(filtered([...names.keys()], wanted, (of) => `${names[of]!.name}\n${names[of]!.image}`.toLowerCase()));
}
