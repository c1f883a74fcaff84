"""The numbers of wire batches: a broker must recognise a repetition, and must take no other batch for one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.brokers.aiokafka_adapter import batches_of
from app.brokers.kafka.produce_request import Place, ProducerId
from app.brokers.kafka.sequences import Sequences

PLACES: list[Place] = [("t", 0), ("t", 1), ("u", 0)]


def made(*, idempotent: bool = True) -> Sequences:
    return Sequences(idempotent=idempotent, batch_bytes=1_000, compression=None)


def numbers(sequences: Sequences, place: Place) -> tuple[int, int, int] | None:
    """Return producer id, epoch and first sequence number of the next batch as they are on the wire."""
    builder = sequences.builder(place)
    if builder is None:
        return None
    builder.append(0, None, b"k", b"v", [])
    (batch,) = batches_of(bytes(builder.build()))
    return batch.producer_id, batch.producer_epoch, batch.base_sequence


def test_a_number_advances_with_what_was_stored_and_only_then() -> None:
    sequences = made()
    assert numbers(sequences, ("t", 0)) is None, "there is no producer id yet"
    sequences.identity = ProducerId(7, 0)
    assert [numbers(sequences, ("t", 0)) for _ in range(2)] == [(7, 0, 0)] * 2
    sequences.count_stored(("t", 0), 5)
    assert numbers(sequences, ("t", 0)) == (7, 0, 5)
    assert numbers(sequences, ("t", 1)) == (7, 0, 0), "each partition counts for itself"


def test_after_the_largest_number_comes_0() -> None:
    sequences = made()
    sequences.identity = ProducerId(7, 0)
    numbers(sequences, ("t", 0))
    sequences.count_stored(("t", 0), 0x7FFFFFFE)
    sequences.count_stored(("t", 0), 3)
    assert numbers(sequences, ("t", 0)) == (7, 0, 1)


def test_without_idempotence_there_are_no_numbers() -> None:
    sequences = made(idempotent=False)
    for _ in range(2):
        assert numbers(sequences, ("t", 0)) == (-1, -1, -1)
        sequences.count_stored(("t", 0), 3)
        sequences.forget(("t", 0))


@given(
    st.lists(
        st.tuples(st.sampled_from(["stored", "forget", "send"]), st.sampled_from(PLACES)),
        max_size=40,
    )
)
def test_no_number_of_a_partition_is_used_for_two_batches(
    steps: list[tuple[str, Place]],
) -> None:
    """Neither of two that were stored, nor of one whose fate is unknown and a later one."""
    sequences, ids = made(), iter(range(1_000))
    used: set[tuple[Place, int, int]] = set()
    for step, place in steps:
        if sequences.identity is None:
            sequences.identity = ProducerId(next(ids), 0)
        found = numbers(sequences, place)
        assert found is not None
        producer, _, sequence = found
        assert (place, producer, sequence) not in used
        if step == "stored":
            used.add((place, producer, sequence))
            sequences.count_stored(place, 1)
        elif step == "forget":
            used.add((place, producer, sequence))
            sequences.forget(place)
