// A candidate: a text that is checked and planned against the configuration in force while it is written. Nothing is
// applied: the file is changed where it lies, and reloaded.
import { useEffect, useRef, useState } from "preact/hooks";

import { api, problemOf } from "../../api/client";
import type { Json, Plan, Problem, Remark } from "../../api/types";
import { plural } from "../../format";
import { Badge, type Tone } from "../../ui/badge";
import { Empty } from "../../ui/empty";
import { Icon } from "../../ui/icons";
import { Card } from "../../ui/page";
import { ProblemBox } from "../../ui/problem";
import { Remarks } from "./faults";

const QUIET_MS = 400; // after the last key, until the service is asked
const YAML = "application/yaml";

interface Judged {
  remarks: Remark[];
  /** Undefined while a remark is an error. */
  plan: Plan | undefined;
  problem: Problem | undefined;
}

const NOTHING: Judged = { remarks: [], plan: undefined, problem: undefined };

export function Candidate({ running }: { running: string }) {
  const [text, set] = useState("");
  const judged = useJudged(text);
  const area = useRef<HTMLTextAreaElement>(null);
  const open = async (event: { currentTarget: HTMLInputElement }) => {
    const [file] = event.currentTarget.files ?? [];
    if (file) set(await file.text());
  };
  return (
    <div class="explain">
      <Card
        title="Candidate"
        actions={
          <>
            <button onClick={() => set(running)}>
              <Icon name="copy" /> Begin with the one in force
            </button>
            <label class="button">
              Open a file
              <input class="unseen" type="file" accept=".yaml,.yml,.json" onChange={(event) => void open(event)} />
            </label>
          </>
        }
      >
        <Numbered text={text} marked={judged.remarks} area={area} onInput={set} />
      </Card>
      <div class="stack" aria-live="polite">
        {judged.problem && <ProblemBox problem={judged.problem} />}
        {!text.trim() && (
          <Empty title="No candidate yet" icon="configuration">
            Paste a configuration or open its file. Faults, warnings and what a reload would change appear here while you
            write. Nothing is applied and no reference such as <code>{"${env:NAME}"}</code> is resolved.
          </Empty>
        )}
        {judged.remarks.length > 0 && (
          <Card title={titleOf(judged.remarks)}>
            <Remarks remarks={judged.remarks} onLine={(line) => showLine(area.current, line)} />
          </Card>
        )}
        {judged.plan && <Planned plan={judged.plan} />}
      </div>
    </div>
  );
}

function titleOf(remarks: Remark[]): string {
  const errors = remarks.filter((each) => each.level === "error").length;
  const warnings = remarks.length - errors;
  return [errors && plural(errors, "fault"), warnings && plural(warnings, "warning")].filter(Boolean).join(", ");
}

function useJudged(text: string): Judged {
  const [state, set] = useState(NOTHING);
  useEffect(() => {
    if (!text.trim()) return set(NOTHING);
    const control = new AbortController();
    const { signal } = control;
    const timer = setTimeout(async () => {
      try {
        const { valid, remarks } = await api.post("/v1/config:check", { body: text, type: YAML, signal });
        const plan = valid ? await api.post("/v1/config:plan", { body: text, type: YAML, signal }) : undefined;
        if (!signal.aborted) set({ remarks, plan, problem: undefined });
      } catch (error) {
        if (!signal.aborted) set({ ...NOTHING, problem: problemOf(error) });
      }
    }, QUIET_MS);
    return () => (clearTimeout(timer), control.abort());
  }, [text]);
  return state;
}

const LINE = 21; // pixels of a line, as in the style sheet

interface NumberedProps {
  text: string;
  marked: Remark[];
  area: { current: HTMLTextAreaElement | null };
  onInput: (text: string) => void;
}

/** A field with the numbers of its lines; those with a remark are marked. */
function Numbered({ text, marked, area, onInput }: NumberedProps) {
  const numbers = useRef<HTMLPreElement>(null);
  const tones = new Map<number, string>();
  for (const each of marked) if (tones.get(each.line) !== "bad") tones.set(each.line, each.level === "error" ? "bad" : "warn");
  const lines = text.split("\n").length;
  return (
    <div class="numbered">
      <pre ref={numbers} aria-hidden="true">
        {Array.from({ length: lines }, (_, index) => (
          <span key={index} class={tones.get(index + 1)}>{`${index + 1}\n`}</span>
        ))}
      </pre>
      <textarea
        ref={area}
        class="tall"
        wrap="off"
        spellcheck={false}
        aria-label="Candidate, in YAML"
        placeholder="version: 1"
        value={text}
        onInput={(event) => onInput(event.currentTarget.value)}
        onScroll={(event) => numbers.current && (numbers.current.scrollTop = event.currentTarget.scrollTop)}
      />
    </div>
  );
}

function showLine(area: HTMLTextAreaElement | null, line: number): void {
  if (!area) return;
  const lines = area.value.split("\n");
  const start = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
  area.focus();
  area.setSelectionRange(start, start + (lines[line - 1]?.length ?? 0));
  area.scrollTop = Math.max(0, (line - 6) * LINE);
}

const RESULTS: Record<Plan["result"], [Tone, string]> = {
  "no-change": ["quiet", "No change"],
  changes: ["ok", "A reload applies this without a restart"],
  "needs-restart": ["bad", "A reload would be refused: a restart is needed"],
};

function Planned({ plan }: { plan: Plan }) {
  const [tone, said] = RESULTS[plan.result];
  return (
    <Card title="Plan of a reload" actions={<Badge tone={tone}>{said}</Badge>}>
      {plan.changes.length === 0 && <p class="note">It says what is in force. Secrets are not compared.</p>}
      <ul class="changes">
        {plan.changes.map((each) => (
          <li key={each.setting}>
            <p class="line">
              <code>{each.setting}</code> {each.what}
              <Badge tone={each.effect === "live" ? "ok" : "bad"}>{each.effect}</Badge>
            </p>
            <dl>
              {each.old !== null && (
                <>
                  <dt>from</dt>
                  <dd class="old">{shown(each.old)}</dd>
                </>
              )}
              {each.new !== null && (
                <>
                  <dt>to</dt>
                  <dd class="new">{shown(each.new)}</dd>
                </>
              )}
            </dl>
          </li>
        ))}
      </ul>
      {plan.restarted.length > 0 && <p>End and continue at their position: {plan.restarted.join(", ")}</p>}
      {plan.warnings.map((each) => (
        <p key={each} class="caution">
          {each}
        </p>
      ))}
    </Card>
  );
}

function shown(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value as Json);
}
