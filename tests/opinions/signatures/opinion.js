// The npm package of Standard Webhooks, asked over stdin: one JSON object a line, one answer a line.
// It knows v1 alone; v1a is judged by Node's own ed25519, which is nobody's library of webhooks.
"use strict";

const { Webhook } = require("standardwebhooks");
const { createInterface } = require("node:readline");
const { createPublicKey, verify } = require("node:crypto");

const SPKI = Buffer.from("302a300506032b6570032100", "hex"); // ed25519, before the 32 bytes of a key

function checkV1({ secret, headers, body }) {
  new Webhook(secret).verify(Buffer.from(body, "base64").toString("utf8"), headers);
  return { valid: true };
}

function checkV1a({ key, headers, body }) {
  const raw = Buffer.from(key.replace("whpk_", ""), "base64");
  const found = createPublicKey({ key: Buffer.concat([SPKI, raw]), format: "der", type: "spki" });
  const head = `${headers["webhook-id"]}.${headers["webhook-timestamp"]}.`;
  const content = Buffer.concat([Buffer.from(head), Buffer.from(body, "base64")]);
  const given = headers["webhook-signature"].split(" ").filter((each) => each.startsWith("v1a,"));
  const fits = (each) => verify(null, content, found, Buffer.from(each.slice(4), "base64"));
  return { valid: given.some(fits) };
}

function sign({ secret, id, at, body }) {
  const text = Buffer.from(body, "base64").toString("utf8");
  return { signature: new Webhook(secret).sign(id, new Date(at * 1000), text) };
}

const ANSWERS = { v1: checkV1, v1a: checkV1a, sign };

createInterface({ input: process.stdin }).on("line", (line) => {
  const question = JSON.parse(line);
  let answer;
  try {
    answer = ANSWERS[question.ask](question);
  } catch (error) {
    answer = { valid: false, error: String(error) };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
});
