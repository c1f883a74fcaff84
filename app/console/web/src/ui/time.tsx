import { useEffect, useState } from "preact/hooks";

import { ago, clockTime, moment, NONE } from "../format";

const EVERY = 10_000;

type Form = "clock" | "exact" | "ago";

const TEXTS: Record<Form, (ms: number) => string> = { clock: clockTime, exact: moment, ago };

/** A moment by the browser's locale. `clock` (of a row): the time of day; `exact`: the date too; `ago`: how long ago,
 * or in how long. The title has the other form. */
export function Time({ ms, as = "clock" }: { ms: number | null | undefined; as?: Form }) {
  const [, again] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => again((n) => n + 1), EVERY);
    return () => clearInterval(timer);
  }, []);
  if (ms === null || ms === undefined) return <>{NONE}</>;
  return (
    <time dateTime={new Date(ms).toISOString()} title={as === "ago" ? moment(ms) : `${moment(ms)}, ${ago(ms)}`}>
      {TEXTS[as](ms)}
    </time>
  );
}
