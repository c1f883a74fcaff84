// Explain: what an event would meet, and why. Nothing is sent.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { api, problemOf } from "../../api/client";
import type { Journey, Json, Message, Problem } from "../../api/types";
import { useLoad } from "../../api/use";
import { documentOf, JSON_EVENT, keyHeader } from "../../messages";
import { useStatus } from "../../status";
import { Code, indented } from "../../ui/code";
import { Dialog } from "../../ui/dialog";
import { Empty, Loading } from "../../ui/empty";
import { Icon } from "../../ui/icons";
import { Card, Head } from "../../ui/page";
import { ProblemBox } from "../../ui/problem";
import { recordAt, type Place } from "../events/one";
import type { Page, PageProps } from "../page";
import { casesOf, type Asked } from "./case";
import { JourneyView } from "./journey";
import { sampleFor } from "./sample";

const QUIET_MS = 250; // after the last key, until the service is asked


function Explain({ query }: PageProps) {
  const start = useStart(query);
  const [asked, set] = useState<Asked>({ text: "", route: query.get("route") ?? "", producer: "", key: "", asFrom: "" });
  const typed = useRef<Partial<Asked>>({}); // what a person has written is not replaced by an event that comes late
  useEffect(() => {
    typed.current = {};
  }, [query.get("at"), query.get("letter")]);
  useEffect(() => {
    if (start.value) set((old) => ({ ...old, ...start.value, ...typed.current }));
  }, [start.value]);
  const found = useJourneys(asked);
  const [saving, save] = useState(false);
  const change = (changed: Partial<Asked>) => {
    typed.current = { ...typed.current, ...changed };
    set({ ...asked, ...changed });
  };
  return (
    <>
      <Head
        title="Explain"
        note="Which route an event takes, under which key, to which topics and subscriptions, and which clause decides. Nothing is sent."
        actions={
          <button disabled={!found.journeys || Boolean(asked.asFrom)} onClick={() => save(true)}>
            <Icon name="check" /> Save as a test
          </button>
        }
      />
      {start.problem && <ProblemBox problem={start.problem} />}
      <div class="explain">
        <Question asked={asked} onChange={change} />
        <div class="stack" aria-live="polite">
          {found.problem && <ProblemBox problem={found.problem} />}
          {(asked.text || start.loading) && !found.journeys && !found.problem && !found.syntax && <Loading />}
          {found.syntax && <Empty title="No JSON yet" icon="edit">{found.syntax}</Empty>}
          {found.journeys?.map((each, index) => <JourneyView key={index} journey={each} />)}
        </div>
      </div>
      {saving && found.journeys && <Saved asked={asked} journeys={found.journeys} onClose={() => save(false)} />}
    </>
  );
}

/** The event that another page sent here, by its record or its dead letter; else a sample. */
function useStart(query: URLSearchParams) {
  const at = query.get("at") ?? "";
  const letter = Number(query.get("letter") ?? 0);
  return useLoad<Partial<Asked> | null>(
    async (signal) => {
      if (at) return ofMessage(await recordAt(placeIn(at), signal));
      if (letter) {
        const found = await api.get("/v1/dead-letters/{letter}", { path: { letter }, signal });
        return ofMessage(found.message ?? null);
      }
      const { configuration } = await api.get("/v1/config", { signal });
      return { text: sampleFor(configuration as Record<string, Json>, query.get("route") ?? "") };
    },
    [at, letter],
  );
}

function ofMessage(message: Message | null): Partial<Asked> | null {
  if (!message?.event) return null;
  return { text: indented(documentOf(message)), key: message.key ?? "" };
}

/** `broker/topic/with/slashes/0@42`. */
function placeIn(text: string): Place {
  const parts = text.split("/");
  const [broker = ""] = parts.splice(0, 1);
  const [last = ""] = parts.splice(-1);
  const [partition = "0", position = ""] = last.split("@", 2);
  return { broker, topic: parts.join("/"), partition: Number(partition), position };
}

interface Explained {
  journeys: Journey[] | undefined;
  problem: Problem | undefined;
  /** Why the text is no JSON. */
  syntax: string;
}

/** Asks again whenever the question changes; the last answer stays until the next one. */
function useJourneys(asked: Asked): Explained {
  const [state, set] = useState<Explained>({ journeys: undefined, problem: undefined, syntax: "" });
  useEffect(() => {
    const control = new AbortController();
    const ask = async () => {
      const wrong = faultOf(asked.text);
      if (!asked.text) return;
      if (wrong) return set((old) => ({ ...old, journeys: undefined, problem: undefined, syntax: wrong }));
      try {
        set({ journeys: await explain(asked, control.signal), problem: undefined, syntax: "" });
      } catch (error) {
        if (!control.signal.aborted) set({ journeys: undefined, problem: problemOf(error), syntax: "" });
      }
    };
    const timer = setTimeout(() => void ask(), QUIET_MS);
    return () => (clearTimeout(timer), control.abort());
  }, [JSON.stringify(asked)]);
  return state;
}

function faultOf(text: string): string {
  try {
    JSON.parse(text);
    return "";
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

async function explain(asked: Asked, signal: AbortSignal): Promise<Journey[]> {
  const batch = asked.text.trimStart().startsWith("[");
  const { route, producer, asFrom } = asked;
  const query = { route: route || null, producer: producer || null, as_from: asFrom || null };
  const type = batch ? "application/cloudevents-batch+json" : JSON_EVENT;
  const headers: Record<string, string> = asked.key ? { "skybridge-key": keyHeader(asked.key) } : {};
  return api.post("/v1/explain", { query, body: asked.text, type, headers, signal });
}

function Question({ asked, onChange }: { asked: Asked; onChange: (changed: Partial<Asked>) => void }) {
  const { value } = useStatus();
  const topics = useLoad((signal) => api.get("/v1/topics", { signal }), []);
  const all = (topics.value ?? []).map((each) => `${each.broker}/${each.name}`);
  return (
    <Card title="Event">
      <div class="stack">
        <label class="field">
          <span>An event or a batch, in JSON</span>
          <textarea
            class="tall"
            spellcheck={false}
            value={asked.text}
            onInput={(event) => onChange({ text: event.currentTarget.value })}
          />
        </label>
        <div class="fields">
          <Choice
            name="Posted to"
            value={asked.route}
            none="/events (routes decide)"
            values={(value?.routes ?? []).map((each) => each.name)}
            onChange={(route) => onChange({ route, asFrom: "" })}
          />
          <Choice
            name="Sent by"
            value={asked.producer}
            none="any, rights unchecked"
            values={(value?.producers ?? []).map((each) => each.name)}
            onChange={(producer) => onChange({ producer })}
          />
          <Choice
            name="Or written by another client to"
            value={asked.asFrom}
            none="no topic"
            values={all}
            onChange={(asFrom) => onChange({ asFrom, route: "" })}
          />
          <label class="field">
            <span>Key of the request</span>
            <input value={asked.key} onInput={(event) => onChange({ key: event.currentTarget.value })} />
          </label>
        </div>
        <p class="note">
          For a real event, open it in <a href="#/events">Events</a> and press Explain.
        </p>
      </div>
    </Card>
  );
}

interface ChoiceProps {
  name: string;
  value: string;
  none: string;
  values: string[];
  onChange: (value: string) => void;
}

function Choice({ name, value, none, values, onChange }: ChoiceProps) {
  return (
    <label class="field">
      <span>{name}</span>
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        <option value="">{none}</option>
        {values.map((each) => (
          <option key={each}>{each}</option>
        ))}
      </select>
    </label>
  );
}

function Saved({ asked, journeys, onClose }: { asked: Asked; journeys: Journey[]; onClose: () => void }) {
  const yaml = useMemo(() => casesOf(asked, journeys) ?? "", [asked, journeys]);
  return (
    <Dialog open wide title="A test of this event" onClose={onClose}>
      <div class="stack">
        <p>
          Save it as <code>cases.yaml</code> beside the configuration and run{" "}
          <code>skybridge test cases.yaml --config skybridge.yaml</code>. It fails as soon as a change sends the event
          elsewhere.
        </p>
        <Code text={yaml} label="cases.yaml" />
      </div>
    </Dialog>
  );
}

export const explainPage: Page = {
  id: "explain",
  title: "Explain",
  key: "x",
  icon: "explain",
  group: "Work",
  scope: "read",
  component: Explain,
};
