// Parts of the report that stand in elements of their own, behind the script, so that a long report is drawn before all
// of it has come: an object that has a `part` is only a summary, and the element `whatif-part-N` holds the whole.

import { signal } from "@preact/signals";
import type { Baselines, Region, Report, Stacks, StacksSummary, WholeBaselines, WholeRegion } from "./model";

/** The list of regions, where it is apart. */
export const REGIONS = "regions";

/** Gives the text of a part; null while the document still comes. */
export const read = signal<((part: number | typeof REGIONS) => string | null) | null>(null);

/** What was read, by its summary. Null for what is damaged. */
const known = new WeakMap<object, object | null>();

function wholeOf(summary: { part?: number | undefined }): object | null | undefined {
  const { part } = summary;
  if (part === undefined) return summary;
  const found = known.get(summary);
  if (found !== undefined) return found;
  if (read.value === null) return undefined;
  const whole = parsed(read.value(part));
  known.set(summary, whole);
  return whole;
}

function parsed(text: string | null): object | null {
  try {
    const value: unknown = JSON.parse(text ?? "null");
    return typeof value === "object" ? value : null;
  } catch {
    return null;
  }
}

/** Everything about the region; undefined while it still comes, null if it is damaged. */
export const whole = (region: Region) => wholeOf(region) as WholeRegion | null | undefined;

/** The same for the windows of a point. */
export const wholeWindows = (baselines: Baselines) => wholeOf(baselines) as WholeBaselines | null | undefined;

/** The same for the stacks. */
export const wholeStacks = (stacks: Stacks | StacksSummary) => wholeOf(stacks) as Stacks | null | undefined;

/** The report with the list of its regions, as soon as that is there; null if it is damaged. */
export function withRegions(report: Report): Report | null {
  if (!report.regions_apart || read.value === null) return report;
  const regions = parsed(read.value(REGIONS));
  return Array.isArray(regions) ? { ...report, regions: regions as Region[], regions_apart: false } : null;
}
