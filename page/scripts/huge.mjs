// Writes a report of 20,000 regions, one of them with 100,000 blocks, to see whether the page is still quick.
//
//     node scripts/huge.mjs [REGIONS] [BLOCKS]       writes fixtures/huge.json

import { writeFileSync } from "node:fs";
import { baselines, estimate, inOrder, random, region, report } from "./synthetic.mjs";

const [regions = 20_000, blocks = 100_000] = process.argv.slice(2).map(Number);
const rng = random(1);
const point = { name: "requests", kind: "throughput" };
const many = Array.from({ length: regions }, (_, nth) => {
  const file = `/srv/src/module_${nth % 200}/part_${nth % 37}.cpp`;
  const line = 10 + (nth % 4000);
  const truth = { slope: nth === 0 ? 0.6 : 0.3 * (rng() - 0.6), blocks: nth === 0 ? blocks : 3 + Math.floor(20 * rng()), dots: true };
  return region({
    kind: nth % 2 === 0 ? "function" : "line",
    name: nth % 2 === 0 ? `space_${nth % 91}::Class${nth}<int, std::allocator<int>>::method` : `part_${nth % 37}.cpp:${line}`,
    file,
    line,
    share: rng() / regions,
    points: [estimate(rng, point, truth)],
  });
});
const value = report({
  sentence: "Making `space_0::Class0<int, std::allocator<int>>::method` (part_0.cpp:10) 20 % faster makes `requests` 12 % ± 1 % faster; too little is known yet about 400 other regions.",
  points: [{ ...point, visits: 1e7, rate_per_s: 10062, latency_ns: null, unsteady: null, idle: false }],
  regions: inOrder(many),
  baselines: [baselines(rng, point, { rate: 10062, until: 40e9, change: 0.85, windows: blocks / 2 })],
  drift: [{ session: 1, point: "requests", kind: "throughput", segments: [{ start_ns: 0, end_ns: 60e9, windows: blocks / 2, rate_per_s: 9600, rate_lo: 9500, rate_hi: 9700 }] }],
});
const text = JSON.stringify(value);
writeFileSync(new URL("../fixtures/huge.json", import.meta.url), text);
console.log(`fixtures/huge.json: ${(text.length / 1e6).toFixed(1)} MB, ${regions} regions`);
