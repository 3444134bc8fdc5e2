// The map over time: a row for each process (or host, unit, function …), a column for each stretch of time. A span is brushed with
// the mouse, a finger or the arrow keys.

import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Disclosure } from "../disclosure";
import { percent } from "../format";
import { printable, shortened } from "../printable";
import { printing } from "../printing";
import { Name } from "../text";
import { theme } from "../theme";
import { useWidth } from "../width";
import type { Gap, Heat, Worth } from "./answers";
import * as clock from "./clock";
import { palette, step, STEPS } from "./colours";
import { WORTH_SIGNS, worthInWords } from "./flames";
import { carried, type Cell, cellAt, columnsFor, describe, largest, moved, place, restriction, sameColumns, short, shown, spanOf, value } from "./map";
import { change, choose, columns, isAlone, target, view } from "./state";
import type { Span } from "./view";

const ROW = 22;
/** So many rows leave room for what is below them; the others are drawn when the user asks for them. */
const SHOWN = 8;
/** Gaps that are so wide, in pixels, say in words that they are none of the program's rest. */
const WORDS = 110;
/** So many gaps are listed. */
const LISTED = 50;

const nameOf = (text: string): string => printable(shortened(text, 80));

export function HeatMap({ heat: whole, busy }: { heat: Heat; busy: boolean }) {
  const [all, setAll] = useState(false);
  const heat = useMemo(() => (all ? whole : { ...whole, rows: whole.rows.slice(0, SHOWN) }), [whole, all]);
  const [element, width] = useWidth(800);
  // Signals, because the next key or movement may come before this is drawn again.
  const cursor = useSignal<Cell | null>(null);
  // Where the keyboard began to brush, or the pointer; and for which of the two spans.
  const brush = useSignal<{ from: number; to: number; as: "a" | "b" } | null>(null);
  const most = useMemo(() => largest(heat), [heat]);
  const alone = isAlone.value;
  useEffect(() => {
    if (!printing.peek()) columns.value = columnsFor(width);
  }, [width]);
  const before = useRef(heat);
  useLayoutEffect(() => {
    const { current: old } = before;
    if (old === heat) return;
    before.current = heat;
    cursor.value = cursor.peek() && carried(old, heat, cursor.peek()!);
    if (!sameColumns(old, heat)) brush.value = null;
  }, [heat]);
  const now = view.value!;
  const height = heat.rows.length * ROW;
  const at = (event: PointerEvent): Cell => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    return cellAt(heat, event.clientX - box.left, event.clientY - box.top, box.width, ROW);
  };
  const commit = (): void => {
    const brushed = brush.peek();
    if (!brushed) return;
    choose(spanOf(heat, brushed.from, brushed.to), brushed.as);
    brush.value = null;
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey) return;
    const [at, brushed] = [cursor.peek(), brush.peek()];
    const from = at ?? { row: 0, column: 0 };
    const to = at ? moved(heat, from, event.key) : moved(heat, from, event.key) && from;
    if (to) {
      cursor.value = to;
      if (!alone && event.shiftKey) brush.value = { from: brushed?.from ?? from.column, to: to.column, as: brushed?.as ?? (event.altKey ? "b" : target.peek()) };
    } else if (event.key === "Enter" && !alone) {
      if (brushed) commit();
      else if (at) choose(spanOf(heat, at.column, at.column), event.altKey ? "b" : target.peek());
    } else if (event.key === "Escape" && (brushed || now.a || now.b)) {
      if (brushed) brush.value = null;
      else change(now.b ? { b: null } : { a: null });
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const [cell, brushed] = [cursor.value, brush.value];
  const draft = brushed && { span: spanOf(heat, brushed.from, brushed.to), name: brushed.as === "a" ? "A" : "B" };
  const spans: { span: Span; name: string }[] = [
    ...(now.a && draft?.name !== "A" ? [{ span: now.a, name: "A" }] : []),
    ...(now.b && draft?.name !== "B" ? [{ span: now.b, name: "B" }] : []),
    ...(draft ? [draft] : []),
  ];
  const time = shown(heat);
  const hint = alone || now.a ? "\u00a0" : "Drag over the map to look at a span of time; then compare it with a second one (or drag with Alt held down).";
  return (
    <figure class="map" aria-busy={busy}>
      <div class="map-in">
        <ul class="map-names" aria-label="Rows">
          {heat.rows.map((row, nth) => (
            <li key={`${row.name}\n${row.image}`} class={cell?.row === nth ? "pointed" : undefined}>
              <RowName heat={heat} nth={nth} alone={alone} />
              <WorthMark worth={row.worth} />
              <span class="map-share">{percent(row.share.value, 1)}</span>
            </li>
          ))}
        </ul>
        <div
          class="map-plot"
          ref={element}
          style={{ height: `${height}px` }}
          tabIndex={0}
          role="application"
          aria-roledescription="map over time"
          aria-label={
            `CPU by ${heat.by} over time, ${heat.rows.length} rows and ${heat.columns} columns: arrow keys go from cell to cell` +
            (alone ? "" : ", with Shift they choose a span of time, Enter looks at it, Escape leaves it")
          }
          aria-describedby="map-said"
          onKeyDown={onKeyDown}
          onPointerDown={(event) => {
            if (alone || event.button !== 0) return;
            const { column } = at(event);
            // A finger that moves up or down scrolls.
            if (event.pointerType !== "touch") event.currentTarget.setPointerCapture(event.pointerId);
            brush.value = { from: column, to: column, as: event.altKey ? "b" : target.peek() };
          }}
          onPointerMove={(event) => {
            const [under, was, brushed] = [at(event), cursor.peek(), brush.peek()];
            if (under.row !== was?.row || under.column !== was?.column) cursor.value = under;
            if (brushed && event.buttons & 1) brush.value = { ...brushed, to: under.column };
          }}
          onPointerUp={commit}
          onPointerCancel={() => (brush.value = null)}
          onPointerLeave={() => document.activeElement !== element.current && (cursor.value = null)}
        >
          <Cells heat={heat} width={width} height={height} most={most} />
          {heat.gaps.map((gap) => (
            <GapWords key={gap[0]} heat={heat} gap={gap} width={width} />
          ))}
          {spans.map(({ span, name }) => (
            <Brush key={name} heat={heat} span={span} name={name} />
          ))}
          {cell && (
            <span
              class="map-cursor"
              style={{ left: `${(100 * cell.column) / heat.columns}%`, width: `${100 / heat.columns}%`, top: `${cell.row * ROW}px`, height: `${ROW}px` }}
            />
          )}
        </div>
        <Axis from={time.from} to={time.to} width={width} />
      </div>
      <p class="map-said" id="map-said" role="status">
        {cell ? describe(heat, cell, nameOf) : draft ? clock.span(draft.span.from, draft.span.to) : <span class="legend">{hint}</span>}
      </p>
      <div class="map-foot">
        <Legend heat={heat} most={most} />
        {whole.rows.length > SHOWN && (
          <button type="button" aria-expanded={all} onClick={() => setAll(!all)}>
            {all ? `Show ${SHOWN} rows` : `Show ${whole.rows.length - SHOWN} more rows`}
          </button>
        )}
        <Gaps heat={heat} />
      </div>
    </figure>
  );
}

/** A button where choosing the row does something. */
function RowName({ heat, nth, alone }: { heat: Heat; nth: number; alone: boolean }) {
  const row = heat.rows[nth]!;
  const only = restriction(heat.by, row.name);
  const title = printable(shortened(row.image ? `${row.name} in ${row.image}` : row.name, 300));
  if (heat.by === "function") {
    return (
      <button type="button" title={`${title}: point it out in the flame graph`} onClick={() => change({ search: row.name })}>
        <Name text={row.name} limit={60} />
      </button>
    );
  }
  if (!only || alone) {
    return (
      <span class="map-name" title={title}>
        <Name text={row.name} limit={60} />
      </span>
    );
  }
  return (
    <button
      type="button"
      title={`${title}: show nothing else`}
      onClick={() => change({ filters: { ...view.peek()!.filters, [only.filter]: only.pattern } })}
    >
      <Name text={row.name} limit={60} />
    </button>
  );
}

function WorthMark({ worth }: { worth: Worth | null }) {
  if (!worth) return null;
  const words = worthInWords(worth);
  return (
    <span class={`verdict ${{ helps: "better", hurts: "worse" }[worth.verdict] ?? ""}`} role="img" aria-label={words} title={words}>
      {WORTH_SIGNS[worth.verdict] ?? "?"}
    </span>
  );
}

function Cells({ heat, width, height, most }: { heat: Heat; width: number; height: number; most: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const look = theme.value;
  const paper = printing.value;
  useLayoutEffect(() => {
    const of = canvas.current;
    const pen = of?.getContext("2d");
    if (!of || !pen) return;
    const density = Math.max(window.devicePixelRatio || 1, paper ? 3 : 1);
    [of.width, of.height] = [Math.round(width * density), Math.round(height * density)];
    pen.scale(density, density);
    const colours = palette(look);
    const style = getComputedStyle(of);
    const [back, line] = [style.backgroundColor, style.color];
    const at = (column: number): number => Math.round((column * width) / heat.columns);
    heat.rows.forEach((row, nth) => {
      for (let column = 0; column < heat.columns; column += 1) {
        const worth = value(heat, row, column);
        if (worth === null) continue;
        pen.fillStyle = colours[step(worth, most)]!;
        pen.fillRect(at(column), nth * ROW, at(column + 1) - at(column), ROW - 1);
      }
      if (row.own) for (const gap of row.own.gaps) hatch(pen, heat, gap, width, nth * ROW, ROW - 1, back, line);
    });
    if (!heat.rows.some((row) => row.own)) for (const gap of heat.gaps) hatch(pen, heat, gap, width, 0, height, back, line);
  }, [heat, width, height, look, paper]);
  return <canvas ref={canvas} aria-hidden="true" />;
}

/** Strokes where nothing was collected, which no colour of a cell looks like. */
function hatch(pen: CanvasRenderingContext2D, heat: Heat, [from, to]: Gap, width: number, top: number, height: number, back: string, line: string): void {
  const found = place(heat, { from, to });
  if (!found) return;
  const left = found.left * width;
  // What is shorter than a pixel is seen all the same.
  const wide = Math.max(2, (found.right - found.left) * width);
  pen.save();
  pen.beginPath();
  pen.rect(left, top, wide, height);
  pen.clip();
  pen.fillStyle = back;
  pen.fillRect(left, top, wide, height);
  pen.strokeStyle = line;
  pen.lineWidth = 1;
  pen.beginPath();
  // One pattern over the whole map, whatever the gap.
  const first = Math.floor((left + top) / 6) * 6;
  for (let x = first; x < left + wide + height + top + 6; x += 6) {
    pen.moveTo(x - top, top);
    pen.lineTo(x - top - height, top + height);
  }
  pen.stroke();
  pen.restore();
}

function GapWords({ heat, gap, width }: { heat: Heat; gap: Gap; width: number }) {
  const found = place(heat, { from: gap[0], to: gap[1] });
  if (!found || (found.right - found.left) * width < WORDS) return null;
  return (
    <span class="map-gap" style={{ left: `${50 * (found.left + found.right)}%` }}>
      not collected
    </span>
  );
}

function Brush({ heat, span, name }: { heat: Heat; span: Span; name: string }) {
  const found = place(heat, span);
  if (!found) return null;
  return (
    <span class={`map-brush ${name}`} style={{ left: `${100 * found.left}%`, width: `${100 * (found.right - found.left)}%` }}>
      <b aria-hidden="true">{name}</b>
    </span>
  );
}

/** A label takes so many pixels. */
const LABEL = 64;

function Axis({ from, to, width }: { from: number; to: number; width: number }) {
  const found = clock.ticks(from, to, Math.max(1, Math.floor(width / (LABEL * 1.3))));
  return (
    <div class="map-axis" aria-hidden="true">
      {found.map(({ at, label }) => {
        const part = (at - from) / (to - from);
        const side = part * width < LABEL / 2 ? "first" : part * width > width - LABEL / 2 ? "last" : "";
        return (
          <span key={at} class={side} style={{ left: `${100 * part}%` }}>
            {label}
          </span>
        );
      })}
    </div>
  );
}

function Legend({ heat, most }: { heat: Heat; most: number }) {
  const colours = palette(theme.value);
  const parts = [0, 0.25, 0.5, 0.75, 1];
  const hasGaps = heat.gaps.length > 0 || heat.rows.some(({ own }) => own && own.gaps.length > 0);
  return (
    <figcaption>
      <ul class="legend">
        <li>
          {heat.unit === "cores" ? "CPU, in cores" : "samples a second"}, for every {clock.length(heat.column_s)}:
        </li>
        {parts.map((part) => (
          <li key={part}>
            <span class="map-key" style={{ background: colours[Math.round(part * (STEPS - 1))]! }} /> {short(most * part * part)}
          </li>
        ))}
        {hasGaps && (
          <li>
            <span class="map-key gap" /> not collected
          </li>
        )}
        {heat.rows.some(({ worth }) => worth) && <li>▲ faster code helps, = does not matter, ▼ hurts, ? not known yet</li>}
        {heat.more > 0 && <li>{heat.more} more rows have fewer samples.</li>}
      </ul>
    </figcaption>
  );
}

function Gaps({ heat }: { heat: Heat }) {
  const { gaps, more_gaps } = heat;
  if (gaps.length === 0) return null;
  const longest = [...gaps].sort((a, b) => b[1] - b[0] - (a[1] - a[0])).slice(0, LISTED);
  const all = gaps.length + more_gaps;
  const sum = gaps.reduce((sum, [from, to]) => sum + to - from, 0);
  return (
    <Disclosure class="gaps" summary={`${all === 1 ? "1 gap" : `${all} gaps`}, ${clock.length(sum)} in all, in which nothing was collected`}>
      <ul>
        {longest
          .sort((a, b) => a[0] - b[0])
          .map(([from, to]) => (
            <li key={from}>
              {clock.span(from, to)}: {clock.length(to - from)}
            </li>
          ))}
        {all > longest.length && <li>… and {all - longest.length} shorter ones</li>}
      </ul>
    </Disclosure>
  );
}
