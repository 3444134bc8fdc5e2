// Lines and areas as the paths of an SVG.

export type Place = readonly [x: number, y: number];

/** A tenth of a pixel is as exact as the eye can see. */
const at = ([x, y]: Place): string => `${Math.round(x * 10) / 10} ${Math.round(y * 10) / 10}`;

/** Straight lines from each place to the next. */
export function path(places: Place[]): string {
  return places.length === 0 ? "" : `M${places.map(at).join("L")}`;
}

/** The area between an upper and a lower line. */
export function area(upper: Place[], lower: Place[]): string {
  const around = [...upper, ...[...lower].reverse()];
  return around.length === 0 ? "" : `${path(around)}Z`;
}
