// Writes JSON values as YAML 1.2 in the manner of the configuration file: block style, two spaces, quotes only where
// a plain scalar would be read as something else. Reading YAML is the server's part.
import type { Json } from "./api/types";

export function toYaml(value: Json): string {
  return `${block(value, 0)}\n`;
}

function block(value: Json, depth: number): string {
  if (Array.isArray(value) && value.length) return value.map((each) => `${pad(depth)}- ${item(each, depth + 1)}`).join("\n");
  if (isObject(value) && Object.keys(value).length)
    return Object.entries(value)
      .map(([name, each]) => `${pad(depth)}${scalar(name)}:${member(each, depth)}`)
      .join("\n");
  return pad(depth) + scalar(value);
}

/** After a dash: the first line stands beside it. */
function item(value: Json, depth: number): string {
  return nested(value) ? block(value, depth).trimStart() : inline(value, depth);
}

function member(value: Json, depth: number): string {
  if (!nested(value)) return ` ${inline(value, depth + 1)}`;
  if (Array.isArray(value) && value.every((each) => !nested(each) && !String(each).includes("\n"))) {
    const flow = `[${value.map(flowScalar).join(", ")}]`;
    if (flow.length <= 72) return ` ${flow}`;
  }
  return `\n${block(value, depth + 1)}`;
}

function inline(value: Json, depth: number): string {
  if (typeof value !== "string" || !/\n./.test(value) || /[^\n\x20-\x7e\xa0-\uffff]| \n/.test(value) || /^\s/.test(value))
    return scalar(value);
  const chomp = value.endsWith("\n") ? (value.endsWith("\n\n") ? "+" : "") : "-";
  const lines = value.replace(/\n$/, "").split("\n");
  return `|${chomp}\n${lines.map((line) => (line ? pad(depth) + line : "")).join("\n")}`;
}

function scalar(value: Json): string {
  if (typeof value !== "string") return JSON.stringify(value);
  return plain(value) ? value : JSON.stringify(value);
}

function flowScalar(value: Json): string {
  return typeof value === "string" && /[,[\]{}]/.test(value) ? JSON.stringify(value) : scalar(value);
}

/** Whether YAML reads it as this very text without quotes. */
function plain(text: string): boolean {
  return (
    /^[A-Za-z0-9_/.$(][^\x00-\x1f\x7f-\x9f\ufeff]*$/.test(text) &&
    !/: |:$| #|\s$/.test(text) &&
    !/^(null|true|false|yes|no|on|off|y|n)$/i.test(text) &&
    !/^[-+.]?[0-9][0-9_]*([.:xob][0-9a-f_.:]*)?(e[-+]?[0-9]+)?$/i.test(text) &&
    !/^\.(inf|nan)$/i.test(text) &&
    !/^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}/.test(text)
  );
}

function isObject(value: Json): value is { [name: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function nested(value: Json): boolean {
  return typeof value === "object" && value !== null && Object.keys(value).length > 0;
}

function pad(depth: number): string {
  return "  ".repeat(depth);
}
