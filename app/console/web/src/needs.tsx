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
import { toneOfNeed } from "./verdicts";

function subscriptionOf(need: Attention, status: Status): SubscriptionHealth | undefined {
  const [, id] = /^subscription (.+)$/.exec(need.subject) ?? [];
  return status.subscriptions.find((each) => each.id === id);
}

export function Needs({ status }: { status: Status }) {
  const needs = status.attention;
  if (!needs.length)
    return (
      <p class="calm">
        <Icon name="check" /> Nothing needs attention: all brokers answer
        {status.subscriptions.length > 0 && " and every subscription delivers"}.
      </p>
    );
  return (
    <ul class="stack tight" aria-label="What needs a person">
      {byCure(needs).map((each) => (
        <li key={each[0].subject + each[0].verdict + each[0].next}>
          <Item needs={each} title={capital(each[0].subject)} found={subscriptionOf(each[0], status)} />
        </li>
      ))}
    </ul>
  );
}

type SomeNeeds = [Attention, ...Attention[]];

/** Verdicts on one thing that have one cure are told together: keys are parked because their target fails. */
export function byCure(needs: Attention[]): SomeNeeds[] {
  const groups = new Map<string, SomeNeeds>();
  for (const each of needs) {
    const key = `${each.subject} ${each.next}`;
    const group = groups.get(key);
    if (group) group.push(each);
    else groups.set(key, [each]);
  }
  return [...groups.values()];
}

interface ItemProps {
  /** With one cure. The first is the gravest. */
  needs: SomeNeeds;
  title: string;
  /** The subscription that it is about. */
  found: SubscriptionHealth | undefined;
  /** True on the page of the subscription, whose head has the buttons Resume and Try now, and which shows it. */
  headed?: boolean;
}

/** What happened, with its cure. */
export function Item({ needs, title, found, headed }: ItemProps) {
  const [need] = needs;
  return (
    <div class={`needs ${toneOfNeed(need)}`} data-verdict={need.verdict}>
      <Icon name="warning" />
      <div>
        <strong>{title}</strong>
        <p>
          {[...needs.map((each) => each.detail), need.cure].map((each) => `${capital(each)}.`).join(" ")}
        </p>
      </div>
      {!(headed && / (resume|retry|show) /.test(need.next)) && <Mend need={need} found={found} />}
    </div>
  );
}

function Mend({ need, found }: { need: Attention; found: SubscriptionHealth | undefined }) {
  const { may } = useSession();
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
  const where = whereOf(need.next, id, may("operate"));
  if (!where) return <Other need={need} />;
  const [label, address] = where;
  return (
    <a class="button" href={address}>
      {label}
    </a>
  );
}

function whereOf(command: string, id: string, operates: boolean): [string, string] | undefined {
  if (command.includes("dead-letters")) return [operates ? (command.includes(" discard ") ? "Show and discard" : "Show and redrive") : "Show the dead letters", link(["letters"], { subscription: id })];
  if (command.includes(" attempts ")) return ["Show its attempts", link(["subscriptions", id, "attempts"])];
  if (command.includes(" show ")) return ["Open the subscription", link(["subscriptions", id])];
  return undefined;
}

/** A broker, a disk, the file: mended outside; the command shows more. */
function Other({ need }: { need: Attention }) {
  const { may } = useSession();
  if (need.next.includes(" pull ") && !may("pull")) return null;
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
