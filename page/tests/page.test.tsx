// The whole page, drawn into a text: it draws what it is given, and never as markup.

import { renderToString } from "preact-render-to-string";
import { beforeEach, expect, test } from "vitest";
import { App } from "../src/app";
import { DEFAULT_VIEW } from "../src/hash";
import type { Report } from "../src/model";
import { change, report, selected, shownRows, status, view } from "../src/state";
import { hostile, realistic, region } from "./example";

/** With the statistics open. */
const OPEN = { ...DEFAULT_VIEW, details: true };

beforeEach(() => {
  view.value = OPEN;
});

function page(of: Report): string {
  report.value = of;
  status.value = { is: "recorded" };
  return renderToString(<App source={null} />);
}

/** What a reader sees. */
const text = (html: string): string =>
  html.replace(/<[^>]*>/g, "").replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&quot;", '"').replaceAll("&amp;", "&");

test("the sentence, the warning, the table, the curve, the source and the reasons", () => {
  const html = page(realistic());
  const seen = text(html);
  expect(seen).toContain("20\u00a0% less time in hash (hash.c:80) makes requests 13.0\u00a0%\u00a0±\u00a00.6\u00a0% shorter");
  expect(seen).toContain("other programs used 25 % of the machine");
  expect(seen).toContain("What makes requests faster");
  expect(seen).toContain("Why do you say that?");
  expect(seen).toContain("static uint64_t hash(const char *key, size_t length)");
  expect(seen).toContain("Throughput of requests fell by 15");
  expect(html).toContain('class="band"');
  expect(html).toContain('class="baseline"');
  expect(seen).not.toMatch(/\b(blocks?|windows?|win)\b/);
});

test("what production says stands beside the worth, where it says anything", () => {
  const of = realistic();
  expect(text(page(of))).not.toContain("prod.");
  of.production = { since_unix_s: 1_790_000_000, until_unix_s: 1_790_600_000, hosts: 2 };
  of.regions[0]!.production_share = 0.004;
  of.regions[0]!.mark = "matters-but-is-not-hot";
  const wanted = shownRows.value.find((row) => row.region.name === of.regions[0]!.name)!;
  change({ region: wanted.key });
  const html = page(of);
  const seen = text(html);
  expect(seen).toContain("prod.: of the program's samples in production (2 machines, 2026-09-21 to 2026-09-28).");
  expect(seen).toContain("<1 %");
  expect(seen).toContain("◆ matters, but is not hot.");
  expect(html).toContain('aria-label="matters, but is not hot"');
  expect(seen.replaceAll("\u00a0", " ")).toContain("0.4 % of the time in production.");
});

test("time by program is shown where there was more than one, and what was not followed says why", () => {
  const of = realistic();
  expect(text(page(of))).not.toContain("CPU time by program");
  const program = { name: "worker", title: "worker × 4", obstacle: null, processes: 4, samples: 900, cpu_ns: 1.5e9, share: 0.75 };
  const old = { ...program, name: "old", title: "old", obstacle: "it is `static`", processes: 1, samples: 0, cpu_ns: 5e8, share: 0.25 };
  of.programs = [program, old];
  const seen = text(page(of)).replaceAll("\u00a0", " ");
  expect(seen).toContain("worker × 475 %1.50 s");
  expect(seen).toContain("old25 %500 msat least; not followed (it is static): counts as the world");
});

test("what threads do is shown where there was more than one", () => {
  const of = realistic();
  of.threads = [];
  expect(text(page(of))).not.toContain("What threads do");
  const writer = { name: "writer", title: "writer", count: 1, watched_ns: 1e9, running: 0.75, runnable: 0, for_threads: 0.25, external: 0 };
  of.threads = [writer, { ...writer, name: "worker-N", title: "worker-N × 4", count: 4, running: 0.25, for_threads: 0.5 }];
  const html = page(of);
  const seen = text(html).replaceAll("\u00a0", " ");
  expect(seen).toContain("writer75 %25 %0 %0 %worker-N × 425 %50 %0 %0 %");
  expect(html).toContain('class="for_threads" x="150" width="50"');
});

test("every region of every point can be drawn", () => {
  for (const of of [realistic(), hostile()]) {
    report.value = of;
    for (const { name, kind } of of.points) {
      change({ point: `${kind}:${name}` });
      for (const { key } of shownRows.value) {
        change({ region: key });
        expect(selected.value?.key).toBe(key);
        expect(page(of)).toContain("Why do you say that?");
      }
    }
  }
});

test("a curve without intervals has no band", () => {
  report.value = realistic();
  change({ region: "compress gzip.c:640" });
  const html = page(realistic());
  expect(html).not.toContain('class="band" d="M0');
  expect(text(html)).toContain("its interval is not known, so there is no band");
});

test("a curve of code that runs in a part of the run says so", () => {
  report.value = realistic();
  change({ region: "parse_header http.c:211" });
  expect(text(page(realistic()))).toContain("gains are those of the whole run; this code runs in 92 % of it");
  change({ region: "hash hash.c:80" });
  expect(text(page(realistic()))).not.toContain("gains are those of the whole run");
});

test("hostile names and sources are text", () => {
  const html = page(hostile());
  for (const element of ["script", "img", "b", "a", "style"]) expect(html).not.toMatch(new RegExp(`<${element}[ >/]`));
  expect(html).not.toMatch(/[\0\u202a-\u202e\u2066-\u2069\u200b\ufeff\u001b]/);
  const seen = text(html);
  expect(seen).toContain("</script><img src=x onerror=alert(1)>");
  expect(seen).toContain("evil\\u{202e}gnp.exe\\u{2066}hidden\\u{2069}");
  expect(seen).toContain("nul\\u{0}byte\\u{1b}[31m");
  expect(seen).toContain("more characters");
  // No style is set by markup; in a browser these are properties that the script sets.
  expect(html).not.toContain("onerror=\"");
});

test("long names do not take all the room", () => {
  const long = region({ name: "x".repeat(10_000), points: realistic().regions[0]!.points });
  const html = page({ ...realistic(), regions: [long] });
  expect(html).not.toContain("x".repeat(1100));
});

test("20,000 regions are a table of a few rows", () => {
  const [first] = realistic().regions;
  const many = Array.from({ length: 20_000 }, (_, nth) => ({ ...first!, name: `f${nth}`, file: "a.c", line: nth }));
  const html = page({ ...realistic(), regions: many });
  expect(html.match(/aria-rowindex/g)!.length).toBeLessThan(80);
});

test("a report with nothing in it", () => {
  const nothing = { ...realistic(), regions: [], points: [], drift: [], run_drift: [], warnings: [], baselines: [] };
  expect(text(page(nothing))).toContain("Where the CPU time goes");
  expect(text(page({ ...realistic(), regions: [] }))).toContain("No region was tried often enough");
});

test("no data is said kindly", () => {
  report.value = null;
  status.value = { is: "empty", why: "There is no report in this page." };
  expect(text(renderToString(<App source={null} />))).toBe("whatifThere is no report in this page.");
});
