// Samples by place: the tree, what is drawn of it, its colours, and where arrows lead.

import { expect, test } from "vitest";
import { type Box, boxes, chain, look, neighbour, type Place, places, withCallees } from "../src/places";
import { rows } from "../src/ranking";
import { estimate, hostile, realistic, region } from "./example";

const report = (total: number) => ({ ...realistic(), sessions: [{ ...realistic().sessions[0]!, samples: total }] });
const code = (name: string, samples: number, part: Parameters<typeof region>[0] = {}) =>
  region({ kind: "function", name, function: name, samples, ...part });

const shape = ({ name, samples, row, inside }: Place): unknown[] =>
  [name, samples, row !== null, ...(inside.length > 0 ? [inside.map(shape)] : [])];

test("program, file, function, line", () => {
  const all = [
    code("work", 60, { file: "/src/a.c" }),
    region({ name: "a.c:9", function: "work", file: "/src/a.c", line: 9, samples: 25 }),
    region({ name: "a.c:8", function: "work", file: "/src/a.c", line: 8, samples: 20 }),
    // Inlined from elsewhere.
    region({ name: "max.h:3", function: "work", file: "/src/max.h", line: 3, samples: 5 }),
    // In a piece that the compiler has split off.
    region({ name: "a.c:7", function: "work.isra.0.part.12", file: "/src/a.c", line: 7, samples: 1 }),
    // Its function was not tried.
    region({ name: "b.c:1", function: "rest", file: "/src/b.c", line: 1, samples: 7 }),
    code("bare", 3, { file: null, line: null }),
    code("whole", 90, { inclusive: true }),
  ];
  const found = places(report(100), rows(all, 0));
  expect(shape(found)).toEqual([
    "server", 100, false, [
      ["/src/a.c", 60, false, [["work", 60, true, [["max.h:3", 5, true], ["a.c:7", 1, true], ["a.c:8", 20, true], ["a.c:9", 25, true]]]]],
      ["/src/b.c", 7, false, [["rest", 7, false, [["b.c:1", 7, true]]]]],
      ["without source", 3, false, [["bare", 3, true]]],
    ],
  ]);
  expect(withCallees(rows(all, 0)).map(({ label }) => label)).toEqual(["whole+ hash.c:88"]);
});

test("callers and images are told apart, and no region is lost", () => {
  const all = [
    code("copy@serve", 4, { function: "copy" }),
    code("copy@load", 9, { function: "copy" }),
    code("copy", 2, { image: { path: "/lib/libx.so", build_id: null } }),
    code("copy", 1, { image: { path: "/other/libx.so", build_id: null } }),
  ];
  const found = places(report(10), rows(all, 0));
  const [server] = found.inside;
  expect(shape(server!.inside[0]!.inside[0]!)).toEqual(["copy", 13, false, [["copy@load hash.c:88", 9, true], ["copy@serve hash.c:88", 4, true]]]);
  const regions = (place: Place): number => (place.row ? 1 : 0) + place.inside.reduce((sum, of) => sum + regions(of), 0);
  expect(regions(found)).toBe(4);
  for (const of of [realistic(), hostile()]) {
    const shown = rows(of.regions, 0);
    expect(regions(places(of as never, shown))).toBe(shown.length - withCallees(shown).length);
  }
});

test("a way leads as far as there are places", () => {
  const found = places(report(100), rows([code("work", 60, { file: "/a.c" })], 0));
  expect(chain(found, ["/a.c", "work", "gone"]).map(({ name }) => name)).toEqual(["server", "/a.c", "work"]);
  expect(chain(found, ["/gone.c"])).toEqual([found]);
});

const drawn = (found: Box[]): unknown[] =>
  found.map(({ depth, from, width, what }) => [depth, from, width, typeof what === "number" ? what : what.name]);

test("boxes are as wide as their samples; what is narrow or unknown is gathered", () => {
  const all = [code("f", 500, { file: "/a.c" }), code("g", 250, { file: "/b.c" }), ...["x", "y"].map((name) => code(name, 1, { file: `/${name}` }))];
  const program = places(report(1000), rows(all, 0));
  expect(drawn(boxes([program]))).toEqual([
    [0, 0, 1, "server"],
    [1, 0, 0.5, "/a.c"],
    [2, 0, 0.5, "f"],
    [1, 0.5, 0.25, "/b.c"],
    [2, 0.5, 0.25, "g"],
    [1, 0.75, 0.002, 2],
    [1, 0.752, 0.248, 0],
  ]);
  expect(drawn(boxes(chain(program, ["/b.c"])))).toEqual([[0, 0, 1, "server"], [1, 0, 1, "/b.c"], [2, 0, 1, "g"]]);
});

test("blue helps, orange hurts, pale is unsure, grey is unknown", () => {
  const of = (slope: number | null, half: number | null) =>
    look(estimate({ slope, slope_lo: half === null ? null : slope! - half, slope_hi: half === null ? null : slope! + half }));
  expect(of(0.25, 0.01)).toEqual({ slope: 0.5, sure: 1 });
  expect(of(-3, 0.01)).toEqual({ slope: -1, sure: 1 });
  expect(of(0.25, 9)).toEqual({ slope: 0.5, sure: 0 });
  expect(of(0.25, null)).toEqual({ slope: 0.5, sure: 0 });
  expect(of(0, 0.275)!.sure).toBeCloseTo(0.5);
  expect(of(null, null)).toBeNull();
  expect(look(estimate({ verdict: "idle" }))).toBeNull();
});

test("arrows go to the box that is seen there", () => {
  const all = [code("f", 500, { file: "/a.c" }), code("g", 300, { file: "/b.c" }), code("h", 200, { file: "/b.c" })];
  const laid = boxes([places(report(1000), rows(all, 0))]);
  const name = (nth: number | null) => (nth === null ? null : (laid[nth]!.what as Place).name);
  const from = (of: string, key: string) => name(neighbour(laid, laid.findIndex(({ what }) => (what as Place).name === of), key));
  expect(from("server", "ArrowDown")).toBe("/a.c");
  expect(from("/a.c", "ArrowRight")).toBe("/b.c");
  expect(from("/b.c", "ArrowDown")).toBe("g");
  expect(from("g", "ArrowLeft")).toBe("f");
  expect(from("h", "ArrowUp")).toBe("/b.c");
  expect(from("h", "ArrowRight")).toBeNull();
  expect(from("server", "ArrowUp")).toBeNull();
  expect(from("f", "x")).toBeNull();
});
