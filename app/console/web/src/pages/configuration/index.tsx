// Configuration: what is in force, a candidate with its faults and its plan, and the reload.
import { api } from "../../api/client";
import type { Configuration, Json, Reload } from "../../api/types";
import { useAction, useLoad } from "../../api/use";
import { link } from "../../router";
import { Allowed, useSession } from "../../session";
import { Badge, toneOf } from "../../ui/badge";
import { Code } from "../../ui/code";
import { Loading } from "../../ui/empty";
import { Icon } from "../../ui/icons";
import { Card, Head, Tabs } from "../../ui/page";
import { ProblemBox } from "../../ui/problem";
import { Time } from "../../ui/time";
import { toYaml } from "../../yaml";
import type { Page, PageProps } from "../page";
import { Candidate } from "./candidate";
import { Lines } from "./faults";

const EVERY = 3_000; // milliseconds

function ConfigurationPage({ path }: PageProps) {
  const { may } = useSession();
  const found = useLoad((signal) => api.get("/v1/config", { signal }), [], EVERY);
  const reload = useAction(() => api.post("/v1/config:reload").finally(found.reload));
  const tab = path[0] === "candidate" && may("configure") ? "candidate" : "force";
  const tabs = [
    { id: "force", title: "In force", href: link(["configuration"]) },
    ...(may("configure") ? [{ id: "candidate", title: "Candidate", href: link(["configuration", "candidate"]) }] : []),
  ];
  return (
    <>
      <Head
        title="Configuration"
        note={found.value && (found.value.source ? <code>{found.value.source}</code> : "No file: the defaults of a first start")}
        actions={
          <Allowed scope="configure">
            <button class="primary" disabled={reload.busy} onClick={() => void reload.run()}>
              <Icon name="replay" /> Reload the file
            </button>
          </Allowed>
        }
      />
      <Tabs label="Configuration" tabs={tabs} current={tab} />
      <div class="stack">
        {reload.problem && <Refused problem={reload.problem} />}
        {found.problem && <ProblemBox problem={found.problem} onRetry={found.reload} />}
        {!found.value && found.loading && <Loading />}
        {found.value && (tab === "candidate" ? <Candidate running={yamlOf(found.value)} /> : <Running found={found.value} />)}
      </div>
    </>
  );
}

function yamlOf(found: Configuration): string {
  return toYaml(found.configuration as Json);
}

function Refused({ problem }: { problem: Parameters<typeof ProblemBox>[0]["problem"] }) {
  const { faults, ...rest } = problem;
  return (
    <>
      <ProblemBox problem={{ ...rest, detail: rest.detail || "The configuration in force stays.", faults: [] }} />
      {faults && faults.length > 0 && (
        <Card title="What is wrong">
          <Lines texts={faults.map((each) => each.detail)} tone="bad" />
        </Card>
      )}
    </>
  );
}

function Running({ found }: { found: Configuration }) {
  const { taken, last } = found;
  const warnings = taken.warnings;
  return (
    <>
      <div class="columns">
        <ReloadCard title="Last reload" reload={last} />
        {last.at !== taken.at && <ReloadCard title="In force since" reload={taken} />}
        <Card title={warnings.length ? "Warnings" : "No warnings"}>
          {warnings.length > 0 ? (
            <Lines texts={warnings} tone="warn" />
          ) : (
            <p class="note">The check found nothing doubtful in the file.</p>
          )}
        </Card>
      </div>
      <Card
        title="Every setting in force"
        actions={<span class="note">Defaults included, secrets hidden. Digest <code>{found.digest}</code></span>}
      >
        <Code text={yamlOf(found)} label="Configuration in force" />
      </Card>
    </>
  );
}

const CAUSES: Record<Reload["cause"], string> = {
  start: "at the start",
  signal: "by SIGHUP",
  file: "by a change of the file",
  api: "by the API",
};

function ReloadCard({ title, reload }: { title: string; reload: Reload }) {
  return (
    <Card title={title} actions={<Badge tone={toneOf(reload.outcome)}>{reload.outcome}</Badge>}>
      <div class="stack close">
        <p>
          <Time ms={Date.parse(reload.at)} as="exact" />, {CAUSES[reload.cause]}
        </p>
        {reload.faults.length > 0 && <Lines texts={reload.faults} tone="bad" />}
        {reload.changes.length > 0 && (
          <ul class="plain">
            {reload.changes.map((each) => (
              <li key={each}>
                <code>{each}</code>
              </li>
            ))}
          </ul>
        )}
        {reload.restarted.length > 0 && <p>Restarted: {reload.restarted.join(", ")}</p>}
      </div>
    </Card>
  );
}

export const configuration: Page = {
  id: "configuration",
  title: "Configuration",
  key: "c",
  icon: "configuration",
  group: "Service",
  scope: "read",
  component: ConfigurationPage,
};
