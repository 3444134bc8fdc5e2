// Which progress point is looked at: throughput and latency apart.

import type { PointKind } from "./model";
import { change, pointKey } from "./state";
import { Name } from "./text";

const KINDS: { kind: PointKind; title: string }[] = [
  { kind: "throughput", title: "Throughput" },
  { kind: "latency", title: "Latency" },
];

interface Named {
  name: string;
  kind: PointKind;
  idle?: boolean;
}

interface Props {
  points: Named[];
  /** The one that is looked at. */
  now: Named | null;
}

export function Points({ points, now }: Props) {
  return (
    <nav class="points" aria-label="Progress points">
      {KINDS.map(({ kind, title }) => {
        const of = points.filter((point) => point.kind === kind);
        return of.length > 0 && <Kind key={kind} title={title} points={of} now={now} />;
      })}
    </nav>
  );
}

function Kind({ title, points, now }: Props & { title: string }) {
  return (
    <div role="group" aria-label={title}>
      <span>{title}</span>
      {points.map((point) => (
        <button
          key={point.name}
          type="button"
          aria-pressed={point === now}
          disabled={point.idle ?? false}
          title={point.idle ? "idle: most experiments saw no visit, so nothing is said about it" : undefined}
          onClick={() => change({ point: pointKey(point) })}
        >
          <Name text={point.name} limit={40} />
          {point.idle && " (idle)"}
        </button>
      ))}
    </div>
  );
}
