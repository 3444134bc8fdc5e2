// Light or dark: as the system is, unless the user has chosen. Paper is always light.

import { computed, effect, signal } from "@preact/signals";
import { followPrinter, printing } from "./printing";

export const THEMES = ["auto", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const systemIsDark = signal(false);
/** Tells what the user wants: each page keeps that in its own address. */
const wanted = signal<() => Theme>(() => "auto");

export const theme = computed<"light" | "dark">(() => {
  const now = wanted.value();
  if (printing.value) return "light";
  return now === "auto" ? (systemIsDark.value ? "dark" : "light") : now;
});

/** From now on the page looks as it should. */
export function followTheme(of: () => Theme): void {
  wanted.value = of;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  systemIsDark.value = dark.matches;
  dark.addEventListener("change", () => (systemIsDark.value = dark.matches));
  followPrinter();
  effect(() => {
    document.documentElement.dataset.theme = theme.value;
  });
}

const NAMES: Record<Theme, string> = { auto: "as the system", light: "light", dark: "dark" };

export function ThemeButton({ now, onChange }: { now: Theme; onChange(next: Theme): void }) {
  const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]!;
  return (
    <button type="button" class="theme" title={`Change to: ${NAMES[next]}`} onClick={() => onChange(next)}>
      Colours: {NAMES[now]}
    </button>
  );
}
