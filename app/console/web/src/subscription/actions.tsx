// The buttons of a subscription. Those that the session does not allow are not drawn.
import { useState } from "preact/hooks";

import { api } from "../api/client";
import type { Standing, TestAnswer } from "../api/types";
import { useAction } from "../api/use";
import { count, milliseconds } from "../format";
import { go, link } from "../router";
import { useSession } from "../session";
import { changed } from "../status";
import { Badge } from "../ui/badge";
import { Code } from "../ui/code";
import { Confirm, Dialog } from "../ui/dialog";
import { Loading } from "../ui/empty";
import { Icon } from "../ui/icons";
import { ProblemBox } from "../ui/problem";
import { ReplayDialog } from "./replay";
import { TryNow, waits } from "./retry";
import { isHalted, parkedIn, sinkKind, sourceOf, type Document } from "./words";

interface Props {
  standing: Standing;
  document: Document | undefined;
  reload: () => void;
}

type Asked = "" | "pause" | "test" | "replay" | "delete";

export function Actions({ standing, document, reload }: Props) {
  const { may } = useSession();
  const [asked, ask] = useState<Asked>("");
  const close = () => ask("");
  const done = () => {
    close();
    reload();
    changed();
  };
  const { id, health } = standing;
  const pulled = document && sinkKind(document) === "pull";
  return (
    <>
      {may("operate") && (
        <>
          {isHalted(health) ? (
            <Resume id={id} done={done} />
          ) : (
            <button onClick={() => ask("pause")}>
              <Icon name="pause" /> Pause
            </button>
          )}
          {!pulled && (
            <>
              {waits(health) && <TryNow id={id} done={reload} />}
              <button onClick={() => ask("test")}>
                <Icon name="send" /> Test event
              </button>
              <button onClick={() => ask("replay")}>
                <Icon name="replay" /> Replay
              </button>
            </>
          )}
        </>
      )}
      {may("configure") && standing.origin === "api" && (
        <>
          <a class="button" href={link(["subscriptions", id, "change"])}>
            <Icon name="edit" /> Change
          </a>
          <button onClick={() => ask("delete")} aria-label="Delete" title="Delete">
            <Icon name="trash" />
          </button>
        </>
      )}
      <Pause id={id} open={asked === "pause"} close={close} done={done} />
      {asked === "test" && <Test id={id} close={close} />}
      {asked === "replay" && document && <ReplayDialog id={id} document={document} close={close} done={done} />}
      <Delete standing={standing} open={asked === "delete"} close={close} document={document} />
    </>
  );
}

interface Asking {
  id: string;
  open: boolean;
  close: () => void;
  done: () => void;
}

function Resume({ id, done }: { id: string; done: () => void }) {
  const resume = useAction(() => api.post("/v1/subscriptions/{id}:resume", { path: { id } }));
  return (
    <>
      <button class="primary" disabled={resume.busy} onClick={async () => (await resume.run()) && done()}>
        <Icon name="play" /> Resume
      </button>
      <Dialog open={resume.problem !== undefined} title={`Resume ${id}`} onClose={resume.clear}>
        {resume.problem && <ProblemBox problem={resume.problem} />}
      </Dialog>
    </>
  );
}

function Pause({ id, open, close, done }: Asking) {
  const [cause, set] = useState("");
  const pause = useAction(() => api.post("/v1/subscriptions/{id}:pause", { path: { id }, body: { cause } }));
  return (
    <Confirm
      open={open}
      title={`Pause ${id}`}
      verb="Pause"
      busy={pause.busy}
      problem={pause.problem}
      onClose={close}
      onConfirm={async () => (await pause.run()) && done()}
    >
      <p>Nothing is sent until you resume it, also after a restart. Its events wait in the log.</p>
      <label class="field">
        <span>Reason</span>
        <input
          value={cause}
          maxLength={500}
          placeholder="The target is under repair until noon"
          onInput={(event) => set(event.currentTarget.value)}
        />
        <small>Colleagues see it beside the state.</small>
      </label>
    </Confirm>
  );
}

/** Sends at once when it opens: it is what the button said. */
function Test({ id, close }: { id: string; close: () => void }) {
  const [answer, set] = useState<TestAnswer>();
  const test = useAction(async () => set(await api.post("/v1/subscriptions/{id}:test", { path: { id } })));
  return (
    <Dialog open title={`Test event to ${id}`} onClose={close}>
      <div class="stack">
        <p>One event of type dev.skybridge.subscription.test goes to the target now, past filters, order and pauses.</p>
        {test.busy && <Loading what="Waiting for the answer" />}
        {test.problem && <ProblemBox problem={test.problem} />}
        {answer && !test.busy && <Answer answer={answer} />}
        {answer?.next && !test.busy && (
          <p>
            Events wait for their next attempt. <TryNow id={id} />
          </p>
        )}
        <div class="actions">
          <button class="primary" disabled={test.busy} onClick={() => void test.run()}>
            <Icon name="send" /> {answer ? "Send another" : "Send"}
          </button>
        </div>
      </div>
    </Dialog>
  );
}

function Answer({ answer }: { answer: TestAnswer }) {
  return (
    <>
      <p>
        <Badge tone={answer.delivered ? "ok" : "bad"}>{answer.delivered ? "delivered" : "not delivered"}</Badge>{" "}
        {answer.status ?? answer.fault} in {milliseconds(answer.duration_ms)}
      </p>
      {answer.detail && <p>{answer.detail}</p>}
      {answer.response && <Code label="The answer" text={answer.response} />}
    </>
  );
}

function parkedOf(rows: number | null): string {
  if (rows === null) return "The store does not report its parked events; they are deleted with it.";
  if (!rows) return "";
  return rows === 1 ? "1 parked event is deleted with it." : `${count(rows)} parked events are deleted with it.`;
}

function Delete({ standing, open, close, document }: { standing: Standing; open: boolean; close: () => void; document: Document | undefined }) {
  const { id, etag, health } = standing;
  const remove = useAction(() =>
    api.delete("/v1/subscriptions/{id}", { path: { id }, headers: { "if-match": etag } }),
  );
  const confirmed = async () => {
    if (!(await remove.run())) return;
    changed();
    go(link(["subscriptions"]));
  };
  return (
    <Confirm
      open={open}
      title={`Delete ${id}`}
      verb="Delete"
      word={id}
      danger
      busy={remove.busy}
      problem={remove.problem}
      onClose={close}
      onConfirm={confirmed}
    >
      <p>
        It no longer reads {document ? sourceOf(document) : "its topics"}. {parkedOf(parkedIn(health))} Its dead letters
        stay.
      </p>
    </Confirm>
  );
}
