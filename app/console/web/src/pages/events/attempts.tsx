// Attempts of one delivery, and one of them with request and answer side by side.
import { useState } from "preact/hooks";

import type { Attempt, Wire } from "../../api/types";
import { bytes, duration, milliseconds } from "../../format";
import { bytesOf, hex } from "../../messages";
import { Badge, toneOf } from "../../ui/badge";
import { Code, JsonText } from "../../ui/code";
import { Empty } from "../../ui/empty";
import { Time } from "../../ui/time";

/** The newest is chosen first. */
export function Attempts({ attempts }: { attempts: Attempt[] }) {
  const sorted = [...attempts].sort((one, other) => other.started_ms - one.started_ms || other.number - one.number);
  const [chosen, choose] = useState(0);
  const attempt = sorted[Math.min(chosen, sorted.length - 1)];
  if (!attempt) return <Empty title="No attempt is kept">The store keeps a bounded number of attempts.</Empty>;
  return (
    <div class="stack">
      {sorted.length > 1 && (
        <div class="choice wrap" role="group" aria-label="Attempts">
          {sorted.map((each, index) => (
            <button
              key={`${each.number}/${each.started_ms}`}
              class="quiet"
              aria-pressed={index === chosen}
              onClick={() => choose(index)}
            >
              {each.number}: {each.status ?? each.outcome}
            </button>
          ))}
        </div>
      )}
      <OneAttempt attempt={attempt} />
    </div>
  );
}

function OneAttempt({ attempt }: { attempt: Attempt }) {
  const { request, answer } = attempt;
  return (
    <>
      <p class="line">
        <Badge tone={toneOf(attempt.outcome)}>{attempt.outcome}</Badge>
        <span>Attempt {attempt.number}</span>
        <Time ms={attempt.started_ms} as="exact" />
        <span>{milliseconds(attempt.duration_ms)}</span>
        {attempt.next_try_in !== null && <span>next after {duration(attempt.next_try_in)}</span>}
        {attempt.together > 1 && <span>{attempt.together} events in the request</span>}
      </p>
      {attempt.detail && !answer && <Code text={attempt.detail} label="What was answered" />}
      {(request || answer) && (
        <div class="columns">
          <OnWire wire={request} label="Request" none="The request is not kept, or no more (store.attempts.bodies, bodies_retention)." />
          <OnWire wire={answer} label="Answer" none={attempt.detail || "No answer came."} />
        </div>
      )}
      {attempt.kept_until_ms && (
        <p class="note">
          Headers and bodies are kept until <Time ms={attempt.kept_until_ms} as="exact" /> (store.attempts.bodies_retention).
        </p>
      )}
    </>
  );
}

function OnWire({ wire, label, none }: { wire: Wire | null | undefined; label: string; none: string }) {
  if (!wire) return <Code text={none} label={label} />;
  const head = [wire.line, ...wire.headers.map((each) => `${each.name}: ${each.value ?? "(not shown)"}`)].join("\n");
  return (
    <div class="stack close">
      <Code text={head} label={label} />
      {wire.withheld && <p class="note">Values and body are withheld: the session lacks the scope data.</p>}
      <WireBody wire={wire} label={`${label}: body`} />
    </div>
  );
}

function WireBody({ wire, label }: { wire: Wire; label: string }) {
  if (wire.body_base64) return <Code text={hex(bytesOf(wire.body_base64))} label={label} />;
  if (!wire.body) return null;
  const size = wire.size !== null && wire.size > wire.body.length ? `${label}, clipped (${bytes(wire.size)})` : label;
  return /^\s*[[{]/.test(wire.body) ? <JsonText text={wire.body} label={size} /> : <Code text={wire.body} label={size} />;
}
