"""Collectives as linear functions of a tensor. Each knows its adjoint: derivatives of every order are collectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..autograd.function import Function
from ..core.tensor import Tensor
from ..ops import empty, zeros
from . import collectives
from .group import ProcessGroup


@dataclass(frozen=True)
class Exchange:
    """A linear function of the tensors of all ranks. `parts`: whether the first dimension counts ranks."""

    group: ProcessGroup
    parts = (False, False)  # of input and output

    def __call__(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def adjoint(self) -> Exchange:
        raise NotImplementedError

    def apply(self, x: Tensor) -> Tensor:
        """The result, differentiable."""
        return Exchanged.apply(x, self)

    def _size(self) -> int:
        return self.group.size()


class Sum(Exchange):
    """The sum over the ranks, on all of them."""

    def __call__(self, x: Tensor) -> Tensor:
        result = x.clone()
        collectives.all_reduce(result, group=self.group)
        return result

    def adjoint(self) -> Exchange:
        return self


class Gather(Exchange):
    """The tensors of all ranks, in a first dimension."""

    parts = (False, True)

    def __call__(self, x: Tensor) -> Tensor:
        result = empty(self._size(), *x.shape, dtype=x.dtype, device=x.device)
        collectives.all_gather_into_tensor(result, x, group=self.group)
        return result

    def adjoint(self) -> Exchange:
        return SumOfParts(self.group)


class SumOfParts(Exchange):
    """The sum over the ranks of their parts for this one."""

    parts = (True, False)

    def __call__(self, x: Tensor) -> Tensor:
        result = empty(*x.shape[1:], dtype=x.dtype, device=x.device)
        collectives.reduce_scatter_tensor(result, x, group=self.group)
        return result

    def adjoint(self) -> Exchange:
        return Gather(self.group)


@dataclass(frozen=True)
class _Rooted(Exchange):
    root: int  # in the group


class Broadcast(_Rooted):
    """The tensor of the root."""

    def __call__(self, x: Tensor) -> Tensor:
        result = x.clone()
        collectives.broadcast(result, group=self.group, group_src=self.root)
        return result

    def adjoint(self) -> Exchange:
        return SumAt(self.group, self.root)


class SumAt(_Rooted):
    """The sum over the ranks at the root, and zeros elsewhere."""

    def __call__(self, x: Tensor) -> Tensor:
        result = x.clone()
        collectives.reduce(result, group=self.group, group_dst=self.root)
        return result if self.group.rank() == self.root else result.zero_()

    def adjoint(self) -> Exchange:
        return Broadcast(self.group, self.root)


class GatherAt(_Rooted):
    """The tensors of all ranks at the root, and zeros elsewhere."""

    parts = (False, True)

    def __call__(self, x: Tensor) -> Tensor:
        result = zeros(self._size(), *x.shape, dtype=x.dtype, device=x.device)
        at_root = self.group.rank() == self.root
        outputs = list(result.unbind(0)) if at_root else None
        collectives.gather(x, outputs, group=self.group, group_dst=self.root)
        return result

    def adjoint(self) -> Exchange:
        return ScatterFrom(self.group, self.root)


class ScatterFrom(_Rooted):
    """The part for this rank of the tensor of the root."""

    parts = (True, False)

    def __call__(self, x: Tensor) -> Tensor:
        result = empty(*x.shape[1:], dtype=x.dtype, device=x.device)
        inputs = list(x.unbind(0)) if self.group.rank() == self.root else None
        collectives.scatter(result, inputs, group=self.group, group_src=self.root)
        return result

    def adjoint(self) -> Exchange:
        return GatherAt(self.group, self.root)


@dataclass(frozen=True)
class Transpose(Exchange):
    """Sends rows of the first dimension to the ranks: sent[i] to rank i, which sends received[i]."""

    received: Sequence[int]
    sent: Sequence[int]
    parts = (True, True)

    def __call__(self, x: Tensor) -> Tensor:
        result = empty(sum(self.received), *x.shape[1:], dtype=x.dtype, device=x.device)
        collectives.all_to_all_single(result, x, self.received, self.sent, group=self.group)
        return result

    def adjoint(self) -> Exchange:
        return Transpose(self.group, self.sent, self.received)


class Exchanged(Function):
    """An exchange as an operation."""

    @staticmethod
    def forward(x: Tensor, exchange: Exchange) -> Tensor:
        return exchange(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.exchange = inputs[1]

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        return ctx.exchange.adjoint().apply(g), None

    @staticmethod
    def jvp(ctx: Any, t: Tensor, exchange: Any) -> Tensor:
        return ctx.exchange.apply(t)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], x: Tensor, exchange: Exchange) -> tuple[Tensor, int]:
        """All examples in one exchange: their dimension goes behind that of the ranks."""
        dim = in_dims[0]
        assert dim is not None  # a Function's vmap is called for a batched argument, and x is the only tensor
        before, after = exchange.parts
        return exchange.apply(x.movedim(dim, int(before))), int(after)
