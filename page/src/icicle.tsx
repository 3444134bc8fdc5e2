// The samples by place, as boxes in boxes: as wide as the time spent there, coloured by what more speed there is worth.

import { useMemo, useState } from "preact/hooks";
import { count, percent, slope as slopeText } from "./format";
import { type Box, boxes, chain, look, neighbour, type Place } from "./places";
import { printable, shortened } from "./printable";
import { VERDICT_WORDS } from "./prose";
import type { Row } from "./ranking";
import { change, inclusiveRows, program, selected, view } from "./state";
import { Name } from "./text";

const ROW = 24;
/** More regions with all they call are left to the table. */
const MOST_INCLUSIVE = 10;
/** No title is longer. */
const NAME = 200;

export function Icicle() {
  const root = program.value;
  const { place } = view.value;
  const [focus, setFocus] = useState<string | null>(null);
  const way = useMemo(() => (root ? chain(root, place) : []), [root, place]);
  const laid = useMemo(() => boxes(way), [way]);
  const inclusive = inclusiveRows.value;
  if (!root || root.samples === 0) return <p>No samples were taken.</p>;
  const rows = 1 + Math.max(...laid.map(({ depth }) => depth));
  const onKeyDown = (event: KeyboardEvent): void => {
    const boxesHere = event.currentTarget as HTMLElement;
    const at = Number((event.target as HTMLElement).dataset.nth);
    const to = neighbour(laid, at, event.key);
    if (to === null || event.ctrlKey || event.metaKey || event.altKey) return;
    boxesHere.querySelector<HTMLElement>(`[data-nth="${to}"]`)?.focus();
    event.preventDefault();
  };
  // One box is reached by Tab: the last one that had the focus, or else the whole.
  const known = laid.findIndex(({ what }) => typeof what !== "number" && keyOf(what) === focus);
  const tabbed = Math.max(known, 0);
  return (
    <>
      {way.length > 1 && (
        <p>
          <button type="button" onClick={() => change({ place: [] })}>
            Show the whole program
          </button>
        </p>
      )}
      <div
        class="icicle"
        style={{ height: `${rows * ROW}px` }}
        role="group"
        aria-label="Samples by place: arrow keys go from box to box, Enter chooses one"
        onKeyDown={onKeyDown}
      >
        {laid.map((box, nth) =>
          typeof box.what === "number" ? (
            <Rest key={`${nth} rest`} box={box} narrow={box.what} />
          ) : (
            <PlaceBox
              key={keyOf(box.what)}
              box={box}
              nth={nth}
              place={box.what}
              whole={root.samples}
              tabbed={nth === tabbed}
              onFocus={setFocus}
            />
          ),
        )}
      </div>
      {inclusive.length > 0 && <Inclusive rows={inclusive} whole={root.samples} />}
      <Legend />
    </>
  );
}

const keyOf = ({ path }: Place): string => JSON.stringify(path);

const placed = ({ from, width, depth }: Box) => ({
  left: `${100 * from}%`,
  width: `${100 * width}%`,
  top: `${depth * ROW}px`,
});

/** The colour of a row, as far as properties can say it; the rest is in style.css. */
function coloured(row: Row | null): { kind: string; style: Record<string, string> } {
  const found = row && look(row.estimate);
  if (!found) return { kind: "untested", style: {} };
  const style = { "--much": `${Math.round(100 * Math.abs(found.slope))}%`, "--sure": `${Math.round(25 + 75 * found.sure)}%` };
  return { kind: found.slope < 0 ? "worse" : "better", style };
}

/** What the box says in words. */
function describe(name: string, samples: number, whole: number, row: Row | null): string {
  const share = `${percent(samples / whole, 1)} of the samples`;
  if (!row) return `${printable(shortened(name, NAME))}: ${share}; not tried by itself`;
  const { estimate, label } = row;
  const { word } = VERDICT_WORDS[estimate.verdict];
  return `${printable(shortened(label, NAME))}: ${share}; ${word}, slope ${slopeText(estimate.slope, estimate.slope_se)}`;
}

interface PlaceProps {
  box: Box;
  nth: number;
  place: Place;
  whole: number;
  tabbed: boolean;
  onFocus(key: string): void;
}

function PlaceBox({ box, nth, place, whole, tabbed, onFocus }: PlaceProps) {
  const { kind, style } = coloured(place.row);
  const said = describe(place.name, place.samples, whole, place.row);
  const isChosen = place.row !== null && place.row.key === selected.value?.key;
  return (
    <button
      type="button"
      class={`place ${kind}`}
      style={{ ...placed(box), ...style }}
      data-nth={nth}
      tabIndex={tabbed ? 0 : -1}
      title={said}
      aria-label={said}
      aria-pressed={isChosen}
      onFocus={() => onFocus(keyOf(place))}
      onClick={() =>
        change({ ...(place.row && { region: place.row.key }), ...(place.inside.length > 0 && { place: place.path }) })
      }
    >
      <Name text={place.name.slice(place.name.lastIndexOf("/") + 1)} />
    </button>
  );
}

/** Samples that no box accounts for. */
function Rest({ box, narrow }: { box: Box; narrow: number }) {
  const said = narrow > 0 ? `${count(narrow, "place")} too narrow to show` : "not tried";
  return (
    <span class="place untested rest" style={placed(box)} title={said}>
      {narrow > 0 ? `+${narrow}` : said}
    </span>
  );
}

/** Regions with all they call: each a bar of its own, because they overlap. */
function Inclusive({ rows, whole }: { rows: Row[]; whole: number }) {
  const shown = rows.slice(0, MOST_INCLUSIVE);
  return (
    <>
      <h3>With all they call</h3>
      <p class="legend">
        These overlap, with each other and with the boxes above
        {shown.length < rows.length && `; ${rows.length - shown.length} more are in the table`}.
      </p>
      {shown.map((row) => {
        const { kind, style } = coloured(row);
        const { samples } = row.region;
        const said = describe(row.label, samples, whole, row);
        return (
          <div class="inclusive" key={row.key}>
            <button
              type="button"
              class={`place ${kind}`}
              style={{ width: `${100 * Math.min(1, samples / whole)}%`, ...style }}
              title={said}
              aria-label={said}
              aria-pressed={row.key === selected.value?.key}
              onClick={() => change({ region: row.key })}
            >
              <Name text={row.label} />
            </button>
          </div>
        );
      })}
    </>
  );
}

function Legend() {
  const swatch = (kind: string, much: number, sure: number) => (
    <span class={`swatch ${kind}`} style={{ "--much": `${much}%`, "--sure": `${sure}%` }} />
  );
  return (
    <ul class="legend">
      <li>
        By place in the source, not by callers. Width: samples.
      </li>
      <li>
        slope: {swatch("worse", 100, 100)} −0.5 and less {swatch("worse", 50, 100)} {swatch("better", 0, 100)} 0{" "}
        {swatch("better", 50, 100)} {swatch("better", 100, 100)} 0.5 and more
      </li>
      <li>
        {swatch("better", 100, 25)} pale: the interval is wide
      </li>
      <li>
        {swatch("untested", 0, 0)} grey: not tried by itself
      </li>
    </ul>
  );
}
