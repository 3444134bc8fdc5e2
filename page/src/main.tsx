// The page starts here.

import "./style.css";
import { effect } from "@preact/signals";
import { render } from "preact";
import { App } from "./app";
import { followKeys } from "./keyboard";
import { read, REGIONS, withRegions } from "./parts";
import { printable, shortened } from "./printable";
import { connect, type World } from "./source";
import { comparison, followAddress, pinned, report, show, status, view } from "./state";
import { followTheme } from "./theme";

/** The ID of the data element, which Rust fills. */
const DATA = "whatif-data";
/** The beginning of the IDs of the elements that follow the script. */
const PART = "whatif-part-";
/** The element with the list of regions, where that is long. */
const LIST = "whatif-regions";

const world: World = {
  embedded: document.getElementById(DATA)?.textContent ?? null,
  protocol: location.protocol,
  search: location.search,
  fetch: (address, init) => fetch(address, init),
  events: (address) => new EventSource(address),
};

followAddress();
followTheme(() => view.value.theme);
followKeys();
const source = connect(
  world,
  show,
  (value) => (status.value = value),
  (region) => (pinned.value = region),
);
effect(() => {
  const program = (report.value ?? comparison.value?.after)?.sessions.at(-1)?.program.split("/").at(-1);
  document.title = program ? `${printable(shortened(program, 40))} – whatif` : "whatif";
});
effect(() => {
  const known = report.value && withRegions(report.value);
  if (known) report.value = known;
  else if (report.value) status.value = { is: "empty", why: "The data of this page is damaged: write the page again." };
});
const textOf = (part: number | typeof REGIONS): string | null =>
  document.getElementById(part === REGIONS ? LIST : `${PART}${part}`)?.textContent ?? null;
addEventListener("DOMContentLoaded", () => (read.value = textOf));
render(<App source={source} />, document.getElementById("page")!);
