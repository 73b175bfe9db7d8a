"""Steps captured as CUDA graphs, ours and PyTorch's: contenders on CUDA beside the same steps without.

PyTorch's are made in two ways: by hand (TorchGraph), and by torch.compile in the mode "reduce-overhead" (compiled).
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import autograd_gpu as ag

from .report import COMPILED, GRAPH, REPLAYED_GRAPH, TORCH_GRAPH
from .timing import Call

Step = Callable[..., Any]
WARMUP = 3  # calls before the capture, which are steps of the training, as ours are
# Why they are absent on the CPU.
NEED_CUDA = dict.fromkeys((GRAPH, REPLAYED_GRAPH, TORCH_GRAPH, COMPILED), "CUDA graphs need CUDA")


def as_it_is(step: Step) -> Step:
    return step


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


def compiled(torch: ModuleType, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of PyTorch, compiled; each call overwrites the results of the one before."""
    fast = torch.compile(function, mode="reduce-overhead")

    def call(*inputs: Any) -> Any:
        torch.compiler.cudagraph_mark_step_begin()
        return fast(*inputs)

    return call


def results_of(calls: dict[str, Call], work: Callable[[str, Call], Any]) -> tuple[dict[str, Any], list[str]]:
    """work(name, call) by name. If PyTorch's compiler refuses, its contender leaves `calls`, and a note says why."""
    results: dict[str, Any] = {}
    notes: list[str] = []
    for name, call in list(calls.items()):
        try:
            results[name] = work(name, call)
        except Exception as error:
            if name != COMPILED:
                raise
            del calls[name]
            reason = next(iter(str(error).splitlines()), "")
            notes.append(f"{name}: not measured, {type(error).__name__}: {reason}")
    return results, notes
