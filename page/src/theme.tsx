// Light or dark: as the system is, unless the user has chosen. Paper is always light.

import { computed, effect, signal } from "@preact/signals";
import { type Theme, THEMES } from "./hash";
import { change, printing, view } from "./state";

const systemIsDark = signal(false);

export const theme = computed<"light" | "dark">(() => {
  const wanted = view.value.theme;
  if (printing.value) return "light";
  return wanted === "auto" ? (systemIsDark.value ? "dark" : "light") : wanted;
});

/** From now on the page looks as it should. */
export function followTheme(): void {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  systemIsDark.value = dark.matches;
  dark.addEventListener("change", () => (systemIsDark.value = dark.matches));
  addEventListener("beforeprint", () => (printing.value = true));
  addEventListener("afterprint", () => (printing.value = false));
  effect(() => {
    document.documentElement.dataset.theme = theme.value;
  });
}

const NAMES: Record<Theme, string> = { auto: "as the system", light: "light", dark: "dark" };

export function ThemeButton() {
  const now = view.value.theme;
  const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]!;
  return (
    <button type="button" class="theme" title={`Change to: ${NAMES[next]}`} onClick={() => change({ theme: next })}>
      Colours: {NAMES[now]}
    </button>
  );
}
