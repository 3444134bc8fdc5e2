// The colours of the map: as even to the eye as they are far apart, from next to nothing to the most there is (OKLCH).

/** How many colours are told apart. */
export const STEPS = 64;

/** Lightness, chroma and hue at both ends. */
const ENDS = {
  light: [
    [0.975, 0.012, 95],
    [0.36, 0.13, 22],
  ],
  dark: [
    [0.23, 0.012, 20],
    [0.93, 0.12, 98],
  ],
} as const;

/** Björn Ottosson's OKLab, to sRGB from 0 to 255. */
export function rgb(lightness: number, chroma: number, hue: number): [number, number, number] {
  const [a, b] = [chroma * Math.cos((hue * Math.PI) / 180), chroma * Math.sin((hue * Math.PI) / 180)];
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  const coded = linear.map((part) => {
    const bounded = Math.min(1, Math.max(0, part));
    return Math.round(255 * (bounded <= 0.0031308 ? 12.92 * bounded : 1.055 * bounded ** (1 / 2.4) - 0.055));
  });
  return coded as [number, number, number];
}

/** The colours, from nothing to most. */
export function palette(theme: "light" | "dark"): string[] {
  const [from, to] = ENDS[theme];
  return Array.from({ length: STEPS }, (_, nth) => {
    const part = nth / (STEPS - 1);
    const [l, c, h] = [0, 1, 2].map((of) => from[of]! + part * (to[of]! - from[of]!)) as [number, number, number];
    // In between there is room for more colour.
    return `rgb(${rgb(l, c + 0.05 * Math.sin(part * Math.PI), h).join(" ")})`;
  });
}

/** Which colour a value has: with the root, small ones can be told from nothing beside large ones. */
export function step(value: number, most: number): number {
  const part = Math.sqrt(Math.min(1, Math.max(0, value / most)));
  // What is not nothing does not look like it.
  return value > 0 ? Math.max(1, Math.round(part * (STEPS - 1))) : 0;
}
