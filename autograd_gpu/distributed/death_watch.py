"""A program beside the ranks of one machine, which says which of them has died: python death_watch.py SHARED PID ...

A killed rank cannot say anything, and mpiexec kills the others at once. The rank with the number i writes what it does
into line i of the file on stdin, 512 bytes long; a line that begins with "-" is that of a rank that ends by itself. The
first rank that ends otherwise is named on stderr. When all have ended, the file SHARED is removed, memory that they
shared, if MPI has not come to it; "" for none. A byte on stdout says that the watch has begun.
"""

import contextlib
import os
import select
import sys

LINE = 512


def name(line: int) -> bool:
    """Names the rank of a line that has ended; False if it has ended by itself."""
    text = os.pread(0, LINE, LINE * line).rstrip(b"\0 ").decode(errors="replace")
    if text.startswith("-"):
        return False
    print(f"autograd_gpu.distributed: {text}", file=sys.stderr, flush=True)
    return True


def main(shared: str, pids: list[int]) -> None:
    told = False
    poll, lines = select.epoll(), {}
    for line, pid in enumerate(pids):
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:  # it has died meanwhile
            told = told or name(line)
        else:
            lines[descriptor] = line
            poll.register(descriptor, select.EPOLLIN)
    os.write(1, b".")
    while lines:
        for descriptor, _ in poll.poll(maxevents=1):  # events come in their order: who died first comes first
            poll.unregister(descriptor)
            line = lines.pop(descriptor)
            told = told or name(line)
    if shared:
        with contextlib.suppress(FileNotFoundError):  # MPI has removed it
            os.unlink(shared)


if __name__ == "__main__":
    main(sys.argv[1], [int(pid) for pid in sys.argv[2:]])
