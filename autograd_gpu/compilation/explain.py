"""What a compiled function says about itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from .graph import Call, FusedRule, Group
from .replay import Replay


@dataclass(frozen=True)
class ProgramInfo:
    """One program of a compiled function.

    arguments: how they look. traced, left: the numbers of instructions in the trace and after the passes. ops: how
    often each op runs, in the backward outside of the call, too. saved_bytes: what a call holds for that backward,
    beyond arguments and tensors from outside. graph: with mode="reduce-overhead", what became of its CUDA graph.
    """

    arguments: str
    traced: int
    left: int
    ops: dict[str, int]
    saved_bytes: int
    graph: str = ""


@dataclass(frozen=True)
class Explanation:
    """The answer of `explain()`: the programs, and why calls stay eager, with file and line.

    by_size: with dynamic=True, why sizes that came last were recorded though others have a program.
    """

    programs: list[ProgramInfo]
    refused: list[str]
    by_size: list[str] = field(default_factory=list)

    @property
    def saved_bytes(self) -> int:
        """The most that a call holds for a backward that comes outside of it."""
        return max([program.saved_bytes for program in self.programs], default=0)

    def __str__(self) -> str:
        lines = [f"program {i}: ({p.arguments}), {p.left} of {p.traced} instructions, {p.saved_bytes} bytes saved; "
                 + ", ".join(f"{count} {name}" for name, count in p.ops.items())
                 + (p.graph and f"; {p.graph}")
                 for i, p in enumerate(self.programs)]  # fmt: skip
        lines += [f"eager: {reason}" for reason in self.refused]
        lines += [f"recorded size by size: {reason}" for reason in self.by_size]
        return "\n".join(lines) or "nothing was compiled yet"


def info_of(replay: Replay) -> ProgramInfo:
    """The facts about one program."""
    nodes = [*replay.program.nodes, *replay.later]
    parts = [part for node in nodes for part in (node.parts if isinstance(node, Group) else (node,))]
    ops = Counter(node.name for node in parts if isinstance(node, (Call, FusedRule)))
    described = ", ".join(v.described() for v in replay.trace.arguments)
    roots = {v.root: v for v in replay.saved}
    held = sum(v.array.nbytes for v in roots.values())
    return ProgramInfo(described, replay.traced, len(nodes), dict(ops), held, replay.graph)


def replays_of(kinds: Any, families: Any) -> list[Replay]:
    """The programs of some kinds of calls, and those for many sizes."""
    shared = [template.replay for family in families for template in family.templates]
    return [*(replay for kind in kinds for _, replay in kind.programs), *shared]


def explanation(kinds: Any, families: Any) -> Explanation:
    """What is known of the calls of some kinds."""
    programs = [info_of(replay) for replay in replays_of(kinds, families)]
    refused = dict.fromkeys(kind.refused for kind in kinds if kind.refused is not None)
    by_size = dict.fromkeys(family.reason for family in families if family.reason is not None)
    return Explanation(programs, list(refused), list(by_size))


def readable(kinds: Any, families: Any) -> str:
    """The text of all programs."""
    texts = []
    for replay in replays_of(kinds, families):
        texts += [replay.program.text, *(program.text for program in replay.backwards())]
    return "\n".join(texts)
