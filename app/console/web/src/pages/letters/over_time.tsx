// Dead letters over time, coloured by cause. A bar chooses its interval.
import { useState } from "preact/hooks";

import { api } from "../../api/client";
import type { DeadLetterCounts } from "../../api/types";
import { useLoad } from "../../api/use";
import { count, moment, timeOfDay } from "../../format";
import { Card } from "../../ui/page";
import { ProblemBox } from "../../ui/problem";
import { choiceOf, type Filter } from "./filter";

interface Range {
  id: string;
  title: string;
  /** Seconds of a bar. */
  every: number;
}

const BARS = 60;
const RANGES: Range[] = [
  { id: "1h", title: "Hour", every: 60 },
  { id: "1d", title: "Day", every: 1_440 },
  { id: "7d", title: "Week", every: 10_080 },
  { id: "30d", title: "Month", every: 43_200 },
];
const COLOURS = 5; // in the style sheet; other causes share the last
const HEIGHT = 120;
const EVERY_MS = 10_000;

interface Props {
  filter: Filter;
  again: number;
  onFilter: (changed: Partial<Filter>) => void;
}

export function OverTime({ filter, again, onFilter }: Props) {
  const [range, set] = useState(RANGES[1]!);
  const { since: _since, until: _until, ...whole } = filter;
  const key = JSON.stringify(whole);
  const found = useLoad(
    async (signal) => {
      const begin = beginOf(range);
      const query = { ...choiceOf({ ...whole, since: begin, until: undefined }), every: range.every };
      return { begin, ...(await api.get("/v1/dead-letters/count", { query, signal })) };
    },
    [key, range.id, again],
    EVERY_MS,
  );
  return (
    <Card
      title="Over time"
      actions={
        <div class="choice" role="group" aria-label="Range of time">
          {RANGES.map((each) => (
            <button key={each.id} class="quiet" aria-pressed={each === range} onClick={() => set(each)}>
              {each.title}
            </button>
          ))}
        </div>
      }
    >
      {found.problem && <ProblemBox problem={found.problem} onRetry={found.reload} />}
      {found.value && <Chart counts={found.value} begin={found.value.begin} range={range} filter={filter} onFilter={onFilter} />}
    </Card>
  );
}

/** The start of the oldest of BARS intervals; the last one is the present one. Intervals count from the epoch. */
function beginOf(range: Range): number {
  const width = range.every * 1000;
  return Math.floor(Date.now() / width) * width - (BARS - 1) * width;
}

interface ChartProps {
  counts: DeadLetterCounts;
  begin: number;
  range: Range;
  filter: Filter;
  onFilter: Props["onFilter"];
}

function Chart({ counts, begin, range, filter, onFilter }: ChartProps) {
  const width = range.every * 1000;
  const totals = new Map<string, number>();
  for (const each of counts.counts) totals.set(each.cause, (totals.get(each.cause) ?? 0) + each.count);
  const causes = [...totals.keys()].sort((one, other) => totals.get(other)! - totals.get(one)!);
  const bars = Array.from({ length: BARS }, (_, index) => ({ at: begin + index * width, parts: new Map<string, number>() }));
  for (const each of counts.over_time ?? []) bars[(each.at_ms - begin) / width]?.parts.set(each.cause, each.count);
  const sums = bars.map((each) => [...each.parts.values()].reduce((one, other) => one + other, 0));
  const most = Math.max(1, ...sums);
  const pick = (at: number) =>
    onFilter(filter.since === at ? { since: undefined, until: undefined } : { since: at, until: at + width });
  return (
    <figure class="history">
      <svg viewBox={`0 0 ${BARS * 10} ${HEIGHT}`} preserveAspectRatio="none" role="group" aria-label="Dead letters over time">
        {bars.map((bar, index) =>
          sums[index] ? (
            <a
              key={bar.at}
              href="#"
              aria-label={`${moment(bar.at)}: ${count(sums[index])}`}
              class={filter.since === bar.at ? "on" : undefined}
              onClick={(event) => (event.preventDefault(), pick(bar.at))}
            >
              <title>{`${moment(bar.at)}: ${count(sums[index])}`}</title>
              <rect class="hit" x={index * 10} y={0} width={10} height={HEIGHT} />
              <Stack parts={causes.map((cause) => bar.parts.get(cause) ?? 0)} x={index * 10 + 1} most={most} />
            </a>
          ) : null,
        )}
        <line x1={0} x2={BARS * 10} y1={HEIGHT - 0.5} y2={HEIGHT - 0.5} />
      </svg>
      <figcaption>
        <span>{range.id.endsWith("d") ? moment(begin) : timeOfDay(begin)}</span>
        <span>{counts.total ? `most in one bar: ${count(most)}` : "none in this time"}</span>
        <span>now</span>
      </figcaption>
      <ul class="legend">
        {causes.map((cause, index) => (
          <li key={cause}>
            <i class={`c${Math.min(index, COLOURS - 1)}`} /> {cause} <small>{count(totals.get(cause))}</small>
          </li>
        ))}
      </ul>
    </figure>
  );
}

function Stack({ parts, x, most }: { parts: number[]; x: number; most: number }) {
  let y = HEIGHT;
  return (
    <>
      {parts.map((value, index) => {
        const height = value ? Math.max(1.5, (value / most) * (HEIGHT - 4)) : 0;
        y -= height;
        return value ? (
          <rect key={index} class={`c${Math.min(index, COLOURS - 1)}`} x={x} y={y} width={8} height={height} />
        ) : null;
      })}
    </>
  );
}
