"""Ports of services: nobody gets them by chance while their service is down."""

from __future__ import annotations

import os
import socket

import pytest

import free_ports as ports_of_tests
from free_ports import ENOUGH_PORTS, FIRST_PORT, free_ports


def test_the_system_gives_none_of_them_to_others() -> None:
    """A connection that happens to leave from one keeps a service from coming back."""
    beyond = ports_of_tests.first_of_the_system()
    if beyond - FIRST_PORT < ENOUGH_PORTS:
        pytest.skip("the system leaves too few")
    ports = free_ports(100)
    assert len(set(ports)) == 100
    assert all(FIRST_PORT <= port < beyond for port in ports)


def test_one_that_somebody_has_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    taken, free = free_ports(2)
    with socket.create_server(("127.0.0.1", taken)):
        monkeypatch.setattr(ports_of_tests, "_PORTS", iter([taken, free]))
        assert free_ports(1) == [free]


def test_where_the_system_leaves_too_few_any_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports_of_tests, "first_of_the_system", lambda: FIRST_PORT)
    monkeypatch.setattr(ports_of_tests, "_PORTS", ports_of_tests.Ports())
    assert len(set(free_ports(3))) == 3


def test_no_two_processes_choose_one_port_although_no_port_is_in_use() -> None:
    """A server may bind a port long after it was chosen."""
    of_children = [_ports_of_a_child() for _ in range(4)]
    chosen = [*free_ports(60), *(port for ports, *_ in of_children for port in ports)]
    for *_, lets_it_end in of_children:
        os.close(lets_it_end)
    for _, child, _ in of_children:
        os.waitpid(child, 0)
    assert len(set(chosen)) == len(chosen) == 60 * 5


def _ports_of_a_child() -> tuple[list[int], int, int]:
    """Return the ports that a forked process chose, its id, and the descriptor whose close ends it."""
    answers, answer = os.pipe()
    waits, lets_it_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(lets_it_end)
        os.write(answer, ",".join(map(str, free_ports(60))).encode())
        os.close(answer)
        os.read(waits, 1)
        os._exit(0)
    os.close(answer)
    os.close(waits)
    with os.fdopen(answers) as told:
        return [int(port) for port in told.read().split(",")], child, lets_it_end
