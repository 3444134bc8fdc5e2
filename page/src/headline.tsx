// What to do, in large letters: the code to make faster first and what that brings, or the sentence; and how far it can be
// relied on.

import { Advice, Command } from "./command";
import type { Badge, PointAnswer, Quality, Report, Session } from "./model";
import { heading, recorded } from "./prose";
import type { Status } from "./source";
import { Prose } from "./text";

export function Headline({ report, answer }: { report: Report; answer: PointAnswer }) {
  const { change, brings, rest, badge, notes = [] } = answer;
  // Without a point all of them stand right below.
  const next = answer.point !== null && report.answer?.next.find(({ step }) => step === (badge?.quality === "good" ? "compare" : "deeper"));
  const headline = answer.headline ?? (change === null ? null : `Speed up ${change} first`);
  return (
    <section class="headline" aria-label="The answer">
      <Measured measured={report.answer?.measured} sessions={report.sessions} />
      <h1 class={headline === null ? "sentence" : undefined}>
        <Prose text={headline ?? heading(report, answer)} />
      </h1>
      <Below brings={brings} rest={rest} />
      {badge && <BadgeLine badge={badge} />}
      {notes.map((note) => (
        <p key={note} class="beside">
          <Prose text={note} />
        </p>
      ))}
      {next && (
        <p class="advice">
          <Prose text={`Next, ${next.why}:`} /> <Command text={next.command} />
        </p>
      )}
    </section>
  );
}

/** Below a headline: what that brings, and the rest. */
export function Below({ brings, rest }: { brings?: string | null | undefined; rest?: string | null | undefined }) {
  return (
    <>
      {brings && (
        <p class="brings">
          <Prose text={brings} />
        </p>
      )}
      {rest && (
        <p class="beside">
          <Prose text={rest} />
        </p>
      )}
    </>
  );
}

/** Which program was measured, when, and by which whatif. */
export function Measured({ name, measured, sessions }: { name?: string; measured?: string | null | undefined; sessions: Session[] }) {
  const said = [measured, recorded(sessions)].filter(Boolean).join("; ");
  return said === "" ? null : (
    <p class="measured">
      {name && <b>{name}: </b>}
      <Prose text={said} />
    </p>
  );
}

const SIGNS: Record<Quality, string> = { good: "✓", noisy: "~", "too-little": "?", "not-trusted": "✗" };

function BadgeLine({ badge: { quality, words, cause, advice } }: { badge: Badge }) {
  return (
    <div class="reliance">
      <p>
        <span class={`badge ${quality}`}>
          <span aria-hidden="true">{SIGNS[quality]} </span>
          {words}
        </span>{" "}
        <Prose text={cause} />
      </p>
      {advice !== null && <Advice text={`→ ${advice}`} />}
    </div>
  );
}

const MARKS: Partial<Record<Status["is"], string>> = {
  live: "● live: the program still runs, and the numbers change",
  lost: "○ whatif does not answer any more; this is the last that it said",
  ended: "■ the program has ended; this is the result",
};

/** Whether more is to come. */
export function StatusMark({ status }: { status: Status }) {
  return (
    <p class={`mark ${status.is}`} role="status">
      {MARKS[status.is]}
    </p>
  );
}
