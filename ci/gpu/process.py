"""Runs a command in a process group of its own, within a limit: it is interrupted first, and killed after a grace.

Nothing of the group outlives the command, or this script if that is killed: it would keep the device busy.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

TIMEOUT, NOT_FOUND, NOT_EXECUTABLE = 124, 127, 126  # as shells say it
POLL = 0.05  # seconds between two looks at the process
HURRY = 2.0  # seconds from the interrupt to the kill, at most, where somebody waits for the end of this script


class Limits(NamedTuple):
    """Seconds from the start of a process to the signals that it gets, and to when nobody waits for it any more."""

    interrupt: float
    kill: float
    end: float


class Ended(NamedTuple):
    """How a process ended: the exit code as a shell gives it, and in words what the code does not say."""

    code: int
    seconds: float
    note: str = ""


def run(
    command: Sequence[str], env: Mapping[str, str], folder: Path, limits: Limits, write: Callable[[bytes], Any],
    tick: Callable[[float], Any], asked: Callable[[], bool],
) -> Ended:  # fmt: skip
    """Runs `command` in `folder`, with all that it prints going to `write`.

    `tick` is called several times a second with the seconds that are left before the interrupt. As soon as `asked`
    answers True the process is interrupted, and killed soon afterwards.
    """
    begin = time.monotonic()
    try:
        process = subprocess.Popen(
            command, env=env, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            process_group=0,
        )  # fmt: skip
    except OSError as error:
        write(f"{error}\n".encode())
        return Ended(NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE, 0.0, str(error))
    pump = threading.Thread(target=_pump, args=(process.stdout, write), daemon=True)
    pump.start()
    with _guard(process.pid):
        note = _wait(process, begin, limits, tick, asked)
    pump.join(1.0)
    seconds = time.monotonic() - begin
    if note:
        return Ended(TIMEOUT, seconds, note)
    code = process.returncode
    return Ended(code, seconds) if code >= 0 else Ended(128 - code, seconds, f"ended by {signal.Signals(-code).name}")


@contextmanager
def _guard(group: int) -> Iterator[None]:
    """Kills what is left of a process group behind the block, or when this process dies inside of it."""
    source, held = os.pipe()  # `held` is open in this process alone
    guard = None
    with contextlib.suppress(ProcessLookupError, PermissionError):  # the group has ended already
        guard = subprocess.Popen(["sh", "-c", "trap '' INT; read -r _; kill -9 0"], stdin=source, process_group=group)
    try:
        yield
    finally:
        _signal(group, signal.SIGKILL)
        if guard is not None:
            guard.wait()
        os.close(source)
        os.close(held)


def _wait(
    process: subprocess.Popen[bytes], begin: float, limits: Limits, tick: Callable[[float], Any],
    asked: Callable[[], bool],
) -> str:  # fmt: skip
    """Waits for the end of the process; answers what was done to it, if something was."""
    interrupted_at, killed, grace = None, False, limits.kill - limits.interrupt
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(POLL)
            break
        now, hurry = time.monotonic() - begin, asked()
        if interrupted_at is None and (now >= limits.interrupt or hurry):
            interrupted_at = now
            _signal(process.pid, signal.SIGINT)
        if interrupted_at is not None and now >= interrupted_at + (min(grace, HURRY) if hurry else grace):
            killed = True
            _signal(process.pid, signal.SIGKILL)
        if now >= limits.end:
            break
        tick(limits.interrupt - now)
    if interrupted_at is None:
        return ""
    note = f"interrupted after {interrupted_at:.1f} s" + (", and killed" if killed else "")
    return note if process.poll() is not None else f"{note}, which did not end it"


def _signal(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def _pump(source: Any, write: Callable[[bytes], Any]) -> None:
    """Hands on what comes, until all writers have closed their end."""
    with source:
        while data := os.read(source.fileno(), 1 << 16):
            write(data)
