// Discards dead letters for good, after a count and a typed word.
import { api } from "../../api/client";
import { useAction, useLoad } from "../../api/use";
import { plural } from "../../format";
import { Confirm } from "../../ui/dialog";
import { Loading } from "../../ui/empty";
import type { Choice } from "./filter";
import { Counts } from "./redrive";

interface Props {
  choice: Choice;
  /** `changed`: letters are gone. */
  onClose: (changed: boolean) => void;
}

export function Discard({ choice, onClose }: Props) {
  const post = (dry_run: boolean) => api.post("/v1/dead-letters:discard", { body: { ...choice, dry_run } });
  const plan = useLoad(() => post(true), []);
  const discard = useAction(() => post(false));
  const confirm = async () => {
    if (await discard.run()) onClose(true);
  };
  const problem = discard.problem ?? plan.problem;
  return (
    <Confirm
      open
      danger
      title="Discard dead letters"
      verb={plan.value ? `Discard ${plural(plan.value.matched, "letter")}` : "Discard"}
      word="discard"
      busy={discard.busy || !plan.value}
      problem={problem}
      onConfirm={() => void confirm()}
      onClose={() => onClose(false)}
    >
      {plan.value ? (
        <>
          <p>Their messages are deleted for good. Nothing brings them back.</p>
          <Counts counts={plan.value.counts} />
        </>
      ) : (
        !problem && <Loading what="Dry run" />
      )}
    </Confirm>
  );
}
