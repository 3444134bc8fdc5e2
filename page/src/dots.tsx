// Many dots, on a canvas: a hundred thousand of them would be too much for a document.

import { useLayoutEffect, useRef } from "preact/hooks";
import { printing } from "./printing";
import { theme } from "./theme";

/**
 * Where a dot stands, and how it looks: `dot`; `cross` if it was left out; `above` and `below` if it lies beyond the
 * axes and is drawn at their end.
 */
export type Mark = readonly [x: number, y: number, look: "dot" | "cross" | "above" | "below"];

/** The marks of all `items` that have one. */
export function marksOf<T>(items: T[], markOf: (item: T) => Mark | null): Mark[] {
  return items.map(markOf).filter((mark) => mark !== null);
}

/** Beyond so many, round dots take too long, and the eye cannot see that they are round. */
const MANY = 5000;

/** The more there are, the fainter each. */
const opacity = (marks: number): number => Math.min(0.4, Math.max(0.06, 5 / Math.sqrt(marks)));

export function Dots({ marks, width, height }: { marks: Mark[]; width: number; height: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const look = `${theme.value} ${printing.value}`;
  useLayoutEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context) return;
    const density = Math.max(window.devicePixelRatio || 1, printing.value ? 3 : 1);
    element.width = Math.round(width * density);
    element.height = Math.round(height * density);
    context.scale(density, density);
    context.fillStyle = context.strokeStyle = getComputedStyle(element).color;
    context.globalAlpha = opacity(marks.length);
    draw(context, marks);
  }, [marks, width, height, look]);
  return <canvas ref={canvas} style={{ width: `${width}px`, height: `${height}px` }} aria-hidden="true" />;
}

function draw(context: CanvasRenderingContext2D, marks: Mark[]): void {
  const round = marks.length <= MANY;
  for (const [x, y, look] of marks) {
    if (look === "dot" && !round) {
      context.fillRect(x - 1, y - 1, 2, 2);
      continue;
    }
    context.beginPath();
    if (look === "dot") {
      context.arc(x, y, 2, 0, 7);
      context.fill();
    } else if (look === "cross") {
      context.moveTo(x - 2.5, y - 2.5);
      context.lineTo(x + 2.5, y + 2.5);
      context.moveTo(x - 2.5, y + 2.5);
      context.lineTo(x + 2.5, y - 2.5);
      context.stroke();
    } else {
      const up = look === "above" ? -1 : 1;
      context.moveTo(x, y + 4 * up);
      context.lineTo(x - 3, y);
      context.lineTo(x + 3, y);
      context.fill();
    }
  }
}
