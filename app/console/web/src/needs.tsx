// What needs a person, in words, each with the button that mends it.
import { api } from "./api/client";
import type { Attention, Status, SubscriptionHealth } from "./api/types";
import { useAction } from "./api/use";
import { capital } from "./format";
import { link } from "./router";
import { useSession } from "./session";
import { changed } from "./status";
import { TryNow } from "./subscription/retry";
import { Copy } from "./ui/copy";
import { Icon } from "./ui/icons";
import { ProblemBox } from "./ui/problem";

interface Need extends Attention {
  tone: "bad" | "warn";
}

const BY_FILE = /by its configuration/; // resuming it is refused: its document says so

/** The service's own list, and pauses by a person: they end only when somebody remembers them. */
export function needsOf(status: Status): Need[] {
  const paused = status.subscriptions
    .filter((each) => each.state === "paused" && each.paused_for === null)
    .map((each) => ({
      subject: `subscription ${each.id}`,
      detail: `Paused, its events wait in the log: ${each.cause.replace(/^paused: /, "") || "no reason was given"}.`,
      next: `skybridge subscriptions ${BY_FILE.test(each.cause) ? "show" : "resume"} ${each.id}`,
      tone: "warn" as const,
    }));
  const found = status.attention.map((each) => ({ ...each, tone: toneOf(each, status) }));
  return [...found, ...paused];
}

/** What is accepted and stored no more is bad; what waits is a warning. */
function toneOf(need: Attention, status: Status): "bad" | "warn" {
  const found = subscriptionOf(need, status);
  if (!found) return "bad";
  return ["disabled", "broken", "restarting", "stopped"].includes(found.state) ? "bad" : "warn";
}

function subscriptionOf(need: Attention, status: Status): SubscriptionHealth | undefined {
  const [, id] = /^subscription (.+)$/.exec(need.subject) ?? [];
  return status.subscriptions.find((each) => each.id === id);
}

export function Needs({ status }: { status: Status }) {
  const needs = needsOf(status);
  if (!needs.length)
    return (
      <p class="calm">
        <Icon name="check" /> Nothing needs attention: all brokers answer and every subscription delivers.
      </p>
    );
  return (
    <ul class="stack tight" aria-label="What needs a person">
      {needs.map((each) => (
        <li key={each.subject + each.next}>
          <Item need={each} status={status} />
        </li>
      ))}
    </ul>
  );
}

function Item({ need, status }: { need: Need; status: Status }) {
  const [kind, ...name] = need.subject.split(" ");
  return (
    <div class={`needs ${need.tone}`}>
      <Icon name="warning" />
      <div>
        <strong>
          {kind![0]!.toUpperCase() + kind!.slice(1)} {name.join(" ")}
        </strong>
        <p>{capital(need.detail)}</p>
      </div>
      <Mend need={need} status={status} />
    </div>
  );
}

function Mend({ need, status }: { need: Need; status: Status }) {
  const { may } = useSession();
  const found = subscriptionOf(need, status);
  const resume = useAction((id: string) => api.post("/v1/subscriptions/{id}:resume", { path: { id } }));
  if (!found) return <Other need={need} />;
  const { id } = found;
  if (resume.problem) return <ProblemBox problem={resume.problem} />;
  if (need.next.includes(" resume "))
    return may("operate") ? (
      <button class="primary" disabled={resume.busy} onClick={async () => (await resume.run(id)) && changed()}>
        <Icon name="play" /> Resume {id}
      </button>
    ) : null;
  if (need.next.includes(" retry ")) return <TryNow id={id} />;
  const [label, address] = whereOf(need.next, id, may("operate"));
  return (
    <a class="button" href={address}>
      {label}
    </a>
  );
}

function whereOf(command: string, id: string, operates: boolean): [string, string] {
  if (command.includes("dead-letters")) return [operates ? "Show and redrive" : "Show the dead letters", link(["letters"], { subscription: id })];
  if (command.includes(" parked ")) return ["Show the parked keys", link(["subscriptions", id, "parked"])];
  if (command.includes(" attempts ")) return ["Show its attempts", link(["subscriptions", id, "attempts"])];
  return ["Open the subscription", link(["subscriptions", id])];
}

/** A broker, a disk, the file: mended outside; the command shows more. */
function Other({ need }: { need: Need }) {
  return (
    <div class="actions">
      {need.subject === "configuration" && (
        <a class="button" href={link(["configuration"])}>
          Open the configuration
        </a>
      )}
      <code class="command">{need.next}</code>
      <Copy value={need.next} label="Copy the command" />
    </div>
  );
}
