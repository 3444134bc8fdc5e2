// What the page of a database knows and what it looks at.

import { computed, effect, type ReadonlySignal, signal } from "@preact/signals";
import { type Beginning, type DifferenceAnswer, FILTERS, type Filters, type Flame, type FlamePage, type Heat, type SpanAnswer } from "./answers";
import { type Answered, type Fetch, Line, valueOf } from "./ask";
import { columnsFor, shown } from "./map";
import { asked, isAnother, read, type Span, usual, type View, written } from "./view";

export const beginning = signal<Beginning | null>(null);
/** Instead of a database. */
export const alone = signal<Flame | null>(null);
/** Why there is nothing to show. */
export const trouble = signal<string | null>(null);
const looked = signal<View | null>(null);
export const view: ReadonlySignal<View | null> = looked;
/** Which of the two spans is chosen next. */
export const target = signal<"a" | "b">("a");
/** How many columns there is room for: as the style has it, until it was measured. */
export const columns = signal(200);
const [MARGINS, NAMES, WIDEST] = [48, 300, 1752];

const heatOf = signal<Answered<Heat>>({ is: "loading", before: null });
const spanOf = signal<Answered<SpanAnswer | DifferenceAnswer>>({ is: "loading", before: null });
export const heat = computed(() => heatOf.value);
export const answer = computed(() => spanOf.value);
/** Whether it is a file, with one answer. */
export const isAlone = computed(() => beginning.value?.heats !== undefined);

export function change(part: Partial<View>): void {
  const now = looked.peek();
  if (now) looked.value = { ...now, ...part };
}

/** Looks at a span, or compares with it. */
export function choose(span: Span | null, as: "a" | "b"): void {
  change({ [as]: span });
  target.value = "a";
}

/** The page begins: with what it was given, from the address that it has. */
export function begin(value: Beginning, fetch: Fetch, search: string): void {
  beginning.value = value;
  followAddress(usual(value), value.by);
  if (value.heats) {
    effect(() => {
      const of = value.heats!.find(({ by }) => by === view.value?.by) ?? value.heats![0];
      heatOf.value = of ? { is: "known", value: of } : { is: "refused", why: "The data of this page is damaged: write it again." };
    });
    if (value.span) spanOf.value = { is: "known", value: value.span };
    return;
  }
  const wide = Math.min(WIDEST, innerWidth - MARGINS);
  columns.value = columnsFor(wide - Math.min(NAMES, 0.34 * wide) - 8);
  const [maps, spans] = [new Line<Heat>(fetch, search), new Line<SpanAnswer | DifferenceAnswer>(fetch, search)];
  effect(() => void (heatOf.value = maps.answer.value));
  effect(() => void (spanOf.value = spans.answer.value));
  effect(() => {
    const now = view.value;
    if (now) maps.ask("api/heat", asked(now, { by: now.by, since: now.since, until: now.until, columns: columns.value, rows: 25 }));
  });
  effect(() => {
    const now = view.value;
    if (!now) return;
    const { a, b } = now;
    if (a && b) spans.ask("api/diff", asked(now, { since1: a.from, until1: a.to, since2: b.from, until2: b.to }));
    else spans.ask("api/span", asked(now, { since: a?.from ?? now.since, until: a?.to ?? now.until }));
  });
}

/** The same of a page with nothing but a flame graph. */
export function beginFlame({ flame }: FlamePage): void {
  const filters = Object.fromEntries(FILTERS.map((name) => [name, null])) as { [filter in keyof Filters]: null };
  followAddress(usual({ first: { since: null, until: null, idle: false, ...filters }, by: [] }), []);
  alone.value = flame;
}

/** Looks at another stretch of time. */
export function zoom(to: Span | null): void {
  change(to ? { since: to.from, until: to.to } : { since: null, until: null });
}

/** The time that the map shows. */
export const whole = computed<Span | null>(() => {
  const of = valueOf(heat.value);
  return of && shown(of);
});

/** Browsers stop pages that change their address more than a few times a second. */
const REST_MS = 200;

function followAddress(usual: View, rows: string[]): void {
  const fromAddress = (): void => {
    const found = read(location.hash, usual, rows);
    const now = looked.peek();
    if (!now || written(found, usual) !== written(now, usual)) looked.value = found;
  };
  fromAddress();
  addEventListener("hashchange", fromAddress);
  addEventListener("popstate", fromAddress);
  let said = looked.peek()!;
  let timer: ReturnType<typeof setTimeout> | undefined;
  effect(() => {
    const now = looked.value!;
    clearTimeout(timer);
    const write = (): void => {
      const hash = written(now, usual);
      if (hash === written(read(location.hash, usual, rows), usual)) {
        said = now;
        return;
      }
      const address = hash ? `#${hash}` : location.pathname + location.search;
      try {
        if (isAnother(said, now)) history.pushState(null, "", address);
        else history.replaceState(null, "", address);
      } catch {
        // Where a file may not write its own address, a link is followed instead.
        location.replace(`#${hash}`);
      }
      said = now;
    };
    // What "back" leads to is written at once, and what is typed when it rests.
    if (isAnother(said, now)) write();
    else timer = setTimeout(write, REST_MS);
  });
}
