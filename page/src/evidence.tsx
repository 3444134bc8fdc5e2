// "Why do you say that?": what a verdict rests on, in words and experiment by experiment.

import { useMemo, useState } from "preact/hooks";
import { type BlockColumn, blockKey, IN_TIME, inOrder } from "./blocks";
import { eras } from "./drift";
import { count, fixed, interval, percent, plusMinus, range, slope, speedup } from "./format";
import { Grid, type GridColumn } from "./grid";
import type { Dot, Estimate, Report, WholeEstimate, WholeRegion } from "./model";
import { LEFT_OUT_WORDS, needed, phase } from "./prose";
import { pointed } from "./state";
import { Name, Prose } from "./text";

const COLUMNS: GridColumn<Dot, BlockColumn | "run">[] = [
  { id: "run", head: "run", title: "Which run of the program", numeric: true, width: "4em", cell: (dot) => dot[2] },
  {
    id: "block",
    head: "experiment",
    title: "Which one of the run, in the order of time",
    numeric: true,
    width: "7.8em",
    sortable: true,
    rising: true,
    cell: (dot) => dot[3],
  },
  {
    id: "speedup",
    head: "speedup",
    title: "How much less time the region seemed to take",
    numeric: true,
    width: "6.5em",
    sortable: true,
    rising: true,
    cell: (dot) => speedup(dot[0]),
  },
  {
    id: "gain",
    head: "gain",
    title: "Of this experiment alone: 1 − time per round / time per round without the speedup, for the whole run",
    numeric: true,
    width: "6em",
    sortable: true,
    rising: true,
    cell: (dot) => percent(dot[1], 1),
  },
  {
    id: "notes",
    head: "notes",
    title: "Why an experiment does not count",
    sortable: true,
    rising: true,
    cell: ([, , , , leftOut]) => leftOut !== null && <LeftOut reason={leftOut} />,
  },
];

function LeftOut({ reason }: { reason: string }) {
  return (
    <>
      left out: <Name text={LEFT_OUT_WORDS[reason] ?? reason} />
    </>
  );
}

interface Props {
  report: Report;
  region: WholeRegion;
  estimate: WholeEstimate;
}

export function Evidence({ report, region, estimate }: Props) {
  return (
    <section class="evidence">
      <h3>Why do you say that?</h3>
      <dl>
        {facts(report, region, estimate).map(([term, text]) => (
          <div key={term}>
            <dt>{term}</dt>
            <dd>
              <Prose text={text} />
            </dd>
          </div>
        ))}
      </dl>
      <Blocks dots={estimate.dots} />
      <p class="legend">
        How each number is computed, step by step: <code>whatif report --explain REGION RECORDING</code>
      </p>
    </section>
  );
}

function Blocks({ dots }: { dots: Dot[] | undefined }) {
  const [sort, setSort] = useState(IN_TIME);
  const ordered = useMemo(() => inOrder(dots ?? [], sort), [dots, sort]);
  if (ordered.length === 0) return <p>The single experiments are not in this page.</p>;
  return (
    <Grid
      id="blocks"
      label="Experiments"
      columns={COLUMNS}
      rows={ordered}
      keyOf={blockKey}
      sort={sort}
      onSort={(column) => {
        if (column === "run") return;
        setSort({ column, reversed: column === sort.column && !sort.reversed });
      }}
      selected={pointed.value}
      onSelect={(dot) => (pointed.value = blockKey(dot))}
      onEscape={pointed.value === null ? undefined : () => (pointed.value = null)}
    />
  );
}

/** Each number with what it means. */
export function facts(report: Report, region: WholeRegion, estimate: WholeEstimate): [term: string, text: string][] {
  const e = estimate;
  const effect = interval(e.effect, e.effect_lo, e.effect_hi);
  const most = interval(e.max_gain, e.max_gain_lo, e.max_gain_hi);
  const bend = interval(e.bend, e.bend_lo, e.bend_hi);
  const disturbed =
    e.disturbed_blocks === 0
      ? ""
      : `; ${count(e.disturbed_blocks, "more experiment")} not used, because it or its baseline took many times as long as the other for no reason that noise explains`;
  const listed: [string, string | null][] = [
    ["slope", `${slope(e.slope, e.slope_se)} (in brackets: its standard error), 95 % interval ${range(e.slope_lo, e.slope_hi)}`],
    ["verdict", RULE[e.verdict]],
    [
      "chance",
      e.chance === null
        ? null
        : `a region that is worth nothing would show such a slope by chance with probability ${probability(e.chance)}; this is compared among all regions and points`,
    ],
    ["experiments", `${count(e.blocks, "experiment")} ${e.blocks === 1 ? "counts" : "count"} (${count(region.windows, "measurement")}, with the speedup and without it)${disturbed}`],
    ["missing", e.more_blocks === null ? null : needed(e.more_blocks, e.blocks)],
    ["gain at 20 %", effect && `${plusMinus(effect)}, by the curve; the number in the sentence`],
    ["most", most && `${plusMinus(most)}, the largest gain at any speedup that was tried`],
    ["bend", bend && `at ${plusMinus(bend)} less time there; more brings less from there on`],
    [
      "method",
      e.slope === null
        ? null
        : `inserted delays are not quite exact either, so the slope may be off by ${fixed(e.method_error, 3)} (standard error) however many experiments there are; this is in all intervals`,
    ],
    [
      "other programs",
      e.slope === null || (!e.crowding_shift && !e.crowding_below && !e.crowding_above)
        ? null
        : `they used the same CPUs, so that the slope may be ${fixed(e.crowding_below ?? 0, 3)} less, or ${fixed(e.crowding_above ?? 0, 3)} more${
            e.crowding_shift ? `; ${fixed(e.crowding_shift, 3)} was added to it, because they were its clients, and what these use belongs to each request` : ""
          }`,
    ],
    ["compared with", e.slope === null ? null : pairing(e)],
    ["phase", phase(region, e)],
    ["drift", eras(report, region, e)],
    [
      "samples",
      `${count(region.samples, "sample")}${region.share === null ? "" : `, ${percent(region.share, 2)} of all CPU time`}`,
    ],
    [
      "image",
      `${region.image.path}, ${region.image.build_id === null ? "without build ID" : `build ID ${region.image.build_id}`}`,
    ],
  ];
  return listed.filter((fact): fact is [string, string] => fact[1] !== null);
}

const RULE: Record<Estimate["verdict"], string> = {
  helps: "helps: the interval of the slope is above 0.02, and chance alone does not explain it",
  hurts: "hurts: the interval of the slope is below −0.02, and chance alone does not explain it",
  "no-effect": "no effect: the interval of the slope is within ±0.05, or as near to 0 as the method can tell",
  "not-enough-data": "not known: the interval is too wide to say more, or chance alone may explain it, or there are fewer than five experiments",
  "not-trusted": "not trusted: the audit of the region does not balance",
  idle: "idle: most experiments saw no visit of the point",
};

function pairing({ pairing, kept_apart }: WholeEstimate): string {
  if (kept_apart) {
    return "its own baseline, each experiment: the program's speed changed, and the parts of the run are kept apart";
  }
  if (pairing === 1) return "its own baseline, each experiment";
  if (pairing === 0) return "all baselines of the region, each experiment";
  return `its own baseline for ${percent(pairing)}, and all baselines of the region for the rest, each experiment`;
}

function probability(value: number): string {
  if (value < 1e-15) return "less than 1e−15";
  return value >= 0.001 ? fixed(value, 3) : value.toExponential(1).replace("-", "−");
}
