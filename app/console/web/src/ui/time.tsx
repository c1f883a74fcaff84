import { useEffect, useState } from "preact/hooks";

import { ago, moment, NONE } from "../format";

const EVERY = 10_000;

/** A moment by the browser's locale: how long ago, and exactly in the title; or the other way round. */
export function Time({ ms, exact = false }: { ms: number | null | undefined; exact?: boolean }) {
  const [, again] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => again((n) => n + 1), EVERY);
    return () => clearInterval(timer);
  }, []);
  if (ms === null || ms === undefined) return <>{NONE}</>;
  const texts = exact ? [moment(ms), ago(ms)] : [ago(ms), moment(ms)];
  return (
    <time dateTime={new Date(ms).toISOString()} title={texts[1]}>
      {texts[0]}
    </time>
  );
}
