// The parts of the page that can be told without drawing: which rows are in view, where keys lead, which lines a
// listing has, where dots stand.

import { expect, test } from "vitest";
import { blockKey, inOrder } from "../src/blocks";
import { mark } from "../src/curve";
import { inView, moved } from "../src/grid";
import { action } from "../src/keyboard";
import { lines } from "../src/listing";
import type { Dot } from "../src/model";
import { area, path } from "../src/path";
import { rows } from "../src/ranking";
import { linear } from "../src/scale";
import { story } from "../src/timeline";
import { hostile, realistic, region } from "./example";

test("only rows in view are drawn", () => {
  expect(inView(20_000, 0, 600, 30)).toEqual([0, 28]);
  expect(inView(20_000, 300_000, 600, 30)).toEqual([9992, 10_028]);
  expect(inView(3, 0, 600, 30)).toEqual([0, 3]);
  expect(inView(0, 0, 600, 30)).toEqual([0, 0]);
  // Filtered while scrolled far down.
  expect(inView(40, 300_000, 600, 30)).toEqual([12, 40]);
});

test("keys move through rows and stop at the ends", () => {
  expect(moved("ArrowDown", 3, 10, 5)).toBe(4);
  expect(moved("ArrowDown", 9, 10, 5)).toBe(9);
  expect(moved("ArrowUp", 0, 10, 5)).toBe(0);
  expect(moved("ArrowDown", -1, 10, 5)).toBe(0);
  expect(moved("ArrowUp", -1, 10, 5)).toBe(0);
  expect(moved("PageDown", 3, 10, 5)).toBe(8);
  expect(moved("End", 3, 10, 5)).toBe(9);
  expect(moved("x", 3, 10, 5)).toBeNull();
  expect(moved("ArrowDown", -1, 0, 5)).toBeNull();
});

test("keys of the whole page", () => {
  expect(action("/", "nowhere", "")).toBe("focus-filter");
  expect(action("/", "filter", "a")).toBeNull();
  expect(action("Escape", "filter", "a")).toBe("clear-filter");
  expect(action("Escape", "filter", "")).toBe("focus-table");
  expect(action("ArrowDown", "nowhere", "")).toBe("next");
  expect(action("ArrowDown", "elsewhere", "")).toBeNull();
});

test("blocks in the order of a column", () => {
  const dots: Dot[] = [[0.5, null, 1, 0, null], [0.25, 0.1, 2, 1, "cut"], [0.25, -0.1, 1, 2, null]];
  const keys = (found: Dot[]): string[] => found.map(blockKey);
  expect(keys(inOrder(dots, { column: "block", reversed: false }))).toEqual(["1 0", "1 2", "2 1"]);
  expect(keys(inOrder(dots, { column: "speedup", reversed: false }))).toEqual(["1 2", "2 1", "1 0"]);
  expect(keys(inOrder(dots, { column: "gain", reversed: true }))).toEqual(["2 1", "1 2", "1 0"]);
});

test("dots beyond the axes stand at their end, and look like it", () => {
  const plot = { x: linear(0, 1, 0, 100), y: linear(-0.25, 0.75, 64, 0) };
  expect(mark([0.5, 0.25, 1, 0, null], plot)).toEqual([50, 32, "dot"]);
  expect(mark([0.5, 0.25, 1, 0, "cut"], plot)).toEqual([50, 32, "cross"]);
  expect(mark([0.5, 7, 1, 0, null], plot)).toEqual([50, 0, "above"]);
  expect(mark([0.5, -7, 1, 0, "cut"], plot)).toEqual([50, 64, "below"]);
  expect(mark([0.5, null, 1, 0, null], plot)).toBeNull();
});

test("lines and areas", () => {
  expect(path([[0, 1], [2.04, 3.06]])).toBe("M0 1L2 3.1");
  expect(path([])).toBe("");
  expect(area([[0, 0], [1, 0]], [[0, 2], [1, 2]])).toBe("M0 0L1 0L1 2L0 2Z");
});

test("a listing has the lines of its snippet, and the regions in them", () => {
  const snippet = { first_line: 87, text: "a\r\nb\nc\n" };
  const own = region({ snippet });
  const others = rows(
    [
      own,
      region({ name: "hash.c:87", line: 87 }),
      region({ kind: "function", line: 89 }),
      region({ line: 89, image: { path: "/bin/other", build_id: null } }),
    ],
    0,
  );
  expect(lines(own, others).map(({ number, text, own, rows }) => [number, text, own, rows.length])).toEqual([
    [87, "a", false, 1],
    [88, "b", true, 1],
    [89, "c", false, 0],
  ]);
  expect(lines(region(), others)).toEqual([]);
});

test("the story of a point", () => {
  const told = story(realistic(), { point: "requests", kind: "throughput" });
  expect(told.lanes).toEqual([{ session: 1, start: 0, end: 60e9 }]);
  expect(told.segments).toHaveLength(2);
  expect(told.windows).toHaveLength(240);
  expect(told.top).toBeGreaterThan(10_143);
  expect(story(hostile(), { point: "unknown", kind: "latency" })).toMatchObject({ lanes: [], top: 0 });
});
