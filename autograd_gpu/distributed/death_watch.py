"""A program beside the ranks of one machine, which says which of them has died: python death_watch.py SHARED PID ...

A killed rank cannot say anything, and mpiexec kills the others at once. The rank with the number i writes what it does
into line i of the file on stdin, 512 bytes long; a line that begins with "-" is that of a rank that ends by itself. The
first rank that ends otherwise is named on stderr. When all have ended, the file SHARED is removed, memory that they
shared, if MPI has not come to it; "" for none.
"""

import contextlib
import os
import select
import sys

LINE = 512


def main(shared: str, pids: list[int]) -> None:
    told = False
    poll = select.epoll()
    lines = {os.pidfd_open(pid): line for line, pid in enumerate(pids)}
    for descriptor in lines:
        poll.register(descriptor, select.EPOLLIN)
    while lines:
        for descriptor, _ in poll.poll(maxevents=1):  # events come in their order: who died first comes first
            poll.unregister(descriptor)
            text = os.pread(0, LINE, LINE * lines.pop(descriptor)).rstrip(b"\0 ").decode(errors="replace")
            if not told and not text.startswith("-"):
                print(f"autograd_gpu.distributed: {text}", file=sys.stderr, flush=True)
                told = True
    if shared:
        with contextlib.suppress(FileNotFoundError):  # MPI has removed it
            os.unlink(shared)


if __name__ == "__main__":
    main(sys.argv[1], [int(pid) for pid in sys.argv[2:]])
