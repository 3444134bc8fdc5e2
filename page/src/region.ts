// What a region is called.

import type { Region } from "./model";
import { printable } from "./printable";

/** Where it is, short enough to read: `hash.c:80`; null without debug information. */
export function location({ file, line }: Pick<Region, "file" | "line">): string | null {
  if (file === null) return null;
  const base = file.slice(file.lastIndexOf("/") + 1);
  return line === null ? base : `${base}:${line}`;
}

/**
 * As reports show it: `work hash.c:80`, `work+ hash.c:80` with its callees, or `hash.c:88`; with its program behind it,
 * where that has to be told: `work hash.c:80 (worker)`.
 */
export function label(region: Pick<Region, "kind" | "name" | "inclusive" | "file" | "line" | "program">): string {
  const name = region.inclusive ? `${region.name}+` : region.name;
  const place = region.kind === "function" ? location(region) : null;
  const program = region.program ? ` (${region.program})` : "";
  return (place === null ? name : `${name} ${place}`) + program;
}

/** In a sentence: `work` with all it calls (hash.c:80), or `work` of `worker` (hash.c:80) where the program has to be told. */
export function inSentence(region: Region): string {
  const program = region.program ? ` of \`${region.program}\`` : "";
  const name = `\`${region.name}\`${program}${region.inclusive ? " with all it calls" : ""}`;
  const place = region.kind === "function" ? location(region) : null;
  return printable(place === null ? name : `${name} (${place})`);
}

/**
 * A key for each region that says which one it is, in the address of the page and from one update to the next: its
 * label, and more only where that is not enough.
 */
export function keys(regions: Region[]): string[] {
  const full = (region: Region): string =>
    [label(region), region.file, region.image.path, region.image.build_id].filter(Boolean).join(" | ");
  return distinct(distinct(regions.map(label), (nth) => full(regions[nth]!)), (_, key, times) => `${key} #${times}`);
}

/** `keys`, where all that occur more than once are replaced. */
function distinct(keys: string[], replace: (nth: number, key: string, times: number) => string): string[] {
  const total = new Map<string, number>();
  for (const key of keys) total.set(key, (total.get(key) ?? 0) + 1);
  const seen = new Map<string, number>();
  return keys.map((key, nth) => {
    // An empty key would be no region at all.
    if (total.get(key) === 1 && key !== "") return key;
    const times = (seen.get(key) ?? 0) + 1;
    seen.set(key, times);
    return replace(nth, key, times);
  });
}
