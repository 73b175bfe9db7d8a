"""Chapter 4: a deep network is trained while the tensors that it saves for backward are stored in fewer bytes.

The network is that of `benchmarks/saved_memory.py`, twenty linear layers with Tanh; only `--full` has its width. Here
the weights are larger, so that a signal reaches the last layer, and the network learns a function: training behind each
hook begins with the same weights and sees the same data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import threadpoolctl

import autograd_gpu as ag

from .. import saved_memory
from ..counting import held_bytes
from ..models import Weights, make_weights, sequential
from ..peers import clock_for
from ..saved_memory import CHECKPOINT, SEGMENTS, WITHOUT
from ..timing import Contender, interleave
from .story import (
    KIB,
    MIB,
    Advance,
    Bar,
    Bars,
    Block,
    Cards,
    Figure,
    Line,
    Lines,
    Settings,
    Story,
    Table,
    Text,
    binary,
    error,
    milliseconds,
)

TITLE = "Memory"
SHOWN = {  # hooks of saved_memory.py: what the report calls them, and their colour
    WITHOUT: ("none", "slate"),
    CHECKPOINT: ("checkpoint", "violet"),
    "float16": ("fp16", "blue"),
    "bfloat16": ("bf16", "green"),
    "float8_e4m3fn": ("fp8", "orange"),
    "offload": ("offload", "rose"),
    "float8_e4m3fn, offload": ("offload + fp8", "amber"),
}
GAIN = math.sqrt(3) * 1.05  # of weights: 1 would keep the variance of a linear layer, and Tanh takes some of it
LEARNING_RATE = 1e-3
REPEATS = 7
SEGMENTS_NOTE = (
    "Segments are layers in their order, the loss at the end; of the checkpoint first those parts that keep their "
    "input only."
)
TIME_NOTE = (
    f"Forward and backward, medians of {REPEATS}, taken in turns. On small layers the calls of a hook take longer than "
    "its bytes: at 20 layers of 1024 fp8 costs 4 to 10 % on a CPU."
)

Part = Callable[[Any], Any]


class Training(saved_memory.Run):
    """A network behind a hook that learns targets."""

    def __init__(self, weights: Weights, x: np.ndarray, target: np.ndarray, name: str, context: Any, device: str):
        net, inputs = sequential(ag, weights, "Tanh", device), ag.tensor(x, device=device)
        super().__init__(ag, net, inputs, name, context)
        self.target = ag.tensor(target, device=device)

    def loss_of(self, out: Any) -> Any:
        """The mean square distance from the targets."""
        return (out - self.target).square().mean()

    def train(self, steps: int, advance: Callable[[int], None]) -> list[float]:
        """Adam; returns the loss before each step."""
        optimizer, losses = ag.optim.Adam(self.net.parameters(), lr=LEARNING_RATE), []
        for step in range(steps):
            optimizer.zero_grad()
            loss = self.loss()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            advance(step)
        return losses

    def parts(self) -> list[Part]:
        """The layers, each with its activation; of a checkpoint the segments that keep their input only, and the layers
        of the last one, which `checkpoint_sequential` runs as it is."""
        net, parts, start = self.net, [], 0
        if self.name == CHECKPOINT:
            size = len(net) // SEGMENTS
            start = size * (SEGMENTS - 1)
            checkpoint = partial(ag.utils.checkpoint.checkpoint, use_reentrant=False)
            parts = [partial(checkpoint, net[i : i + size]) for i in range(0, start, size)]
        return [*parts, *[net[i : i + 2] for i in range(start, len(net), 2)]]

    def held_by_part(self, device: str) -> list[int]:
        """The bytes that each part holds until backward, and the loss at the end of the list."""
        parts = self.parts()
        self.first(parts)  # compiles what the first call compiles
        sums = [held_bytes(device, partial(self.first, parts[:count])) for count in range(len(parts) + 1)]
        sums.append(held_bytes(device, self.loss))
        return [after - before for before, after in pairwise(sums)]

    def first(self, parts: list[Part]) -> Any:
        """The sum of what the first parts give, which saves nothing of its own."""
        with self.context():
            out = self.x
            for part in parts:
                out = part(out)
            return out.sum()


def run(settings: Settings, advance: Advance) -> Story:
    """Count, compare, time and train behind each hook."""
    layers, width, batch, steps = settings.size((20, 64, 128, 300), (20, 1024, 4096, 300), (5, 32, 64, 30))
    weights = [(GAIN * w, b) for w, b in make_weights([width] * (layers + 1), settings.seed)]
    rng = np.random.default_rng(settings.seed)
    x = rng.normal(size=(batch, width)).astype(np.float32)
    target = np.tanh(x @ rng.normal(size=(width, width)).astype(np.float32) / math.sqrt(width))
    hooks = saved_memory.our_hooks(ag, settings.device, 0)
    runs = {
        name: Training(weights, x, target, name, hooks[name], settings.device) for name in SHOWN if name in hooks
    }
    # Products of 128 x 64 x 64 gain nothing from a second thread.
    with threadpoolctl.threadpool_limits(None if settings.full else 1, user_api="blas"):
        expected = runs[WITHOUT].gradients()
        rows = {}
        for done, (name, one) in enumerate(runs.items()):
            advance(0.1 * done / len(runs), f"{SHOWN[name][0]}: bytes")
            difference, parts = saved_memory.worst(one.gradients(), expected), one.held_by_part(settings.device)
            rows[name] = {"hook": SHOWN[name][0], "gradient error": difference, "parts": parts}
        clock = clock_for(ag, settings.device)
        timings = interleave([Contender(name, one.step, clock) for name, one in runs.items()], REPEATS)
        for done, (name, one) in enumerate(runs.items()):

            def show(step: int, done: int = done, label: str = SHOWN[name][0]) -> None:
                advance(0.1 + 0.9 * (done + step / steps) / len(runs), f"{label}: step {step + 1} of {steps}")

            rows[name]["loss"] = one.train(steps, show)
    for name, row in rows.items():
        row |= {"bytes held": sum(row["parts"]), "step seconds": timings[name].median, "last loss": row["loss"][-1]}
        row["share"] = row["bytes held"] / sum(rows[WITHOUT]["parts"])
    figures = {"layers": layers, "width": width, "batch": batch, "steps": steps, "hooks": list(rows.values())}
    return Story(figures, blocks_of(figures, list(rows)))


def blocks_of(figures: dict[str, Any], names: list[str]) -> list[Block]:
    """What the report shows; `names` are the hooks in the order of the figures."""
    size = f"{figures['layers']} layers of {figures['width']}, batch {figures['batch']}"
    labels = [SHOWN[name] for name in names]
    fp8 = names.index("float8_e4m3fn")
    return [
        Text(f"Between forward and backward a network holds what its derivatives will read: here {size}, with Tanh. A "
             "hook stores it in fewer bytes, a checkpoint computes it again. Each network starts with the same "
             "weights and learns the same function."),
        Cards([
            (Figure("hooks/0/bytes held", binary), "held without a hook"),
            (Figure(f"hooks/{fp8}/bytes held", binary), "held as fp8"),
            (Figure(f"hooks/{fp8}/gradient error", error), "error of the worst gradient, fp8"),
            (Figure(f"hooks/{fp8}/last loss", "{:.4f}".format), f"loss with fp8 after {figures['steps']} steps"),
        ]),
        Bars("Bytes held for backward, by layer", [("", [
            Bar(label, Figure(f"hooks/{i}/bytes held", binary), colour, f"hooks/{i}/parts")
            for i, (label, colour) in enumerate(labels)
        ])], MIB if figures["hooks"][0]["bytes held"] >= MIB else KIB, note=SEGMENTS_NOTE),
        Bars("Time of a step", [("", [
            Bar(label, Figure(f"hooks/{i}/step seconds", milliseconds), colour)
            for i, (label, colour) in enumerate(labels)
        ])], 1e-3, note=TIME_NOTE),
        Lines("Loss", "step", [
            Line(label, f"hooks/{i}/loss", colour, dashed=name != WITHOUT)
            for i, (name, (label, colour)) in enumerate(zip(names, labels, strict=True))
        ], log=True),
        Table("Each hook", ["", "share of the bytes", "gradient error", "last loss"], [
            [label, Figure(f"hooks/{i}/share", "{:.2f}".format), Figure(f"hooks/{i}/gradient error", error),
             Figure(f"hooks/{i}/last loss", "{:.4f}".format)]
            for i, (label, _) in enumerate(labels)
        ], note="The gradient error is ||g - g0|| / ||g0|| of the worst weight at the first step."),
    ]  # fmt: skip
