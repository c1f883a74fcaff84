// The whole way of an event as a line from its producer to each subscription, and how far each search went.
import type { Fate, Found, FoundEvent } from "../../api/types";
import { capital, plural } from "../../format";
import { placeOf } from "../../messages";
import { link } from "../../router";
import { Badge, type Tone } from "../../ui/badge";
import { Empty } from "../../ui/empty";
import { Card } from "../../ui/page";
import { Time } from "../../ui/time";
import { useStatus } from "../../status";
import { TryNow, waits } from "../../subscription/retry";
import { StateOf } from "../../subscription/state";
import { Attempts } from "./attempts";

const TONES: Record<Fate["fate"], Tone> = {
  delivered: "ok",
  pulled: "ok",
  queued: "busy",
  redriven: "busy",
  waiting: "busy",
  retrying: "warn",
  parked: "warn",
  "dead-letter": "bad",
  filtered: "quiet",
  expired: "quiet",
  unknown: "quiet",
};

export function Way({ event }: { event: FoundEvent }) {
  const { route, places, subscriptions } = event;
  return (
    <Card title="Its way">
      <ol class="steps">
        <li>
          <h3>{cameBy(event)}</h3>
          {event.producer_claimed && (
            <p class="note">
              {event.producer ? `Producer ${event.producer}` : `Intake ${event.intake}`}: claimed by the record, not proven.
            </p>
          )}
          <p>
            {event.received_ms ? <Time ms={event.received_ms} as="exact" /> : "The time is unknown"}, source{" "}
            <code>{event.source}</code>
          </p>
        </li>
        {route && (
          <li>
            <h3>
              Route <a href={link(["flow"])}>{route.name}</a>
            </h3>
            <p>
              {capital(route.why)}
              {route.computed && <small> Computed from the present routes.</small>}
            </p>
          </li>
        )}
        {places.map((each) => (
          <li key={placeOf(each, each.broker)}>
            <h3>
              Stored in{" "}
              <a href={link(["events", "record", each.broker, each.topic, String(each.partition), each.position])}>
                {placeOf(each, each.broker)}
              </a>
            </h3>
            <p>
              {capital(each.kind)}, <Time ms={each.time_ms} as="exact" />
              {each.by && `, by ${each.by}`}
            </p>
          </li>
        ))}
        {subscriptions.map((each) => (
          <FateOf key={`${each.subscription}${each.position}`} fate={each} event={event.id} />
        ))}
      </ol>
      {subscriptions.length === 0 && (
        <Empty title="No subscription reads it">
          Nothing is subscribed to where it is stored. <a href={link(["subscriptions"])}>Create a subscription</a>.
        </Empty>
      )}
    </Card>
  );
}

/** What proves nothing stands in the note below the heading. */
function cameBy({ producer, intake, producer_claimed }: FoundEvent): string {
  if (producer_claimed) return "Received";
  if (producer) return `Sent by ${producer}`;
  return intake ? `Received by intake ${intake}` : "Received";
}

/** Where an event waits for its target, trying now is of use. */
const WAITS: ReadonlySet<Fate["fate"]> = new Set(["parked", "redriven", "retrying", "waiting"]);

function FateOf({ fate, event }: { fate: Fate; event: string }) {
  const { clause, because, behind } = fate;
  const health = useStatus().value?.subscriptions.find((each) => each.id === fate.subscription);
  return (
    <li class={TONES[fate.fate]}>
      <h3>
        <a href={link(["subscriptions", fate.subscription])}>{fate.subscription}</a>{" "}
        <Badge tone={TONES[fate.fate]}>{fate.fate}</Badge>
        {fate.state && fate.state !== "running" && (
          <small class="aside">
            The subscription: <StateOf id={fate.subscription} state={fate.state} />
          </small>
        )}
      </h3>
      <p>
        {capital(fate.detail)}
        {fate.computed && <small> Computed from its present filters and position.</small>}
      </p>
      {clause && (
        <p>
          Clause <code>{clause}</code>
          {because && <> saw {because}</>}
        </p>
      )}
      {behind && (
        <p>
          Behind <a href={link(["events", "event"], { id: behind.id, source: behind.source })}>{behind.id}</a>, the event
          of its key that is tried first.
        </p>
      )}
      {fate.next_attempt_ms && (
        <p>
          Next attempt: <Time ms={fate.next_attempt_ms} as="due" />
        </p>
      )}
      {WAITS.has(fate.fate) && (!health || waits(health)) && (
        <p>
          <TryNow id={fate.subscription} event={event} />
        </p>
      )}
      {fate.dead_letter && (
        <p>
          <a href={link(["letters", String(fate.dead_letter)])}>Dead letter {fate.dead_letter}</a>
        </p>
      )}
      {fate.consumer && <p>Pulled by {fate.consumer}</p>}
      {fate.attempts.length > 0 && (
        <details>
          <summary>{plural(fate.attempts.length, "attempt")}</summary>
          <Attempts attempts={fate.attempts} />
        </details>
      )}
    </li>
  );
}

/** Only where every search is complete, an empty answer is final. */
export function LookedAt({ looked }: { looked: Found["looked"] }) {
  if (!looked.length) return null;
  const all = looked.every((each) => each.complete);
  return (
    <details class="card" open={!all}>
      <summary>Where it was searched{!all && ": not everywhere"}</summary>
      <ul class="choices">
        {looked.map((each) => (
          <li key={each.where}>
            <Badge tone={each.complete ? "ok" : "warn"}>{each.complete ? "complete" : "in part"}</Badge> {each.where}
            {each.from !== null && (
              <>
                {" "}
                from <Time ms={each.from} as="exact" />
              </>
            )}
            {each.detail && <p class="note">{each.detail}</p>}
          </li>
        ))}
      </ul>
    </details>
  );
}
