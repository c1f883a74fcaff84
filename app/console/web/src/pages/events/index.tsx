// Events: search and live tail; one event with its whole way.
import type { Page, PageProps } from "../page";
import { EventList } from "./list";
import { ByName, ByPlace } from "./one";

function Events({ path, query }: PageProps) {
  const [kind, broker = "", topic = "", partition = "0", position = ""] = path;
  if (kind === "record") return <ByPlace place={{ broker, topic, partition: Number(partition), position }} />;
  const id = query.get("id");
  if (kind === "event" && id) return <ByName id={id} source={query.get("source") ?? ""} />;
  return <EventList query={query} />;
}

export const events: Page = {
  id: "events",
  title: "Events",
  key: "e",
  icon: "events",
  group: "Watch",
  scope: "read",
  wide: true,
  component: Events,
};
