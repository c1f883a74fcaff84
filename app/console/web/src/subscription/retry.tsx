// The button that tries waiting events now. A wait that the target asked for ends only when a person insists.
import { useState } from "preact/hooks";

import { api } from "../api/client";
import type { RetryAnswer, SubscriptionHealth } from "../api/types";
import { useAction } from "../api/use";
import { duration, plural } from "../format";
import { Allowed } from "../session";
import { changed } from "../status";
import { Dialog } from "../ui/dialog";
import { Icon } from "../ui/icons";
import { ProblemBox } from "../ui/problem";
import { isHalted, parkedIn } from "./words";

interface Props {
  id: string;
  /** Only the key of the event with this id. */
  event?: string;
  done?: () => void;
}

const TRIED = new Set(["running", "paused", "elsewhere"]); // states in which a retry has an effect

/** True if a retry would try something: events are known to wait for their target, and the subscription was not stopped. */
export function waits(health: SubscriptionHealth): boolean {
  const { state, paused_for, waiting } = health;
  return TRIED.has(state) && !isHalted(health) && (paused_for !== null || Boolean(parkedIn(health)) || waiting > 0);
}

export function TryNow({ id, event, done }: Props) {
  const [answer, set] = useState<RetryAnswer>();
  const retry = useAction(async (force: boolean) => {
    const body = { force, ...(event ? { event } : {}) };
    set(await api.post("/v1/subscriptions/{id}:retry", { path: { id }, body }));
    changed();
    done?.();
  });
  const asked = answer?.retry_after ?? null;
  const close = () => {
    retry.clear();
    set(undefined);
  };
  return (
    <Allowed scope="operate">
      <button
        type="button"
        disabled={retry.busy}
        onClick={(click) => {
          click.stopPropagation();
          void retry.run(false);
        }}
      >
        <Icon name="replay" /> Try now
      </button>
      {answer && asked === null && (
        <small class="aside" role="status">
          {" "}
          {wordsOf(answer)}
        </small>
      )}
      <Dialog open={retry.problem !== undefined || asked !== null} title={`Try ${event ?? id} now`} onClose={close}>
        <div class="stack">
          {retry.problem && <ProblemBox problem={retry.problem} />}
          {asked !== null && (
            <>
              <p>The target asked to wait (Retry-After). The events are tried in {duration(asked)}.</p>
              <div class="actions">
                <button class="primary" disabled={retry.busy} onClick={() => void retry.run(true)}>
                  Try before that
                </button>
              </div>
            </>
          )}
        </div>
      </Dialog>
    </Allowed>
  );
}

function wordsOf({ keys, probe }: RetryAnswer): string {
  if (probe) return "The target is tried with one event first.";
  return keys ? `${plural(keys, "key")} tried now.` : "No event waits.";
}
