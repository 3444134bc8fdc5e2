import { expect, test } from "vitest";
import { DEFAULT_VIEW, read, type View, written } from "../src/hash";

test("a view that is as usual needs no address", () => {
  expect(written(DEFAULT_VIEW)).toBe("");
  expect(read("")).toEqual(DEFAULT_VIEW);
  expect(read("#")).toEqual(DEFAULT_VIEW);
});

test("every view comes back as it was", () => {
  const views: Partial<View>[] = [
    { point: "throughput:requests" },
    { region: null },
    { region: "work+ hash.c:80", filter: "a b", theme: "dark" },
    { region: "&amp;lt; %20#region=x&sort=share", filter: "+ % # &=\u0000\u202e\n" },
    { region: "x".repeat(10_000) },
    { sort: { column: "share", reversed: false } },
    { sort: { column: "interval", reversed: true }, ownAxes: true },
    { place: ["a/b.c", "operator<<&in=x", ""] },
    { point: "latency:größe 大きさ", theme: "light" },
    { details: true, speedup: 45 },
  ];
  for (const part of views) {
    const view = { ...DEFAULT_VIEW, ...part };
    expect(read(`#${written(view)}`)).toEqual(view);
  }
});

test("nonsense is as usual", () => {
  for (const speedup of ["0", "7", "105", "x", ""]) expect(read(`#speedup=${speedup}`)).toEqual(DEFAULT_VIEW);
  expect(read("#sort=nothing&theme=pink&axes=3&what=ever&%")).toEqual(DEFAULT_VIEW);
});
