// Every number that the first screen rests on, behind one disclosure.

import { Details } from "./details";
import { Icicle } from "./icicle";
import type { Point, Report } from "./model";
import { title } from "./prose";
import type { Source } from "./source";
import { printing } from "./printing";
import { change, total, view } from "./state";
import { RegionTable } from "./table";
import { Prose } from "./text";
import { Timeline } from "./timeline";

export const STATISTICS = "statistics";

interface Props {
  report: Report;
  point: Point;
  source: Source | null;
}

export function Statistics(props: Props) {
  const open = view.value.details || printing.value;
  return (
    <details
      id={STATISTICS}
      open={open}
      onToggle={({ currentTarget }) => {
        if (!printing.peek() && currentTarget.open !== view.peek().details) change({ details: currentTarget.open });
      }}
    >
      <summary>
        <h2>Details</h2> <span class="legend">slopes and intervals, curves, experiments, source, samples by place, speed over time</span>
      </summary>
      {open && <All {...props} />}
    </details>
  );
}

function All({ report, point, source }: Props) {
  return (
    <>
      <p class="sentence">
        <Prose text={report.sentence} /> <span class="legend">The number after ± is half the 95&nbsp;% interval.</span>
      </p>
      <p class="keys">
        <kbd>/</kbd> filter <kbd>↑</kbd> <kbd>↓</kbd> choose <kbd>Enter</kbd> read <kbd>Esc</kbd> back
      </p>
      <div class="pair">
        <section class="ranking">
          <h3>
            <Prose text={title(point)} />
          </h3>
          {report.regions_apart ? <p>Loading …</p> : <RegionTable />}
        </section>
        <Details report={report} source={source} />
      </div>
      {total.value > 0 && (
        <section class="places">
          <h3>Samples by place</h3>
          <Icicle />
        </section>
      )}
      {!point.idle && (
        <section class="time">
          <h3>Without speedups, over time</h3>
          <Timeline report={report} point={point} />
        </section>
      )}
    </>
  );
}
