"""The parent: starts the processes, replaces dead ones, passes signals on, waits for the last to leave.

It is forked from and so it stays small: no event loop, no thread, no connection. What dies is replaced, at
once or, when it died young, after a while that doubles. It works as process 1 of a container: it has a
handler for each signal it needs, and takes leave of processes that are not its own.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import signal
import socket
import sys
from collections.abc import Iterator

from msgspec.structs import replace

from app.interfaces import Clock
from app.runtime.processes.child import Child
from app.runtime.processes.messages import (
    Asked,
    Built,
    HungUp,
    Message,
    Offered,
    Report,
    Swap,
    Swapped,
    Told,
    Up,
)
from app.runtime.processes.pipe import Pipe
from app.runtime.processes.slots import OWNER, Slot, roll_of
from app.runtime.signals import has_terminal

LEAVE = (signal.SIGTERM, signal.SIGINT)
HEARD = (*LEAVE, signal.SIGHUP, signal.SIGCHLD)
TURN = 1.0  # seconds between looks around, when nothing happens
MADE_TO_LEAVE = -signal.SIGTERM  # before it could listen to signals

_log = logging.getLogger(__name__)


class Parent:
    """``count`` processes. ``patience``: seconds after SIGTERM until those that are left are killed."""

    def __init__(self, count: int, clock: Clock, patience: float) -> None:
        self._clock = clock
        self.slots = [Slot(number) for number in range(1, count + 1)]
        self._patience = patience
        self._selector = selectors.DefaultSelector()
        self._heard, self._wake = socket.socketpair()
        self._complete = False  # all were up once
        self._leaving = False
        self._deadline = 0.0
        self._code = 0
        self._offered: Offered | None = None
        self._raw: bytes | None = None  # the file that was taken up last; it may hold secrets
        self._terminal = has_terminal()

    def run(self) -> Child | int:
        """Returns in every process: in a child, what it is; in the parent, when all have left, the exit
        code."""
        with self._hearing():
            child = self._spawn(self.slots[0])
            while child is None and not (self._leaving and self._alone):
                child = self._turn()
        if child is None:
            return self._code
        self._let_go(child)
        return child

    @property
    def _alone(self) -> bool:
        return not any(slot.pid for slot in self.slots)

    def _turn(self) -> Child | None:
        for key, _ in self._selector.select(self._wait()):
            if isinstance(key.data, Slot):
                self._listen(key.data)
            else:
                for number in self._heard.recv(4096):
                    self._on_signal(number)
        self._reap()
        for slot in self.slots:
            if slot.pipe is not None:
                slot.pipe.flush()
        if self._leaving:
            self._hurry()
            return None
        return self._start_due()

    def _wait(self) -> float:
        now = self._clock.monotonic()
        due = [slot.due - now for slot in self.slots if slot.due is not None]
        return max(0.0, min([TURN, *due]))

    def _start_due(self) -> Child | None:
        now = self._clock.monotonic()
        for slot in self.slots:
            if slot.due is not None and slot.due <= now and (child := self._spawn(slot)):
                return child
        return None

    def _spawn(self, slot: Slot) -> Child | None:
        """None in the parent. No signal may come between the fork and the child's own handlers."""
        ours, theirs = Pipe.pair()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # or both would write it
        signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            ours.close()
            return Child(slot.number, parent, theirs, first=slot.restarts < 0, raw=self._raw)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HEARD)
        theirs.close()
        slot.begin(pid, ours, self._clock.monotonic(), self._clock.now())
        self._selector.register(ours, selectors.EVENT_READ, slot)
        if slot.restarts:
            _log.warning("%s started again as pid %d", slot.name, pid)
        self._tell()
        return None

    def _listen(self, slot: Slot) -> None:
        if slot.pipe is None:
            return
        messages = slot.pipe.receive()
        if messages is None:  # its end is told by SIGCHLD
            with contextlib.suppress(KeyError):
                self._selector.unregister(slot.pipe)
            return
        for message in messages:
            self._on_message(slot, message)

    def _on_message(self, slot: Slot, message: Message) -> None:
        match message:
            case Up():
                self._on_up(slot)
            case Report():
                self._pass(OWNER, replace(message, number=slot.number, pid=slot.pid))
            case Told():
                self._pass(message.number, message)
            case Asked() | Built() | Swapped():
                self._pass(OWNER, replace(message, number=slot.number))
            case Offered() | Swap():
                self._on_reload(message)

    def _on_up(self, slot: Slot) -> None:
        """The others start when the first one is there: what it refuses is told once."""
        slot.up = slot.was_up = True
        now = self._clock.monotonic()
        for other in self.slots:
            if other.restarts < 0 and other.due is None:
                other.due = now
        self._complete = self._complete or all(each.was_up for each in self.slots)
        self._tell()

    def _tell(self) -> None:
        self._pass(OWNER, roll_of(self.slots))

    def _pass(self, number: int, message: Message) -> None:
        pipe = self.slots[number - 1].pipe
        if pipe is not None:
            pipe.send(message)

    def _on_reload(self, message: Offered | Swap) -> None:
        """What was swapped last is what processes begin with from now on."""
        if isinstance(message, Offered):
            self._offered = message
        elif self._offered is not None and self._offered.id == message.id:
            self._raw = self._offered.raw
        for slot in self.slots:
            if slot.number != OWNER:
                self._pass(slot.number, message)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                for slot in self.slots:
                    if slot.pid == pid:
                        self._on_end(slot, os.waitstatus_to_exitcode(status))

    def _on_end(self, slot: Slot, code: int) -> None:
        pid = slot.pid
        if slot.pipe is not None:
            self._listen(slot)  # its last words
            with contextlib.suppress(KeyError):
                self._selector.unregister(slot.pipe)
        delay = slot.end(code, self._clock.monotonic())
        if self._leaving:
            slot.due = None
            self._code = self._code or int(code not in (0, MADE_TO_LEAVE))
        elif code > 0 and not slot.was_up and not self._complete:
            self._code = code  # it said why: a setting, most likely
            self._leave()
        else:
            again = f"in {delay:g} s" if delay else "now"
            _log.warning("%s (pid %d): %s; it starts again %s", slot.name, pid, slot.cause, again)
            self._tell()

    def _on_signal(self, number: int) -> None:
        if number in LEAVE and self._leaving:
            self._end_at_once(number)
        elif number in LEAVE:
            _log.info("%s: passed on to all processes", signal.Signals(number).name)
            self._leave()
        elif number == signal.SIGHUP and self._terminal and not has_terminal():
            _log.info("the terminal is gone: all processes leave")
            self._leave()
        elif number == signal.SIGHUP:
            self._pass(OWNER, HungUp())

    def _leave(self) -> None:
        self._leaving = True
        self._deadline = self._clock.monotonic() + self._patience
        for slot in self.slots:
            slot.due = None
        self._send(signal.SIGTERM)

    def _hurry(self) -> None:
        if self._clock.monotonic() < self._deadline or self._alone:
            return
        for slot in self.slots:
            if slot.pid:
                _log.error("%s (pid %d) did not leave, and is killed", slot.name, slot.pid)
        self._code = 1
        self._deadline = float("inf")
        self._send(signal.SIGKILL)

    def _send(self, number: int) -> None:
        for slot in self.slots:
            if slot.pid:
                os.kill(slot.pid, number)

    def _end_at_once(self, number: int) -> None:
        """Safe: what was acknowledged is on the disk already (rule 1)."""
        self._send(signal.SIGKILL)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        os._exit(128 + number)  # process 1 does not die of a signal

    @contextlib.contextmanager
    def _hearing(self) -> Iterator[None]:
        self._heard.setblocking(False)
        self._wake.setblocking(False)
        self._selector.register(self._heard, selectors.EVENT_READ)
        before = {number: signal.signal(number, _heard) for number in HEARD}
        woken = signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(woken)
            for number, handler in before.items():
                signal.signal(number, handler)
            self._selector.close()
            self._heard.close()
            self._wake.close()

    def _let_go(self, child: Child) -> None:
        """In a child: of what is the parent's, and of its brothers' pipes, which must end with them."""
        for slot in self.slots:
            if slot.pipe is not None and slot.number != child.number:
                slot.pipe.close()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HEARD)


def _heard(number: int, frame: object) -> None:
    """The descriptor that wakes the loop tells which."""
