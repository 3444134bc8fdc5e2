// The page of a database: its address, its map, its questions, and that names stay names.

import { renderToString } from "preact-render-to-string";
import { beforeEach, describe, expect, test } from "vitest";
import type { Beginning, Flame, Heat } from "../src/database/answers";
import { App } from "../src/database/app";
import { type Fetch, Line } from "../src/database/ask";
import { cpuTime, length, ticks } from "../src/database/clock";
import { palette, rgb, step, STEPS } from "../src/database/colours";
import { lookOf, offered, runtimeBoxes, search, sums, tree } from "../src/database/flames";
import { carried, cellAt, columnsFor, describe as said, largest, missing, moved, place, restriction, short, spanOf } from "../src/database/map";
import { begin, beginning, change, view } from "../src/database/state";
import { asked, isAnother, read, usual, type View, written } from "../src/database/view";

const BEGINNING: Beginning = {
  kind: "database",
  database: "/srv/db",
  first: { since: null, until: null, idle: false, machine: null, cgroup: null, process: "nginx*", image: null,
    where: null, event: null, epoch: null },
  by: ["process", "unit", "function"],
};

const heading = (): Heat["heading"] => ({
  event: "cpu-clock",
  machines: ["build-7"],
  cpus: 2,
  since: 1_790_000_000,
  until: 1_790_000_300,
  selection: [],
  books: { expected: 1200, stored: 1100, unknown: 60, lost: 40 },
  rate: 10,
  samples: 600,
  nanos_per_sample: 1e8,
  with_idle: false,
  warnings: [{ code: "lost", message: "3.3 % of the samples were lost", advice: "see when and why: whatif status" }],
});

/** Five minutes; nothing in the third, and 45 s of the fourth are missing. Ten samples are a core. */
const heat = (name = "server"): Heat => ({
  kind: "heat",
  heading: heading(),
  by: "process",
  start: 1_790_000_040,
  column_s: 60,
  columns: 5,
  unit: "cores",
  scale: [0.1, 0.1, null, 0.1, 0.1],
  expected: [20, 20, 0, 20, 20],
  lost: [0, 1, 0, 0, 0],
  samples: [10, 20, 0, 5, 0],
  gaps: [[1_790_000_160, 1_790_000_265]],
  more_gaps: 0,
  rows: [
    { name, image: "", samples: 30, share: { value: 0.9, lo: 0.8, hi: 0.95 }, cpu_ns: 3e9, worth: null, cells: [10, 16, 0, 4, 0], lo: [6, 12, 0, 2, 0], hi: [14, 18, 0, 8, 3.2], own: null },
    { name: "other", image: "", samples: 5, share: { value: 0.1, lo: 0, hi: 0.2 }, cpu_ns: 1e9, worth: null, cells: [0, 4, 0, 1, 0], lo: [0, 1, 0, 0, 0], hi: [3, 8, 0, 5, 3.2], own: null },
  ],
  more: 0,
});

describe("the address", () => {
  const first = usual(BEGINNING);

  test("says nothing of what is as usual", () => {
    expect(written(first, first)).toBe("");
    expect(read("", first, BEGINNING.by)).toEqual(first);
  });

  test("leads back to the same", () => {
    const looked: View = {
      ...first,
      since: 0,
      until: 3600,
      by: "function",
      filters: { ...first.filters, process: "", cgroup: "a&b=#c" },
      idle: true,
      a: { from: 60, to: 120 },
      b: { from: 300, to: 360 },
      search: "work hash",
      colours: "kind",
      theme: "dark",
    };
    expect(read(`#${written(looked, first)}`, first, BEGINNING.by)).toEqual(looked);
    expect(read(written({ ...first, since: null }, { ...first, since: 5 }), { ...first, since: 5 }, []).since).toBe(null);
  });

  test.each([
    ["a=5", null],
    ["a=5..5", null],
    ["a=9..5", null],
    ["a=5..6..7", null],
    ["a=x..7", null],
    ["a=1e3..2000", null],
    ["a=99999999999999..999999999999999", null],
    ["a=-5..7", { from: -5, to: 7 }],
  ])("understands %s or leaves it", (hash, expected) => {
    expect(read(hash, first, BEGINNING.by).a).toEqual(expected);
  });

  test("what cannot be is as usual", () => {
    const found = read("#by=<img>&since=9&until=3&colours=pink&theme=none&idle=maybe", first, BEGINNING.by);
    expect(found).toEqual({ ...first });
  });

  test("'back' is for what is looked at, and not for what is typed", () => {
    expect(isAnother(first, { ...first, search: "x", colours: "kind", theme: "dark" })).toBe(false);
    expect(isAnother(first, { ...first, a: { from: 1, to: 2 } })).toBe(true);
  });

  test("is asked about with its filters", () => {
    expect(asked(first, { since: null, until: 5, by: "unit" })).toBe("process=nginx*&until=5&by=unit");
    expect(asked({ ...first, idle: true }, {})).toBe("process=nginx*&idle=1");
  });
});

describe("the map", () => {
  test("a span is of whole columns, whichever end comes first", () => {
    expect(spanOf(heat(), 3, 1)).toEqual({ from: 1_790_000_100, to: 1_790_000_280 });
    expect(spanOf(heat(), 2, 2)).toEqual({ from: 1_790_000_160, to: 1_790_000_220 });
  });

  test("what is beyond it has no place", () => {
    const of = heat();
    expect(place(of, { from: of.start - 60, to: of.start + 150 })).toEqual({ left: 0, right: 0.5 });
    expect(place(of, { from: 0, to: of.start })).toBe(null);
    expect(place(of, { from: of.start + 300, to: of.start + 400 })).toBe(null);
  });

  test("a cell says when, how much, how sure, and what is missing", () => {
    const words = (row: number, column: number) => said(heat(), { row, column }, (name) => name).replaceAll(/\d\d\d\d-\d\d-\d\d \S+ to [\d:]*\d/g, "WHEN");
    expect(words(0, 0)).toBe("server, WHEN: 1.0 cores [0.60 … 1.4], 10 samples");
    expect(words(0, 1)).toBe("server, WHEN: 1.6 cores [1.2 … 1.8], 16 samples; 5.0 % of the samples were lost");
    expect(words(0, 2)).toBe("server, WHEN: not collected");
    expect(words(1, 3)).toBe("other, WHEN: 0.10 cores [0 … 0.50], 1 sample; nothing was collected for 45 s of 1 min");
    expect(words(1, 4)).toBe("other, WHEN: 0 cores [0 … 0.32], 0 samples");
    expect(said(heat(), { row: 9, column: 0 }, String)).toBe("");
    expect(largest(heat())).toBe(1.6);
    expect(missing(heat().gaps, spanOf(heat(), 2, 3))).toBe(105);
  });

  test("a machine's own gaps are its own", () => {
    const of = heat();
    of.rows[1]!.own = { scale: [null, 0.1, 0.1, 0.1, 0.1], gaps: [] };
    expect(said(of, { row: 1, column: 0 }, String)).toContain("not collected");
    expect(said(of, { row: 1, column: 2 }, String)).toContain("0 cores");
  });

  test.each([
    ["ArrowRight", 0, 1],
    ["ArrowDown", 1, 0],
    ["ArrowLeft", 0, 0],
    ["ArrowUp", 0, 0],
    ["End", 0, 4],
    ["PageDown", 0, 1],
  ])("%s leads on, and never out", (key, row, column) => {
    expect(moved(heat(), { row: 0, column: 0 }, key)).toEqual({ row, column });
    expect(moved(heat(), { row: 1, column: 4 }, "ArrowDown")).toEqual({ row: 1, column: 4 });
    expect(moved(heat(), { row: 0, column: 0 }, "x")).toBe(null);
  });

  test("another map has the cursor where the same was shown", () => {
    const other = { ...heat(), start: heat().start + 60, column_s: 30, columns: 8, rows: [...heat().rows].reverse() };
    expect(carried(heat(), heat(), { row: 1, column: 3 })).toEqual({ row: 1, column: 3 });
    expect(carried(heat(), other, { row: 1, column: 3 })).toEqual({ row: 0, column: 5 });
    expect(carried(heat(), other, { row: 1, column: 0 })).toBe(null);
    expect(carried(heat(), { ...other, by: "unit" }, { row: 1, column: 3 })).toBe(null);
    expect(carried(heat(), heat("client"), { row: 0, column: 3 })).toBe(null);
  });

  test("places are of cells", () => {
    expect(cellAt(heat(), 101, 30, 500, 22)).toEqual({ row: 1, column: 1 });
    expect(cellAt(heat(), -9, 999, 500, 22)).toEqual({ row: 1, column: 0 });
    expect(cellAt(heat(), 500, 0, 500, 22)).toEqual({ row: 0, column: 4 });
    expect([columnsFor(0), columnsFor(800), columnsFor(803), columnsFor(9999)]).toEqual([20, 200, 200, 400]);
  });

  test("a row restricts to itself", () => {
    expect(restriction("unit", "nginx.service")).toEqual({ filter: "cgroup", pattern: "nginx.service" });
    expect(restriction("process", "[none]")).toBe(null);
    expect(restriction("function", "main")).toBe(null);
  });

  test("numbers have the digits that matter", () => {
    expect([0, 0.0123, 0.123, 1.23, 12.3].map(short)).toEqual(["0", "0.012", "0.12", "1.2", "12"]);
  });
});

describe("colours", () => {
  /** Lightness as the eye has it, from sRGB. */
  const lightness = (colour: string): number => {
    const [r, g, b] = colour.match(/\d+/g)!.map((part) => {
      const value = Number(part) / 255;
      return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    }) as [number, number, number];
    const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
    const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
    const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
    return 0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s;
  };

  test.each(["light", "dark"] as const)("in %s, each is as far from the next as all others", (theme) => {
    const found = palette(theme).map(lightness);
    const whole = found.at(-1)! - found[0]!;
    expect(Math.abs(whole)).toBeGreaterThan(0.5);
    for (const [nth, one] of found.entries()) {
      expect(Math.abs(one - (found[0]! + (whole * nth) / (STEPS - 1)))).toBeLessThan(0.02);
    }
  });

  test("white and black are white and black", () => {
    expect([rgb(1, 0, 0), rgb(0, 0, 0)]).toEqual([[255, 255, 255], [0, 0, 0]]);
  });

  test("little is more than nothing", () => {
    expect([step(0, 2), step(1e-9, 2), step(0.5, 2), step(2, 2), step(9, 2)]).toEqual([0, 1, 32, 63, 63]);
  });
});

describe("times", () => {
  test("ticks are round and few", () => {
    for (const [from, to, most] of [
      [1_790_000_037, 1_790_000_337, 6],
      [1_790_000_000, 1_790_086_400, 8],
      [1_790_000_000, 1_792_592_000, 5],
    ] as const) {
      const found = ticks(from, to, most);
      expect(found.length).toBeGreaterThan(1);
      expect(found.length).toBeLessThanOrEqual(most + 1);
      for (const { at } of found) expect(at >= from && at <= to).toBe(true);
      expect(new Set(found.map(({ label }) => label)).size).toBe(found.length);
    }
    expect(ticks(5, 5, 3)).toEqual([]);
  });

  test("spans and CPU time are told in the unit that fits", () => {
    expect([45, 60, 90, 150, 3600, 9000, 86_400, 200_000].map(length)).toEqual(["45 s", "1 min", "90 s", "2.5 min", "1 h", "2.5 h", "1 d", "2.3 d"]);
    expect([5e8, 1.5e9, 6e10, 3e11, 4e12, 4e13, 4e14].map(cpuTime)).toEqual(["500 ms", "1.5 s", "60 s", "5.0 min", "67 min", "11 h", "111 h"]);
  });
});

describe("questions", () => {
  const later = () => {
    const open: { address: string; aborted(): boolean; answer(value: unknown, ok?: boolean): void; fail(): void }[] = [];
    const fetch: Fetch = (address, { signal }) =>
      new Promise((resolve, reject) => {
        signal.addEventListener("abort", () => reject(new Error("aborted")));
        open.push({
          address,
          aborted: () => signal.aborted,
          answer: (value, ok = true) => resolve({ ok, json: async () => value, text: async () => String(value) }),
          fail: () => reject(new Error("gone")),
        });
      });
    return { open, fetch };
  };
  const settled = () => new Promise((resolve) => setTimeout(resolve));

  test("only the newest counts, and the same is asked once", async () => {
    const { open, fetch } = later();
    const line = new Line<number>(fetch, "?token=t");
    line.ask("api/span", "a=1");
    line.ask("api/span", "a=1");
    line.ask("api/span", "a=2");
    expect(open.map(({ address }) => address)).toEqual(["api/span?a=1&token=t", "api/span?a=2&token=t"]);
    expect(open.map(({ aborted }) => aborted())).toEqual([true, false]);
    open[1]!.answer(2);
    await settled();
    expect(line.answer.value).toEqual({ is: "known", value: 2 });
    line.ask("api/span", "a=3");
    expect(line.answer.value).toEqual({ is: "loading", before: 2 });
    open[2]!.answer("there are no samples", false);
    await settled();
    expect(line.answer.value).toEqual({ is: "refused", why: "there are no samples" });
    line.ask("api/span", "a=3");
    expect(open).toHaveLength(4);
    open[3]!.fail();
    await settled();
    expect(line.answer.value).toMatchObject({ is: "refused", why: expect.stringContaining("does not answer") });
  });
});

const HOSTILE = "</script><img src=x onerror=alert(1)>\u202e";

/** all → a process → main 10 → work 60, memcpy 30; before it was work 20, gone 80. */
const flame = (): Flame => ({
  heading: heading(),
  time: "",
  names: [
    { name: "server", image: "", kind: "process", worth: null },
    { name: "main", image: "/bin/server", kind: "program", worth: null },
    { name: HOSTILE, image: "/bin/server", kind: "program", worth: { slope: 0.4, lo: 0.3, hi: 0.5, verdict: "helps", line: null, recording: "r.db", other_build: false } },
    { name: "memcpy", image: "/lib/libc.so.6", kind: "library", worth: null },
    { name: "gone", image: "/bin/server", kind: "program", worth: null },
  ],
  boxes: [-1, 0, 0, 100, 0, 1, 10, 100, 1, 2, 60, 60, 1, 3, 30, 30, 1, 4, 0, 0],
  cut: [1],
  before: { asked: "A", samples: 100, boxes: [0, 100, 0, 100, 20, 20, 0, 0, 80, 80] },
  left_out: 0,
});

describe("the flame graph", () => {
  test("is a tree without what is gone, and says what is different, worth, whose", () => {
    const of = flame();
    const root = tree(of);
    const main = root.inside[0]!.inside[0]!;
    expect([root.total, root.was, main.own, main.inside.map((node) => [node.function, node.total])]).toEqual([100, 100, 10, [[2, 60], [3, 30]]]);
    expect(offered(of)).toEqual(["change", "worth", "kind"]);
    expect(offered({ ...of, before: null, names: of.names.slice(0, 2) })).toEqual(["kind"]);
    const [work, memcpy] = main.inside as [typeof main, typeof main];
    expect(lookOf(of, root, "change")(work)).toMatchObject({ kind: "worse", much: 100, sign: "+40.0 % " });
    expect(lookOf(of, root, "worth")(work)).toMatchObject({ kind: "better", much: 80, sign: "▲ ", number: "0.40" });
    expect(lookOf(of, root, "worth")(memcpy)).toMatchObject({ kind: "untried" });
    expect(lookOf(of, root, "kind")(memcpy)).toMatchObject({ kind: "library" });
    expect(lookOf(of, root, "change")(main).kind).toBe("better cut");
    const words = lookOf(of, root, "change")(work).said;
    expect(words).toContain("60.0 %, 60.0 % itself, 60 samples; +40.0 % (20.0 % before); slope 0.40 [0.30 … 0.50], helps");
    expect(words).toContain("\\u{202e}");
    expect(lookOf(of, root, "change")(root).name).toBe("everything");
    expect(search(of, "libc mem")).toEqual(new Set([3]));
    expect(search(of, " ")).toBe(null);
  });

  test("what starts programs and threads is folded below its process, and what several of them call is one box", () => {
    const of = flame();
    of.names = ["server", "_start", "main", "std::rt::lang_start", "clone3", "work"].map((name, nth) => ({ ...of.names[1]!, name, kind: nth === 0 ? "process" : name.startsWith("std") ? "library" : "program" }));
    // process → _start → main → lang_start → work, and process → clone3 → work.
    of.boxes = [-1, 0, 0, 90, 0, 1, 0, 60, 1, 2, 0, 60, 2, 3, 10, 60, 3, 5, 50, 50, 0, 4, 0, 30, 5, 5, 30, 30];
    of.before = null;
    of.cut = [];
    expect(runtimeBoxes(of)).toEqual([false, true, true, true, false, true, false]);
    const root = tree(of, runtimeBoxes(of));
    const [process] = root.inside;
    expect([root.total, process!.total]).toEqual([90, 90]);
    expect(process!.inside.map((node) => [of.names[node.function]!.name, node.own, node.total])).toEqual([["work", 80, 80]]);
    expect(tree(of).inside[0]!.inside).toHaveLength(2);
  });

  test("the program's own code is not folded whatever it is called, nor what has no known callers", () => {
    const of = flame();
    // process → start_thread → core::work of the program, and process → std::thread of which no callers are known.
    const kinds = { server: "process", start_thread: "library", "core::work": "program", "std::thread": "library" };
    of.names = Object.entries(kinds).map(([name, kind]) => ({ ...of.names[1]!, name, kind }));
    of.boxes = [-1, 0, 0, 90, 0, 1, 0, 60, 1, 2, 60, 60, 0, 3, 30, 30];
    of.before = null;
    of.cut = [3];
    expect(runtimeBoxes(of)).toEqual([false, true, false, false]);
  });

  test("functions that have gone are among those that are different, with what they were", () => {
    const of = flame();
    // main → work → helper, which was called by main as well.
    of.names = ["main", "work", "helper"].map((name) => ({ ...of.names[1]!, name }));
    of.boxes = [-1, 0, 0, 60, 0, 1, 50, 60, 1, 2, 10, 10, 0, 2, 0, 0];
    of.before = { asked: "A", samples: 100, boxes: [0, 100, 50, 50, 0, 0, 50, 50] };
    of.cut = [];
    const found = sums(of, tree(of)).map(({ name, total, was }) => [name, total, was]);
    expect(new Map(found.map(([name, ...counts]) => [name, counts]))).toEqual(new Map([["main", [60, 100]], ["work", [60, 50]], ["helper", [10, 50]]]));
  });

  test("boxes that name what there is not make no page fail", () => {
    const of: Flame = { ...flame(), boxes: [5, 77, 1, 1, -1, 0, 2], cut: [99], before: null };
    expect(tree(of).total).toBe(1);
    expect(runtimeBoxes(of)).toEqual([false]);
    expect(lookOf(of, tree(of), "kind")(tree(of).inside[0]!).name).toBe("everything");
  });
});

describe("the page", () => {
  beforeEach(() => {
    beginning.value = null;
    const host = globalThis as unknown as Record<string, unknown>;
    host["location"] = { hash: "", pathname: "/", search: "", replace: () => undefined };
    host["history"] = { pushState: () => undefined, replaceState: () => undefined };
    host["addEventListener"] = () => undefined;
  });

  test("alone: the map, the table and the graph, and names are text", () => {
    const name = HOSTILE;
    const row = { name, image: `/bin/${HOSTILE}`, samples: 60, share: { value: 0.6, lo: 0.5, hi: 0.7 }, cpu_ns: 6e9, total: 60, total_share: 0.6, worth: flame().names[2]!.worth, mark: "hot-but-does-not-matter" };
    const span = {
      kind: "span" as const,
      table: { heading: heading(), rows: [row], more: 3, not_hot: [row], recordings: ["r.db"] },
      flame: { ...flame(), before: null },
      next: [`whatif top --db '${HOSTILE}'`],
    };
    begin({ ...BEGINNING, database: HOSTILE, heats: [heat(HOSTILE), { ...heat(), by: "unit" }], span }, () => Promise.reject(new Error()), "");
    const page = renderToString(<App />);
    expect(page).not.toContain("<img");
    expect(page).not.toContain("\u202e");
    for (const text of ["CPU time on build-7", "not collected", "1 gap, 105 s in all", "60.0 %", "3 more functions are not listed", "3.3 % of the samples were lost"]) {
      expect(page).toContain(text);
    }
    expect(page).not.toContain("Zoom in");
    change({ by: "unit" });
    expect(renderToString(<App />)).toContain("server");
    expect(view.value!.by).toBe("unit");
  });
});
