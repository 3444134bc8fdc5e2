// What is looked at, as the part of the address after "#": a link to it can be kept or sent, and an edited address
// changes the page.

import { CHANGE_COLUMNS, type ChangeColumn } from "./comparison";
import { type Column, COLUMNS, DEFAULT_SORT, type Sort } from "./ranking";
import { type Theme, THEMES } from "./theme";

export interface View {
  /** `throughput:requests`; empty for the first one. */
  point: string;
  /** The key of a region; empty for the first one in the table, null for none. */
  region: string | null;
  /** Of the regions, in a report or in a comparison. */
  sort: Sort<Column | ChangeColumn>;
  filter: string;
  theme: Theme;
  /** The names that lead to the place that fills the width; none for the whole program. */
  place: string[];
  /** Whether the axes of the curve are those of its region alone. */
  ownAxes: boolean;
  /** Whether the statistics are open. */
  details: boolean;
  /** How much less time each piece of code takes on the first screen, in per cent. */
  speedup: number;
}

export const DEFAULT_VIEW: View = {
  point: "",
  region: "",
  sort: DEFAULT_SORT,
  filter: "",
  theme: "auto",
  place: [],
  ownAxes: false,
  details: false,
  speedup: 20,
};

/** What the slider goes through, in per cent. */
export const SPEEDUPS = { min: 5, max: 100, step: 5 };

/** Without the "#"; only what is not as usual. */
export function written(view: View): string {
  const fields = new URLSearchParams();
  if (view.point) fields.set("point", view.point);
  if (view.region === null) fields.set("region", "");
  else if (view.region) fields.set("region", view.region);
  const { column, reversed } = view.sort;
  if (column !== DEFAULT_SORT.column || reversed) fields.set("sort", reversed ? `-${column}` : column);
  if (view.filter) fields.set("filter", view.filter);
  if (view.theme !== "auto") fields.set("theme", view.theme);
  for (const name of view.place) fields.append("in", name);
  if (view.ownAxes) fields.set("axes", "own");
  if (view.details) fields.set("details", "open");
  if (view.speedup !== DEFAULT_VIEW.speedup) fields.set("speedup", String(view.speedup));
  return fields.toString();
}

/** What `hash` says, with or without "#"; what it does not say, or says in a way that cannot be understood, is as usual. */
export function read(hash: string): View {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  const sort = fields.get("sort") ?? "";
  const column = [...COLUMNS, ...CHANGE_COLUMNS].find((known) => known === sort.replace(/^-/, ""));
  return {
    point: fields.get("point") ?? "",
    region: fields.has("region") ? fields.get("region") || null : "",
    sort: column ? { column, reversed: sort.startsWith("-") } : DEFAULT_SORT,
    filter: fields.get("filter") ?? "",
    theme: THEMES.find((known) => known === fields.get("theme")) ?? "auto",
    place: fields.getAll("in"),
    ownAxes: fields.get("axes") === "own",
    details: fields.get("details") === "open",
    speedup: speedupOf(fields.get("speedup")),
  };
}

/** A place of the slider; the usual one for anything else. */
function speedupOf(text: string | null): number {
  const { min, max, step } = SPEEDUPS;
  const found = Number(text);
  return text && found >= min && found <= max && found % step === 0 ? found : DEFAULT_VIEW.speedup;
}
