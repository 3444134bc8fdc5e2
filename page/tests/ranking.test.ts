import { expect, test } from "vitest";
import { COLUMNS, DEFAULT_SORT, filtered as filteredBy, type Row, rows, searched, sorted } from "../src/ranking";
import { estimate, hostile, realistic, region } from "./example";

const slopes = (name: string, verdict: "helps" | "hurts" | "not-enough-data", lo: number | null, hi: number | null) =>
  region({ name, points: [estimate({ verdict, slope: 0, slope_lo: lo, slope_hi: hi })] });

const mixed = [
  slopes("hurts a little", "hurts", -0.3, -0.1),
  slopes("nobody knows", "not-enough-data", null, null),
  slopes("helps", "helps", 0.1, 0.9),
  slopes("hurts", "hurts", -0.9, -0.4),
  slopes("wide", "not-enough-data", -0.5, 2),
  slopes("helps more", "helps", 0.2, 0.3),
  region({ name: "nothing", points: [estimate({ verdict: "idle", slope: null })] }),
];

const filtered = (all: Row[], words: string) => filteredBy(all, words, searched);

const names = (found: { region: { name: string } }[]): string[] => found.map(({ region }) => region.name);

test("by the lower end of the interval, and what hurts last, the worst first", () => {
  const order = ["helps more", "helps", "wide", "nobody knows", "hurts", "hurts a little", "nothing"];
  expect(names(sorted(rows(mixed, 0), DEFAULT_SORT))).toEqual(order);
  expect(names(sorted(rows(mixed, 0), { column: "interval", reversed: true }))).toEqual([...order].reverse());
});

test("the lower ends of a whole report descend", () => {
  const report = realistic();
  const shown = sorted(rows(report.regions, 1), DEFAULT_SORT);
  const known = shown.filter(({ estimate }) => estimate.slope_lo !== null);
  expect(known.map(({ estimate }) => estimate.slope_lo)).toEqual(
    [...known].sort((a, b) => b.estimate.slope_lo! - a.estimate.slope_lo!).map(({ estimate }) => estimate.slope_lo),
  );
});

test("every column sorts all rows, and keeps them", () => {
  for (const report of [realistic(), hostile()]) {
    const all = rows(report.regions, report.points.length - 1);
    for (const column of COLUMNS) {
      for (const reversed of [false, true]) {
        const keys = sorted(all, { column, reversed }).map(({ key }) => key);
        expect(new Set(keys)).toEqual(new Set(all.map(({ key }) => key)));
      }
    }
  }
});

test("a share that nobody knows is last", () => {
  const shares = [0.1, null, 0.5].map((share, nth) => region({ name: `${nth}`, share }));
  expect(names(sorted(rows(shares, 0), { column: "share", reversed: false }))).toEqual(["2", "0", "1"]);
});

test("each region has a key of its own", () => {
  const found = rows(hostile().regions, 0).map(({ key }) => key);
  expect(new Set(found).size).toBe(found.length);
  const build = { path: "/bin/server", build_id: "cd34" };
  const twins = rows([region(), region({ image: build }), region({ image: build }), region({ name: "x" })], 0);
  expect(twins.map(({ key }) => key)).toEqual([
    "hash.c:88 | /src/hash.c | /bin/server | ab12",
    "hash.c:88 | /src/hash.c | /bin/server | cd34 #1",
    "hash.c:88 | /src/hash.c | /bin/server | cd34 #2",
    "x",
  ]);
});

test("a filter wants all of its words, anywhere", () => {
  const all = rows(realistic().regions, 1);
  expect(names(filtered(all, "hash.c:8"))).toEqual(expect.arrayContaining(["hash", "hash.c:85", "hash.c:84"]));
  expect(names(filtered(all, "  HEADER http "))).toEqual(["parse_header"]);
  expect(filtered(all, "header nothing")).toEqual([]);
  expect(filtered(all, " ")).toBe(all);
  expect(names(filtered(rows([region({ name: "a\u202eb" })], 0), "\\u{202e}"))).toEqual(["a\u202eb"]);
});

test("a region without a name has a key that is not empty", () => {
  const keys = rows([region({ name: "" }), region()], 0).map(({ key }) => key);
  expect(keys).toEqual(["/src/hash.c | /bin/server | ab12", "hash.c:88"]);
});
