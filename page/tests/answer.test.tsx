// The first screen: the answer, the pieces of code, why, and what next; of reports with and without an answer.

import { renderToString } from "preact-render-to-string";
import { beforeEach, expect, test } from "vitest";
import { answerFor } from "../src/answers";
import { App } from "../src/app";
import { split } from "../src/command";
import { DEFAULT_VIEW } from "../src/hash";
import type { Report } from "../src/model";
import { change, report, status, view } from "../src/state";
import { hostile, plain, realistic, unsettled } from "./example";

beforeEach(() => {
  view.value = DEFAULT_VIEW;
});

const text = (html: string): string =>
  html.replace(/<[^>]*>/g, " ").replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&").replaceAll("\u00a0", " ").replace(/\s+/g, " ");

function page(of: Report): string {
  report.value = of;
  status.value = { is: "recorded" };
  return text(renderToString(<App source={null} />));
}

test("what to speed up, what that brings, how sure it is, and what to type next", () => {
  const seen = page(realistic());
  for (const words of [
    "Speed up hash (hash.c:80) first",
    "20 % less time there → 13.0 % less time per requests",
    "✓ good 49 experiments settle it",
    "! 1 warning: other programs used 25 % of the machine",
    "less time, how much less time would each requests take?",
    "hash hash.c:80 ▲ helps 13.0 % 12.4 to 13.7 36 % of CPU time",
    "○ hot, but does not matter",
    "Why From about 60 % less time",
    "whatif report --explain hash server.db Copy",
  ]) {
    expect(seen).toContain(words);
  }
  // Nothing of the statistics.
  expect(seen).not.toMatch(/slope ±|Why do you say that/);
});

test("every number that the answer has for 20 % is that of its row", () => {
  const { answer } = realistic();
  for (const { brings, pieces } of answer!.points) {
    const [, value, range] = /→ ([\d.]+ %) .* \((.*?)\)/.exec(brings!)!;
    const seen = page(realistic());
    expect(seen).toContain(`${value} ${range}`);
    expect(pieces[0]!.verdict).toBe("helps");
    change({ point: "latency:lookup" });
  }
});

test("the slider changes every number, and what was not tried is not known", () => {
  const report = realistic();
  for (const point of report.answer!.points) for (const piece of point.pieces) piece.curve = piece.curve.filter(([speedup]) => speedup <= 0.6);
  change({ speedup: 60 });
  expect(page(report)).toMatch(/hash hash\.c:80 ▲ helps 39 % 37 to 41 36 % of CPU time/);
  change({ speedup: 80 });
  expect(page(report)).toContain("▲ helps tried up to 60 % only");
});

test("too little data: candidates with how far they are, and the sentence as the heading", () => {
  const seen = page(unsettled());
  expect(seen).toContain("Not enough data yet to say what makes frames faster");
  expect(seen).toContain("~ noisy other programs used the machine in 52 % of the experiments → stop them, or measure on a quiet machine");
  expect(seen).toContain("? too little data");
  expect(seen).toContain("tried at 3 of 5 speedups");
  expect(seen).toContain("not tried yet");
});

test("where nothing is estimated yet, rows say how far they are", () => {
  const report = unsettled();
  for (const point of report.answer!.points) point.pieces = point.pieces.filter(({ state }) => state !== "measured");
  const seen = page(report);
  expect(seen).toContain("Where the CPU time goes");
  expect(seen).toMatch(/tried at 3 of 5 speedups \d % of CPU time/);
  expect(seen).toContain("not tried yet");
});

test("without a progress point there is the plain profile", () => {
  const seen = page(plain());
  expect(seen).toContain("Where the CPU time goes");
  expect(seen).toContain("render_frame main.rs:40 31 % of CPU time");
  // What to try stands before it.
  expect(seen).toMatch(/Progress points to try Find a place that counts.* whatif points -- .\/viewer Copy Count each call of render_frame.* whatif run -p render_frame -- .\/viewer Copy .*Where the CPU time goes/);
  expect(seen).toContain("let whatif points suggest places, and name one with -p");
  expect(seen).toContain("stopped by whatif after 20.0 s");
  expect(seen).not.toContain("how much less time");
});

test("a report of an earlier version is drawn, with one row for each region", () => {
  const { answer: _, ...old } = realistic();
  const seen = page(old);
  expect(seen).toContain("20 % less time in hash (hash.c:80) makes requests 13.0 % ± 0.6 % shorter");
  expect(seen).toMatch(/hash hash\.c:80 ▲ helps 13\.0 % 12\.4 to 13\.7 36 % of CPU time/);
  const found = answerFor(old, old.points[1]!, 1);
  expect(found.pieces).toHaveLength(old.regions.length);
  expect(found.pieces.every(({ region, label }) => old.regions[region!]!.name === label.split(" ")[0]!.replace(/\+$/, ""))).toBe(true);
  expect(found.badge).toBeNull();
});

test("hostile texts are text", () => {
  report.value = hostile();
  status.value = { is: "recorded" };
  const html = renderToString(<App source={null} />);
  for (const element of ["script", "img", "b", "a", "style"]) expect(html).not.toMatch(new RegExp(`<${element}[ >/]`));
  expect(html).not.toMatch(/[\0\u202a-\u202e\u2066-\u2069\u200b\ufeff\u001b]/);
});

test("a command at the end of an advice can be copied", () => {
  expect(split("stop them, or give whatif its own CPUs: taskset -c 2,3 whatif run -- PROGRAM")).toEqual({
    words: "stop them, or give whatif its own CPUs:",
    command: "taskset -c 2,3 whatif run -- PROGRAM",
  });
  expect(split("see the sums: whatif report --explain REGION").command).toBe("whatif report --explain REGION");
  expect(split("whatif doctor").command).toBe("whatif doctor");
  for (const words of ["let `whatif points` suggest places, and name one with -p", "stop them", "", "give whatif more time", "x".repeat(5000)]) {
    expect(split(words)).toEqual({ words, command: null });
  }
});

test("what helps over all speedups, but not certainly at 20 %, probably helps", () => {
  const report = realistic();
  const [first] = report.answer!.points[0]!.pieces;
  first!.curve = [[0.2, 0.03, -0.01, 0.07], [1, 0.3, 0.2, 0.4]];
  expect(page(report)).toMatch(/hash hash\.c:80 \? probably helps 3 % −1 to 7 36 % of CPU time/);
});
