"""Static membership of Kafka: a restart that is quick costs the other members nothing."""

from __future__ import annotations

from uuid import uuid4

import pytest

from app.brokers.portable import PortableLog
from app.model.start import EARLIEST
from contract_tools import Member, close_all, fresh_group, publish, text
from kafka_harness import open_calm_log
from waiting import until

pytestmark = [pytest.mark.nightly, pytest.mark.kafka]

PARTITIONS = 4


async def opened(kafka: str, instance_id: str) -> PortableLog:
    log = open_calm_log(name="kafka", bootstrap_servers=kafka, instance_id=instance_id)
    await log.start()
    return log


@pytest.mark.parametrize("restarted", [0, 1], ids=["the leader", "the other one"])
async def test_a_member_that_is_back_soon_has_its_partitions_and_disturbs_nobody(
    kafka: str, restarted: int
) -> None:
    """Else each restart of one of ten workers stops ten for a moment, twice: when it goes, and when it
    comes."""
    group, topic = fresh_group(), f"t-{uuid4().hex[:12]}"
    logs = [await opened(kafka, f"worker-{number}") for number in range(2)]
    await logs[0].create_topic(topic, PARTITIONS)
    members: list[Member] = []
    for log in logs:
        members.append(Member(await log.subscribe(group, [topic], EARLIEST)))
        await until(lambda: bool(members[-1].owned))
    await until(lambda: all(len(member.owned) == PARTITIONS // 2 for member in members))
    await publish(logs[0], topic, [text(f"{n}", f"{n}") for n in range(40)])
    await until(lambda: sum(len(member.messages) for member in members) == 40)

    gone, stays = members[restarted], members[1 - restarted]
    changes = len(stays.changes)
    await gone.close()
    await logs[restarted].stop()
    await publish(logs[1 - restarted], topic, [text(f"{n}", f"{n}") for n in range(40, 80)])
    logs[restarted] = await opened(kafka, f"worker-{restarted}")
    back = Member(await logs[restarted].subscribe(group, [topic], EARLIEST))
    await until(lambda: sum(len(member.messages) for member in (gone, stays, back)) == 80)

    assert back.owned == gone.owned
    assert len(stays.changes) == changes, "it was made to give up its partitions"
    told = [message.record.body for member in (gone, stays, back) for message in member.messages]
    assert sorted(told) == sorted(b"%d" % n for n in range(80)), "each once: nothing was read again"
    await close_all([stays, back])
    for log in logs:
        await log.stop()
