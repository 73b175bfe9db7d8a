"""A program in a process group of its own, which is gone at the end of the test."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any


def _heed_interrupts() -> None:
    """A shell's background job, nohup and some CI start processes that ignore SIGINT, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextlib.contextmanager
def process_group(command: list[str], **options: Any) -> Iterator[subprocess.Popen]:
    """Starts the command as the leader of a new group, which SIGINT ends; kills what is left of the group.

    options: of subprocess.Popen.
    """
    process = subprocess.Popen(command, process_group=0, preexec_fn=_heed_interrupts, **options)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):  # all are gone
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
