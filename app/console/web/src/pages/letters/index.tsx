// Dead letters and parked events: what is not delivered, why, and what becomes of it.
import type { Page, PageProps } from "../page";
import { LetterList } from "./list";
import { OneLetter } from "./one";
import { ParkedKeys } from "./parked";

function Letters({ path, query }: PageProps) {
  const [first = ""] = path;
  if (first === "parked") return <ParkedKeys subscription={query.get("subscription") ?? ""} />;
  if (/^\d+$/.test(first)) return <OneLetter id={Number(first)} />;
  return <LetterList query={query} />;
}

export const letters: Page = {
  id: "letters",
  title: "Dead letters",
  key: "d",
  icon: "letters",
  group: "Work",
  scope: "read",
  component: Letters,
};
