// Boxes in boxes: what the flame graphs and the two halves of the sandwich are drawn with. What a box is called and how it looks is
// for others to say.

import { useLayoutEffect, useMemo, useState } from "preact/hooks";
import { type Box, boxes, neighbour, type Node } from "./calls";
import { count } from "./format";
import { Name } from "./text";
import { useWidth } from "./width";

const ROW = 21;
/** Narrower boxes have no letters, or just the name. */
const LETTERS = 24;
const WORTH = 120;

/** How a box looks. */
export interface Look {
  name: string;
  /** Classes: what its colour means. */
  kind: string;
  /** How much of the colour, in per cent. */
  much: number;
  /** Stands before the name: what the colour says. */
  sign: string;
  /** Stands behind the name, where there is room. */
  number: string;
  /** All of it in words. */
  said: string;
}

interface Props {
  look(node: Node): Look;
  /** What fills the width. */
  focus: Node;
  /** Functions to point out. */
  found: Set<number> | null;
  /** Whether the root is at the bottom. */
  upwards?: boolean;
  label: string;
  onChoose(node: Node): void;
}

/** Whether frames that start the program and its threads are drawn; nothing where there are none. */
export function RuntimeFrames({ runtime, drawn, onChange }: { runtime: boolean[]; drawn: boolean; onChange: (drawn: boolean) => void }) {
  if (!runtime.includes(true)) return null;
  return (
    <label>
      <input type="checkbox" checked={drawn} onChange={(event) => onChange(event.currentTarget.checked)} /> Runtime frames
    </label>
  );
}

export function Boxes({ look, focus, found, upwards = false, label, onChoose }: Props) {
  const [element, width] = useWidth(1000);
  const laid = useMemo(() => boxes(focus, width), [focus, width]);
  const [tabbed, setTabbed] = useState<Node | null>(null);
  const [said, setSaid] = useState<Node | null>(null);
  // The nearest callers are at the bottom.
  useLayoutEffect(() => {
    const around = element.current?.parentElement;
    if (around && upwards) around.scrollTop = around.scrollHeight;
  }, [laid]);
  const [hidden, setHidden] = useState(0);
  useLayoutEffect(() => {
    const around = element.current?.parentElement;
    setHidden(around ? Math.round((around.scrollHeight - around.clientHeight) / ROW) : 0);
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
              look={look}
              box={box}
              nth={nth}
              row={upwards ? rows - 1 - box.depth : box.depth}
              found={found}
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
      <p class="calls-said">{said ? look(said).said : hidden > 0 ? `${count(hidden, "more row")}: scroll` : "\u00a0"}</p>
    </>
  );
}

interface OneProps {
  look(node: Node): Look;
  box: Box;
  nth: number;
  row: number;
  found: Set<number> | null;
  outside: boolean;
  tabbed: boolean;
  onChoose(node: Node): void;
  onLook(node: Node, byKey: boolean): void;
}

function One({ look, box, nth, row, found, outside, tabbed, onChoose, onLook }: OneProps) {
  const place = { left: `${box.from}px`, width: `${Math.max(box.width - 1, 1)}px`, top: `${row * ROW}px` };
  const node = box.what;
  if (typeof node === "number") {
    return (
      <span class="call more" style={place} title={`${node} calls too narrow to read: choose a caller to widen them`}>
        {box.width >= LETTERS ? `…${node}` : "…"}
      </span>
    );
  }
  const { name, kind, much, sign, number, said } = look(node);
  const match = found ? (found.has(node.function) ? " match" : " other") : "";
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
          {box.width >= WORTH && number && <b> {number}</b>}
        </>
      )}
    </button>
  );
}
