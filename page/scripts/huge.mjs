// Writes reports that are too large, to see whether the page is still quick: dist/huge-regions.html has 20,000 regions,
// dist/huge-windows.html a million windows.
//
//     node scripts/huge.mjs

import { readFileSync, writeFileSync } from "node:fs";
import { answer } from "./answer.mjs";
import { fillInParts } from "./fill.mjs";
import { baselines, estimate, inOrder, random, region, report } from "./synthetic.mjs";

/** `most` blocks are of the first region, the others have `few` in the mean, and there are so many baseline windows. */
export function huge({ regions, most, few, windows }) {
  const rng = random(1);
  const point = { name: "requests", kind: "throughput" };
  const many = Array.from({ length: regions }, (_, nth) => {
    const file = `/srv/src/module_${nth % 200}/part_${nth % 37}.cpp`;
    const line = 10 + (nth % 4000);
    const blocks = nth === 0 ? most : Math.round(few * (0.25 + 1.5 * rng()));
    const truth = { slope: nth === 0 ? 0.6 : 0.3 * (rng() - 0.6), blocks, digits: 17 };
    const isFunction = nth % 2 === 0;
    return region({
      kind: isFunction ? "function" : "line",
      name: isFunction ? `space_${nth % 91}::Class${nth}<int, std::allocator<int>>::method` : `part_${nth % 37}.cpp:${line}`,
      function: `space_${nth % 91}::Class${nth - (nth % 2)}<int, std::allocator<int>>::method`,
      file,
      line,
      share: rng() / regions,
      samples: Math.round(3e6 * rng() / regions),
      points: [estimate(rng, point, truth)],
      snippet: { first_line: Math.max(1, line - 10), text: `${"\tif (a < b && table[hash(key) % size] != 0) continue;\n".repeat(21)}` },
    });
  });
  const name = "`space_0::Class0<int, std::allocator<int>>::method` (part_0.cpp:10)";
  const found = report({
    sentence: `20 % less time in ${name} makes \`requests\` 12 % ± 1 % shorter; too little is known yet about 400 other regions.`,
    points: [{ ...point, visits: 1e7, rate_per_s: 10062, latency_ns: null, unsteady: null, idle: false }],
    regions: inOrder(many),
    baselines: [baselines(rng, point, { rate: 10062, until: 40e9, change: 0.85, windows })],
    drift: [{ session: 1, point: "requests", kind: "throughput", segments: [{ start_ns: 0, end_ns: 60e9, windows, rate_per_s: 9600, rate_lo: 9500, rate_hi: 9700 }] }],
  });
  return { ...found, answer: answer(found) };
}

/** What is written: 20,000 regions; and a million windows, half of them without speedup. */
export const HUGE = {
  "huge-regions": { regions: 20_000, most: 20_000, few: 12, windows: 260_000 },
  "huge-windows": { regions: 500, most: 250_000, few: 501, windows: 500_000 },
};

if (process.argv[1]?.endsWith("huge.mjs")) {
  const page = readFileSync(new URL("../dist/page.html", import.meta.url), "utf8");
  for (const [name, size] of Object.entries(HUGE)) {
    const of = huge(size);
    const text = fillInParts(page, of);
    writeFileSync(new URL(`../dist/${name}.html`, import.meta.url), text);
    const blocks = of.regions.reduce((sum, { points: [{ dots }] }) => sum + dots.length, 0);
    console.log(`dist/${name}.html: ${(text.length / 1e6).toFixed(1)} MB, ${of.regions.length} regions, ${blocks + size.windows} windows`);
  }
}
