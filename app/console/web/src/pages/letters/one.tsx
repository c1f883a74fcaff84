// One dead letter: why, its attempts with request and answer side by side, its event.
import { useState } from "preact/hooks";

import { api } from "../../api/client";
import type { DeadLetterDetail } from "../../api/types";
import { useLoad } from "../../api/use";
import { count } from "../../format";
import { placeOf } from "../../messages";
import { go, link } from "../../router";
import { Allowed } from "../../session";
import { Badge } from "../../ui/badge";
import { Code } from "../../ui/code";
import { Loading } from "../../ui/empty";
import { Icon } from "../../ui/icons";
import { Card, Head } from "../../ui/page";
import { ProblemBox } from "../../ui/problem";
import { Time } from "../../ui/time";
import { Attempts } from "../events/attempts";
import { DataView } from "../events/data";
import { Discard } from "./discard";
import { Redrive } from "./redrive";

export function OneLetter({ id }: { id: number }) {
  const found = useLoad((signal) => api.get("/v1/dead-letters/{letter}", { path: { letter: id }, signal }), [id]);
  const letter = found.value;
  return (
    <>
      <Head
        above={[["Dead letters", link(["letters"])]]}
        title={`Dead letter ${id}`}
        note={letter && (letter.event.type || "No CloudEvent")}
        actions={letter && <Actions letter={letter} />}
      />
      {found.problem && <ProblemBox problem={found.problem} onRetry={found.reload} />}
      {!letter && found.loading && <Loading />}
      {letter && (
        <div class="stack">
          <Why letter={letter} />
          <Card title="Attempts">
            <Attempts attempts={letter.history} />
          </Card>
          {letter.message && <DataView message={letter.message} />}
        </div>
      )}
    </>
  );
}

function Why({ letter }: { letter: DeadLetterDetail }) {
  const { event, message } = letter;
  return (
    <Card title="Why">
      <dl class="facts two">
        <dt>Cause</dt>
        <dd>
          <Badge tone="bad">{letter.cause}</Badge>{" "}
          <a href={link(["letters"], { subscription: letter.subscription, cause: letter.cause })}>All of this cause</a>
        </dd>
        <dt>Subscription</dt>
        <dd>
          <a href={link(["subscriptions", letter.subscription])}>{letter.subscription}</a>
        </dd>
        <dt>Since</dt>
        <dd>
          <Time ms={letter.at_ms} as="exact" />
        </dd>
        <dt>Attempts</dt>
        <dd>{count(letter.attempts)}</dd>
        {event.id && (
          <>
            <dt>Event</dt>
            <dd>
              <a href={link(["events", "event"], { id: event.id, source: event.source })}>{event.id}</a>
            </dd>
          </>
        )}
        {message && (
          <>
            <dt>Place</dt>
            <dd>
              <code>{placeOf(message, letter.broker)}</code>
            </dd>
          </>
        )}
      </dl>
      {message?.fault && <p class="caution">{message.fault}</p>}
      {letter.detail && letter.history.length === 0 && <Code text={letter.detail} label="What was answered last" />}
    </Card>
  );
}

function Actions({ letter }: { letter: DeadLetterDetail }) {
  const [open, set] = useState<"redrive" | "discard">();
  const choice = { subscription: letter.subscription, id: [letter.id] };
  const close = (changed: boolean) => (set(undefined), changed && go(link(["letters"])));
  return (
    <>
      {letter.message?.event && (
        <a class="button" href={link(["explain"], { letter: letter.id })}>
          <Icon name="explain" /> Explain
        </a>
      )}
      <Allowed scope="operate">
        <button onClick={() => set("discard")}>
          <Icon name="trash" /> Discard
        </button>
        <button class="primary" onClick={() => set("redrive")}>
          <Icon name="replay" /> Redrive
        </button>
      </Allowed>
      {open === "redrive" && <Redrive choice={choice} onClose={close} />}
      {open === "discard" && <Discard choice={choice} onClose={close} />}
    </>
  );
}
