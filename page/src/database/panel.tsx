// What a span is made of, or what is different between two: the flame graph, the table beside it, and what to type for the same.

import { useEffect, useMemo, useState } from "preact/hooks";
import { Boxes, RuntimeFrames } from "../boxes";
import { type Node, samplesOf } from "../calls";
import { Command } from "../command";
import { percent } from "../format";
import { Warnings } from "../warnings";
import type { DifferenceAnswer, Flame, Heading, SpanAnswer } from "./answers";
import * as clock from "./clock";
import { type Colours, type FlameNode, FULL_CHANGE, FULL_SLOPE, KINDS, lookOf, offered, runtimeBoxes, search, signed, tree } from "./flames";
import { change, choose, isAlone, target, view, whole } from "./state";
import { ChangeTable, TopTable } from "./tables";
import type { Span } from "./view";

const digits = (number: number): string => String(number).replace(/\B(?=(\d{3})+$)/g, "\u202f");

/** What is looked at, in words, and what can be done with it. */
export function Chosen() {
  const { a, b } = view.value!;
  const all = whole.value;
  const words = ({ from, to }: Span): string => `${clock.span(from, to)} (${clock.length(to - from)})`;
  return (
    <div class="chosen">
      <h2>
        {a ? (
          <>
            <b class="span-name A">A</b> {words(a)}
          </>
        ) : (
          <>All of it{all && `: ${words(all)}`}</>
        )}
        {b && (
          <>
            , compared with <b class="span-name B">B</b> {words(b)}
          </>
        )}
      </h2>
      {!isAlone.value && (
        <div class="chosen-tools">
          {a && (
            <button type="button" onClick={() => change({ since: a.from, until: a.to, a: null, b: null })}>
              Zoom in to A
            </button>
          )}
          {a && (
            <button type="button" aria-pressed={target.value === "b"} onClick={() => (target.value = target.value === "b" ? "a" : "b")}>
              {target.value === "b" ? "Now choose B on the map …" : b ? "Compare with another span" : "Compare with a second span"}
            </button>
          )}
          {a && b && (
            <button type="button" onClick={() => change({ a: b, b: a })}>
              Swap A and B
            </button>
          )}
          {b && (
            <button type="button" onClick={() => choose(null, "b")}>
              Leave B out
            </button>
          )}
          {a && !b && (
            <button type="button" onClick={() => choose(null, "a")}>
              Look at all of it
            </button>
          )}
        </div>
      )}
    </div>
  );
}

/** The books of what is shown. */
export function Account({ heading, name }: { heading: Heading; name?: string }) {
  const { books } = heading;
  const selection = heading.selection.length > 0 ? ` of ${heading.selection.join(", ")}` : "";
  return (
    <p class="account">
      {name && <b>{name}: </b>}
      {digits(heading.samples)} samples{selection}
      {heading.nanos_per_sample !== null && `, ${clock.cpuTime(heading.samples * heading.nanos_per_sample)} of CPU time`}. Of all processes: expected{" "}
      {digits(books.expected)} = stored {digits(books.stored)} + unknown {digits(books.unknown)} + lost {digits(books.lost)}.
    </p>
  );
}

export function Panel({ answer, busy }: { answer: SpanAnswer | DifferenceAnswer; busy: boolean }) {
  const compared = answer.kind === "difference" ? answer : null;
  const headings = compared ? [compared.table.a.heading, compared.table.b.heading] : [answer.flame.heading];
  const warnings = headings.flatMap((heading) => heading.warnings.map(({ message, advice, code }) => ({ code, message, advice })));
  const point = (name: string): void => change({ search: name });
  const wanted = view.value!.search;
  return (
    <section class="panel" aria-busy={busy}>
      {headings.map((heading, nth) => (
        <Account key={nth} heading={heading} {...(compared ? { name: "AB"[nth]! } : {})} />
      ))}
      <Warnings warnings={warnings} />
      <div class="panel-in">
        <Graph flame={answer.flame} />
        <div class="panel-table">
          <h3>{compared ? "What is different" : "What costs most"}</h3>
          {answer.kind === "difference" ? (
            <ChangeTable difference={answer.table} wanted={wanted} onChoose={point} />
          ) : (
            <TopTable top={answer.table} wanted={wanted} onChoose={point} />
          )}
        </div>
      </div>
      <h3>The same in a terminal</h3>
      <ul class="next">
        {answer.next.map((text) => (
          <li key={text}>
            <Command text={text} />
          </li>
        ))}
      </ul>
    </section>
  );
}

const WORDS: Record<Colours, string> = { change: "what is different", worth: "what more speed is worth", kind: "whose code it is" };

/** `onZoom` is called with the box that is looked at. */
export function Graph({ flame, onZoom }: { flame: Flame; onZoom?: (node: FlameNode) => void }) {
  const [unfolded, setUnfolded] = useState(false);
  const runtime = useMemo(() => runtimeBoxes(flame), [flame]);
  const root = useMemo(() => tree(flame, unfolded ? [] : runtime), [flame, runtime, unfolded]);
  const [zoomed, setZoomed] = useState<Node>(root);
  const zoom = (node: Node): void => {
    setZoomed(node);
    onZoom?.(node as FlameNode);
  };
  useEffect(() => zoom(root), [root]);
  const { search: wanted, colours: asked } = view.value!;
  const known = offered(flame);
  const colours = known.find((colours) => colours === asked) ?? known[0]!;
  const found = useMemo(() => search(flame, wanted), [flame, wanted]);
  let top: Node = zoomed;
  while (top.parent) top = top.parent;
  const focus = top === root ? zoomed : root;
  const look = useMemo(() => lookOf(flame, root, colours), [flame, root, colours]);
  return (
    <div
      class="panel-flame"
      onKeyDown={(event) => {
        if (event.key !== "Escape" || (focus === root && !wanted)) return;
        if (focus !== root) zoom(root);
        else change({ search: "" });
        event.preventDefault();
        event.stopPropagation();
      }}
    >
      <div class="calls-tools">
        <label>
          Search{" "}
          <input id="search" type="search" value={wanted} placeholder="function or file" spellcheck={false} onInput={(event) => change({ search: event.currentTarget.value })} />
        </label>
        <output>{found && `${percent(samplesOf(root, found) / Math.max(1, root.total), 1)} of the samples`}</output>
        <button type="button" disabled={focus === root} onClick={() => zoom(root)}>
          Show everything
        </button>
        <RuntimeFrames runtime={runtime} drawn={unfolded} onChange={setUnfolded} />
        {known.length > 1 && (
          <label>
            Colours{" "}
            <select value={colours} onChange={(event) => change({ colours: event.currentTarget.value as Colours })}>
              {known.map((of) => (
                <option key={of} value={of}>
                  {WORDS[of]}
                </option>
              ))}
            </select>
          </label>
        )}
      </div>
      <Boxes look={look} focus={focus} found={found} label="Flame graph" onChoose={zoom} />
      <Legend flame={flame} colours={colours} />
    </div>
  );
}

function Legend({ flame, colours }: { flame: Flame; colours: Colours }) {
  const swatch = (kind: string, much = 0) => <span class={`call key ${kind}`} style={{ "--much": `${much}%` }} />;
  const kinds = new Set(flame.names.map(({ kind }) => kind));
  return (
    <ul class="legend">
      <li>Width: samples{flame.before && " of B"}. Each box is called by the one above it.</li>
      {colours === "kind" &&
        Object.entries(KINDS).map(
          ([kind, words]) =>
            kinds.has(kind) && (
              <li key={kind}>
                {swatch(kind)} {words}
              </li>
            ),
        )}
      {colours === "worth" && (
        <>
          <li>
            {swatch("better", 20)} {swatch("better", 100)} ▲ faster code helps: slope {FULL_SLOPE} and more
          </li>
          <li>{swatch("better", 0)} = it does not matter</li>
          <li>{swatch("worse", 100)} ▼ it hurts</li>
          <li>{swatch("untried")} not tried</li>
        </>
      )}
      {colours === "change" && (
        <>
          <li>
            {swatch("worse", 100)} {signed(FULL_CHANGE)} of all samples and more in B
          </li>
          <li>{swatch("worse", 0)} the same</li>
          <li>
            {swatch("better", 100)} {signed(-FULL_CHANGE)} and less
          </li>
        </>
      )}
      {flame.cut.length > 0 && <li>{swatch("cut")} its callers are not known</li>}
      {flame.left_out > 0 && <li>{digits(flame.left_out)} boxes too narrow to see are left out.</li>}
    </ul>
  );
}
