// The stacks: trees, what is drawn of them, and what the page says of them.

import { renderToString } from "preact-render-to-string";
import { beforeEach, expect, test } from "vitest";
import { App } from "../src/app";
import { around, boxes, estimateOf, LEAST, MOST, neighbour, type Node, runtimeCalls, samplesOf, search, sums, totals, tree } from "../src/calls";
import { DEFAULT_VIEW } from "../src/hash";
import type { Stacks } from "../src/model";
import { moduleOf, modulesOf } from "../src/modules";
import { read } from "../src/parts";
import { runtimeFrames } from "../src/runtime";
import { report, status, view } from "../src/state";
import { estimate, hostile, plain, realistic, unsettled } from "./example";

/** `main` calls `work`, which calls itself and `memcpy`; a stack of `work` is truncated. The line 85 is the first region. */
const stacks = (): Stacks => ({
  samples: 100,
  truncated_samples: 20,
  missing_samples: 25,
  texts: ["main", "work", "memcpy", "[truncated]", "/src/work.c", "/lib/libc.so"],
  functions: [
    [0, 4, null, null],
    [1, 4, null, null],
    [2, null, 5, null],
    [3, null, null, null],
  ],
  calls: [
    [null, 0, 3, 0, null, 10, 10],
    [0, 1, 7, 1, null, 20, 20],
    [1, 1, 85, 0, 0, 15, 15],
    [2, 2, null, 0, null, 30, 30],
    [null, 3, null, 0, null, 0, 0],
    [4, 1, 85, 0, 0, 20, 20],
    [0, 2, null, 0, null, 5, 5],
  ],
});

/** `name own/total (inside)`, for reading. */
function told(of: Stacks, node: Node): string {
  const name = node.function < 0 ? "*" : of.texts[of.functions[node.function]![0]];
  const inside = node.inside.map((child) => told(of, child)).join(" ");
  return `${name} ${node.own}/${node.total}${inside && ` (${inside})`}`;
}

beforeEach(() => {
  view.value = DEFAULT_VIEW;
});

test("the tree of the program", () => {
  const of = stacks();
  expect(totals(of)).toEqual([80, 65, 45, 30, 20, 20, 5]);
  expect(told(of, tree(of))).toBe(
    "* 0/100 (main 10/80 (work 20/65 (work 15/45 (memcpy 30/30)) memcpy 5/5) [truncated] 0/20 (work 20/20))",
  );
});

test("callers and callees of a function have each of its samples once", () => {
  const of = stacks();
  const { callers, callees } = around(of, 1);
  expect(told(of, callers)).toBe("work 40/85 (main 0/65 [truncated] 0/20)");
  expect(told(of, callees)).toBe("work 40/85 (work 15/45 (memcpy 30/30))");
  const leaf = around(of, 2);
  expect(told(of, leaf.callers)).toBe("memcpy 35/35 (work 0/30 (work 0/30 (main 0/30)) main 0/5)");
  expect(told(of, leaf.callees)).toBe("memcpy 35/35");
  expect(sums(of, totals(of)).map(({ function: nth, own, total }) => [nth, own, total])).toEqual([
    [1, 55, 85],
    [0, 10, 80],
    [2, 35, 35],
    [3, 0, 20],
  ]);
});

test("no box is too narrow to be read, and none of the samples is lost", () => {
  const many: Stacks = {
    ...stacks(),
    samples: 1600,
    functions: Array.from({ length: 601 }, (_, nth) => [0, nth % 2 ? 4 : null, null, null]),
    calls: [
      [null, 0, null, 0, null, 0, 0],
      ...Array.from({ length: 600 }, (_, nth): Stacks["calls"][number] => [0, nth + 1, null, 0, null, nth === 0 ? 1001 : 1, 1]),
    ],
  };
  const root = tree(many);
  const laid = boxes(root.inside[0]!, 800);
  expect(laid.every(({ width }) => width >= LEAST)).toBe(true);
  const row = laid.filter(({ depth }) => depth === 2);
  expect(row.map(({ what }) => typeof what)).toEqual(["object", "number"]);
  expect(row[1]!.what).toBe(599);
  expect(row.reduce((sum, { width }) => sum + width, 0)).toBeCloseTo(800);
  // The way to what fills the width is above it.
  expect(laid.slice(0, 1).map(({ depth, width }) => [depth, width])).toEqual([[0, 800]]);
});

test("arrow keys lead from box to box", () => {
  const of = stacks();
  const laid = boxes(tree(of), 1000);
  const at = (depth: number, name: number): number =>
    laid.findIndex((box) => box.depth === depth && typeof box.what !== "number" && box.what.function === name);
  expect(neighbour(laid, at(0, -1), "ArrowDown")).toBe(at(1, 0));
  expect(neighbour(laid, at(1, 0), "ArrowRight")).toBe(at(1, 3));
  expect(neighbour(laid, at(1, 3), "ArrowLeft")).toBe(at(1, 0));
  expect(neighbour(laid, at(1, 3), "ArrowRight")).toBe(-1);
  expect(neighbour(laid, at(2, 1), "ArrowUp")).toBe(at(1, 0));
  expect(neighbour(laid, at(2, 1), "ArrowDown", ["ArrowDown", "ArrowUp"])).toBe(at(1, 0));
  expect(neighbour(laid, at(0, -1), "ArrowUp")).toBe(-1);
  expect(neighbour(laid, 99, "ArrowUp")).toBe(-1);
});

test("what is looked for is counted once", () => {
  const of = stacks();
  expect(search(of, "  ")).toBeNull();
  expect([...search(of, "WORK.c wor")!]).toEqual([0, 1]);
  const found = search(of, "memcpy")!;
  expect([...found]).toEqual([2]);
  expect(samplesOf(tree(of), found)).toBe(35);
  expect(samplesOf(tree(of), new Set([0, 1, 2]))).toBe(100);
});

test("a function is worth what its region is worth, or else its line with most samples", () => {
  const of = stacks();
  const shown = realistic();
  const [worst] = [{ ...shown.regions[1]!, points: [estimate({ verdict: "hurts" })] }];
  shown.regions[1] = worst!;
  const work = tree(of).inside[0]!.inside[0]!.inside[0]!;
  expect(estimateOf(shown, of, work, 0)).toBe(shown.regions[0]!.points[0]);
  of.functions[1]![3] = 1;
  expect(estimateOf(shown, of, work, 0)?.verdict).toBe("hurts");
  expect(estimateOf(shown, of, { function: 0, lines: new Map() }, 0)).toBeNull();
});

function page(of: Stacks | { part: number } | null, from = realistic()): string {
  report.value = { ...from, stacks: of };
  status.value = { is: "recorded" };
  return renderToString(<App source={null} />);
}

const text = (html: string): string => html.replace(/<[^>]*>/g, "").replaceAll("\u00a0", " ");

test("the page has the flame graph, the sandwich and the table", () => {
  const html = page(stacks());
  const seen = text(html);
  expect(seen).toContain("Who calls whom");
  expect(seen).toContain("20.0 % of the stacks end before their outermost frame");
  expect(seen).toContain("20.0 % of the samples have no stack");
  expect(html).toContain('aria-label="Flame graph: arrow keys go from box to box, Enter chooses one"');
  // `work` has most samples of its own, and its line 85 helps.
  expect(seen).toContain("Around work");
  expect(seen).toContain("On the stack of 85.0 % of the samples, 55.0 % in its own code; 20 % faster gains");
  expect(html).toMatch(/class="call helps[^"]*" style="left:[^"]*--much:\d+%/);
  expect(html).toMatch(/class="call truncated/);
  expect(seen).toContain("Its callers: each calls the one below it.");
  // Everything is reached by Tab: one box of each of the three.
  expect(html.match(/<button[^>]*class="call[^>]*tabindex="0"/g)).toHaveLength(3);
});

test("recordings without stacks have no such part, and what still comes is waited for", () => {
  expect(text(page(null))).not.toContain("Who calls whom");
  const from = realistic();
  read.value = null;
  expect(text(page({ part: 7 }, from))).toContain("Loading …");
  read.value = (part) => (part === 7 ? JSON.stringify(stacks()) : null);
  expect(text(page({ part: 7 }, from))).toContain("Around work");
  read.value = () => "{";
  expect(text(page({ part: 8 }, from))).toContain("The stacks in this page are damaged");
  read.value = null;
});

test("hostile names of functions are text", () => {
  const of = stacks();
  of.texts[1] = '</script><img src=x onerror=alert(1)>\u202e"';
  const html = page(of, hostile());
  expect(html).not.toMatch(/<(script|img)[ >/]/);
  expect(html).not.toMatch(/\u202e/);
  expect(html).toContain("&lt;img src=x");
});

test("frames that start the program and its threads are folded, down to its own code", () => {
  const of = plain().stacks as Stacks;
  const names = (node: Node): string[] => node.inside.map((child) => of.texts[of.functions[child.function]![0]]!);
  const folded = runtimeCalls(of);
  const root = tree(of, totals(of), folded);
  expect(names(root)).toEqual(["viewer::main", "parse"]);
  expect(root.total).toBe(of.samples);
  // What the program calls of the library stays.
  expect(names(root.inside[0]!)).toEqual(["render_frame", "compress_block", "write_all"]);
  expect(names(tree(of))).toEqual(["_start", "clone3"]);
  // C's own `main` is no runtime, nor is what only looks like its callers further in.
  expect(runtimeCalls(stacks())).toEqual([false, false, false, false, false, false, false]);
  expect(runtimeFrames([null, 0, 1, 2], (nth) => ["server", "_start", "main", "clone"][nth]!, (nth) => nth === 0, () => true)).toEqual([false, true, false, false]);
  // C++ in a namespace of its own called `core` is the program's.
  const cpp = (isOwn: boolean) => runtimeFrames([null, 0], (nth) => ["start_thread", "core::Worker::run"][nth]!, () => false, () => isOwn);
  expect([cpp(true), cpp(false)]).toEqual([[true, false], [true, true]]);
});

test("boxes are coloured by module as long as nothing is certain", () => {
  const of = unsettled();
  const own = of.stacks as Stacks;
  const found = modulesOf(of, own, 0, sums(own, totals(own)))!;
  expect([...found]).toEqual([["viewer/main.rs", 0], ["std", 1], ["parse.rs", 2], ["libc.so.6", 3], ["scene.rs", 4], ["compress.rs", 5], ["glam", 6]]);
  report.value = of;
  status.value = { is: "recorded" };
  expect(renderToString(<App source={null} />)).toMatch(/class="call module m1" [^>]*title="std::collections/);
  // A library is one module, also where its sources are known.
  const known: Stacks = { ...stacks(), functions: [[2, 4, 5, null]] };
  expect(moduleOf(known, 0)).toBe("libc.so");
  of.regions[0]!.points[0]!.verdict = "no-effect";
  expect(modulesOf(of, own, 0, sums(own, totals(own)))).toBeNull();
});

test("of very many boxes the widest are drawn, each with its caller", () => {
  const own = MOST / 2;
  const calls = Array.from({ length: 2 * own }, (_, nth): Stacks["calls"][number] => [nth % own === 0 ? null : nth - 1, nth < own ? 0 : 1, null, 0, null, nth < own ? 2 : 1, 1]);
  const found = boxes(tree({ ...stacks(), calls }), 1e6);
  expect(found).toHaveLength(MOST);
  const drawn = new Set(found.map(({ what }) => what));
  for (const { what } of found) if (typeof what !== "number" && what.parent) expect(drawn.has(what.parent)).toBe(true);
});
