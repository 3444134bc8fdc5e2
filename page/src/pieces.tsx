// One row for each piece of code: what it is worth if it takes less time, and what it costs.

import { useState } from "preact/hooks";
import { DETAILS } from "./filter";
import { share as shareText, percent } from "./format";
import { axisOf, type Axis, gainAt, inWords, REFERENCE } from "./gain";
import { SPEEDUPS } from "./hash";
import type { Piece, Point, PointAnswer, Report } from "./model";
import { covered, MARK_WORDS, question } from "./prose";
import { printing } from "./printing";
import { change, choose, view } from "./state";
import { Name, Prose } from "./text";
import { VerdictMark } from "./verdict";

/** More of them are drawn when the user asks for them. */
const SHOWN = 10;
const ON_PAPER = 40;
/** Longer names are cut. */
const NAME = 120;

interface Scope {
  /** Null where there is no point: then only shares are known. */
  axis: Axis | null;
  /** 0 to 1. */
  speedup: number;
  /** Whether experiments are made at all. */
  isTried: boolean;
  /** The largest share, which fills the width. */
  widest: number;
}

export function Pieces({ report, answer, point }: { report: Report; answer: PointAnswer; point: Point | null }) {
  const [all, setAll] = useState(false);
  const { pieces, more_pieces } = answer;
  const speedup = view.value.speedup / 100;
  const shown = all ? pieces : pieces.slice(0, printing.value ? ON_PAPER : SHOWN);
  const isKnown = pieces.some(({ curve }) => curve.length > 0);
  const everything = pieces.flatMap((piece) => [piece, ...piece.lines]);
  const scope: Scope = {
    axis: isKnown ? axisOf(everything, speedup) : null,
    speedup,
    isTried: answer.point !== null,
    widest: Math.max(0.01, ...everything.map(({ share }) => share ?? 0)),
  };
  const more = pieces.length - shown.length;
  return (
    <section class={isKnown ? "pieces" : "pieces plain"} aria-label="Pieces of code">
      {isKnown && point ? <Question point={point} percent={view.value.speedup} /> : <h2>Where the CPU time goes</h2>}
      {pieces.length === 0 ? (
        <p>No code was sampled often enough to be listed: let the program run longer, or give it more work.</p>
      ) : (
        <>
          <Heads axis={scope.axis} point={point} />
          <ul id="pieces">
            {shown.map((piece, nth) => (
              <Row key={`${nth} ${piece.label}`} piece={piece} scope={scope} />
            ))}
          </ul>
          {more > 0 && printing.value && <p>… and {more} more.</p>}
          {more > 0 && !printing.value && (
            <button type="button" class="rest" onClick={() => setAll(true)}>
              Show {more} {more_pieces > 0 && `of ${more + more_pieces} `}more
            </button>
          )}
          {all && more_pieces > 0 && <p class="legend">… and {more_pieces} more: see Details.</p>}
          <Legend report={report} pieces={pieces} axis={scope.axis} />
        </>
      )}
    </section>
  );
}

function Question({ point, percent }: { point: Point; percent: number }) {
  return (
    <div class="question">
      <h2>
        <label for="speedup">If a piece of code took</label>{" "}
        <span class="slider">
          <input
            id="speedup"
            type="range"
            {...SPEEDUPS}
            value={percent}
            aria-valuetext={`${percent} % less time`}
            onInput={(event) => change({ speedup: Number(event.currentTarget.value) })}
          />
          <output for="speedup">{percent}&nbsp;%</output>
        </span>{" "}
        less time, <Prose text={question(point)} />
      </h2>
    </div>
  );
}

function Heads({ axis, point }: { axis: Axis | null; point: Point | null }) {
  return (
    <div class="piece heads" aria-hidden="true">
      <span>code</span>
      {axis && point && (
        <>
          <span />
          <span class="gain">{point.kind === "latency" ? "shorter by" : "less time"}</span>
          <span class="chart">
            <svg height={20}>
              <Ticks axis={axis} />
            </svg>
          </span>
        </>
      )}
      <span>CPU time</span>
    </div>
  );
}

/** A place on the axis, in per cent of its width. */
const at = ({ lo, hi }: Axis, gain: number): number => (100 * (Math.min(Math.max(gain, lo), hi) - lo)) / (hi - lo);
const across = (place: number): string => `${Math.round(place * 100) / 100}%`;

function Ticks({ axis }: { axis: Axis }) {
  const zero = axis.ticks.indexOf(0);
  const last = axis.ticks.length - 1;
  // Where there is little room, style.css leaves out those between.
  const named = axis.ticks.flatMap((tick, nth) => {
    const isEnd = nth === last || nth === zero || (nth === 0 && at(axis, 0) > 30);
    return isEnd || last < 7 || (nth % 2 === zero % 2 && nth < last - 1) ? [{ tick, isEnd }] : [];
  });
  return (
    <>
      {named.map(({ tick, isEnd }) => {
        const place = at(axis, tick);
        const anchor = place < 8 ? "start" : place > 92 ? "end" : "middle";
        return (
          <text key={tick} class={isEnd ? undefined : "between"} x={across(place)} y={14} text-anchor={anchor}>
            {tick === 0 ? "0" : percent(tick, Number.isInteger(Math.round(tick * 1e4) / 100) ? 0 : 1)}
          </text>
        );
      })}
    </>
  );
}

function Row({ piece, scope, isLine = false }: { piece: Piece; scope: Scope; isLine?: boolean }) {
  const [open, setOpen] = useState(false);
  const { label, region, lines, mark, note } = piece;
  const [, name = label, place = ""] = /^(.*) (\S+:\d+)$/s.exec(label) ?? [];
  const shown = (
    <>
      <Name text={name} limit={NAME} />
      {place && (
        <span class="where">
          {" "}
          <Name text={place} />
        </span>
      )}
    </>
  );
  return (
    <li class={`piece-of ${piece.verdict ?? piece.state}${isProbable(piece) ? " probable" : ""}`}>
      <div class="piece">
        <div class={isLine ? "code line" : "code"}>
          {lines.length > 0 && (
            <button
              type="button"
              class="fold"
              aria-expanded={open}
              aria-label={`${lines.length === 1 ? "its line" : `its ${lines.length} lines`}`}
              title={open ? "Hide the lines" : `Show ${lines.length === 1 ? "the line" : `${lines.length} lines`} of it`}
              onClick={() => setOpen(!open)}
            >
              <span aria-hidden="true">{open ? "▾" : "▸"}</span>
            </button>
          )}
          <div>
            {region === null ? (
              <span class="name">{shown}</span>
            ) : (
              <button type="button" class="name" title="See its curve, source and evidence" onClick={() => look(region)}>
                {shown}
              </button>
            )}
            <p class="costs">
              <Production piece={piece} />
              {!scope.axis && scope.isTried && piece.verdict === null && untried(piece)}
              {mark && (
                <span class={`mark-of ${mark}`}>
                  {" "}
                  {MARK_WORDS[mark].sign} {MARK_WORDS[mark].words}
                </span>
              )}
            </p>
          </div>
        </div>
        {scope.axis ? (
          <>
            <State piece={piece} />
            <GainText piece={piece} speedup={scope.speedup} />
            <Chart piece={piece} axis={scope.axis} speedup={scope.speedup} />
          </>
        ) : null}
        <Cpu piece={piece} widest={scope.widest} />
      </div>
      {open && (
        <>
          {note !== null && (
            <p class="note legend">
              <Prose text={note} />.
            </p>
          )}
          <ul>
            {lines.map((line, nth) => (
              <Row key={nth} piece={line} scope={scope} isLine />
            ))}
          </ul>
        </>
      )}
    </li>
  );
}

/** Shows everything about a region. */
function look(region: number): void {
  choose(region);
  // The section is drawn with the next frame.
  requestAnimationFrame(() => {
    const details = document.getElementById(DETAILS);
    details?.focus();
    details?.scrollIntoView();
  });
}

function Production({ piece: { production_share } }: { piece: Piece }) {
  return production_share == null ? null : <span>{`${shareText(production_share)} in production`} </span>;
}

/** Whether it helps or hurts by all speedups together, but not for certain at the one that the terminal shows; or gains may be wrong by
 * more than their intervals say. */
function isProbable({ verdict, verdict_words, curve }: Piece): boolean {
  if (verdict_words?.startsWith("probably")) return true;
  const gain = gainAt(curve, REFERENCE);
  const unsure = gain !== null && gain.lo !== null && gain.hi !== null && gain.lo <= 0 && gain.hi >= 0;
  return unsure && (verdict === "helps" || verdict === "hurts");
}

/** The verdict, or how far its experiments are. */
function State({ piece }: { piece: Piece }) {
  const { state, verdict, verdict_words, tried } = piece;
  if (isProbable(piece)) {
    const words = verdict_words ?? (verdict === "helps" ? "probably helps" : "probably hurts");
    return (
      <div class="verdict not-enough-data" title="It may be chance, or is not certain at this speedup">
        ? {words}
      </div>
    );
  }
  if (verdict !== null) {
    // Of what is not known, why.
    const words = verdict === "not-enough-data" ? verdict_words : null;
    return (
      <div>
        <VerdictMark verdict={verdict} words={words ?? null} />
      </div>
    );
  }
  return <div class="verdict idle untried">{untried({ state, tried })}</div>;
}

/** How far its experiments are. */
const untried = ({ state, tried }: Pick<Piece, "state" | "tried">): string =>
  state === "begun" ? `tried at ${tried} of 5 speedups` : "not tried yet";

function GainText({ piece: { curve, state }, speedup }: { piece: Piece; speedup: number }) {
  const gain = gainAt(curve, speedup);
  if (state !== "measured") return null;
  if (!gain) {
    const most = curve.at(-1)?.[0];
    return <div class="gain unknown">{most === undefined ? "not known yet" : `tried up to ${percent(most)} only`}</div>;
  }
  const { value, range } = inWords(gain);
  return (
    <div class="gain">
      <strong>{value}</strong> <small>{range ?? "± unknown"}</small>
    </div>
  );
}

const [BAR, THIN] = [14, 6];

function Chart({ piece, axis, speedup }: { piece: Piece; axis: Axis; speedup: number }) {
  const zero = at(axis, 0);
  const gain = piece.state === "measured" ? gainAt(piece.curve, speedup) : null;
  const end = gain && at(axis, gain.value);
  const middle = 4 + BAR / 2;
  const height = BAR + 8;
  return (
    <div class="chart" aria-hidden="true">
      <svg height={height}>
        {axis.ticks.map((tick) => (
          <line key={tick} class={tick === 0 ? "zero" : "tick"} x1={across(at(axis, tick))} x2={across(at(axis, tick))} y1={0} y2={height} />
        ))}
        {end !== null && (
          <rect class="bar" x={across(Math.min(zero, end))} width={across(Math.abs(end - zero))} y={4} height={BAR} />
        )}
        {gain && gain.lo !== null && gain.hi !== null && <Whiskers axis={axis} lo={gain.lo} hi={gain.hi} y={middle} />}
      </svg>
    </div>
  );
}

/** Its share of the CPU time: the number, and a bar, which has another scale than the gains. */
function Cpu({ piece: { share }, widest }: { piece: Piece; widest: number }) {
  return (
    <div class="cpu">
      <span>
        {shareText(share)}
        <span class="of"> of CPU time</span>
      </span>
      <div class="chart" aria-hidden="true">
        <svg height={THIN}>
          <rect class="share" x={0} width={across((100 * (share ?? 0)) / widest)} y={0} height={THIN} />
        </svg>
      </div>
    </div>
  );
}

/** The end of an interval: an arrow, where it goes on beyond the axis. */
function Cap({ at: x, y, arrow }: { at: string; y: number; arrow: string | null }) {
  if (arrow === null) return <line x1={x} x2={x} y1={y - 4} y2={y + 4} />;
  return (
    <text x={x} y={y + 4.5} text-anchor="middle">
      {arrow}
    </text>
  );
}

/** The interval. */
function Whiskers({ axis, lo, hi, y }: { axis: Axis; lo: number; hi: number; y: number }) {
  const [from, to] = [across(at(axis, lo)), across(at(axis, hi))];
  return (
    <g class="whiskers">
      <line x1={from} x2={to} y1={y} y2={y} />
      <Cap at={from} y={y} arrow={lo < axis.lo ? "◂" : null} />
      <Cap at={to} y={y} arrow={hi > axis.hi ? "▸" : null} />
    </g>
  );
}

function Legend({ report: { production }, pieces, axis }: { report: Report; pieces: Piece[]; axis: Axis | null }) {
  const known = production && pieces.some(({ production_share }) => production_share != null);
  const isProbably = pieces.some((piece) => isProbable(piece) || piece.lines.some(isProbable));
  return (
    <p class="legend">
      {axis && (
        <>
          <span class="key bar" /> right of zero: it helps; left: it hurts; <span class="key open" /> not certain;{" "}
          {isProbably && (
            <>
              <span class="key probably" /> probably: it may be chance, or is not clear at 20&nbsp;%;{" "}
            </>
          )}
          ├─┤ the 95&nbsp;% interval.{" "}
        </>
      )}
      <span class="key share" /> share of CPU time, what an ordinary profiler shows; the largest fills its column.
      {known && ` In production: ${covered(production)}.`}
    </p>
  );
}
