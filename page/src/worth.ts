// What the boxes of a recording's stacks say and how they look: coloured by what it is worth to make the code faster, or, where that is not
// known of any, by whose code it is.

import type { Look } from "./boxes";
import { estimateOf, nameOf, type Node, placeOf, TRUNCATED } from "./calls";
import { interval, percent, plusMinus } from "./format";
import type { Estimate, Report, Stacks } from "./model";
import { moduleOf, type Modules } from "./modules";
import { printable, shortened } from "./printable";
import { VERDICT_WORDS } from "./prose";

/** A gain from here on has the full colour. */
const FULL = 0.15;
/** No title is longer. */
const NAME = 200;

/** What the boxes are of. */
export interface Shown {
  report: Report;
  stacks: Stacks;
  point: number;
  /** Where nothing is certain: which colours mean which files and libraries. */
  modules: Modules | null;
}

/** What a box says in words. */
export function describe(shown: Shown, node: Node, whole: number, program = "the program"): string {
  const { report, stacks, point } = shown;
  const of = node.function;
  const name = of < 0 ? program : nameOf(stacks, of);
  const place = placeOf(stacks, of);
  const where = place && ` in ${place}`;
  const samples = `${node.total} samples, ${percent(node.total / whole, 1)}`;
  const start = `${printable(shortened(name + where, NAME))}${node.inlined ? ", inlined" : ""}: ${samples}`;
  if (of < 0) return start;
  if (name === TRUNCATED) return `${start}; the outermost frames of these stacks are not known`;
  const estimate = estimateOf(report, stacks, node, point);
  return `${start}, ${percent(node.own / whole, 1)} in its own code; ${worthInWords(estimate)}`;
}

/** What it is worth: the gain at 20 %, its interval, and the verdict. */
export function worthInWords(estimate: Estimate | null): string {
  if (!estimate) return "not tried by itself";
  const known = interval(estimate.effect, estimate.effect_lo, estimate.effect_hi);
  const { word } = VERDICT_WORDS[estimate.verdict];
  return known ? `20 % faster gains ${plusMinus(known)} (${word})` : word;
}

/** The look of every box; `whole` is what shares are of, `program` the name of the root, which is no function. */
export function lookOf(shown: Shown, whole: number, program = ""): (node: Node) => Look {
  const { report, stacks, point, modules } = shown;
  const kindOf = (node: Node, verdict: string): string => {
    const nth = modules?.get(moduleOf(stacks, node.function));
    return modules ? (nth === undefined ? "" : `module m${nth}`) : verdict;
  };
  return (node) => {
    const name = node.function < 0 ? program : nameOf(stacks, node.function);
    const estimate = estimateOf(report, stacks, node, point);
    const effect = estimate?.effect ?? null;
    return {
      name,
      kind: name === TRUNCATED ? "truncated" : kindOf(node, estimate?.verdict ?? ""),
      much: Math.round(100 * Math.min(1, Math.abs(effect ?? 0) / FULL)),
      sign: estimate ? `${VERDICT_WORDS[estimate.verdict].sign} ` : "",
      number: effect === null ? "" : `${effect > 0 ? "+" : ""}${percent(effect)}`,
      said: describe(shown, node, whole, program || undefined),
    };
  };
}
