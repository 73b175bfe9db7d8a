"""Ctrl-C at each place where it may strike."""

import dis
import functools
import itertools
import sys

UNIT = 2  # bytes of bytecode


@functools.cache
def interruptible(code):
    """Where `code` may be interrupted: Python looks for signals at a function's start, after calls, and in loops.

    Such an interrupt goes to the handlers of the code unit before the one that would follow, one raised by the trace
    function to those of the one that follows. Left out is where they differ: behind a call that ends a `with` block.
    """
    result, bytecode = set(), dis.Bytecode(code)
    for done, following in itertools.pairwise(bytecode):
        looks = done.opname == "RESUME" or done.opname.startswith("CALL")
        at = following.offset if looks else done.argval if done.opname.startswith("JUMP_BACKWARD") else None
        if at is not None and handler(bytecode, at - UNIT) == handler(bytecode, at):
            result.add(at)
    return result


def handler(bytecode, offset):
    """Where an exception at `offset` goes on, None if nowhere in this code."""
    entries = [entry for entry in bytecode.exception_entries if entry.start <= offset < entry.end]
    return entries[-1].target if entries else None


class Interrupts:
    """Counts the places in a block where Ctrl-C may strike, and lets it strike at the one with the number `at`.

    Left out: `__del__`, where Python drops it, and unless `exits` the `__exit__` of `no_grad` and its like, which no
    context manager written in Python can protect.
    """

    def __init__(self, at=0, exits=False):
        self.at, self.count, self.file = at, 0, ""
        self.left_out = ("__del__",) if exits else ("__del__", "__exit__")

    def __enter__(self):
        self.before = sys.gettrace()
        sys._getframe().f_trace_opcodes = True  # Python 3.12 reports opcodes if a frame wanted them before settrace
        sys.settrace(self._trace)
        return self

    def __exit__(self, *exc):
        sys.settrace(self.before)

    def _trace(self, frame, event, arg):
        if frame.f_code.co_name in self.left_out:
            return None
        if event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode" and frame.f_lasti in interruptible(frame.f_code):
            self.count += 1
            if self.count == self.at:
                self.file = frame.f_code.co_filename
                sys.settrace(None)
                raise KeyboardInterrupt
        return self._trace
