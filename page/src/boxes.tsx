// Boxes in boxes: what the flame graph and the two halves of the sandwich are drawn with.

import { useLayoutEffect, useMemo, useState } from "preact/hooks";
import { type Box, boxes, estimateOf, nameOf, neighbour, type Node, placeOf, TRUNCATED } from "./calls";
import { interval, percent, plusMinus } from "./format";
import type { Estimate, Report, Stacks } from "./model";
import { printable, shortened } from "./printable";
import { VERDICT_WORDS } from "./prose";
import { Name } from "./text";
import { useWidth } from "./width";

const ROW = 21;
/** Narrower boxes have no letters, or just the name. */
const LETTERS = 24;
const WORTH = 120;
/** A gain from here on has the full colour. */
const FULL = 0.15;
/** No title is longer. */
const NAME = 200;

/** What the boxes are of. */
export interface Shown {
  report: Report;
  stacks: Stacks;
  point: number;
}

interface Props extends Shown {
  /** What fills the width. */
  focus: Node;
  /** The name of the root, which is no function. */
  program?: string;
  /** Functions to point out. */
  found: Set<number> | null;
  /** What shares are of. */
  whole: number;
  /** Whether the root is at the bottom. */
  upwards?: boolean;
  label: string;
  onChoose(node: Node): void;
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

export function Boxes({ focus, program, found, whole, upwards = false, label, onChoose, ...shown }: Props) {
  const [element, width] = useWidth(1000);
  const laid = useMemo(() => boxes(focus, width), [focus, width]);
  const [tabbed, setTabbed] = useState<Node | null>(null);
  const [said, setSaid] = useState<Node | null>(null);
  // The nearest callers are at the bottom.
  useLayoutEffect(() => {
    const around = element.current?.parentElement;
    if (around && upwards) around.scrollTop = around.scrollHeight;
  }, [laid]);
  const rows = 1 + laid.reduce((most, { depth }) => Math.max(most, depth), 0);
  const place = (node: Node | null): number => laid.findIndex(({ what }) => what === node);
  const first = place(tabbed) < 0 ? place(focus) : place(tabbed);
  const { depth } = laid[place(focus)]!;
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = Number((event.target as HTMLElement).dataset.nth);
    const keys = upwards ? ["ArrowDown", "ArrowUp"] : undefined;
    const to = neighbour(laid, at, event.key, keys as [string, string] | undefined);
    if (to < 0) return;
    (event.currentTarget as HTMLElement).querySelector<HTMLElement>(`[data-nth="${to}"]`)?.focus();
    event.preventDefault();
  };
  return (
    <>
      <div class="calls-in">
        <div
          class="calls"
          ref={element}
          style={{ height: `${rows * ROW}px` }}
          role="group"
          aria-label={`${label}: arrow keys go from box to box, Enter chooses one`}
          onKeyDown={onKeyDown}
          onMouseLeave={() => setSaid(null)}
        >
          {laid.map((box, nth) => (
            <One
              key={nth}
              shown={shown}
              box={box}
              nth={nth}
              row={upwards ? rows - 1 - box.depth : box.depth}
              program={program}
              found={found}
              whole={whole}
              outside={box.depth < depth}
              tabbed={nth === first}
              onChoose={onChoose}
              onLook={(node, byKey) => {
                setSaid(node);
                if (byKey) setTabbed(node);
              }}
            />
          ))}
        </div>
      </div>
      <p class="calls-said">{said ? describe(shown, said, whole, program) : "\u00a0"}</p>
    </>
  );
}

interface OneProps {
  shown: Shown;
  box: Box;
  nth: number;
  row: number;
  program: string | undefined;
  found: Set<number> | null;
  whole: number;
  outside: boolean;
  tabbed: boolean;
  onChoose(node: Node): void;
  onLook(node: Node, byKey: boolean): void;
}

function One({ shown, box, nth, row, program, found, whole, outside, tabbed, onChoose, onLook }: OneProps) {
  const place = { left: `${box.from}px`, width: `${Math.max(box.width - 1, 1)}px`, top: `${row * ROW}px` };
  const node = box.what;
  if (typeof node === "number") {
    return (
      <span class="call more" style={place} title={`${node} calls too narrow to read: choose a caller to widen them`}>
        {box.width >= LETTERS ? `…${node}` : "…"}
      </span>
    );
  }
  const { report, stacks, point } = shown;
  const name = node.function < 0 ? (program ?? "") : nameOf(stacks, node.function);
  const estimate = estimateOf(report, stacks, node, point);
  const effect = estimate?.effect ?? null;
  const much = Math.round(100 * Math.min(1, Math.abs(effect ?? 0) / FULL));
  const kind = name === TRUNCATED ? "truncated" : (estimate?.verdict ?? "");
  const match = found ? (found.has(node.function) ? " match" : " other") : "";
  const said = describe(shown, node, whole, program);
  const sign = estimate ? `${VERDICT_WORDS[estimate.verdict].sign} ` : "";
  return (
    <button
      type="button"
      class={`call ${kind}${match}${outside ? " around" : ""}${node.inlined ? " inlined" : ""}`}
      style={{ ...place, "--much": `${much}%` }}
      data-nth={nth}
      tabIndex={tabbed ? 0 : -1}
      title={said}
      aria-label={said}
      onFocus={() => onLook(node, true)}
      onMouseEnter={() => onLook(node, false)}
      onClick={() => onChoose(node)}
    >
      {box.width >= LETTERS && (
        <>
          {sign}
          <Name text={name} limit={60} />
          {box.width >= WORTH && sign && effect !== null && <b> {effect > 0 && "+"}{percent(effect)}</b>}
        </>
      )}
    </button>
  );
}
