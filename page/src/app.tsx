// The whole page.

import { Compared } from "./compared";
import { Flame } from "./flame";
import { Headline, StatusMark } from "./headline";
import { Notes } from "./notes";
import { Pieces } from "./pieces";
import { Points } from "./points";
import { Times } from "./programs";
import { Reasons } from "./reasons";
import type { Source } from "./source";
import { answer, change, comparison, point, report, status, view } from "./state";
import { Statistics } from "./statistics";
import { ThemeButton } from "./theme";
import { isTold } from "./prose";
import { Warnings } from "./warnings";

export function App({ source }: { source: Source | null }) {
  const shown = report.value;
  const compared = comparison.value;
  const now = status.value;
  // A report that cannot be read any more is not shown as if it were the newest.
  if (compared && now.is !== "empty") return <Compared comparison={compared} status={now} />;
  const said = answer.value;
  if (!shown || !said || now.is === "empty") return <Empty text={now.is === "empty" ? now.why : "Loading …"} />;
  const of = point.value;
  return (
    <>
      <header class={shown.points.length > 0 ? "controls" : undefined}>
        <StatusMark status={now} />
        <Points points={shown.points} now={of} />
      </header>
      <main>
        <Headline report={shown} answer={said} />
        <Warnings warnings={shown.warnings.filter((warning) => !isTold(said, warning))} />
        {said.point === null && <Reasons causes={said.causes} next={shown.answer?.next ?? []} />}
        <Pieces key={`${said.kind} ${said.point}`} report={shown} answer={said} point={of} />
        <Times report={shown} />
        {said.point !== null && <Reasons causes={said.causes} next={shown.answer?.next ?? []} />}
        <Flame report={shown} />
        {of && <Statistics report={shown} point={of} source={source} />}
      </main>
      <Notes report={shown} />
      <footer>
        <ThemeButton now={view.value.theme} onChange={(theme) => change({ theme })} />
      </footer>
    </>
  );
}

function Empty({ text }: { text: string }) {
  return (
    <main class="empty">
      <h1>whatif</h1>
      <p role="status">{text}</p>
    </main>
  );
}
