// Scales: from values to places on the page and back to round numbers.

export interface Scale {
  lo: number;
  hi: number;
  /** From a value to a place. */
  at(value: number): number;
  /** From a place to a value. */
  value(place: number): number;
  /** A value at the nearest end if it lies outside. */
  clamp(value: number): number;
}

/** Values from `lo` to `hi` on places from `from` to `to` (which may be smaller: y grows downwards). */
export function linear(lo: number, hi: number, from: number, to: number): Scale {
  const span = hi > lo ? hi - lo : 1;
  return {
    lo,
    hi,
    at: (value) => from + ((value - lo) / span) * (to - from),
    value: (place) => lo + ((place - from) / (to - from)) * span,
    clamp: (value) => Math.min(Math.max(value, lo), hi),
  };
}

/** Round numbers from `lo` to `hi`, about `wanted` of them: steps of 1, 2 or 5 times a power of ten. */
export function ticks(lo: number, hi: number, wanted: number): number[] {
  if (!(hi > lo) || wanted < 1) return [lo];
  const rough = (hi - lo) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5].find((factor) => factor * power >= rough * 0.999) ?? 10) * power;
  const first = Math.ceil(lo / step - 1e-9);
  const last = Math.floor(hi / step + 1e-9);
  // Counted in steps, so that no rounding adds up: 0.3, not 0.30000000000000004.
  const decimals = Math.max(0, -Math.floor(Math.log10(step)));
  return Array.from({ length: last - first + 1 }, (_, nth) => Number(((first + nth) * step).toFixed(decimals)));
}

/** How many decimals tell the numbers of `ticks` apart. */
export function decimals(ticks: number[]): number {
  const step = ticks.length > 1 ? Math.abs(ticks[1]! - ticks[0]!) : 1;
  return Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
}
