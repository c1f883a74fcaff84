"""Kafka's classic group protocol, step by step, with time as an argument."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.log.groups.protocol import (
    Answer,
    Code,
    GroupJoinRequest,
    GroupJoinResult,
    GroupState,
    Peer,
    SyncResult,
)
from app.log.groups.state_machine import MOST_MEMBERS, ConsumerGroup

SESSION = 10.0
REBALANCE = 30.0


def a_join(member: str, *protocols: str, kind: str = "consumer") -> GroupJoinRequest:
    return GroupJoinRequest(
        member=member,
        kind=kind,
        protocols=tuple((name, member.encode()) for name in protocols or ("range",)),
        session_timeout=SESSION,
        rebalance_timeout=REBALANCE,
    )


def told(answers: list[Answer], member: str) -> GroupJoinResult | SyncResult:
    (answer,) = [answer for name, answer in answers if name == member]
    return answer


def a_stable_group(*members: str) -> ConsumerGroup:
    """All members joined, the leader has assigned each its own name."""
    group = ConsumerGroup("g")
    for member in members:
        group.join(a_join(member), 0.0)
    for member in members:
        if group.state is GroupState.PREPARING:
            group.join(a_join(member), 0.0)
    followers = [member for member in members if member != group.leader]
    for member in (*followers, group.leader):
        assignments = {name: name.encode() for name in members} if member == group.leader else {}
        group.sync(member, group.generation, assignments, 0.0)
    assert group.state is GroupState.STABLE
    return group


def test_the_first_member_leads_and_is_told_the_members() -> None:
    """The leader assigns: it alone needs the others' metadata."""
    group = ConsumerGroup("g")
    answer = told(group.join(a_join("a"), 0.0), "a")
    assert answer == GroupJoinResult(
        generation=1, kind="consumer", protocol="range", leader="a", peers=(Peer("a", b"a"),)
    )
    assert group.state is GroupState.COMPLETING


def test_the_leaders_sync_answers_everybody() -> None:
    """Followers wait for it; each hears its own part."""
    group = ConsumerGroup("g")
    group.join(a_join("a"), 0.0)
    assert group.join(a_join("b"), 0.0) == []
    answers = group.join(a_join("a"), 0.0)
    assert {name for name, _ in answers} == {"a", "b"}
    assert group.sync("b", 2, {}, 0.0) == []
    answers = group.sync("a", 2, {"a": b"0", "b": b"1"}, 0.0)
    assert told(answers, "a") == SyncResult(assignment=b"0")
    assert told(answers, "b") == SyncResult(assignment=b"1")
    assert group.state is GroupState.STABLE


def test_a_newcomer_makes_members_join_again_at_their_heartbeat() -> None:
    """That is how the classic protocol takes partitions back."""
    group = a_stable_group("a", "b")
    generation = group.generation
    assert group.heartbeat("a", generation, 1.0) is Code.NONE
    assert group.join(a_join("c"), 1.0) == []
    assert group.heartbeat("a", generation, 1.0) is Code.REBALANCE_IN_PROGRESS
    group.join(a_join("a"), 2.0)
    answers = group.join(a_join("b"), 2.0)
    assert {name for name, _ in answers} == {"a", "b", "c"}
    assert group.generation == generation + 1


def test_a_follower_that_asks_again_is_told_what_it_has() -> None:
    """A repeated join without news must not make everybody assign anew."""
    group = a_stable_group("a", "b")
    follower = "b" if group.leader == "a" else "a"
    answer = told(group.join(a_join(follower), 1.0), follower)
    assert isinstance(answer, GroupJoinResult)
    assert (answer.generation, answer.members) == (group.generation, ())
    assert group.state is GroupState.STABLE


def test_a_member_that_does_not_join_again_in_time_is_left_behind() -> None:
    """The rebalance time-out bounds how long one slow member holds up all others."""
    group = a_stable_group("a", "b")
    group.join(a_join("c"), 5.0)
    group.join(a_join("a"), 5.0)
    for now in (8.0, 12.0, 20.0, 28.0):
        group.heartbeat("b", group.generation, now)
        assert group.tick(now) == []
    answers = group.tick(5.0 + REBALANCE)
    assert {name for name, _ in answers} == {"a", "c"}
    assert group.heartbeat("b", group.generation, 36.0) is Code.UNKNOWN_MEMBER


def test_a_silent_members_session_ends() -> None:
    """A dead worker's partitions move without anybody's help (reliability R12)."""
    group = a_stable_group("a", "b")
    leader, other = group.leader, "b" if group.leader == "a" else "a"
    group.heartbeat(leader, group.generation, 9.0)
    assert group.next_tick() == SESSION
    group.tick(SESSION)
    assert other not in group.members
    assert group.heartbeat(leader, group.generation, 11.0) is Code.REBALANCE_IN_PROGRESS


def test_a_leaders_silence_during_assignment_starts_it_again() -> None:
    """Else the followers would wait for ever."""
    group = ConsumerGroup("g")
    group.join(a_join("a"), 0.0)
    group.join(a_join("b"), 0.0)
    group.join(a_join("a"), 0.0)
    group.sync("b", 2, {}, 1.0)
    answers = group.tick(SESSION)
    assert told(answers, "b") == SyncResult(Code.REBALANCE_IN_PROGRESS)
    assert told(group.join(a_join("b"), 11.0), "b") == GroupJoinResult(
        generation=3, kind="consumer", protocol="range", leader="b", peers=(Peer("b", b"b"),)
    )


def test_leaving_gives_way_at_once() -> None:
    """Closing must not wait for a session to end."""
    group = a_stable_group("a", "b")
    group.leave("a", 1.0)
    assert group.heartbeat("b", group.generation, 1.0) is Code.REBALANCE_IN_PROGRESS
    answer = told(group.join(a_join("b"), 1.0), "b")
    assert isinstance(answer, GroupJoinResult)
    assert answer.leader == "b"


def test_the_last_member_leaves_an_empty_group() -> None:
    """And its generation can never be mistaken for the next one."""
    group = a_stable_group("a")
    group.leave("a", 1.0)
    assert group.state is GroupState.EMPTY
    assert group.next_tick() is None
    assert group.generation == 2


@pytest.mark.parametrize(
    ("member", "ahead", "code"),
    [("a", 0, Code.NONE), ("a", -1, Code.ILLEGAL_GENERATION), ("z", 0, Code.UNKNOWN_MEMBER)],
)
def test_commits_are_fenced_by_member_and_generation(member: str, ahead: int, code: Code) -> None:
    """A zombie's commit would move a position that is somebody else's (reliability R12)."""
    group = a_stable_group("a", "b")
    assert group.may_commit(member, group.generation + ahead) is code


def test_a_commit_without_a_member_needs_an_empty_group() -> None:
    """Kafka's tools reset positions so, and only while nobody reads."""
    assert ConsumerGroup("g").may_commit("", -1) is Code.NONE
    assert a_stable_group("a").may_commit("", -1) is Code.UNKNOWN_MEMBER


def test_a_commit_is_still_taken_while_the_group_prepares() -> None:
    """The last chance to commit what is finished before the partitions go."""
    group = a_stable_group("a")
    group.join(a_join("b"), 1.0)
    assert group.may_commit("a", group.generation) is Code.NONE


def test_a_protocol_nobody_shares_is_refused() -> None:
    """It would leave the group without an assignment for ever."""
    group = a_stable_group("a")
    answer = told(group.join(a_join("b", "sticky"), 1.0), "b")
    assert answer == GroupJoinResult(code=Code.INCONSISTENT_PROTOCOL)
    answer = told(group.join(a_join("b", kind="connect"), 1.0), "b")
    assert answer == GroupJoinResult(code=Code.INCONSISTENT_PROTOCOL)
    assert group.state is GroupState.STABLE


def test_the_strategy_most_members_prefer_is_taken() -> None:
    """Of those that all know."""
    group = ConsumerGroup("g")
    group.join(a_join("a", "range", "robin"), 0.0)
    group.join(a_join("b", "robin", "range"), 0.0)
    group.join(a_join("c", "robin", "range", "own"), 0.0)
    answers = group.join(a_join("a", "range", "robin"), 0.0)
    assert {a.protocol for _, a in answers if isinstance(a, GroupJoinResult)} == {"robin"}


names = st.sampled_from(["a", "b", "c"])
steps = st.one_of(
    st.tuples(st.just("join"), names),
    st.tuples(st.just("sync"), names),
    st.tuples(st.just("beat"), names),
    st.tuples(st.just("leave"), names),
    st.tuples(st.just("time"), st.integers(1, 15)),
)


@given(st.lists(steps, max_size=60))
def test_whatever_happens_owners_share_one_generation_and_never_go_back(
    course: list[tuple[str, str | int]],
) -> None:
    """At most one assignment is in force, and generations only rise (rule 5)."""
    group = ConsumerGroup("g", generation=7)
    now, newest = 0.0, 7
    for step, argument in course:
        name = str(argument)
        answers: list[Answer] = []
        if step == "join":
            answers = group.join(a_join(name), now)
        elif step == "sync":
            answers = group.sync(name, group.generation, dict.fromkeys("abc", b"x"), now)
        elif step == "beat":
            group.heartbeat(name, group.generation, now)
        elif step == "leave":
            answers = group.leave(name, now)
        else:
            now += int(argument)
            answers = group.tick(now)
        assert group.generation >= newest
        newest = group.generation
        assert (group.state is GroupState.EMPTY) == (not group.members)
        if group.state in (GroupState.COMPLETING, GroupState.STABLE):
            assert group.leader in group.members
        joined = [a for _, a in answers if isinstance(a, GroupJoinResult) and a.code is Code.NONE]
        assert {a.generation for a in joined} <= {group.generation}
        due = group.next_tick()
        assert (due is None) == (not group.members)


def an_instance(member: str, instance: str, *, returning: bool = False) -> GroupJoinRequest:
    join = a_join("same")  # its metadata does not tell who it is
    return msgspec.structs.replace(join, member=member, instance=instance, returning=returning)


def test_an_instance_that_comes_back_takes_its_place_without_a_rebalance() -> None:
    """What KIP-345 is for: a restart within the session time-out moves no partition."""
    group = ConsumerGroup("g")
    group.join(an_instance("a-1", "a"), 0.0)
    group.sync("a-1", 1, {"a-1": b"mine"}, 0.0)
    answer = told(group.join(an_instance("a-2", "a"), 1.0), "a-2")
    assert isinstance(answer, GroupJoinResult)
    assert (answer.code, answer.generation, answer.assigned) == (Code.NONE, 1, True)
    assert told(group.sync("a-2", 1, {}, 1.0, "a"), "a-2") == SyncResult(assignment=b"mine")
    assert group.state is GroupState.STABLE


def test_the_one_before_it_is_fenced_wherever_it_asks() -> None:
    """Two processes with one name must not both read its partitions."""
    group = ConsumerGroup("g")
    group.join(an_instance("a-1", "a"), 0.0)
    group.join(an_instance("a-2", "a"), 1.0)
    assert group.heartbeat("a-1", 1, 1.0, "a") is Code.FENCED_INSTANCE
    assert group.may_commit("a-1", 1, "a") is Code.FENCED_INSTANCE
    assert told(group.sync("a-1", 1, {}, 1.0, "a"), "a-1") == SyncResult(Code.FENCED_INSTANCE)
    again = group.join(an_instance("a-1", "a", returning=True), 1.0)
    assert told(again, "a-1") == GroupJoinResult(code=Code.FENCED_INSTANCE)


def test_what_the_one_before_waits_for_is_answered() -> None:
    """Nobody waits for ever: its sync ends when its name is taken."""
    group = a_stable_group("l")
    group.join(an_instance("a-1", "a"), 0.0)
    group.join(a_join("l"), 0.0)
    group.sync("a-1", group.generation, {}, 0.0)
    answers = group.join(an_instance("a-2", "a"), 0.0)
    assert told(answers, "a-1") == SyncResult(Code.FENCED_INSTANCE)


def test_a_member_that_nobody_knows_must_come_as_a_new_one() -> None:
    """It was silent for too long: what it had may be somebody else's."""
    group = a_stable_group("a")
    join = msgspec.structs.replace(a_join("gone"), returning=True)
    assert told(group.join(join, 0.0), "gone") == GroupJoinResult(code=Code.UNKNOWN_MEMBER)


def test_a_group_takes_so_many_members_and_no_more() -> None:
    """Rule 8: a bound, not a slow death."""
    group = ConsumerGroup("g")
    for number in range(MOST_MEMBERS):
        group.join(a_join(f"m{number}"), 0.0)
    assert told(group.join(a_join("more"), 0.0), "more") == GroupJoinResult(code=Code.GROUP_FULL)
