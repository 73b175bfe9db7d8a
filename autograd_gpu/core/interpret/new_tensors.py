"""Tensors made inside of transforms: by factories, from random numbers, like another tensor.

A level of reverse mode sees a new floating-point tensor as a constant of its own, so that what the level computes can
be written into it. Under vmap a new tensor is the same in all examples, unless it is made like one that is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...backend.arrays.dtypes import FLOATS
from ...modes import MODES
from ..declare.op import RECORD
from ..tensor import Tensor
from .batched import Batching, batched
from .interpreters import Interpreter, ended, replaced
from .level_tensor import LevelTensor
from .recorded import Recording, recorded
from .tracing import refuse, tracer


def made_inside(value: Tensor) -> Tensor:
    """`value`, a new ordinary tensor, as a constant of all levels of reverse mode on the stack."""
    return _at_levels(value, [level for level in MODES.stack if isinstance(level, Recording)]) if MODES.stack else value


def lifted_like(value: Tensor, *like: Tensor) -> Tensor:
    """`value`, a new tensor, with memory for each example of all of `like`."""
    if not MODES.stack:
        return value
    while isinstance(value, LevelTensor):
        value = value._value
    levels: set[Any] = set(MODES.stack)
    examples = set()
    for x in like:
        while isinstance(x, LevelTensor):
            if x._level not in levels:
                ended(x._level)
            examples.add(x._level)
            x = x._value
    chosen = [level for level in MODES.stack if isinstance(level, Recording) or level in examples]
    if sizes := [level.n for level in chosen if isinstance(level, Batching)]:
        with replaced(()):
            value = RECORD.contiguous_copy(RECORD.expand(value, (*sizes, *value.shape)))
    return _at_levels(value, chosen)


def drawn(shape: tuple[int, ...], draw: Callable[[tuple[int, ...]], Tensor]) -> Tensor:
    """Random numbers of `shape` inside of any transforms; draw(sizes) makes a tensor of more dimensions.

    A level of vmap with "different" randomness has numbers for each of its examples, and one with "same" has one draw.
    """
    if not MODES.stack:
        return draw(shape)
    if any(block.again for block in MODES.drawing):
        refuse("a checkpoint draws random numbers a second time", "leave the checkpoint out")
    batching = [level for level in MODES.stack if isinstance(level, Batching)]
    for level in batching:
        level.check_randomness()
    batching = [level for level in batching if level.randomness == "different"]
    sizes = (*[level.n for level in batching], *shape)
    with replaced(()):
        value = draw(sizes)
    if (tracing := tracer()) is not None:
        tracing.drew(draw, sizes, value)
    return _at_levels(value, [level for level in MODES.stack if isinstance(level, Recording) or level in batching])


def _at_levels(value: Tensor, levels: Iterable[Interpreter]) -> Tensor:
    """`value` as a tensor of these levels, the outermost first: the examples of vmap lie along its first dimensions."""
    floating = value.dtype in FLOATS
    for level in levels:
        if isinstance(level, Recording):
            value = recorded(level, value) if floating else value
        elif isinstance(level, Batching):
            value = batched(level, value)
    return value
