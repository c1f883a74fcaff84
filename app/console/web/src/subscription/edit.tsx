// Makes or changes a subscription: fields, the YAML that they give, and what `check` says of it.
import { useEffect, useMemo, useState } from "preact/hooks";

import { address, api, send } from "../api/client";
import { useAction, useLoad } from "../api/use";
import { go, link } from "../router";
import { useSession } from "../session";
import { changed, useStatus } from "../status";
import { toYaml } from "../yaml";
import { Code } from "../ui/code";
import { Empty, Loading } from "../ui/empty";
import { Icon } from "../ui/icons";
import { Head } from "../ui/page";
import { ProblemBox } from "../ui/problem";
import { useCheck, Remarks } from "./check";
import { documentOf } from "./detail";
import { documentFrom, draftOf, type Draft } from "./draft";
import { Fields } from "./fields";
import { jsonOf, type Document } from "./words";

export function Edit({ id }: { id?: string }) {
  const { may } = useSession();
  const { value: status } = useStatus();
  const before = useLoad(async (signal) => (id ? versionOf(id, signal) : NEW), [id]);
  const head = <Head title={id ? `Change ${id}` : "New subscription"} above={[["Subscriptions", link(["subscriptions"])]]} />;
  if (!may("configure"))
    return (
      <>
        {head}
        <Empty title="The session may not do that" icon="warning">
          To create or change subscriptions it needs the scope <code>configure</code>. Sign in with a token that has it.
        </Empty>
      </>
    );
  if (before.problem)
    return (
      <>
        {head}
        <ProblemBox problem={before.problem} onRetry={before.reload} />
      </>
    );
  if (!before.value || !status) return <Loading />;
  const first = draftOf(before.value.document);
  if (!id) first.broker = Object.keys(status.brokers)[0] ?? "";
  return <Form id={id} etag={before.value.etag} first={first} />;
}

interface Version {
  document: Document;
  etag: string;
}

const NEW: Version = { document: {}, etag: "" };

async function versionOf(id: string, signal: AbortSignal): Promise<Version> {
  const standing = await api.get("/v1/subscriptions/{id}/status", { path: { id }, signal });
  return { document: await documentOf(id, signal), etag: standing.etag };
}

function Form({ id, etag, first }: { id: string | undefined; etag: string; first: Draft }) {
  const [draft, set] = useState(first);
  const { document, problem: unreadable } = useMemo(() => documentFrom(draft), [draft]);
  const check = useCheck(document);
  const save = useAction(() => store(id, etag, document));
  const touched = JSON.stringify(draft) !== JSON.stringify(first);
  useEffect(() => save.clear(), [draft]);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (unreadable || !(await save.run())) return;
    changed();
    go(link(["subscriptions", id ?? draft.id]));
  };
  const back = id ? link(["subscriptions", id]) : link(["subscriptions"]);
  return (
    <form class="stack" onSubmit={submit}>
      <Head
        title={id ? `Change ${id}` : "New subscription"}
        above={[["Subscriptions", link(["subscriptions"])], ...(id ? [[id, back] as [string, string]] : [])]}
        actions={
          <>
            <a class="button" href={back}>
              Cancel
            </a>
            <button class="primary" disabled={save.busy || Boolean(unreadable) || (Boolean(id) && !touched)}>
              <Icon name="check" /> {id ? "Save" : "Create"}
            </button>
          </>
        }
      />
      {save.problem && <ProblemBox problem={save.problem} />}
      <div class="form">
        <Fields draft={draft} change={(part) => set({ ...draft, ...part })} fixed={Boolean(id)} remarks={check} />
        <aside class="stack" aria-label="The settings as YAML">
          <Code label="As in the configuration file" text={toYaml([jsonOf(document)])} />
          {unreadable && (
            <p class="wrong-text" role="alert">
              {unreadable}
            </p>
          )}
          <Remarks remarks={check} quiet={!touched} />
        </aside>
      </div>
    </form>
  );
}

function store(id: string | undefined, etag: string, document: Document): Promise<unknown> {
  if (!id) return send("POST", address("/v1/subscriptions"), { body: document });
  const url = address("/v1/subscriptions/{id}", { path: { id } });
  return send("PUT", url, { body: document, headers: { "if-match": etag } });
}
