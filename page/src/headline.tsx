// The verdict in a sentence, and beside it the doubts that come with it.

import { type Doubt, counted } from "./prose";
import type { Status } from "./source";
import { Long, Prose } from "./text";

/** Longer messages are cut, and can be opened. */
const MESSAGE = 600;

interface Verdict {
  sentence: string;
  warnings: Doubt[];
}

export function Headline({ report, status }: { report: Verdict; status: Status }) {
  return (
    <div class="headline">
      <div>
        <Mark status={status} />
        <h1>
          <Prose text={report.sentence} />
        </h1>
        <p class="legend">
          The number after ± is half the 95&nbsp;% interval.
        </p>
      </div>
      <Warnings report={report} />
    </div>
  );
}

const MARKS: Partial<Record<Status["is"], string>> = {
  live: "● live: the program still runs, and the numbers change",
  lost: "○ whatif does not answer any more; this is the last that it said",
  ended: "■ the program has ended; this is the result",
};

/** Whether more is to come. */
function Mark({ status }: { status: Status }) {
  const text = MARKS[status.is];
  return (
    <p class={`mark ${status.is}`} role="status">
      {text}
    </p>
  );
}

function Warnings({ report }: { report: Verdict }) {
  const warnings = counted(report.warnings);
  if (warnings.length === 0) return null;
  return (
    <aside class="warnings" aria-label="Warnings">
      <h2>{warnings.length === 1 ? "A warning" : `${warnings.length} warnings`}</h2>
      <ul>
        {warnings.map(({ warning: { message, advice }, runs }, nth) => (
          <li key={nth}>
            <strong>
              <span aria-hidden="true">! </span>
              <Long text={message} limit={MESSAGE} />
              {runs > 1 && ` (${runs} runs)`}
            </strong>
            {advice && (
              <p>
                <Long text={advice} limit={MESSAGE} />
              </p>
            )}
          </li>
        ))}
      </ul>
    </aside>
  );
}
