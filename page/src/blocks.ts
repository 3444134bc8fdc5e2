// The experiments behind a number, and their order.

import type { Dot } from "./model";
import type { Sort } from "./ranking";

export type BlockColumn = "block" | "speedup" | "gain" | "notes";

export const IN_TIME: Sort<BlockColumn> = { column: "block", reversed: false };

/** Which experiment it is, among those of one region and point. */
export const blockKey = ([, , session, block]: Dot): string => `${session} ${block}`;

const ORDERS: Record<BlockColumn, (a: Dot, b: Dot) => number> = {
  block: (a, b) => a[2] - b[2] || a[3] - b[3],
  speedup: (a, b) => a[0] - b[0],
  // What is not known is less than anything that is.
  gain: (a, b) => (a[1] === b[1] ? 0 : (a[1] ?? -Infinity) < (b[1] ?? -Infinity) ? -1 : 1),
  notes: (a, b) => ((a[4] ?? "") < (b[4] ?? "") ? -1 : (a[4] ?? "") > (b[4] ?? "") ? 1 : 0),
};

export function inOrder(dots: Dot[], { column, reversed }: Sort<BlockColumn>): Dot[] {
  const direction = reversed ? -1 : 1;
  return [...dots].sort((a, b) => direction * ORDERS[column](a, b) || ORDERS.block(a, b));
}
