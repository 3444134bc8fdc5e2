// A verdict as a sign, a word and a colour.

import { VERDICT_WORDS } from "./prose";
import type { Verdict } from "./model";

export function VerdictMark({ verdict }: { verdict: Verdict }) {
  const { sign, word } = VERDICT_WORDS[verdict];
  return (
    <span class={`verdict ${verdict}`}>
      <span aria-hidden="true">{sign}</span> {word}
    </span>
  );
}
