"""How often a test does over again what it does."""

import os

EMULATED = "AUTOGRAD_GPU_EMU_SCHEDULE" in os.environ  # conftest.py sets it, before it collects


def fewer(count, part=4):
    """`count`; on an emulated device, where a call takes ten times as long, a part of that: the CPU has all of them."""
    return max(1, count // part) if EMULATED else count


def some(items, most=16):
    """`items`; on an emulated device at most so many of them, from all parts of the list: the CPU has all of them."""
    return items[:: -(-len(items) // most)] if EMULATED and items else items
