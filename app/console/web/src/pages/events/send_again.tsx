// Sends an event again: into its topic, where every subscription gets it, or to one subscription alone.
import { useState } from "preact/hooks";

import { api } from "../../api/client";
import type { Message, TestAnswer } from "../../api/types";
import { useAction } from "../../api/use";
import { milliseconds } from "../../format";
import { documentOf, JSON_EVENT, keyHeader, placeOf } from "../../messages";
import { link } from "../../router";
import { useStatus } from "../../status";
import { Badge } from "../../ui/badge";
import { Code } from "../../ui/code";
import { Dialog } from "../../ui/dialog";
import { ProblemBox } from "../../ui/problem";

interface Props {
  open: boolean;
  onClose: () => void;
  message: Message;
  broker: string;
}

type Sent = { place: string; href: string } | { answer: TestAnswer; to: string };

export function SendAgain({ open, onClose, message, broker }: Props) {
  const [to, choose] = useState("");
  const [sent, set] = useState<Sent>();
  const subscriptions = useStatus().value?.subscriptions ?? [];
  const send = useAction(async () => set(to ? await toOne(to, message) : await toTopic(broker, message)));
  const close = () => (set(undefined), send.clear(), onClose());
  const submit = (event: Event) => (event.preventDefault(), void send.run());
  return (
    <Dialog open={open} onClose={close} title="Send again">
      <form onSubmit={submit}>
        <p>The event goes out with the same id and source, so that targets can know it as a repeat.</p>
        <label class="field">
          <span>To</span>
          <select value={to} onChange={(event) => choose(event.currentTarget.value)}>
            <option value="">
              {broker}/{message.topic}: every subscription
            </option>
            {subscriptions.map((each) => (
              <option key={each.id} value={each.id}>
                {each.id} alone, now, without its filters
              </option>
            ))}
          </select>
        </label>
        {send.problem && <ProblemBox problem={send.problem} />}
        {sent && <Outcome sent={sent} />}
        <div class="actions">
          <button type="button" onClick={close}>
            {sent ? "Close" : "Cancel"}
          </button>
          <button type="submit" class="primary" disabled={send.busy}>
            Send
          </button>
        </div>
      </form>
    </Dialog>
  );
}

async function toTopic(broker: string, message: Message): Promise<Sent> {
  const receipt = await api.post("/v1/topics/{broker}/{topic}/records", {
    path: { broker, topic: message.topic },
    query: { content_mode: message.mode === "structured" ? "structured" : "binary" },
    ...posted(message),
  });
  const { topic, partition, position } = receipt;
  return {
    place: placeOf(receipt, broker),
    href: link(["events", "record", broker, topic, String(partition), position]),
  };
}

async function toOne(id: string, message: Message): Promise<Sent> {
  const { body, type } = posted(message);
  return { to: id, answer: await api.post("/v1/subscriptions/{id}:test", { path: { id }, body, type }) };
}

function posted(message: Message) {
  const headers: Record<string, string> = message.key ? { "skybridge-key": keyHeader(message.key) } : {};
  return { body: documentOf(message), type: JSON_EVENT, headers };
}

function Outcome({ sent }: { sent: Sent }) {
  if ("place" in sent)
    return (
      <p role="status">
        Stored in <a href={sent.href}>{sent.place}</a>.
      </p>
    );
  const { answer, to } = sent;
  return (
    <div role="status" class="stack">
      <p>
        <Badge tone={answer.delivered ? "ok" : "bad"}>{answer.delivered ? "delivered" : answer.fault || "refused"}</Badge>{" "}
        {to} answered {answer.status ?? "nothing"} after {milliseconds(answer.duration_ms)}. {answer.detail}
      </p>
      {answer.response && <Code text={answer.response} label="Answer" />}
    </div>
  );
}
