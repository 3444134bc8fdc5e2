// The whole page.

import { Compared } from "./compared";
import { Details } from "./details";
import { Flame } from "./flame";
import { Headline } from "./headline";
import { Icicle } from "./icicle";
import { Notes } from "./notes";
import { Points } from "./points";
import { title } from "./prose";
import type { Source } from "./source";
import { comparison, point, report, status, total } from "./state";
import { RegionTable } from "./table";
import { Prose } from "./text";
import { ThemeButton } from "./theme";
import { Timeline } from "./timeline";

export function App({ source }: { source: Source | null }) {
  const shown = report.value;
  const compared = comparison.value;
  const now = status.value;
  // A report that cannot be read any more is not shown as if it were the newest.
  if (compared && now.is !== "empty") return <Compared comparison={compared} status={now} />;
  if (!shown || now.is === "empty") return <Empty text={now.is === "empty" ? now.why : "Loading …"} />;
  const of = point.value;
  return (
    <>
      <header>
        <Headline report={shown} status={now} />
      </header>
      <div class="controls">
        <Points points={shown.points} now={of} />
        <p class="keys">
          <kbd>/</kbd> filter <kbd>↑</kbd> <kbd>↓</kbd> choose <kbd>Enter</kbd> read <kbd>Esc</kbd> back
        </p>
        <ThemeButton />
      </div>
      {of && (
        <main>
          <section class="ranking">
            <h2>
              <Prose text={title(of)} />
            </h2>
            <RegionTable />
          </section>
          <Details report={shown} source={source} />
          <Flame report={shown} />
          {total.value > 0 && (
            <section class="places">
              <h2>Samples by place</h2>
              <Icicle />
            </section>
          )}
          {!of.idle && (
            <section class="time">
              <h2>Without speedups, over time</h2>
              <Timeline report={shown} point={of} />
            </section>
          )}
        </main>
      )}
      <Notes report={shown} />
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
