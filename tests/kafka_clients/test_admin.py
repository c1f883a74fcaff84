"""What the usual tools ask of topics: promises that cannot be kept, and where topics end."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_foreign import PATIENCE, java, lines_of, produce


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"replication_factor": 3}, KafkaError.INVALID_REPLICATION_FACTOR),
        ({"config": {"cleanup.policy": "compact"}}, KafkaError.INVALID_CONFIG),
    ],
)
def test_what_one_node_without_compaction_cannot_keep_is_refused(servers, topic, wrong, code):
    """No topic comes to be that is less than what was asked for."""
    admin = AdminClient({"bootstrap.servers": servers})
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([NewTopic(topic, 3, **wrong)])[topic].result(PATIENCE)
    assert refused.value.args[0].code() == code
    assert topic not in admin.list_topics(timeout=PATIENCE).topics


def test_javas_offset_shell_counts(servers, wide_topic, with_java):
    """The ends of all partitions."""
    produce(servers, wide_topic, [(b"%d" % n, b"", []) for n in range(30)])
    lines = lines_of(java("GetOffsetShell", servers, "--topic", wide_topic))
    ends = [int(line.split(":")[2]) for line in lines]
    assert (len(ends), sum(ends)) == (4, 30)
