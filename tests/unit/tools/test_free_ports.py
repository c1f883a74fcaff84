"""Ports of services: nobody gets them by chance while their service is down."""

from __future__ import annotations

import os
import socket

import pytest

import service_process
from service_process import ENOUGH_PORTS, FIRST_PORT, free_ports


def test_the_system_gives_none_of_them_to_others() -> None:
    """A connection that happens to leave from one keeps a service from coming back."""
    beyond = service_process._first_of_the_system()
    if beyond - FIRST_PORT < ENOUGH_PORTS:
        pytest.skip("the system leaves too few")
    ports = free_ports(100)
    assert len(set(ports)) == 100
    assert all(FIRST_PORT <= port < beyond for port in ports)


def test_one_that_somebody_has_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    taken, free = free_ports(2)
    with socket.create_server(("127.0.0.1", taken)):
        monkeypatch.setattr(service_process, "_PORTS", iter([taken, free]))
        assert free_ports(1) == [free]


def test_where_the_system_leaves_too_few_any_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_process, "_first_of_the_system", lambda: FIRST_PORT)
    monkeypatch.setattr(service_process, "_PORTS", service_process._Ports())
    assert len(set(free_ports(3))) == 3


def test_a_forked_process_begins_elsewhere() -> None:
    """Two streams of tests that went through the same ports would take them from each other."""
    answers, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(tell, ",".join(map(str, free_ports(3))).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    of_child = os.read(answers, 100).decode()
    os.close(tell)
    os.close(answers)
    assert of_child != ",".join(map(str, free_ports(3)))
