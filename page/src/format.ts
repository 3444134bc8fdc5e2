// Numbers as the terminal writes them: a real minus sign and none before a zero, "11 % ± 2 %", "0.36 (0.02)".

/** Fixed decimals with a real minus, and none before a zero. */
export function fixed(value: number, decimals: number): string {
  const digits = value.toFixed(decimals);
  return /^-0(\.0*)?$/.test(digits) ? digits.slice(1) : digits.replace("-", "−");
}

export const UNKNOWN = "–";

/** An estimate and its 95 % interval; null where it is not known. */
export interface Interval {
  value: number;
  lo: number;
  hi: number;
}

/** The three numbers as an interval, if all are known. */
export function interval(value: number | null, lo: number | null, hi: number | null): Interval | null {
  return value === null || lo === null || hi === null ? null : { value, lo, hi };
}

/**
 * A fraction and half of its interval, as `11 % ± 2 %`; with a decimal where whole per cents would hide everything.
 * The sign of the value can be turned, for "slower" instead of "faster by less than nothing".
 */
export function plusMinus({ value, lo, hi }: Interval, turned = false): string {
  const percent = value * (turned ? -100 : 100);
  const half = ((hi - lo) / 2) * 100;
  const decimals = half < 0.95 || Math.abs(percent) < 0.95 ? 1 : 0;
  return `${fixed(percent, decimals)} % ± ${fixed(half, decimals)} %`;
}

/** `0.36 (0.02)`: the slope and its standard error. What stands after ± is always half of a 95 % interval. */
export function slope(value: number | null, se: number | null): string {
  if (value === null) return UNKNOWN;
  return `${fixed(value, 2)} (${se === null ? "?" : fixed(se, 2)})`;
}

/** `0.32 … 0.41`. */
export function range(lo: number | null, hi: number | null): string {
  return lo === null || hi === null ? UNKNOWN : `${fixed(lo, 2)} … ${fixed(hi, 2)}`;
}

/** A share of CPU time: `24 %`, or `<1 %`. */
export function share(value: number | null): string {
  if (value === null) return UNKNOWN;
  return value > 0 && value < 0.005 ? "<1 %" : percent(value);
}

/** A fraction in per cent. */
export function percent(value: number | null, decimals = 0): string {
  return value === null ? UNKNOWN : `${fixed(value * 100, decimals)} %`;
}

/** A speedup: `25 %`, or `12.5 %` where thousandths matter. */
export function speedup(value: number): string {
  const perMille = Math.round(value * 1000);
  return percent(perMille / 1000, perMille % 10 === 0 ? 0 : 1);
}

/** Three digits: `9.99`, `12.3`, `10062`. */
export function threeDigits(value: number): string {
  const size = Math.abs(value);
  return fixed(value, size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
}

/** A throughput as a factor of another one: `1.8 ×`, `1.04 ×`. */
export function factor(value: number | null): string {
  if (value === null) return UNKNOWN;
  return `${fixed(value, Math.abs(value - 1) < 0.095 ? 2 : value < 9.95 ? 1 : 0)} ×`;
}

/** A time: `1.50 s`, `12.3 ms`, `412 ns`. */
export function duration(ns: number): string {
  if (ns < 1e3) return `${fixed(ns, 0)} ns`;
  if (ns < 1e6) return `${threeDigits(ns / 1e3)} µs`;
  if (ns < 1e9) return `${threeDigits(ns / 1e6)} ms`;
  return `${threeDigits(ns / 1e9)} s`;
}

/** `1 window`, `2 windows`. */
export function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}
