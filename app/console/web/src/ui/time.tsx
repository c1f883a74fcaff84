import { useEffect, useState } from "preact/hooks";

import { ago, clockTime, dayOf, dueIn, moment, NONE, timeOfDay } from "../format";

const EVERY = 10_000;

type Form = "clock" | "row" | "exact" | "ago" | "due";

const TEXTS: Record<Form, (ms: number) => string> = { clock: clockTime, row: timeOfDay, exact: moment, ago, due: dueIn };

/** A moment by the browser's locale. `clock`: the time of day; `row` (of a table): the same, with the day below it;
 * `exact`: the date too; `ago`: how long ago; `due`: in how long. The title has the other form. */
export function Time({ ms, as = "clock" }: { ms: number | null | undefined; as?: Form }) {
  const [, again] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => again((n) => n + 1), EVERY);
    return () => clearInterval(timer);
  }, []);
  if (ms === null || ms === undefined) return <>{NONE}</>;
  const day = as === "row" && dayOf(ms);
  return (
    <time dateTime={new Date(ms).toISOString()} title={as === "ago" ? moment(ms) : `${moment(ms)}, ${ago(ms)}`}>
      {TEXTS[as](ms)}
      {day && <small class="below"> {day}</small>}
    </time>
  );
}
