// The dialog of a redrive: what it would do, how fast, and how far it is.
import { useEffect, useRef, useState } from "preact/hooks";

import { problemOf } from "../../api/client";
import type { CauseCount, Problem, Redriven } from "../../api/types";
import { useLoad } from "../../api/use";
import { count, plural, rate as perSecond } from "../../format";
import { Loading } from "../../ui/empty";
import { Dialog } from "../../ui/dialog";
import { ProblemBox } from "../../ui/problem";
import type { Choice } from "./filter";
import { dryRun, run, type Progress } from "./redriving";

interface Props {
  choice: Choice;
  /** `changed`: letters went. */
  onClose: (changed: boolean) => void;
}

export function Redrive({ choice, onClose }: Props) {
  const plan = useLoad(() => dryRun(choice), []);
  const [rate, setRate] = useState(0);
  const [progress, set] = useState<Progress>();
  const [problem, setProblem] = useState<Problem>();
  const control = useRef(new AbortController());
  useEffect(() => () => control.current.abort(), []);
  const start = async (event: Event) => {
    event.preventDefault();
    setProblem(undefined);
    try {
      await run(choice, plan.value!, rate, set, control.current.signal);
    } catch (error) {
      if (!control.current.signal.aborted) setProblem(problemOf(error));
    }
  };
  const running = progress !== undefined && !progress.over && !problem;
  return (
    <Dialog open title="Redrive dead letters" onClose={() => onClose(progress !== undefined)}>
      <form onSubmit={(event) => void start(event)}>
        {plan.problem && <ProblemBox problem={plan.problem} onRetry={plan.reload} />}
        {!plan.value && !plan.problem && <Loading what="Dry run" />}
        {plan.value && <Planned plan={plan.value} />}
        {plan.value && !progress && (
          <label class="field">
            <span>Events a second for each subscription, 0 for no limit</span>
            <input
              type="number"
              min={0}
              step="any"
              value={rate}
              onInput={(event) => setRate(event.currentTarget.valueAsNumber || 0)}
            />
          </label>
        )}
        {progress && <Shown progress={progress} />}
        {problem && <ProblemBox problem={problem} />}
        <div class="actions">
          <button type="button" onClick={() => onClose(progress !== undefined)}>
            {progress ? "Close" : "Cancel"}
          </button>
          {!progress && (
            <button type="submit" class="primary" disabled={!plan.value?.left}>
              Redrive {plan.value ? count(plan.value.left) : ""}
            </button>
          )}
        </div>
        {running && <p class="note">Closing this does not stop the redrive.</p>}
      </form>
    </Dialog>
  );
}

function Planned({ plan }: { plan: Redriven }) {
  return (
    <>
      <p>
        Dry run: {plural(plan.left, "event")} would go out again, with the same id, one at a time per key. An event that
        fails again becomes a dead letter again.
      </p>
      <Counts counts={plan.counts} />
      {plan.skipped.map((each) => (
        <p key={each.subscription} class="caution">
          {plural(each.count, "letter")} of {each.subscription} stay: {each.why}
        </p>
      ))}
      {Object.entries(plan.waiting).map(([name, why]) => (
        <p key={name} class="caution">
          {name} delivers nothing now ({why}): its events wait until it does.
        </p>
      ))}
    </>
  );
}

export function Counts({ counts }: { counts: CauseCount[] }) {
  return (
    <ul class="tally">
      {counts.map((each) => (
        <li key={`${each.subscription} ${each.cause}`}>
          <span>
            {each.subscription} <code>{each.cause}</code>
          </span>
          <strong>{count(each.count)}</strong>
        </li>
      ))}
    </ul>
  );
}

function Shown({ progress }: { progress: Progress }) {
  const gone = Math.max(0, progress.ordered - progress.left);
  return (
    <div class="stack close" role="status">
      <progress max={Math.max(1, progress.total)} value={progress.over ? progress.total : gone} aria-label="Redriven" />
      <p>
        {progress.over ? "Done: " : ""}
        {count(gone)} of {count(progress.total)} left the store, {perSecond(progress.speed)} a second
        {progress.deadAgain > 0 && <>, {count(progress.deadAgain)} dead again</>}
        {progress.over && progress.deadAgain === 0 && progress.left === 0 && ", none dead again"}.
      </p>
    </div>
  );
}
