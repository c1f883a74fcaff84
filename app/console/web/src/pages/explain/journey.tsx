// The journey of one event: every route that was evaluated, the key, every topic and subscription, each with the
// clauses that decided.
import type { Filter, Hop, Journey, RouteVerdict, Verdict } from "../../api/types";
import { capital, plural } from "../../format";
import { link } from "../../router";
import { StateOf } from "../../subscription/state";
import { Badge } from "../../ui/badge";
import { Code } from "../../ui/code";
import { Card } from "../../ui/page";
import { ProblemBox } from "../../ui/problem";
import { takers } from "./case";

export function JourneyView({ journey }: { journey: Journey }) {
  const { event, key } = journey;
  const count = takers(journey.hops).length;
  return (
    <Card
      title={
        <>
          {event.type ?? "Event"} <code>{event.id}</code>
        </>
      }
      actions={
        journey.refused ? (
          <Badge tone="bad">refused</Badge>
        ) : (
          <Badge tone={count && !journey.needs_producer ? "ok" : "warn"}>
            {plural(count, "subscription")} would get it{journey.needs_producer && " from a producer"}
          </Badge>
        )
      }
    >
      <div class="stack">
        {journey.refused && <ProblemBox problem={journey.refused} />}
        {journey.needs_producer && (
          <p class="note">
            Only producers may send: a request without a credential is answered 401. Choose a producer in Sent by to
            check its rights.
          </p>
        )}
        {journey.routes.length > 0 && (
          <section aria-label="Routes">
            <h3>Routes, in order</h3>
            <ol class="verdicts">
              {journey.routes.map((each) => (
                <Route key={each.name} route={each} />
              ))}
            </ol>
          </section>
        )}
        {key && (
          <section aria-label="Key">
            <h3>Key</h3>
            <p>
              <code>{key.key_base64 ? `base64 ${key.key_base64}` : (key.key ?? "none")}</code> by {key.mapper}: {key.why}
            </p>
          </section>
        )}
        {journey.hops.map((each) => (
          <HopView key={`${each.broker}/${each.topic}/${each.by}`} hop={each} />
        ))}
      </div>
    </Card>
  );
}

function Route({ route }: { route: RouteVerdict }) {
  const word = route.chosen ? "taken" : route.asked ? "skipped" : "not asked";
  return (
    <li class={route.chosen ? "yes" : "no"}>
      <p class="line">
        <strong>{route.name}</strong> <Badge tone={route.chosen ? "ok" : "quiet"}>{word}</Badge>
        {route.chosen && route.asked && route.filters.length === 0 && <small>It has no filter.</small>}
        {route.why && <small>{capital(route.why)}.</small>}
      </p>
      <Filters filters={route.filters} />
      {(route.invalid ?? []).map((each) => (
        <p key={each.at + each.detail} class="caution">
          <code>{each.at}</code> {each.detail}
        </p>
      ))}
    </li>
  );
}

/** Where several parts decided together, each of them stands below. */
function Filters({ filters }: { filters: Filter[] }) {
  if (!filters.length) return null;
  return (
    <ul class="clauses">
      {filters.map((each, index) => {
        const inner = each.inner ?? [];
        const together = inner.every((part) => part.decided_by !== each.decided_by);
        return (
          <li key={index} class={each.passes ? "yes" : "no"}>
            <span class="mark-word">{each.passes ? "yes" : "no"}</span> <code>{each.decided_by}</code>{" "}
            <span class="because">{each.because}</span>
            {together && <Filters filters={inner} />}
          </li>
        );
      })}
    </ul>
  );
}

function HopView({ hop }: { hop: Hop }) {
  return (
    <section class="hop" aria-label={`Topic ${hop.topic}`}>
      <h3>
        To{" "}
        <a href={link(["events"], { broker: hop.broker, topic: hop.topic })}>
          {hop.broker}/{hop.topic}
        </a>{" "}
        <small>
          by {hop.by}
          {hop.partition !== null && `, partition ${hop.partition} of ${hop.partitions}`}
        </small>
      </h3>
      <ul class="verdicts">
        {hop.subscriptions.map((each) => (
          <Subscription key={each.id} verdict={each} />
        ))}
      </ul>
      {hop.untold.length > 0 && (
        <p class="note">The bindings of the exchange decide for {hop.untold.join(", ")}.</p>
      )}
      {!hop.subscriptions.length && !hop.untold.length && <p class="note">No subscription reads this topic.</p>}
    </section>
  );
}

function Subscription({ verdict }: { verdict: Verdict }) {
  const { state } = verdict;
  return (
    <li class={verdict.wants ? "yes" : "no"}>
      <p class="line">
        <a href={link(["subscriptions", verdict.id])}>{verdict.id}</a>{" "}
        <Badge tone={verdict.wants ? "ok" : "quiet"}>{verdict.wants ? "gets it" : "does not"}</Badge>
        {state && state !== "running" && <StateOf id={verdict.id} state={state} />}
        <small>
          {verdict.sink}
          {verdict.wants && verdict.lane && `, lane ${verdict.lane}`}
        </small>
      </p>
      {verdict.fault && <p class="caution">{verdict.fault}</p>}
      <Filters filters={verdict.filters} />
      {verdict.request && <RequestView request={verdict.request} />}
      {verdict.onward && <HopView hop={verdict.onward} />}
    </li>
  );
}

/** The request that would go out to a target that does not speak CloudEvents. Its secrets are hidden by the service. */
function RequestView({ request }: { request: NonNullable<Verdict["request"]> }) {
  const head = [`${request.method} ${request.url}`, ...request.headers.map(([name, value]) => `${name}: ${value}`)];
  return <Code text={[...head, "", request.body].join("\n")} label="Request to the target" />;
}
