// What waits in the store for its turn: by key, by its oldest event.
import { api } from "../../api/client";
import { useCalm, useLoad } from "../../api/use";
import { count, plural } from "../../format";
import { link } from "../../router";
import { Empty, Loading } from "../../ui/empty";
import { Card, Figure, Head, Tabs } from "../../ui/page";
import { ProblemBox } from "../../ui/problem";
import { ParkedTable } from "../../subscription/parked_keys";
import { TryNow } from "../../subscription/retry";

const EVERY = 2_000; // milliseconds
const KEYS_EVERY = 10_000;
const CALM = 5_000;
const MOST = 1_000; // keys of one answer

export function LetterTabs({ current }: { current: "letters" | "parked" }) {
  const tabs = [
    { id: "letters", title: "Dead letters", href: link(["letters"]) },
    { id: "parked", title: "Parked", href: link(["letters", "parked"]) },
  ];
  return <Tabs label="What is not delivered" tabs={tabs} current={current} />;
}

export function ParkedKeys({ subscription }: { subscription: string }) {
  const counts = useLoad((signal) => api.get("/v1/parked/count", { signal }), [], EVERY);
  const query = { limit: MOST, subscription: subscription || null };
  const moved = useCalm(JSON.stringify(counts.value), CALM);
  const keys = useLoad((signal) => api.get("/v1/parked/keys", { query, signal }), [subscription, moved], KEYS_EVERY);
  const rows = keys.value?.keys ?? [];
  const problem = keys.problem ?? counts.problem;
  return (
    <>
      <Head
        title="Parked"
        note="Keys whose oldest event waits for its next attempt. Later events of the key wait behind it; other keys continue."
        actions={subscription && rows.length > 0 && <TryNow id={subscription} done={keys.reload} />}
      />
      <LetterTabs current="parked" />
      <div class="stack">
        {problem && <ProblemBox problem={problem} onRetry={keys.reload} />}
        {(counts.value?.counts.length ?? 0) > 0 && (
          <div class="figures">
            {counts.value!.counts.map((each) => (
              <Figure
                key={each.subscription}
                name={each.subscription}
                value={count(each.rows)}
                unit={`${each.rows === 1 ? "event" : "events"} ${owners(each)}`}
                href={link(["letters", "parked"], subscription === each.subscription ? {} : { subscription: each.subscription })}
              />
            ))}
          </div>
        )}
        {!keys.value && !problem && <Loading />}
        {keys.value && rows.length === 0 && (
          <Empty title="Nothing is parked" icon="check">
            After <code>retry.hold</code> failed attempts an event moves into the store. The later events of its key follow
            it there and wait for their turn, so that other keys continue.
          </Empty>
        )}
        {rows.length > 0 && (
          <Card>
            <ParkedTable rows={rows} named />
          </Card>
        )}
      </div>
    </>
  );
}

/** An event without a key waits on its own, so it counts as no key. */
function owners({ keys, keyless }: { keys: number; keyless: number }) {
  return [keys > 0 && `of ${plural(keys, "key")}`, keyless > 0 && "without a key"].filter(Boolean).join(" or ");
}
