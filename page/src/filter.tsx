// The field that filters the table, and the IDs of the page's parts, for navigation among them.

import { change, view } from "./state";

export const TABLE = "regions";
export const FILTER = "filter";
export const DETAILS = "details";

export function Filter({ shown, total }: { shown: number; total: number }) {
  return (
    <div class="filter">
      <label for={FILTER}>Filter</label>
      <input
        id={FILTER}
        type="search"
        value={view.value.filter}
        placeholder="words of a name or a file"
        autocomplete="off"
        spellcheck={false}
        onInput={(event) => change({ filter: event.currentTarget.value })}
      />
      <output for={FILTER}>{shown === total ? `${total} regions` : `${shown} of ${total} regions`}</output>
    </div>
  );
}
