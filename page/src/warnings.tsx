// Doubts about the recording: one line that can be opened.

import { Advice } from "./command";
import { Disclosure } from "./disclosure";
import { type Doubt, counted } from "./prose";
import { printable } from "./printable";
import { Long } from "./text";

/** Longer messages are cut, and can be opened. */
const MESSAGE = 600;
/** As much of the first one as the line holds. */
const LINE = 120;

/** The beginning, so that it can be read as a sentence. */
function beginning(message: string): string {
  const shown = printable(message);
  return shown.length > LINE ? `${shown.slice(0, LINE).trimEnd()} …` : shown;
}

export function Warnings({ warnings: all }: { warnings: Doubt[] }) {
  const warnings = counted(all);
  const [first] = warnings;
  if (!first) return null;
  const number = warnings.length === 1 ? "1 warning" : `${warnings.length} warnings`;
  return (
    <aside aria-label="Warnings">
      <Disclosure
        class="warnings"
        summary={
          <>
            <strong>
              <span aria-hidden="true">! </span>
              {number}:
            </strong>{" "}
            <bdi>{beginning(first.warning.message)}</bdi>
          </>
        }
      >
        <ul>
          {warnings.map(({ warning: { message, advice }, runs }, nth) => (
            <li key={nth}>
              <strong>
                <Long text={message} limit={MESSAGE} />
                {runs > 1 && ` (${runs} runs)`}
              </strong>
              {advice && <Advice text={advice} />}
            </li>
          ))}
        </ul>
      </Disclosure>
    </aside>
  );
}
