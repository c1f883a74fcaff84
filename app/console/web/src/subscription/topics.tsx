// The topics that a subscription reads: picked from those of the broker, or written.
import { useId } from "preact/hooks";

import { api } from "../api/client";
import { useLoad } from "../api/use";
import { useStatus } from "../status";
import { words, type Draft } from "./draft";

const SHOWN = 30; // buttons; a broker may have thousands of topics

interface Props {
  draft: Draft;
  change: (part: Partial<Draft>) => void;
  class: string;
}

/** A template of attributes names many topics. */
const isFixed = (topic: string) => !topic.includes("{");

export function Topics({ draft, change, class: name }: Props) {
  const list = useId();
  const { value } = useLoad(
    (signal) => (draft.broker ? api.get("/v1/topics", { query: { broker: draft.broker }, signal }) : Promise.resolve([])),
    [draft.broker],
  );
  const routed = (useStatus().value?.routes ?? []).flatMap((each) => each.to).filter(({ broker }) => broker === draft.broker);
  const known = [...new Set([...(value ?? []).map((each) => each.name), ...routed.map((each) => each.topic).filter(isFixed)])];
  const chosen = words(draft.topics);
  const toggle = (topic: string) => {
    const now = chosen.includes(topic) ? chosen.filter((each) => each !== topic) : [...chosen, topic];
    change({ topics: now.join(", ") });
  };
  return (
    <div class="stack tight topics">
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
          {known.map((each) => (
            <option key={each} value={each} />
          ))}
        </datalist>
        <small>Separated by commas.</small>
      </label>
      {known.length > 0 && (
        <div class="picks" role="group" aria-label={`Pick from ${draft.broker}`}>
          {known.slice(0, SHOWN).map((each) => (
            <button key={each} type="button" class="quiet" aria-pressed={chosen.includes(each)} onClick={() => toggle(each)}>
              {each}
            </button>
          ))}
          {known.length > SHOWN && <span class="note">and {known.length - SHOWN} more: write their names</span>}
        </div>
      )}
    </div>
  );
}
