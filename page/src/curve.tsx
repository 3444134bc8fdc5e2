// The curve of one region: what the point gains at each speedup, with every experiment it rests on.

import { useMemo, useState } from "preact/hooks";
import { baseline, gains, isBare, stretches } from "./axes";
import { blockKey } from "./blocks";
import { Disclosure } from "./disclosure";
import { Dots, type Mark, marksOf } from "./dots";
import { count, interval, percent, plusMinus, speedup as speedupText, UNKNOWN } from "./format";
import type { AtSpeedup, Dot, WholeEstimate } from "./model";
import { area, path } from "./path";
import { decimals, linear, type Scale, ticks } from "./scale";
import { change, pointed, sharedGains, view } from "./state";
import { useWidth } from "./width";

const HEIGHT = 300;
const MARGIN = { left: 52, right: 22, top: 14, bottom: 38 };
const BEFORE_MEASURED = 640;
/** How near a click must be to a dot, in pixels. */
const NEAR = 12;

interface Plot {
  x: Scale;
  y: Scale;
  width: number;
}

/** Where `dot` is drawn; null if its gain is not known. */
export function mark([speedup, gain, , , leftOut]: Dot, { x, y }: Pick<Plot, "x" | "y">): Mark | null {
  if (gain === null) return null;
  const look = gain > y.hi ? "above" : gain < y.lo ? "below" : leftOut === null ? "dot" : "cross";
  return [x.at(speedup), y.at(y.clamp(gain)), look];
}

/** Kept, so that it stays the same from one drawing to the next. */
const NO_DOTS: Dot[] = [];

export function Curve({ estimate, phase }: { estimate: WholeEstimate; phase: number }) {
  const [element, width] = useWidth(BEFORE_MEASURED);
  const [cursor, setCursor] = useState<number | null>(null);
  const { ownAxes } = view.value;
  const shared = sharedGains.value;
  const { speedups, dots = NO_DOTS } = estimate;
  const plot = useMemo((): Plot => {
    const [lo, hi] = ownAxes ? gains([estimate]) : shared;
    return {
      width,
      x: linear(0, 1, MARGIN.left, width - MARGIN.right),
      y: linear(lo, hi, HEIGHT - MARGIN.bottom, MARGIN.top),
    };
  }, [estimate, ownAxes, shared, width]);
  const marks = useMemo(() => marksOf(dots, (dot) => mark(dot, plot)), [dots, plot]);
  const beyond = marks.filter(([, , look]) => look === "above" || look === "below").length;
  const tried = speedups.filter(({ speedup }) => speedup > 0);
  const at = cursor === null ? undefined : tried[cursor];

  const place = (event: MouseEvent): [number, number] => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const onMove = (event: MouseEvent): void => {
    const speedup = plot.x.value(place(event)[0]);
    setCursor(nearest(tried.map((entry) => Math.abs(entry.speedup - speedup))));
  };
  const onClick = (event: MouseEvent): void => {
    const [x, y] = place(event);
    const distances = dots.map((dot) => {
      const found = mark(dot, plot);
      return found ? Math.hypot(found[0] - x, found[1] - y) : Infinity;
    });
    const hit = nearest(distances);
    pointed.value = hit !== null && distances[hit]! <= NEAR ? blockKey(dots[hit]!) : null;
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || tried.length === 0) return;
    setCursor(cursor === null ? 0 : Math.min(Math.max(cursor + step, 0), tried.length - 1));
    event.preventDefault();
  };

  return (
    <figure class="curve">
      <div
        class="plot"
        ref={element}
        style={{ height: `${HEIGHT}px` }}
        tabIndex={0}
        role="img"
        aria-label={`Gain at ${count(tried.length, "speedup")}: left and right read it; a table with the numbers follows.`}
        onMouseMove={onMove}
        onMouseLeave={() => setCursor(null)}
        onClick={onClick}
        onKeyDown={onKeyDown}
      >
        <Dots marks={marks} width={width} height={HEIGHT} />
        <svg width={width} height={HEIGHT} aria-hidden="true">
          <Axes plot={plot} />
          <Shape plot={plot} estimate={estimate} />
          <Bend plot={plot} estimate={estimate} />
          {at && <Cursor x={plot.x.at(at.speedup)} />}
          <Pointed plot={plot} dots={dots} />
        </svg>
      </div>
      <p class="readout" aria-live="polite">
        {at ? reading(at) : "\u00a0"}
      </p>
      <figcaption>
        <Legend estimate={estimate} phase={phase} plot={plot} dots={dots.length} beyond={beyond} />
        <label>
          <input
            type="checkbox"
            checked={ownAxes}
            onChange={(event) => change({ ownAxes: event.currentTarget.checked })}
          />{" "}
          axes of this region alone (otherwise the same for all regions)
        </label>
      </figcaption>
      <Numbers speedups={speedups} />
    </figure>
  );
}

/** The position of the smallest number; null if there is none. */
function nearest(distances: number[]): number | null {
  let best: number | null = null;
  distances.forEach((distance, nth) => {
    if (best === null || distance < distances[best]!) best = nth;
  });
  return best;
}

function reading({ speedup, gain, lo, hi, raw_gain, windows }: AtSpeedup): string {
  const known = interval(gain, lo, hi);
  const value = known ? plusMinus(known) : `${percent(gain, 1)}, its interval is not known`;
  return `${speedupText(speedup)} less time there: gain ${value}; ${count(windows, "experiment")} at this speedup alone: ${percent(raw_gain, 1)}`;
}

function Axes({ plot: { x, y, width } }: { plot: Plot }) {
  const gains = ticks(y.lo, y.hi, 6);
  const digits = Math.max(0, decimals(gains) - 2);
  return (
    <g class="axes">
      {gains.map((gain) => (
        <g key={gain} class={gain === 0 ? "zero" : undefined}>
          <line x1={MARGIN.left} x2={width - MARGIN.right} y1={y.at(gain)} y2={y.at(gain)} />
          <text x={MARGIN.left - 8} y={y.at(gain) + 4} text-anchor="end">
            {percent(gain, digits)}
          </text>
        </g>
      ))}
      {ticks(0, 1, 5).map((speedup) => (
        <text key={speedup} x={x.at(speedup)} y={HEIGHT - MARGIN.bottom + 16} text-anchor="middle">
          {percent(speedup)}
        </text>
      ))}
      <text x={(MARGIN.left + width - MARGIN.right) / 2} y={HEIGHT - 5} text-anchor="middle">
        less time in this piece of code
      </text>
      <text x={MARGIN.left + 4} y={MARGIN.top - 3}>
        gain
      </text>
    </g>
  );
}

function Cursor({ x }: { x: number }) {
  return <line class="cursor" x1={x} x2={x} y1={MARGIN.top} y2={HEIGHT - MARGIN.bottom} />;
}

function Shape({ plot: { x, y, width }, estimate: { speedups, verdict } }: { plot: Plot; estimate: WholeEstimate }) {
  const own = baseline(speedups);
  const on = (speedup: number, gain: number) => [x.at(speedup), y.at(gain)] as const;
  const shape = stretches(speedups);
  return (
    <g class={verdict} clip-path="url(#inside)">
      <clipPath id="inside">
        <rect x={0} y={MARGIN.top} width={width} height={HEIGHT - MARGIN.top - MARGIN.bottom} />
      </clipPath>
      {shape.map(({ band }) => (
        <path
          class="band"
          d={area(
            band.map(({ speedup, hi }) => on(speedup, hi)),
            band.map(({ speedup, lo }) => on(speedup, lo)),
          )}
        />
      ))}
      {own && <Bar x={x.at(0)} from={y.at(own.hi)} to={y.at(own.lo)} />}
      {shape.map(({ known, line }) => (
        <path
          class={known ? "estimate" : "estimate bare"}
          d={path(line.map(({ speedup, gain }) => on(speedup, gain)))}
        />
      ))}
      {speedups.map(({ speedup, gain }) => {
        if (speedup === 0 || gain === null) return null;
        return <circle key={speedup} class="at" cx={x.at(speedup)} cy={y.at(gain)} r={2.5} />;
      })}
    </g>
  );
}

/** The interval of the baseline itself. */
function Bar({ x, from, to }: { x: number; from: number; to: number }) {
  return (
    <g class="baseline">
      <rect x={x - 4} width={8} y={from} height={to - from} />
      <line x1={x - 7} x2={x + 7} y1={from} y2={from} />
      <line x1={x - 7} x2={x + 7} y1={to} y2={to} />
    </g>
  );
}

/** From where on more speed brings less. */
function Bend({ plot: { x }, estimate }: { plot: Plot; estimate: WholeEstimate }) {
  const bend = interval(estimate.bend, estimate.bend_lo, estimate.bend_hi);
  if (!bend || estimate.verdict !== "helps") return null;
  const y = HEIGHT - MARGIN.bottom;
  const [from, at, to] = [bend.lo, bend.value, bend.hi].map((speedup) => x.at(x.clamp(speedup)));
  return (
    <g class="bend">
      <line x1={from} x2={to} y1={y} y2={y} />
      <path d={path([[at! - 5, y + 6], [at!, y - 3], [at! + 5, y + 6]])} />
    </g>
  );
}

function Pointed({ plot, dots }: { plot: Plot; dots: Dot[] }) {
  const key = pointed.value;
  const dot = key === null ? undefined : dots.find((dot) => blockKey(dot) === key);
  const found = dot && mark(dot, plot);
  return found ? <circle class="pointed" cx={found[0]} cy={found[1]} r={7} /> : null;
}

function Legend(props: { estimate: WholeEstimate; phase: number; plot: Plot; dots: number; beyond: number }) {
  const { estimate, phase, plot, dots, beyond } = props;
  const [lowest, highest] = gains([estimate]);
  const bare = isBare(estimate.speedups);
  const bend = estimate.verdict === "helps" && interval(estimate.bend, estimate.bend_lo, estimate.bend_hi);
  return (
    <ul class="legend">
      {bare ? (
        <li>dashed: the estimate; its interval is not known, so there is no band: more experiments are needed</li>
      ) : (
        <li>line: the estimate at the speedups that were tried; band: its 95&nbsp;% interval</li>
      )}
      {baseline(estimate.speedups) && <li>bar at 0: the interval of the baseline's own level</li>}
      {dots > 0 && <li>faint dots: each an experiment alone; ×: one that was left out</li>}
      {beyond > 0 && <li>triangles: {count(beyond, "experiment")} beyond the axes</li>}
      {(lowest < plot.y.lo || highest > plot.y.hi) && <li>a part of the curve or its band lies beyond the axes</li>}
      {phase < 1 && (
        <li>
          line, band and dots: gains are those of the whole run; this code runs in {percent(phase)} of it
        </li>
      )}
      {bend && <li>∧ below: from about here on more brings less; the line there: its 95&nbsp;% interval</li>}
    </ul>
  );
}

function Numbers({ speedups }: { speedups: AtSpeedup[] }) {
  return (
    <Disclosure class="numbers" summary="The curve in numbers">
      <table>
        <thead>
          <tr>
            <th scope="col">speedup</th>
            <th scope="col">gain</th>
            <th scope="col">95 % interval</th>
            <th scope="col">its experiments alone</th>
            <th scope="col">experiments</th>
          </tr>
        </thead>
        <tbody>
          {speedups.map(({ speedup, gain, lo, hi, raw_gain, windows }) => (
            <tr key={speedup}>
              <td>{speedupText(speedup)}</td>
              <td>{percent(gain, 1)}</td>
              <td>{lo === null || hi === null ? UNKNOWN : `${percent(lo, 1)} … ${percent(hi, 1)}`}</td>
              <td>{percent(raw_gain, 1)}</td>
              <td>{windows}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Disclosure>
  );
}
