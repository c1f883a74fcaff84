import type { ComponentChildren } from "preact";

import type { Remark } from "../api/types";
import { useStatus } from "../status";
import { remarksOf } from "./check";
import { Credentials, Signing } from "./credentials";
import type { Draft } from "./draft";
import { Filters } from "./filters";
import { Topics } from "./topics";

interface Props {
  draft: Draft;
  change: (part: Partial<Draft>) => void;
  /** The id cannot be changed. */
  fixed: boolean;
  remarks: Remark[] | undefined;
}

export function Fields({ draft, change, fixed, remarks }: Props) {
  const { value: status } = useStatus();
  const brokers = Object.keys(status?.brokers ?? {});
  const wrong = (setting: string, filled: string) =>
    filled && remarksOf(remarks, setting).some((each) => each.level === "error") ? "field wrong" : "field";
  return (
    <div class="stack">
      <Part title="Source">
        <div class="fields">
          <label class={wrong("id", draft.id)}>
            <span>Name</span>
            <input
              value={draft.id}
              required
              readOnly={fixed}
              autofocus={!fixed}
              placeholder="billing"
              onInput={(event) => change({ id: event.currentTarget.value })}
            />
            <small>Letters, digits, dots, dashes. It cannot be changed later.</small>
          </label>
          <Choice label="Broker" value={draft.broker} among={brokers} pick={(broker) => change({ broker })} />
          <Topics draft={draft} change={change} class={wrong("source", draft.topics)} />
          <label class="field">
            <span>Start</span>
            <select
              value={draft.start}
              disabled={draft.start === "other"}
              onChange={(event) => change({ start: event.currentTarget.value as Draft["start"] })}
            >
              <option value="latest">new events only</option>
              <option value="earliest">the oldest stored event</option>
              {draft.start === "other" && <option value="other">a position, see below</option>}
            </select>
          </label>
        </div>
      </Part>
      <Part title="Filters">
        <Filters filters={draft.filters} set={(filters) => change({ filters })} />
      </Part>
      <Part title="Target">
        <SinkFields draft={draft} change={change} brokers={brokers} wrong={wrong} />
      </Part>
      {draft.sink === "webhook" && (
        <Part title="Proof of the sender">
          <Credentials draft={draft} change={change} />
          <Signing draft={draft} change={change} />
        </Part>
      )}
      <Part title="Delivery">
        <div class="fields">
          <label class="field">
            <span>Order</span>
            <select
              value={draft.ordering}
              onChange={(event) => change({ ordering: event.currentTarget.value as Draft["ordering"] })}
            >
              <option value="per_key">per key</option>
              <option value="per_producer_key">per producer and key</option>
              <option value="none">none</option>
            </select>
          </label>
          <label class={wrong("timeout", draft.timeout)}>
            <span>Time-out of an attempt</span>
            <input
              value={draft.timeout}
              placeholder="15s"
              onInput={(event) => change({ timeout: event.currentTarget.value })}
            />
          </label>
          <label class={wrong("rate_limit", draft.rateLimit)}>
            <span>Rate limit</span>
            <input
              value={draft.rateLimit}
              placeholder="100/s"
              onInput={(event) => change({ rateLimit: event.currentTarget.value })}
            />
          </label>
        </div>
        <details open={draft.others !== ""}>
          <summary>Other settings, as YAML</summary>
          <textarea
            aria-label="Other settings, as YAML"
            spellcheck={false}
            value={draft.others}
            placeholder={"retry:\n  schedule: [1s, 1m]"}
            onInput={(event) => change({ others: event.currentTarget.value })}
          />
        </details>
      </Part>
    </div>
  );
}

function Part({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <fieldset class="card">
      <legend>{title}</legend>
      {children}
    </fieldset>
  );
}

function Choice(props: { label: string; value: string; among: string[]; pick: (value: string) => void }) {
  const all = props.value && !props.among.includes(props.value) ? [props.value, ...props.among] : props.among;
  return (
    <label class="field">
      <span>{props.label}</span>
      <select value={props.value} onChange={(event) => props.pick(event.currentTarget.value)}>
        {all.map((each) => (
          <option key={each}>{each}</option>
        ))}
      </select>
    </label>
  );
}

const SINKS = { webhook: "Webhook", topic: "Another topic", pull: "Pull by consumers" } as const;

interface SinkProps {
  draft: Draft;
  change: Props["change"];
  brokers: string[];
  wrong: (setting: string, filled: string) => string;
}

function SinkFields({ draft, change, brokers, wrong }: SinkProps) {
  return (
    <div class="stack">
      <div class="choices" role="radiogroup" aria-label="Kind of target">
        {Object.entries(SINKS).map(([kind, words]) => (
          <label class="check" key={kind}>
            <input
              type="radio"
              name="sink"
              checked={draft.sink === kind}
              onChange={() => change({ sink: kind as Draft["sink"], sinkBroker: draft.sinkBroker || draft.broker })}
            />
            {words}
          </label>
        ))}
      </div>
      {draft.sink === "webhook" && (
        <label class={wrong("sink", draft.url)}>
          <span>URL</span>
          <input
            value={draft.url}
            required
            inputMode="url"
            placeholder="https://billing.example/events"
            onInput={(event) => change({ url: event.currentTarget.value })}
          />
        </label>
      )}
      {draft.sink === "topic" && (
        <div class="fields">
          <Choice
            label="Broker of the target"
            value={draft.sinkBroker}
            among={brokers}
            pick={(sinkBroker) => change({ sinkBroker })}
          />
          <label class={wrong("sink", draft.sinkTopic)}>
            <span>Topic of the target</span>
            <input
              value={draft.sinkTopic}
              required
              placeholder="archive"
              onInput={(event) => change({ sinkTopic: event.currentTarget.value })}
            />
            <small>A name, or a template of attributes: {"orders.{type}"}</small>
          </label>
        </div>
      )}
      {draft.sink === "pull" && (
        <p class="note">
          Nothing is sent. Consumers ask with <code>:receive</code> and finish with <code>:acknowledge</code>.
        </p>
      )}
    </div>
  );
}
