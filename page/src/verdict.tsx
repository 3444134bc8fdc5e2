// A verdict as a sign, a word and a colour.

import { VERDICT_WORDS } from "./prose";
import type { Verdict } from "./model";

/** `words`: others than the usual ones. */
export function VerdictMark({ verdict, words = null }: { verdict: Verdict; words?: string | null }) {
  const { sign, word } = VERDICT_WORDS[verdict];
  return (
    <span class={`verdict ${verdict}`}>
      <span aria-hidden="true">{sign}</span> {words ?? word}
    </span>
  );
}
