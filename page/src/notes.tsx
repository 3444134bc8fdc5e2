// What else the terminal says: the points, the runs, the doubts, and what was left out.

import { Disclosure } from "./disclosure";
import type { Report, Session } from "./model";
import { describe, doubts, leftOut, provenance, run } from "./prose";
import { Long, Prose } from "./text";

/** Longer texts are cut, and can be opened. */
const TEXT = 600;
/** More runs than this are shown when asked for. */
const SHOWN_RUNS = 5;

export function Notes({ report }: { report: Report }) {
  const doubted = doubts(report.doubts);
  const left = leftOut(report.left_out);
  return (
    <section class="notes">
      {report.points.length > 0 && (
        <div>
          <h2>Progress points</h2>
          <List texts={report.points.map(describe)} />
        </div>
      )}
      <div>
        <h2>Runs</h2>
        <Runs sessions={report.sessions} />
        {doubted.length > 0 && <List texts={doubted} />}
      </div>
      {left.length > 0 && (
        <div>
          <h2>Left out</h2>
          <List texts={left} />
        </div>
      )}
    </section>
  );
}

export function Runs({ sessions }: { sessions: Session[] }) {
  const texts = sessions.map((session) => `${run(session)}; ${provenance(session)}`);
  if (texts.length <= SHOWN_RUNS) return <List texts={texts} />;
  return (
    <Disclosure summary={`${texts.length} runs`}>
      <List texts={texts} />
    </Disclosure>
  );
}

function List({ texts }: { texts: string[] }) {
  return (
    <ul>
      {texts.map((text, nth) => (
        <li key={nth}>{text.length > TEXT ? <Long text={text} limit={TEXT} /> : <Prose text={text} />}</li>
      ))}
    </ul>
  );
}
