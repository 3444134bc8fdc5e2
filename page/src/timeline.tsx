// How fast the program was without speedups, from the start of the first run to the end of the last.

import { useMemo } from "preact/hooks";
import { type Lane, lanes } from "./axes";
import { Dots, type Mark, marksOf } from "./dots";
import { changes, type PointName } from "./drift";
import { count, duration, threeDigits } from "./format";
import type { Point, Report, RunDrift, Segment, WholeBaselines } from "./model";
import { wholeWindows } from "./parts";
import { area, path } from "./path";
import { linear, type Scale, ticks } from "./scale";
import { Prose } from "./text";
import { useWidth } from "./width";

const HEIGHT = 190;
const MARGIN = { left: 62, right: 26, top: 16, bottom: 26 };
const BEFORE_MEASURED = 1000;
/** Windows far above what the segments say lie beyond the axis, so that they do not make everything else flat. */
const FAR = 2;
/** Names of runs are not drawn nearer to each other than this, in pixels. */
const RUN_NAME = 48;

type Windows = WholeBaselines["windows"];
/** Kept, so that it stays the same from one drawing to the next. */
const NO_WINDOWS: Windows = [];

/** A stretch of one run. */
interface OfRun {
  session: number;
  segment: Segment;
}

export interface Story {
  lanes: Lane[];
  segments: OfRun[];
  runs: RunDrift["segments"];
  windows: Windows;
  /** The highest rate on the axis. */
  top: number;
}

const isOf = (name: PointName) => (entry: PointName): boolean => entry.point === name.point && entry.kind === name.kind;

/** The windows of the point without speedup, as soon as they are there. */
function windowsOf(report: Report, name: PointName): Windows {
  const found = report.baselines?.find(isOf(name));
  return (found && wholeWindows(found)?.windows) ?? NO_WINDOWS;
}

/** What is known about the point over time. */
export function story(report: Report, name: PointName, windows = windowsOf(report, name)): Story {
  const segments = report.drift
    .filter(isOf(name))
    .flatMap(({ session, segments }) => segments.map((segment) => ({ session, segment })));
  const runs = report.run_drift.find(isOf(name))?.segments ?? [];
  const lengths = new Map<number, number>();
  const reach = (session: number, end: number): void => {
    lengths.set(session, Math.max(lengths.get(session) ?? 0, end));
  };
  for (const { id, duration_ns } of report.sessions) if (duration_ns !== null) reach(id, duration_ns);
  for (const { session, segment } of segments) reach(session, segment.end_ns);
  for (const [session, start, elapsed] of windows) reach(session, start + elapsed);
  // Runs that saw nothing of the point have no room.
  const seen = new Set([...segments.map(({ session }) => session), ...windows.map(([session]) => session)]);
  const order = report.sessions.map(({ id }) => id).filter((id) => seen.has(id));
  const highest = segments.reduce((top, { segment: s }) => Math.max(top, s.rate_hi ?? s.rate_per_s ?? 0), 0);
  const fastest = windows.reduce((top, [, , , , rate]) => Math.max(top, rate ?? 0), 0);
  return {
    lanes: lanes(order.map((id) => ({ id, length: lengths.get(id) ?? 0 }))),
    segments,
    runs,
    windows,
    top: 1.06 * (highest > 0 ? Math.min(Math.max(highest, fastest), FAR * highest) : fastest),
  };
}

interface Plot {
  x: Scale;
  y: Scale;
  width: number;
  /** Where each run begins and ends on the common axis. */
  of: Map<number, Lane>;
}

export function Timeline({ report, point }: { report: Report; point: Point }) {
  const [element, width] = useWidth(BEFORE_MEASURED);
  const name: PointName = useMemo(() => ({ point: point.name, kind: point.kind }), [point]);
  const windows = windowsOf(report, name);
  const told = useMemo(() => story(report, name, windows), [report, name, windows]);
  const plot = useMemo((): Plot => {
    const end = told.lanes.at(-1)?.end ?? 1;
    return {
      width,
      x: linear(0, end, MARGIN.left, width - MARGIN.right),
      y: linear(0, told.top, HEIGHT - MARGIN.bottom, MARGIN.top),
      of: new Map(told.lanes.map((lane) => [lane.session, lane])),
    };
  }, [told, width]);
  const marks = useMemo(() => marksOf(told.windows, (window) => mark(window, plot)), [told, plot]);
  if (told.lanes.length === 0 || told.top === 0) return <p>Nothing was measured without speedups.</p>;
  const said = changes(report, name);
  const what = point.kind === "latency" ? "ends" : "visits";
  return (
    <figure class="timeline">
      <div
        class="plot"
        ref={element}
        style={{ height: `${HEIGHT}px` }}
        role="img"
        aria-label={`${what} per second without speedups over time, in ${count(told.lanes.length, "run")}`}
      >
        <Dots marks={marks} width={width} height={HEIGHT} />
        <svg width={width} height={HEIGHT} aria-hidden="true">
          <Axes plot={plot} lanes={told.lanes} what={what} />
          {told.segments.map(({ session, segment }, nth) => (
            <Part key={nth} plot={plot} session={session} segment={segment} />
          ))}
          {told.segments.map((after, nth) => (
            <Change key={nth} plot={plot} before={told.segments[nth - 1]} after={after} />
          ))}
          {told.runs.length > 1 && told.runs.map((stretch, nth) => <Runs key={nth} plot={plot} stretch={stretch} />)}
        </svg>
      </div>
      <figcaption>
        <ul class="legend">
          {marks.length > 0 && <li>dots: measurements without speedups</li>}
          <li>line and band: stretches of one rate, with its 95&nbsp;% interval</li>
          {told.runs.length > 1 && <li>dashed: runs of one rate</li>}
        </ul>
        {said.length === 0 ? (
          <p>The program's speed did not change by 10&nbsp;% or more while it was measured.</p>
        ) : (
          <ul>
            {said.map((text) => (
              <li key={text}>
                <Prose text={`${text[0]!.toUpperCase()}${text.slice(1)}.`} />
              </li>
            ))}
          </ul>
        )}
      </figcaption>
    </figure>
  );
}

function mark([session, start, elapsed, , rate]: Windows[number], { x, y, of }: Plot): Mark | null {
  const lane = of.get(session);
  if (!lane || rate === null) return null;
  return [x.at(lane.start + start + elapsed / 2), y.at(y.clamp(rate)), rate > y.hi ? "above" : "dot"];
}

function Axes({ plot: { x, y, width }, lanes, what }: { plot: Plot; lanes: Lane[]; what: string }) {
  const bottom = HEIGHT - MARGIN.bottom;
  let last = -Infinity;
  return (
    <g class="axes">
      {ticks(0, y.hi, 4).map((rate) => (
        <g key={rate} class={rate === 0 ? "zero" : undefined}>
          <line x1={MARGIN.left} x2={width - MARGIN.right} y1={y.at(rate)} y2={y.at(rate)} />
          <text x={MARGIN.left - 8} y={y.at(rate) + 4} text-anchor="end">
            {rate === 0 ? "0" : threeDigits(rate)}
          </text>
        </g>
      ))}
      {lanes.length === 1
        ? ticks(0, x.hi, 6).map((time) => (
            <text key={time} x={x.at(time)} y={bottom + 17} text-anchor="middle">
              {time === 0 ? "0" : duration(time)}
            </text>
          ))
        : lanes.map(({ session, start }) => {
            const at = x.at(start);
            const isNamed = at - last >= RUN_NAME;
            if (isNamed) last = at;
            return (
              <g key={session}>
                <line class="run" x1={at} x2={at} y1={MARGIN.top} y2={bottom} />
                {isNamed && (
                  <text x={at} y={bottom + 17}>
                    run {session}
                  </text>
                )}
              </g>
            );
          })}
      <text x={MARGIN.left + 4} y={MARGIN.top - 5}>
        {what} per second
      </text>
    </g>
  );
}

/** A stretch of one rate. */
function Part({ plot: { x, y, of }, session, segment }: { plot: Plot; session: number; segment: Segment }) {
  const lane = of.get(session);
  if (!lane || segment.rate_per_s === null) return null;
  const [from, to] = [x.at(lane.start + segment.start_ns), x.at(lane.start + segment.end_ns)];
  const at = y.at(y.clamp(segment.rate_per_s));
  const level = (rate: number) => [[from, y.at(y.clamp(rate))], [to, y.at(y.clamp(rate))]] as const;
  return (
    <>
      {segment.rate_lo !== null && segment.rate_hi !== null && (
        <path class="band" d={area([...level(segment.rate_hi)], [...level(segment.rate_lo)])} />
      )}
      <path class="estimate" d={path([[from, at], [to, at]])} />
    </>
  );
}

/** A line where one stretch of a run ends and the next begins. */
function Change({ plot, before, after }: { plot: Plot; before: OfRun | undefined; after: OfRun }) {
  const { session, segment } = after;
  const lane = plot.of.get(session);
  if (!lane || before?.session !== session) return null;
  const at = plot.x.at(lane.start + (before.segment.end_ns + segment.start_ns) / 2);
  return <line class="change" x1={at} x2={at} y1={MARGIN.top} y2={HEIGHT - MARGIN.bottom} />;
}

/** Runs that were of one rate. */
function Runs({ plot: { x, y, of }, stretch }: { plot: Plot; stretch: RunDrift["segments"][number] }) {
  const [first, last] = [of.get(stretch.sessions[0] ?? -1), of.get(stretch.sessions.at(-1) ?? -1)];
  if (!first || !last || stretch.rate_per_s === null) return null;
  const at = y.at(y.clamp(stretch.rate_per_s));
  return <path class="estimate bare" d={path([[x.at(first.start), at], [x.at(last.end), at]])} />;
}
