import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

import { api } from "../api/client";
import type { Remark } from "../api/types";
import { useLoad } from "../api/use";
import { useStatus } from "../status";
import { Icon } from "../ui/icons";
import { remarksOf } from "./check";
import { NEW_FILTER, type Dialect, type Draft, type SimpleFilter } from "./draft";

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
          <summary>Other settings, as JSON</summary>
          <textarea
            aria-label="Other settings, as JSON"
            spellcheck={false}
            value={draft.others}
            placeholder={'{"retry": {"schedule": ["1s", "1m"]}}'}
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

/** Names of the broker's topics are offered; others can be written. */
function Topics({ draft, change, class: name }: { draft: Draft; change: Props["change"]; class: string }) {
  const list = useId();
  const { value } = useLoad(
    (signal) => (draft.broker ? api.get("/v1/topics", { query: { broker: draft.broker }, signal }) : Promise.resolve([])),
    [draft.broker],
  );
  return (
    <label class={name}>
      <span>Topics</span>
      <input
        value={draft.topics}
        required
        list={list}
        placeholder="orders, returns"
        onInput={(event) => change({ topics: event.currentTarget.value })}
      />
      <datalist id={list}>
        {(value ?? []).map((each) => (
          <option key={each.name} value={each.name} />
        ))}
      </datalist>
      <small>Separated by commas.</small>
    </label>
  );
}

const DIALECTS: Record<Dialect, string> = { exact: "is", prefix: "begins with", suffix: "ends with", sql: "CloudEvents SQL" };

function Filters({ filters, set }: { filters: SimpleFilter[]; set: (filters: SimpleFilter[]) => void }) {
  const at = (index: number, part: Partial<SimpleFilter>) =>
    set(filters.map((each, n) => (n === index ? { ...each, ...part } : each)));
  return (
    <div class="stack tight">
      {filters.length === 0 && <p class="note">No filter: every event of the topics. An event must match all filters.</p>}
      {filters.map((each, index) => (
        <div class={`filter-row ${each.dialect}`} key={index}>
          {each.dialect !== "sql" && (
            <input
              aria-label={`Attribute of filter ${index + 1}`}
              value={each.attribute}
              required
              placeholder="type"
              onInput={(event) => at(index, { attribute: event.currentTarget.value })}
            />
          )}
          <select
            aria-label={`Kind of filter ${index + 1}`}
            value={each.dialect}
            onChange={(event) => at(index, { dialect: event.currentTarget.value as Dialect })}
          >
            {Object.entries(DIALECTS).map(([dialect, words]) => (
              <option key={dialect} value={dialect}>
                {words}
              </option>
            ))}
          </select>
          <input
            aria-label={`Value of filter ${index + 1}`}
            value={each.value}
            required
            class={each.dialect === "sql" ? "mono" : undefined}
            placeholder={each.dialect === "sql" ? "subject LIKE 'a%' AND total > 5" : "com.example.order.placed"}
            onInput={(event) => at(index, { value: event.currentTarget.value })}
          />
          <button
            type="button"
            class="quiet"
            aria-label={`Remove filter ${index + 1}`}
            onClick={() => set(filters.filter((_, n) => n !== index))}
          >
            <Icon name="close" />
          </button>
        </div>
      ))}
      <div>
        <button type="button" onClick={() => set([...filters, NEW_FILTER])}>
          <Icon name="plus" /> Add a filter
        </button>
      </div>
    </div>
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
