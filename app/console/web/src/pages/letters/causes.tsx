// How many dead letters there are by subscription and cause; each line chooses its own.
import type { CauseCount } from "../../api/types";
import { count } from "../../format";
import type { Filter } from "./filter";

interface Props {
  counts: CauseCount[];
  filter: Filter;
  onFilter: (changed: Partial<Filter>) => void;
}

export function Causes({ counts, filter, onFilter }: Props) {
  const most = Math.max(1, ...counts.map((each) => each.count));
  const sorted = [...counts].sort((one, other) => other.count - one.count);
  const isOn = (each: CauseCount) => filter.subscription === each.subscription && filter.causes.includes(each.cause);
  const pick = (each: CauseCount) =>
    onFilter(isOn(each) ? { subscription: "", causes: [] } : { subscription: each.subscription, causes: [each.cause] });
  return (
    <ul class="bars">
      {sorted.map((each) => (
        <li key={`${each.subscription} ${each.cause}`}>
          <button class="bar" aria-pressed={isOn(each)} onClick={() => pick(each)}>
            <span>
              {each.subscription} <code>{each.cause}</code>
            </span>
            <strong>{count(each.count)}</strong>
            <svg viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">
              <rect class="c0" width={(100 * each.count) / most} height={1} />
            </svg>
          </button>
        </li>
      ))}
    </ul>
  );
}
