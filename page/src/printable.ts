// Names and sources come from another party's program: they may hold characters that hide or reorder what stands
// around them. Those are shown as escapes, the same ones and in the same way as in the terminal.

const HOSTILE =
  /[\p{Cc}\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb\u{e0000}-\u{e0fff}]/gu;

const SHORT: Record<string, string> = { "\t": "\\t", "\n": "\\n", "\r": "\\r" };

function escapeOf(character: string): string {
  return SHORT[character] ?? `\\u{${character.codePointAt(0)!.toString(16)}}`;
}

/** `text` without line breaks or tricks. */
export function printable(text: string): string {
  return text.replace(HOSTILE, escapeOf);
}

/** A stretch of text, as it is or as an escape. */
export interface Part {
  text: string;
  escaped: boolean;
}

/** `text` in stretches that are safe to show; tabs stay in source code, where they are what they look like. */
export function parts(text: string, keepTabs = false): Part[] {
  const found: Part[] = [];
  let from = 0;
  for (const match of text.matchAll(HOSTILE)) {
    if (keepTabs && match[0] === "\t") continue;
    if (match.index > from) found.push({ text: text.slice(from, match.index), escaped: false });
    found.push({ text: escapeOf(match[0]), escaped: true });
    from = match.index + match[0].length;
  }
  if (from < text.length) found.push({ text: text.slice(from), escaped: false });
  return found;
}

/**
 * At most `limit` characters of `text`, with the middle cut out, because a place tells most at its ends: the function
 * and the line.
 */
export function shortened(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const characters = Array.from(text);
  if (characters.length <= limit) return text;
  const head = (limit - 1) >> 1;
  const tail = limit - 1 - head;
  return `${characters.slice(0, head).join("")}…${characters.slice(characters.length - tail).join("")}`;
}
