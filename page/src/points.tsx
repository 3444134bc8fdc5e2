// Which progress point is looked at: throughput and latency apart.

import type { Point, PointKind } from "./model";
import { change, point, pointKey, report } from "./state";
import { Name } from "./text";

const KINDS: { kind: PointKind; title: string }[] = [
  { kind: "throughput", title: "Throughput" },
  { kind: "latency", title: "Latency" },
];

export function Points() {
  const points = report.value?.points ?? [];
  return (
    <nav class="points" aria-label="Progress points">
      {KINDS.map(({ kind, title }) => {
        const of = points.filter((point) => point.kind === kind);
        return of.length > 0 && <Kind key={kind} title={title} points={of} />;
      })}
    </nav>
  );
}

function Kind({ title, points }: { title: string; points: Point[] }) {
  const now = point.value;
  return (
    <div role="group" aria-label={title}>
      <span>{title}</span>
      {points.map((point) => (
        <button
          key={point.name}
          type="button"
          aria-pressed={point === now}
          disabled={point.idle}
          title={point.idle ? "idle: most windows saw no visit, so nothing is said about it" : undefined}
          onClick={() => change({ point: pointKey(point) })}
        >
          <Name text={point.name} limit={40} />
          {point.idle && " (idle)"}
        </button>
      ))}
    </div>
  );
}
