// A range of the log once more, beside what the subscription gets anyway.
import { useState } from "preact/hooks";

import { api } from "../api/client";
import type { Replay, ReplayPlan } from "../api/types";
import { useAction, useLoad } from "../api/use";
import { count, plural } from "../format";
import { useSession } from "../session";
import { Dialog } from "../ui/dialog";
import { Icon } from "../ui/icons";
import { ProblemBox } from "../ui/problem";
import { sourceOf, type Document } from "./words";

const EVERY = 1000; // milliseconds

interface DialogProps {
  id: string;
  document: Document;
  close: () => void;
  done: () => void;
}

interface Range {
  from: "earliest" | "time";
  time: string;
  until: string;
  rate: string;
}

/** Plans first; only what was planned can be started. */
export function ReplayDialog({ id, document, close, done }: DialogProps) {
  const [range, setRange] = useState<Range>({ from: "time", time: local(Date.now() - 3_600_000), until: "", rate: "" });
  const [plan, setPlan] = useState<ReplayPlan>();
  const ask = (dry_run: boolean) =>
    api.post("/v1/subscriptions/{id}:replay", { path: { id }, body: { ...orderOf(range), dry_run } });
  const planned = useAction(async () => setPlan(await ask(true)));
  const started = useAction(() => ask(false));
  const change = (part: Partial<Range>) => {
    setRange({ ...range, ...part });
    setPlan(undefined);
  };
  const submit = async (event: Event) => {
    event.preventDefault();
    if (!plan) await planned.run();
    else if (await started.run()) done();
  };
  return (
    <Dialog open title={`Replay to ${id}`} onClose={close}>
      <form onSubmit={submit}>
        <p>
          Events of {sourceOf(document)} are delivered once more, beside new ones, with the filters, order and retries
          of the subscription.
        </p>
        <fieldset class="choices">
          <legend>From</legend>
          <label class="check">
            <input
              type="radio"
              name="from"
              checked={range.from === "time"}
              onChange={() => change({ from: "time" })}
            />
            a time
          </label>
          <label class="check">
            <input
              type="radio"
              name="from"
              checked={range.from === "earliest"}
              onChange={() => change({ from: "earliest" })}
            />
            the oldest stored event
          </label>
        </fieldset>
        <div class="fields">
          {range.from === "time" && (
            <label class="field">
              <span>Stored at or after</span>
              <input
                type="datetime-local"
                step="1"
                required
                value={range.time}
                onInput={(event) => change({ time: event.currentTarget.value })}
              />
            </label>
          )}
          <label class="field">
            <span>Until</span>
            <input
              type="datetime-local"
              step="1"
              value={range.until}
              onInput={(event) => change({ until: event.currentTarget.value })}
            />
            <small>Empty: until now.</small>
          </label>
          <label class="field">
            <span>Events a second</span>
            <input
              type="number"
              min="0"
              step="any"
              placeholder="no limit"
              value={range.rate}
              onInput={(event) => change({ rate: event.currentTarget.value })}
            />
          </label>
        </div>
        {plan && <Planned plan={plan} />}
        {(planned.problem ?? started.problem) && <ProblemBox problem={(planned.problem ?? started.problem)!} />}
        <div class="actions">
          <button type="button" onClick={close}>
            Cancel
          </button>
          {plan && plan.replays.length > 0 ? (
            <button class="primary" disabled={started.busy}>
              <Icon name="replay" /> Replay {plan.total === null ? "" : plural(plan.total, "record")}
            </button>
          ) : (
            <button class="primary" disabled={planned.busy || plan !== undefined}>
              Count the events
            </button>
          )}
        </div>
      </form>
    </Dialog>
  );
}

function Planned({ plan }: { plan: ReplayPlan }) {
  if (!plan.replays.length) return <p role="status">The range is empty: no event is stored there.</p>;
  const size = plan.total === null ? "an unknown number of records" : plural(plan.total, "record");
  return (
    <p role="status">
      At most {size} in {plural(plan.replays.length, "partition")}: those that pass the filters are delivered.
    </p>
  );
}

function orderOf(range: Range) {
  const iso = (text: string) => new Date(text).toISOString();
  return {
    from: range.from === "earliest" ? ("earliest" as const) : { time: iso(range.time) },
    until: range.until ? { time: iso(range.until) } : ("latest" as const),
    rate: Number(range.rate) || 0,
  };
}

/** For a datetime-local field, which has no zone. */
function local(ms: number): string {
  const date = new Date(ms);
  return new Date(ms - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

/** The replay that runs, if one does. */
export function ReplayProgress({ id }: { id: string }) {
  const { may } = useSession();
  const { value, reload } = useLoad(
    (signal) => api.get("/v1/subscriptions/{id}/replays", { path: { id }, signal }),
    [id],
    EVERY,
  );
  const cancel = useAction(() => api.delete("/v1/subscriptions/{id}/replays", { path: { id } }));
  if (!value?.length) return null;
  const { done, whole } = progressOf(value);
  return (
    <section class="card progress" aria-label="Replay">
      <div class="split">
        <strong>
          A replay runs: {count(done)}
          {whole === null ? " records" : ` of at most ${count(whole)} records`}
        </strong>
        {may("operate") && (
          <button disabled={cancel.busy} onClick={async () => (await cancel.run()) && reload()}>
            Cancel the replay
          </button>
        )}
      </div>
      {whole === null ? (
        <progress aria-label="Progress of the replay" />
      ) : (
        <progress aria-label="Progress of the replay" max={Math.max(1, whole)} value={done} />
      )}
      {cancel.problem && <ProblemBox problem={cancel.problem} />}
    </section>
  );
}

function progressOf(replays: Replay[]): { done: number; whole: number | null } {
  const done = replays.reduce((total, each) => total + each.done, 0);
  let left = 0;
  for (const each of replays) {
    if (each.remaining === null) return { done, whole: null };
    left += each.remaining;
  }
  return { done, whole: done + left };
}
