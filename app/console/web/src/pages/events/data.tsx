// Attributes and data of an event; its data as JSON, as text, and in hexadecimal.
import { useState } from "preact/hooks";

import type { Message } from "../../api/types";
import { bytes, count } from "../../format";
import { attributesOf, dataOf, hex, HEX_MOST, type Data } from "../../messages";
import { Code, JsonText } from "../../ui/code";
import { Empty } from "../../ui/empty";
import { Card } from "../../ui/page";

export function DataView({ message }: { message: Message }) {
  return (
    <div class="columns">
      <Attributes message={message} />
      <Body message={message} />
    </div>
  );
}

function Attributes({ message }: { message: Message }) {
  const found = attributesOf(message);
  const foreign = message.foreign ?? [];
  return (
    <Card title="Attributes">
      {found.length > 0 ? <Pairs pairs={found} /> : <Pairs pairs={(message.headers ?? []) as [string, string | null][]} />}
      {foreign.length > 0 && (
        <>
          <h3 class="under">Headers beside the event</h3>
          <Pairs pairs={foreign as [string, string | null][]} />
        </>
      )}
    </Card>
  );
}

function Pairs({ pairs }: { pairs: [string, string | null][] }) {
  return (
    <dl class="facts mono">
      {pairs.map(([name, value], index) => (
        <>
          <dt key={`${name}${index}`}>{name}</dt>
          <dd>{value ?? "null"}</dd>
        </>
      ))}
    </dl>
  );
}

type Form = "pretty" | "raw" | "hex";
const FORMS: [Form, string][] = [
  ["pretty", "Pretty"],
  ["raw", "Raw"],
  ["hex", "Hex"],
];

function Body({ message }: { message: Message }) {
  const data = dataOf(message);
  const [form, set] = useState<Form>();
  const withheld = message.withheld;
  const shown = form ?? (data?.json ? "pretty" : data?.text === null ? "hex" : "raw");
  const possible = FORMS.filter(([each]) => (each === "pretty" ? data?.json : each === "raw" ? data?.text !== null : true));
  return (
    <Card
      title="Data"
      actions={
        data && (
          <>
            <span class="note">{bytes(data.bytes.length)}</span>
            <div class="choice" role="group" aria-label="Form of the data">
              {possible.map(([each, title]) => (
                <button key={each} class="quiet" aria-pressed={each === shown} onClick={() => set(each)}>
                  {title}
                </button>
              ))}
            </div>
          </>
        )
      }
    >
      {withheld === "masked" && <p class="note">Parts of the data are masked: the session lacks the scope data.</p>}
      {withheld === "data" && (
        <Empty title="The data is withheld" icon="warning">
          The session lacks the scope <code>data</code>. Sign in with a token that has it.
        </Empty>
      )}
      {!data && !withheld && <Empty title="No data">The event has attributes only.</Empty>}
      {data && <Shown data={data} form={shown} />}
    </Card>
  );
}

function Shown({ data, form }: { data: Data; form: Form }) {
  if (form === "pretty" && data.json !== null) return <JsonText text={data.json} label="Data as JSON" />;
  if (form === "raw" && data.text !== null) return <Code text={data.text} label="Data as text" />;
  const cut = data.bytes.length > HEX_MOST;
  return (
    <>
      <Code text={hex(data.bytes)} label="Data in hexadecimal" />
      {cut && <p class="note">The first {count(HEX_MOST)} bytes are shown.</p>}
    </>
  );
}
