// The filters of a subscription as rows: an attribute and a value, an expression, or a group of filters.
import { Icon } from "../ui/icons";
import { isGroup, NEW_FILTER, type Dialect, type FilterDraft, type Group, type GroupFilter, type SimpleFilter } from "./draft";

const DIALECTS: Record<Dialect | Group, string> = {
  exact: "is",
  prefix: "begins with",
  suffix: "ends with",
  sql: "CloudEvents SQL",
  all: "all of",
  any: "any of",
  not: "not",
};
const GROUPS = new Set<string>(["all", "any", "not"]);

interface Props {
  filters: FilterDraft[];
  set: (filters: FilterDraft[]) => void;
  /** The numbers of the groups around it: "2." */
  within?: string;
  /** The most filters: one inside `not`. */
  most?: number;
}

export function Filters({ filters, set, within = "", most = Infinity }: Props) {
  const at = (index: number, filter: FilterDraft) => set(filters.map((each, n) => (n === index ? filter : each)));
  const row = (index: number): RowProps => ({
    number: `${within}${index + 1}`,
    change: (filter) => at(index, filter),
    remove: () => set(filters.filter((_, n) => n !== index)),
  });
  return (
    <div class="stack tight">
      {!within && filters.length === 0 && (
        <p class="note">No filter: every event of the topics. An event must match all filters.</p>
      )}
      {filters.map((each, index) =>
        isGroup(each) ? <GroupRow key={index} filter={each} {...row(index)} /> : <Row key={index} filter={each} {...row(index)} />,
      )}
      {filters.length < most && (
        <div>
          <button type="button" onClick={() => set([...filters, NEW_FILTER])} aria-label={within ? `Add a filter to ${within.slice(0, -1)}` : undefined}>
            <Icon name="plus" /> Add a filter
          </button>
        </div>
      )}
    </div>
  );
}

interface RowProps {
  number: string;
  change: (filter: FilterDraft) => void;
  remove: () => void;
}

function Kind({ filter, number, change }: { filter: FilterDraft } & RowProps) {
  const pick = (kind: Dialect | Group) => change(changed(filter, kind));
  return (
    <select
      aria-label={`Kind of filter ${number}`}
      value={filter.dialect}
      onChange={(event) => pick(event.currentTarget.value as Dialect | Group)}
    >
      {Object.entries(DIALECTS).map(([dialect, words]) => (
        <option key={dialect} value={dialect}>
          {words}
        </option>
      ))}
    </select>
  );
}

/** A simple filter that becomes a group is its first member. */
function changed(filter: FilterDraft, kind: Dialect | Group): FilterDraft {
  if (!GROUPS.has(kind)) return { ...(isGroup(filter) ? NEW_FILTER : filter), dialect: kind as Dialect };
  const inner = isGroup(filter) ? filter.inner : [filter];
  return { dialect: kind as Group, inner: kind === "not" ? inner.slice(0, 1) : inner };
}

function Remove({ number, remove }: { number: string; remove: () => void }) {
  return (
    <button type="button" class="quiet" aria-label={`Remove filter ${number}`} onClick={remove}>
      <Icon name="close" />
    </button>
  );
}

function GroupRow({ filter, ...row }: { filter: GroupFilter } & RowProps) {
  const { number, change } = row;
  return (
    <div class="filter-group" role="group" aria-label={`Filter ${number}: ${DIALECTS[filter.dialect]}`}>
      <div class="filter-row sql">
        <Kind filter={filter} {...row} />
        <span />
        <Remove {...row} />
      </div>
      <Filters
        filters={filter.inner}
        set={(inner) => change({ ...filter, inner })}
        within={`${number}.`}
        most={filter.dialect === "not" ? 1 : Infinity}
      />
    </div>
  );
}

function Row({ filter, ...row }: { filter: SimpleFilter } & RowProps) {
  const { number, change } = row;
  const sql = filter.dialect === "sql";
  return (
    <div class={`filter-row ${filter.dialect}`}>
      {!sql && (
        <input
          aria-label={`Attribute of filter ${number}`}
          value={filter.attribute}
          required
          placeholder="type"
          onInput={(event) => change({ ...filter, attribute: event.currentTarget.value })}
        />
      )}
      <Kind filter={filter} {...row} />
      <input
        aria-label={`Value of filter ${number}`}
        value={filter.value}
        required
        class={sql ? "mono" : undefined}
        placeholder={sql ? "subject LIKE 'a%' AND total > 5" : "com.example.order.placed"}
        onInput={(event) => change({ ...filter, value: event.currentTarget.value })}
      />
      <Remove {...row} />
    </div>
  );
}
