// What is looked at, as the part of the address after "#": a link to it can be kept or sent, and "back" leads to what was before.

import { type Theme, THEMES } from "../theme";
import { type Beginning, FILTERS, type Filters } from "./answers";

/** From a time to another, in seconds since 1970. */
export interface Span {
  from: number;
  to: number;
}

export const COLOURS = ["", "change", "worth", "kind"] as const;

export interface View {
  /** What the map shows; null: from the first sample on, to the last. */
  since: number | null;
  until: number | null;
  /** What its rows are. */
  by: string;
  filters: Filters;
  idle: boolean;
  /** The span that is looked at; null for all that the map shows. */
  a: Span | null;
  /** What it is compared with. */
  b: Span | null;
  /** Functions that are pointed out. */
  search: string;
  /** What colours of the flame graph mean; empty for the first that there is. */
  colours: (typeof COLOURS)[number];
  theme: Theme;
}

/** What a page shows whose address says nothing. */
export function usual({ first, by }: Pick<Beginning, "first" | "by">): View {
  const filters = Object.fromEntries(FILTERS.map((name) => [name, first[name] ?? ""])) as Filters;
  const { since, until, idle } = first;
  return { since, until, by: by[0] ?? "process", filters, idle, a: null, b: null, search: "", colours: "", theme: "auto" };
}

/** Without the "#"; only what is not as usual. */
export function written(view: View, usual: View): string {
  const fields = new URLSearchParams();
  const put = (name: string, value: string, of: string): void => {
    if (value !== of) fields.set(name, value);
  };
  const number = (value: number | null): string => (value === null ? "" : String(value));
  const span = (value: Span | null): string => (value ? `${value.from}..${value.to}` : "");
  put("by", view.by, usual.by);
  put("since", number(view.since), number(usual.since));
  put("until", number(view.until), number(usual.until));
  for (const name of FILTERS) put(name, view.filters[name], usual.filters[name]);
  put("idle", String(Number(view.idle)), String(Number(usual.idle)));
  put("a", span(view.a), "");
  put("b", span(view.b), "");
  put("search", view.search, "");
  put("colours", view.colours, "");
  put("theme", view.theme, "auto");
  return fields.toString().replaceAll("%3A", ":");
}

/** What `hash` says, with or without "#"; what it does not say, or says in a way that cannot be understood, is as usual. */
export function read(hash: string, usual: View, rows: string[]): View {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  const time = (name: "since" | "until"): number | null => {
    const text = fields.get(name);
    return text === "" ? null : text !== null && isTime(text) ? Number(text) : usual[name];
  };
  const [since, until] = [time("since"), time("until")];
  const isRight = since === null || until === null || since < until;
  return {
    since: isRight ? since : usual.since,
    until: isRight ? until : usual.until,
    by: rows.find((row) => row === fields.get("by")) ?? usual.by,
    filters: Object.fromEntries(FILTERS.map((name) => [name, fields.get(name) ?? usual.filters[name]])) as Filters,
    idle: fields.has("idle") ? fields.get("idle") === "1" : usual.idle,
    a: spanOf(fields.get("a")),
    b: spanOf(fields.get("b")),
    search: fields.get("search") ?? "",
    colours: COLOURS.find((known) => known === fields.get("colours")) ?? "",
    theme: THEMES.find((known) => known === fields.get("theme")) ?? "auto",
  };
}

const isTime = (text: string): boolean => /^-?\d{1,12}$/.test(text);

function spanOf(text: string | null): Span | null {
  const [from = "", to = "", ...rest] = (text ?? "").split("..");
  if (!isTime(from) || !isTime(to) || rest.length > 0) return null;
  return Number(from) < Number(to) ? { from: Number(from), to: Number(to) } : null;
}

/** Whether "back" should lead from one to the other: not for what is typed, or how it looks. */
export function isAnother(one: View, other: View): boolean {
  const place = ({ search, colours, theme, ...rest }: View): string => JSON.stringify(rest);
  return place(one) !== place(other);
}

/** The parameters of a question about these samples. */
export function asked({ filters, idle }: Pick<View, "filters" | "idle">, more: Record<string, string | number | null>): string {
  const fields = new URLSearchParams();
  for (const [name, value] of [...Object.entries(filters), ...Object.entries(more)]) {
    if (value !== "" && value !== null) fields.set(name, String(value));
  }
  if (idle) fields.set("idle", "1");
  return fields.toString();
}
