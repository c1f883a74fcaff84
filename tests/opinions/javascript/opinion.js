// The official JavaScript SDK, asked over stdin: one JSON object a line, one answer a line.
// Header bytes of HTTP become text as Node makes them: Latin-1, repeats joined, but for Content-Type,
// of which the first stands. A body is text where its bytes are UTF-8, as the SDK's examples read it; the
// headers of a record are text, since the SDK fails on the bytes that clients give, and its value is bytes.
"use strict";

const { CloudEvent, HTTP, Kafka } = require("cloudevents");
const { createInterface } = require("node:readline");
const { isUtf8 } = require("node:buffer");

const CORE = new Set(["data", "data_base64"]);
const bytes = (base64) => (base64 === null ? null : Buffer.from(base64, "base64"));
const base64 = (value) => Buffer.from(value).toString("base64");
const textOrBytes = (value) => (value !== null && isUtf8(value) ? value.toString("utf8") : value);

function read({ binding, message }) {
  const found = binding === "kafka" ? readRecord(message) : readRequest(message);
  const events = Array.isArray(found) ? found : [found];
  events.forEach((event) => event.validate());
  return { events: events.map(seen) };
}

function readRequest(message) {
  const headers = {};
  for (const [given, value] of message.headers) {
    const name = given.toLowerCase();
    const text = bytes(value).toString("latin1");
    if (!(name in headers)) headers[name] = text;
    else if (name !== "content-type") headers[name] += `, ${text}`;
  }
  return HTTP.toEvent({ headers, body: textOrBytes(bytes(message.body)) });
}

function readRecord(message) {
  const headers = {};
  for (const [name, value] of message.headers) headers[name] = bytes(value)?.toString("utf8");
  const value = bytes(message.value);
  const key = message.key === null ? undefined : bytes(message.key).toString("utf8");
  return Kafka.toEvent({ headers, key, value, body: value });
}

function seen(event) {
  const attributes = {};
  for (const [name, value] of Object.entries(event)) {
    if (!CORE.has(name) && value !== undefined) attributes[name] = value;
  }
  return { attributes, data: shown(event.data) };
}

function shown(data) {
  if (data === undefined) return null;
  if (ArrayBuffer.isView(data)) return { base64: base64(data) };
  return typeof data === "string" ? { text: data } : { json: JSON.stringify(data) };
}

function write({ binding, mode, events }) {
  if (mode === "batch") return { unable: "writes no batches" };
  const [{ attributes, data }] = events;
  const event = new CloudEvent({ ...attributes, ...dataOf(data) });
  const sent = { http: HTTP, kafka: Kafka }[binding][mode](event);
  const headers = Object.entries(sent.headers)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => [name, base64(String(value))]);
  if (binding === "http") return { message: { headers, body: base64(wire(sent.body) ?? "") } };
  const value = wire(sent.value);
  return {
    message: {
      key: sent.key === undefined ? null : base64(String(sent.key)),
      headers,
      value: value === undefined ? null : base64(value),
    },
  };
}

function dataOf(given) {
  if (given === null) return {};
  if ("json" in given) return { data: JSON.parse(given.json) };
  return { data: "text" in given ? given.text : bytes(given.base64) };
}

// What a client puts on the wire: text and bytes as they are, anything else it refuses.
function wire(value) {
  if (value === undefined || value === null) return undefined;
  if (typeof value === "string" || ArrayBuffer.isView(value)) return value;
  throw new TypeError(`the SDK gives the client a value of type ${typeof value}, not text or bytes`);
}

createInterface({ input: process.stdin }).on("line", (line) => {
  const request = JSON.parse(line);
  let answer;
  try {
    answer = { read, write }[request.do](request);
  } catch (error) {
    answer = { error: `${error.name}: ${error.message}`.slice(0, 300) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
});
