"""Steps captured as CUDA graphs, ours and PyTorch's: contenders on CUDA beside the same steps without."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import autograd_gpu as ag

Step = Callable[..., Any]
WARMUP = 3  # calls before the capture, which are steps of the training, as ours are


def graphed(lib: ModuleType, step: Step) -> Step:
    """The step of a library as a graph: its first calls run as they are, the others are replays."""
    return ag.cuda.make_graphed_step(step, warmup=WARMUP) if lib is ag else TorchGraph(lib, step)


class TorchGraph:
    """A step of PyTorch: a few calls on a side stream, then replays, as its manual writes it; results are copies."""

    def __init__(self, torch: ModuleType, step: Step) -> None:
        self.torch, self.step, self.calls = torch, step, 0
        self.graph, self.stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()

    def __call__(self, *inputs: Any) -> Any:
        self.calls += 1
        if self.calls <= WARMUP:
            return self._on_stream(inputs)
        if self.calls == WARMUP + 1:
            self.inputs = [tensor.clone() for tensor in inputs]
            with self.torch.cuda.graph(self.graph):
                self.result = self.step(*self.inputs)
        for static, tensor in zip(self.inputs, inputs, strict=True):
            static.copy_(tensor)
        self.graph.replay()
        return self.torch.utils._pytree.tree_map(lambda tensor: tensor.detach().clone(), self.result)

    def _on_stream(self, inputs: tuple[Any, ...]) -> Any:
        current = self.torch.cuda.current_stream()
        self.stream.wait_stream(current)
        with self.torch.cuda.stream(self.stream):
            result = self.step(*inputs)
        current.wait_stream(self.stream)
        return result
