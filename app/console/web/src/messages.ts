// What a message of a log holds: its event, its data in the forms in which a person reads it, the command that
// posts it again.
import type { EventName, Json, Message } from "./api/types";

type Attributes = Record<string, Json>;

export const JSON_EVENT = "application/cloudevents+json";

const NAMED_BEFORE: Record<string, string> = { id: "eventID", type: "eventType", time: "eventTime" }; // CloudEvents 0.1

/** One attribute of the event of a message, whatever its version; empty where it has none. */
export function attribute(message: Message, name: string): string {
  const event = (message.event ?? message.attributes ?? {}) as Attributes;
  const value = event[name] ?? event[NAMED_BEFORE[name] ?? name];
  return value === undefined || value === null ? "" : String(value);
}

export function nameOf(message: Message): EventName {
  return { id: attribute(message, "id"), source: attribute(message, "source"), type: attribute(message, "type") };
}

/** Every attribute in the order of the event, without its data. */
export function attributesOf(message: Message): [string, string][] {
  const event = (message.event ?? message.attributes ?? {}) as Attributes;
  return Object.entries(event)
    .filter(([name]) => name !== "data" && name !== "data_base64")
    .map(([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value)]);
}

export function placeOf(message: { topic: string; partition: number; position: string }, broker = ""): string {
  return `${broker ? `${broker}/` : ""}${message.topic}/${message.partition}@${message.position}`;
}

export function keyOf(message: Message): string {
  return message.key ?? (message.key_base64 ? `base64 ${message.key_base64}` : "");
}

/** The data of an event. `json`: its text if it is JSON. `text`: null if the bytes are no UTF-8. */
export interface Data {
  bytes: Uint8Array;
  text: string | null;
  json: string | null;
}

/** Null: the event has no data, or it is withheld. In binary mode the bytes are those of the record itself. */
export function dataOf(message: Message): Data | null {
  const event = message.event as Attributes | null | undefined;
  const record = message.mode === "binary" ? message.record : null;
  if (record?.body_base64) return ofBytes(bytesOf(record.body_base64));
  if (record && typeof record.body === "string") return ofText(record.body);
  if (message.body_base64) return ofBytes(bytesOf(message.body_base64));
  if (typeof event?.data_base64 === "string") return ofBytes(bytesOf(event.data_base64));
  if (event?.data === undefined) return null;
  const type = String(event.datacontenttype ?? "application/json");
  const isText = typeof event.data === "string" && !/[/+]json\b/i.test(type);
  return ofText(isText ? (event.data as string) : (asWritten(message) ?? JSON.stringify(event.data)));
}

/** JSON data as it was written, out of the record: read as a value, 1e400 would become null, and 1.10 become 1.1.
 *  Null: the record is not at hand, or the data is a text, whose value holds all of it. */
function asWritten(message: Message): string | null {
  const data = (message.event as Attributes | null | undefined)?.data;
  const body = message.record?.body;
  if (data === undefined || typeof data === "string" || typeof body !== "string") return null;
  if (message.mode === "binary") return body.trim();
  return (message.content_type ?? "").startsWith(JSON_EVENT) ? memberOf(body, "data") : null;
}

const PART = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/** The text of a member of a JSON object; null if it has none of that name. */
function memberOf(object: string, wanted: string): string | null {
  let depth = 0;
  let last = "";
  let start = -1;
  for (const { 0: part, index } of object.matchAll(PART)) {
    if (depth === 1 && start >= 0 && (part === "," || part === "}")) return object.slice(start, index).trim();
    if (depth === 1 && part === ":" && JSON.parse(last) === wanted) start = index + 1;
    if (part === "{" || part === "[") depth += 1;
    if (part === "}" || part === "]") depth -= 1;
    last = part;
  }
  return null;
}

function ofText(text: string): Data {
  return { bytes: new TextEncoder().encode(text), text, json: isJson(text) ? text : null };
}

function ofBytes(bytes: Uint8Array): Data {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return { bytes, text, json: isJson(text) ? text : null };
  } catch {
    return { bytes, text: null, json: null };
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

export function bytesOf(base64: string): Uint8Array {
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}

const A_LINE = 16;
export const HEX_MOST = 64 * 1024; // bytes; more lines would make the page slow

/** As `hexdump -C` writes it: offset, sixteen bytes, the same as ASCII. */
export function hex(bytes: Uint8Array): string {
  const lines: string[] = [];
  const end = Math.min(bytes.length, HEX_MOST);
  for (let at = 0; at < end; at += A_LINE) {
    const part = [...bytes.subarray(at, Math.min(at + A_LINE, end))];
    const pairs = part.map((byte) => byte.toString(16).padStart(2, "0"));
    const halves = `${pairs.slice(0, 8).join(" ")}  ${pairs.slice(8).join(" ")}`.padEnd(49);
    const text = part.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${halves} |${text}|`);
  }
  return lines.join("\n");
}

/** The event as one document in the JSON format, which holds all of it: its data as it was written, if the record
 *  is at hand. */
export function documentOf(message: Message): string {
  const data = asWritten(message);
  if (data === null) return JSON.stringify(message.event ?? {});
  const { data: _, ...attributes } = message.event as Attributes;
  return `${JSON.stringify(attributes).slice(0, -1)},"data":${data}}`;
}

/** The command that posts the event to an events listener: `http://127.0.0.1:8080/events`. */
export function curl(message: Message, url: string): string {
  const headers = [`content-type: ${JSON_EVENT}`];
  if (message.key) headers.push(`skybridge-key: ${message.key}`);
  const lines = headers.map((each) => `-H ${quoted(each)}`);
  return [`curl ${quoted(url)}`, ...lines, `--data-raw ${quoted(documentOf(message))}`].join(" \\\n  ");
}

/** For a POSIX shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** A key as a header carries it: its UTF-8 bytes, one character each. */
export function keyHeader(key: string): string {
  return [...new TextEncoder().encode(key)].map((byte) => String.fromCharCode(byte)).join("");
}

interface Listener {
  host?: string;
  port?: number;
  tls?: unknown;
}

/** Where events are posted, by the configuration in force. A listener on every address is asked on this host. */
export function eventsUrl(configuration: Record<string, unknown> | undefined): string {
  const server = (configuration?.server ?? {}) as { events?: Listener };
  const { host = "127.0.0.1", port = 8080, tls } = server.events ?? {};
  const name = host === "0.0.0.0" || host === "::" ? location.hostname : host;
  return `${tls ? "https" : "http"}://${name.includes(":") && !name.startsWith("[") ? `[${name}]` : name}:${port}/events`;
}

/** Who may send: `open`, `producers`, or "" where only programs of the service's machine reach the listener. */
export function accessOf(configuration: Record<string, unknown> | undefined): string {
  const server = (configuration?.server ?? {}) as { events?: { access?: string | null } };
  return server.events?.access ?? "";
}
