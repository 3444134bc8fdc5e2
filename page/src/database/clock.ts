// Times and spans of time, as people read them: local time.

import { fixed } from "../format";

const two = (number: number): string => String(number).padStart(2, "0");

export const day = (seconds: number): string => {
  const date = new Date(seconds * 1000);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
};

/** `14:05`, or `14:05:30` where seconds matter. */
export function time(seconds: number, withSeconds = seconds % 60 !== 0): string {
  const date = new Date(seconds * 1000);
  return `${two(date.getHours())}:${two(date.getMinutes())}${withSeconds ? `:${two(date.getSeconds())}` : ""}`;
}

/** `2026-11-26 14:05 to 14:10`; the day is not repeated. */
export function span(from: number, to: number): string {
  const exact = from % 60 !== 0 || to % 60 !== 0;
  const end = day(from) === day(to) ? "" : `${day(to)} `;
  return `${day(from)} ${time(from, exact)} to ${end}${time(to, exact)}`;
}

/** `45 s`, `3 min`, `2.5 h`, `4 d`. */
export function length(seconds: number): string {
  for (const [unit, name] of [[86_400, "d"], [3600, "h"], [60, "min"]] as const) {
    if (seconds >= 2 * unit || seconds === unit) return `${fixed(seconds / unit, seconds % unit === 0 ? 0 : 1)} ${name}`;
  }
  return `${fixed(seconds, Number.isInteger(seconds) ? 0 : 1)} s`;
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200];
const DAY = 86_400;

export interface Tick {
  at: number;
  label: string;
}

/** Round local times from `from` to `to`, at most `most` of them; midnights say which day begins. */
export function ticks(from: number, to: number, most: number): Tick[] {
  if (!(to > from) || most < 1) return [];
  const found = STEPS.find((step) => (to - from) / step <= most);
  const step = found ?? DAY * Math.ceil((to - from) / DAY / most);
  // Local time may be ahead of UTC by half an hour, too.
  const ahead = (at: number): number => -60 * new Date(at * 1000).getTimezoneOffset();
  const ticks: Tick[] = [];
  let at = Math.ceil((from + ahead(from)) / step) * step - ahead(from);
  for (; at <= to; at += step) {
    // Where clocks were set meanwhile.
    const moved = Math.round((at + ahead(at)) / step) * step - ahead(at);
    const isMidnight = (moved + ahead(moved)) % DAY === 0;
    ticks.push({ at: moved, label: isMidnight ? day(moved).slice(5) : time(moved, step < 60) });
  }
  return ticks;
}

/** CPU time: as long spans as there are. */
export function cpuTime(ns: number): string {
  const seconds = ns / 1e9;
  if (seconds >= 7200) return `${fixed(seconds / 3600, seconds < 36_000 ? 1 : 0)} h`;
  if (seconds >= 120) return `${fixed(seconds / 60, seconds < 600 ? 1 : 0)} min`;
  return seconds >= 1 ? `${fixed(seconds, seconds < 10 ? 1 : 0)} s` : `${fixed(seconds * 1000, 0)} ms`;
}
