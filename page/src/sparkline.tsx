// A curve that fits into a line of text: the gain over the speedup.

import { stretches } from "./axes";
import { path } from "./path";
import { whole } from "./parts";
import type { Row } from "./ranking";
import { linear } from "./scale";

const [WIDTH, HEIGHT] = [64, 22];

/** `gains`: what the height stands for, the same for all that are compared. */
export function Sparkline({ row: { region, nth }, gains }: { row: Row; gains: [number, number] }) {
  const estimate = whole(region)?.points[nth];
  if (!estimate) return null;
  const x = linear(0, 1, 1, WIDTH - 1);
  const y = linear(gains[0], gains[1], HEIGHT - 1, 1);
  const zero = y.at(0);
  return (
    <svg class={`sparkline ${estimate.verdict}`} width={WIDTH} height={HEIGHT} aria-hidden="true">
      <line class="zero" x1={0} x2={WIDTH} y1={zero} y2={zero} />
      {stretches(estimate.speedups).map(({ known, line }) => (
        <path
          class={known ? "estimate" : "estimate bare"}
          d={path(line.map(({ speedup, gain }) => [x.at(speedup), y.at(gain)]))}
        />
      ))}
    </svg>
  );
}
