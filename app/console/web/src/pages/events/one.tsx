// One event: its attributes, its data, its whole way, and what a person may do with it.
import { useState } from "preact/hooks";

import { api } from "../../api/client";
import type { FoundEvent, Message } from "../../api/types";
import { useLoad } from "../../api/use";
import { attribute, curl, eventsUrl, keyOf, nameOf, placeOf } from "../../messages";
import { link } from "../../router";
import { Allowed } from "../../session";
import { Copy } from "../../ui/copy";
import { Empty, Loading } from "../../ui/empty";
import { Icon } from "../../ui/icons";
import { Card, Head } from "../../ui/page";
import { ProblemBox } from "../../ui/problem";
import { Time } from "../../ui/time";
import { DataView } from "./data";
import { SendAgain } from "./send_again";
import { LookedAt, Way } from "./way";

export interface Place {
  broker: string;
  topic: string;
  partition: number;
  position: string;
}

/** The record at a place, with its bytes as they are on the wire. Null: retention removed it. */
export async function recordAt(place: Place, signal: AbortSignal): Promise<Message | null> {
  const { broker, topic, partition, position } = place;
  const page = await api.get("/v1/topics/{broker}/{topic}/records", {
    path: { broker, topic },
    query: { partition, from: position, limit: 1, raw: true },
    signal,
  });
  return page.messages.find((each) => each.position === position) ?? null;
}

/** An event that was chosen in a list of records. */
export function ByPlace({ place }: { place: Place }) {
  const found = useLoad((signal) => recordAt(place, signal), [placeOf(place, place.broker)]);
  if (found.problem) return <Around title="Event" problem={<ProblemBox problem={found.problem} onRetry={found.reload} />} />;
  if (found.value === undefined) return <Loading what="Reading the record" />;
  if (found.value === null)
    return (
      <Around
        title="Event"
        problem={<Empty title="The record is not there any more">Retention removed {placeOf(place, place.broker)}.</Empty>}
      />
    );
  const name = nameOf(found.value);
  if (!name.id) return <OneEvent message={found.value} broker={place.broker} />;
  return <WithWay id={name.id} source={name.source} message={found.value} broker={place.broker} />;
}

/** An event that was asked for by its id. */
export function ByName({ id, source }: { id: string; source: string }) {
  return <WithWay id={id} source={source} />;
}

interface WithWayProps {
  id: string;
  source: string;
  message?: Message;
  broker?: string;
}

const AGAIN_MS = 2_000; // its way goes on while a person looks

function WithWay({ id, source, message, broker = "" }: WithWayProps) {
  const query = { id, source: source || null };
  const found = useLoad((signal) => api.get("/v1/events", { query, signal }), [id, source], AGAIN_MS);
  const events = found.value?.events ?? [];
  const [event] = events;
  const place = event?.places[0];
  const record = useLoad(
    async (signal) => (message || !place ? null : await recordAt(place, signal)),
    [place && placeOf(place, place.broker)],
  );
  if (found.value && events.length > 1 && !source) return <Several id={id} events={events} />;
  const shown = message ?? record.value ?? undefined;
  const at = broker || place?.broker || "";
  return (
    <>
      <EventHead id={id} event={event} message={shown} broker={at} />
      <div class="stack">
        {found.problem && <ProblemBox problem={found.problem} onRetry={found.reload} />}
        {!found.value && found.loading && <Loading what="Looking for its way" />}
        {found.value && !event && <NotFound id={id} />}
        {event && <Way event={event} />}
        {shown && <Facts message={shown} broker={at} />}
        {shown && <DataView message={shown} />}
        {found.value && <LookedAt looked={found.value.looked} />}
      </div>
    </>
  );
}

/** A record that is no event, or has no id. */
function OneEvent({ message, broker }: { message: Message; broker: string }) {
  return (
    <>
      <EventHead id="" message={message} broker={broker} />
      <div class="stack">
        {message.fault && <Empty title="No CloudEvent" icon="warning">{message.fault}</Empty>}
        <Facts message={message} broker={broker} />
        <DataView message={message} />
      </div>
    </>
  );
}

interface HeadProps {
  id: string;
  event?: FoundEvent | undefined;
  message: Message | undefined;
  broker: string;
}

function EventHead({ id, event, message, broker }: HeadProps) {
  const [sending, send] = useState(false);
  const type = event?.type ?? (message && nameOf(message).type);
  return (
    <Head
      above={[["Events", link(["events"])]]}
      title={id || "Record"}
      note={type}
      actions={
        message?.event && (
          <>
            <Allowed scope="data">
              <CopyAsCurl message={message} />
            </Allowed>
            <a class="button" href={link(["explain"], { at: placeOf(message, broker) })}>
              <Icon name="explain" /> Explain
            </a>
            <Allowed scope="operate">
              <button onClick={() => send(true)}>
                <Icon name="send" /> Send again
              </button>
            </Allowed>
            <SendAgain open={sending} onClose={() => send(false)} message={message} broker={broker} />
          </>
        )
      }
    />
  );
}

function CopyAsCurl({ message }: { message: Message }) {
  const configuration = useLoad((signal) => api.get("/v1/config", { signal }), []);
  const shown = configuration.value?.configuration as Record<string, unknown> | undefined;
  if (!shown) return null; // it says where events are posted
  return <Copy text label="Copy as curl" value={() => curl(message, eventsUrl(shown))} />;
}

function Facts({ message, broker }: { message: Message; broker: string }) {
  return (
    <Card title="Record">
      <dl class="facts two">
        <dt>Place</dt>
        <dd>
          <code>{placeOf(message, broker)}</code>
        </dd>
        <dt>Stored</dt>
        <dd>
          <Time ms={message.time_ms} as="exact" />
        </dd>
        <dt>Key</dt>
        <dd>{keyOf(message) ? <code>{keyOf(message)}</code> : "none"}</dd>
        <dt>Content mode</dt>
        <dd>
          {message.mode ?? "none"}
          {message.content_type && ` (${message.content_type})`}
        </dd>
        {attribute(message, "time") && (
          <>
            <dt>Its own time</dt>
            <dd>{attribute(message, "time")}</dd>
          </>
        )}
      </dl>
    </Card>
  );
}

function Several({ id, events }: { id: string; events: FoundEvent[] }) {
  return (
    <>
      <Head above={[["Events", link(["events"])]]} title={id} note={`${events.length} sources use this id`} />
      <Card title="Which one?">
        <ul class="choices">
          {events.map((each) => (
            <li key={each.source}>
              <a href={link(["events", "event"], { id, source: each.source })}>{each.source}</a> {each.type}{" "}
              <Time ms={each.received_ms} />
            </li>
          ))}
        </ul>
      </Card>
    </>
  );
}

function NotFound({ id }: { id: string }) {
  return (
    <Empty title="No such event" icon="explain">
      No log and no store here has an event with the id <code>{id}</code>. The list below says what was searched. If the
      sender got a 202, retention may have removed the event; if not, the answer that the sender got says why.
    </Empty>
  );
}

function Around({ title, problem }: { title: string; problem: preact.ComponentChildren }) {
  return (
    <>
      <Head above={[["Events", link(["events"])]]} title={title} />
      {problem}
    </>
  );
}
