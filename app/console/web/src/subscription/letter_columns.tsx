// Columns of a table of dead letters.
import type { DeadLetter } from "../api/types";
import { count } from "../format";
import { link } from "../router";
import { Cut, TYPE_TAIL } from "../ui/cut";
import type { Column } from "../ui/table";
import { Time } from "../ui/time";

type LetterColumn = Column<DeadLetter>;

export const NUMBER: LetterColumn = {
  title: "Number",
  width: "5rem",
  phone: "4.5rem",
  cell: (each) => <a href={link(["letters", String(each.id)])}>{each.id}</a>,
};

export const SINCE: LetterColumn = { title: "Since", width: "7rem", phone: false, cell: (each) => <Time ms={each.at_ms} as="row" /> };

export const CAUSE: LetterColumn = { title: "Cause", width: "9rem", phone: "8rem", cell: (each) => <code>{each.cause}</code> };

export const TYPE: LetterColumn = {
  title: "Type",
  phone: false,
  cell: (each) => <Cut text={each.event.type || "no event"} tail={TYPE_TAIL} />,
};

export const EVENT: LetterColumn = { title: "Event id", cell: (each) => <EventId letter={each} below={each.event.type ?? ""} /> };

export const ATTEMPTS: LetterColumn = {
  title: "Attempts",
  width: "6rem",
  phone: false,
  spare: true,
  number: true,
  cell: (each) => count(each.attempts),
};

/** `below`: what stands under the id on a telephone, which has no column for it. */
export function EventId({ letter, below }: { letter: DeadLetter; below: string }) {
  return (
    <>
      <code>
        <Cut text={letter.event.id ?? ""} />
      </code>
      <small class="below on-phone">
        <Cut text={below} tail={TYPE_TAIL} />
      </small>
    </>
  );
}
