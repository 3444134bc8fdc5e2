// Whose code a function is: its source file, the crate that it is from, or the library. Where nothing is known of what code is worth, boxes
// are coloured by that.

import { nameOf, placeOf, type Sums } from "./calls";
import type { Report, Stacks } from "./model";

/** So many have a colour of their own: those with most samples. */
export const COLOURED = 8;

/** The colour of each module that has one, by the number of its class. */
export type Modules = Map<string, number>;

/** A short name: `server.rs`, `serde_json`, `std`, `libc.so.6`; nothing for what is not known. */
export function moduleOf(stacks: Stacks, of: number): string {
  const image = (stacks.texts[stacks.functions[of]?.[2] ?? -1] ?? "").split("/").at(-1)!;
  if (/\.so(\.|$)/.test(image)) return image;
  const place = placeOf(stacks, of);
  const std = /(?:^\/rustc\/[^/]+|\/rustlib\/src\/rust)\/library\/([^/]+)\//.exec(place);
  if (std) return "std";
  const crate = /\/registry\/src\/[^/]+\/(.+?)-\d[^/]*\//.exec(place) ?? /\/git\/checkouts\/(.+?)-[0-9a-f]{8,}\//.exec(place);
  if (crate) return crate[1]!;
  // Files that every crate or module has are known by their folder.
  const folder = /([^/]+)\/(?:src\/)?(?:mod|lib|main)\.rs$/.exec(place);
  if (folder) return `${folder[1]}/${place.split("/").at(-1)}`;
  return place.split("/").at(-1) || (/^[<&]*(std|core|alloc)::/.test(nameOf(stacks, of)) ? "std" : "");
}

/** Those with most samples of their own; null where it is known what something is worth to the point, which colours show instead. */
export function modulesOf({ regions }: Report, stacks: Stacks, point: number, functions: Sums[]): Modules | null {
  const isCertain = regions.some(({ points }) => ["helps", "hurts", "no-effect"].includes(points[point]?.verdict ?? ""));
  if (isCertain) return null;
  const own = new Map<string, number>();
  for (const { function: of, own: samples } of functions) own.set(moduleOf(stacks, of), (own.get(moduleOf(stacks, of)) ?? 0) + samples);
  own.delete("");
  const ranked = [...own].filter(([, samples]) => samples > 0).sort(([one, a], [other, b]) => b - a || (one < other ? -1 : 1)).slice(0, COLOURED);
  return new Map(ranked.map(([name], nth) => [name, nth]));
}
