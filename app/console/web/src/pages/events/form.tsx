// The form of the search. It holds what is typed; the address of the page holds what was asked.
import { useEffect, useRef, useState } from "preact/hooks";

import { go, link } from "../../router";
import { Icon } from "../../ui/icons";
import { NEWEST, type Search } from "./search";
import type { Choice } from "./topics";

const BEGINNINGS: [string, string][] = [
  [NEWEST, "The newest"],
  ["15m", "The last 15 minutes"],
  ["1h", "The last hour"],
  ["1d", "The last day"],
  ["7d", "The last week"],
  ["earliest", "The beginning"],
];
const OTHER = "at";

interface Props {
  search: Search;
  topics: Choice[];
  onSearch: (search: Partial<Search>) => void;
}

export function SearchForm({ search, topics, onSearch }: Props) {
  const [id, setId] = useState("");
  const [form, set] = useState(search);
  const before = useRef(search);
  useEffect(() => {
    const changed = differing(before.current, search);
    before.current = search;
    set((old) => ({ ...old, ...changed }));
  }, [JSON.stringify(search)]);
  const type = (name: keyof Search) => (event: { currentTarget: HTMLInputElement | HTMLSelectElement }) =>
    set({ ...form, [name]: event.currentTarget.value });
  const submit = (event: Event) => {
    event.preventDefault();
    if (id) go(link(["events", "event"], { id, source: form.source }));
    else onSearch(form);
  };
  return (
    <form class="search" onSubmit={submit}>
      <label class="field wide">
        <span>Event id</span>
        <input
          type="search"
          value={id}
          placeholder="Finds the whole way of one event, in every log and store"
          onInput={(event) => setId(event.currentTarget.value.trim())}
          autocomplete="off"
          spellcheck={false}
        />
      </label>
      <TopicField form={form} topics={topics} onChange={(broker, topic) => set({ ...form, broker, topic })} />
      <FromField form={form} onChange={(from) => set({ ...form, from })} />
      <Text name="Type" value={form.type} hint="com.example.order.*" onInput={type("type")} />
      <Text name="Source" value={form.source} hint="/shop" onInput={type("source")} />
      <Text name="Subject" value={form.subject} hint="order-7" onInput={type("subject")} />
      <button class="primary" type="submit">
        <Icon name="explain" /> Search
      </button>
    </form>
  );
}

/** What is another in `now`: the topic comes late, and must not take back what was typed meanwhile. */
function differing(before: Search, now: Search): Partial<Search> {
  const names = Object.keys(now) as (keyof Search)[];
  return Object.fromEntries(names.filter((name) => now[name] !== before[name]).map((name) => [name, now[name]]));
}

function TopicField(props: { form: Search; topics: Choice[]; onChange: (broker: string, topic: string) => void }) {
  const { form, topics } = props;
  const chosen = topics.findIndex((each) => each.broker === form.broker && each.name === form.topic);
  const pick = (event: { currentTarget: HTMLSelectElement }) => {
    const topic = topics[Number(event.currentTarget.value)];
    if (topic) props.onChange(topic.broker, topic.name);
  };
  return (
    <label class="field">
      <span>Topic</span>
      <select value={String(chosen)} onChange={pick} disabled={!topics.length}>
        {chosen < 0 && <option value="-1">{form.topic ? `${form.broker}/${form.topic}` : "None yet"}</option>}
        {topics.map((each, index) => (
          <option key={`${each.broker}/${each.name}`} value={String(index)}>
            {`${each.broker}/${each.name}${each.unreachable ? " (broker away)" : ""}`}
          </option>
        ))}
      </select>
    </label>
  );
}

function FromField({ form, onChange }: { form: Search; onChange: (from: string) => void }) {
  const known = BEGINNINGS.some(([value]) => value === form.from);
  const pick = (event: { currentTarget: HTMLSelectElement }) => {
    const { value } = event.currentTarget;
    onChange(value === OTHER ? new Date(Date.now() - 3_600_000).toISOString() : value);
  };
  return (
    <div class="field">
      <label for="from">From</label>
      <select id="from" value={known ? form.from : OTHER} onChange={pick} disabled={form.live}>
        {BEGINNINGS.map(([value, title]) => (
          <option key={value} value={value}>
            {title}
          </option>
        ))}
        <option value={OTHER}>A moment …</option>
      </select>
      {!known && (
        <input
          type="datetime-local"
          aria-label="Moment"
          step={1}
          value={local(form.from)}
          onInput={(event) => onChange(moment(event.currentTarget.value) ?? form.from)}
        />
      )}
    </div>
  );
}

/** As the field of the browser takes it: in the zone of the person. */
function local(from: string): string {
  const at = new Date(from);
  if (Number.isNaN(at.getTime())) return "";
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

function moment(value: string): string | null {
  const at = new Date(value);
  return Number.isNaN(at.getTime()) ? null : at.toISOString();
}

interface TextProps {
  name: string;
  value: string;
  hint: string;
  onInput: (event: { currentTarget: HTMLInputElement }) => void;
}

function Text({ name, value, hint, onInput }: TextProps) {
  return (
    <label class="field">
      <span>{name}</span>
      <input value={value} placeholder={hint} onInput={onInput} autocomplete="off" spellcheck={false} />
    </label>
  );
}
