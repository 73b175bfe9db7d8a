"""Distribution: the base class of all distributions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

from .. import ops
from ..core.interpret.batched import check_values
from ..core.size import Size
from ..core.tensor import Tensor
from ..modes import no_grad
from .constraint import is_dependent
from .utils import as_size, lazy_property


class Distribution:
    """Base class of the distributions: independent ones along `batch_shape`, of events of `event_shape`.

    Samples have the shape (*sample_shape, *batch_shape, *event_shape), and `log_prob` sums over the event dimensions.
    With `validate_args` (by default on, unless Python runs with -O) the parameters, and the values given to
    `log_prob`, `cdf` and `icdf`, are checked: ValueError where one is outside of its constraint. A check waits for a
    CUDA device; `validate_args=False`, or `Distribution.set_default_validate_args(False)`, does without.

    A subclass sets its parameters, calls this __init__, and defines `arg_constraints`, `support` and some of the
    methods, with `rsample` and `has_rsample = True`, or `sample`.

    >>> from autograd_gpu.distributions import Normal
    >>> normal = Normal(ag.zeros(2), 1.0)
    >>> normal.batch_shape, normal.sample((3,)).shape, normal.log_prob(ag.zeros(2))
    ((2,), (3, 2), tensor([-0.9189, -0.9189]))
    """

    has_rsample: bool = False
    has_enumerate_support: bool = False
    _validate_args: bool = __debug__
    _ag_expands: ClassVar[tuple[str, ...]] = ()  # what `expand` expands besides the parameters in arg_constraints
    _ag_keeps: ClassVar[tuple[str, ...]] = ()  # what it leaves as it is

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Turns checks on or off for distributions made from now on without `validate_args`; ValueError if not bool."""
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args expects True or False, got {value!r}")
        Distribution._validate_args = value

    def __init__(
        self, batch_shape: Sequence[int] = (), event_shape: Sequence[int] = (), validate_args: bool | None = None
    ) -> None:
        self._batch_shape = as_size(batch_shape)
        self._event_shape = as_size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    # ---- shapes ------------------------------------------------------------------------------------------------------

    @property
    def batch_shape(self) -> Size:
        """The shape of the independent distributions that this object holds."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one event; () for numbers."""
        return self._event_shape

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Size:
        """The shape of samples: (*sample_shape, *batch_shape, *event_shape)."""
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """This distribution with a larger batch_shape; its parameters are expanded, and share memory.

        A subclass with its own __init__ defines its own `expand`, which may pass the instance that it fills to this
        one. NotImplementedError if it does not, or where the class is none of this package.
        """
        new, batch_shape = self._get_checked_instance(self._ag_class(), _instance), as_size(batch_shape)
        for name in (*self.arg_constraints, *self._ag_expands):
            if name in self.__dict__ and name not in new.__dict__:
                value = self.__dict__[name]
                shape = value.batch_shape if isinstance(value, Distribution) else value.shape
                setattr(new, name, value.expand(batch_shape + shape[len(self._batch_shape) :]))
        for name in self._ag_keeps:
            setattr(new, name, getattr(self, name))
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _ag_class(self) -> type:
        """The class of this package that the distribution is of; NotImplementedError if only bases are."""
        cls: type = next(cls for cls in type(self).__mro__ if cls.__module__.startswith(f"{__package__}."))
        if cls.__init__ is Distribution.__init__:  # type: ignore[misc]
            raise NotImplementedError(f"{type(self).__name__} does not implement expand")
        return cls

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """A bare instance for the `expand` of cls to fill; NotImplementedError if a subclass sets other attributes."""
        if _instance is None and type(self).__init__ is not cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also "
                "define a custom .expand() method."
            )
        return type(self).__new__(type(self)) if _instance is None else _instance

    @property
    def arg_constraints(self) -> Any:
        """A dict of the parameters' constraints by name."""
        raise NotImplementedError(f"{type(self).__name__} does not define its arg_constraints")

    @property
    def support(self) -> Any:
        """The constraint that samples fulfil."""
        raise NotImplementedError(f"{type(self).__name__} does not define its support")

    # ---- samples -----------------------------------------------------------------------------------------------------

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Samples of the shape (*sample_shape, *batch_shape, *event_shape), without a gradient."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Samples that are differentiable with respect to the parameters, where `has_rsample` is true."""
        raise NotImplementedError(f"{type(self).__name__} does not implement rsample")

    def sample_n(self, n: int) -> Tensor:
        """`sample((n,))`; deprecated, as in PyTorch."""
        warnings.warn("sample_n(n) will be deprecated. Use .sample((n,)) instead.", UserWarning, stacklevel=2)
        return self.sample((n,))

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution along dimension 0, expanded to batch_shape unless `expand` is False."""
        raise NotImplementedError(f"{type(self).__name__} does not implement enumerate_support")

    # ---- densities ---------------------------------------------------------------------------------------------------

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability (density) of each event in value."""
        return self._ag_checked("log_prob", value)

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of numbers up to value."""
        return self._ag_checked("cdf", value)

    def _ag_checked(self, name: str, value: Tensor) -> Tensor:
        """What the method _ag_<name> of the class computes from a valid value."""
        formula: Callable[[Tensor], Tensor] | None = getattr(self, f"_ag_{name}", None)
        if formula is None:
            raise NotImplementedError(f"{type(self).__name__} does not implement {name}")
        if self._validate_args:
            self._validate_sample(value)
        return formula(value)

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of `cdf`: the quantile of each probability in value."""
        raise NotImplementedError(f"{type(self).__name__} does not implement icdf")

    def entropy(self) -> Tensor:
        """The (differential) entropy, in nats, of shape batch_shape."""
        raise NotImplementedError(f"{type(self).__name__} does not implement entropy")

    def perplexity(self) -> Tensor:
        """exp(entropy)."""
        return ops.exp(self.entropy())

    # ---- moments -----------------------------------------------------------------------------------------------------

    @property
    def mean(self) -> Tensor:
        """The expectation."""
        raise NotImplementedError(f"{type(self).__name__} does not implement mean")

    @property
    def mode(self) -> Tensor:
        """The value of the highest probability (density)."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance of each element."""
        raise NotImplementedError(f"{type(self).__name__} does not implement variance")

    @property
    def stddev(self) -> Tensor:
        """The square root of the variance."""
        return self.variance.sqrt()

    # ---- checks ------------------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        """ValueError if a parameter is outside of its constraint."""
        try:
            constraints = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or initialize "
                "the distribution with `validate_args=False` to turn off validation.", stacklevel=3,
            )  # fmt: skip
            return
        for name, constraint in constraints.items():
            if is_dependent(constraint) or self._is_derived(name):
                continue
            value = getattr(self, name)
            check_values(constraint.check(value), partial(self._refuse_parameter, name, constraint), value)

    def _refuse_parameter(self, name: str, constraint: Any, valid: Any, value: Tensor) -> None:
        if not valid.all():
            raise ValueError(
                f"Expected parameter {name} ({_kind(value)}) of distribution {self!r} to satisfy the constraint "
                f"{constraint!r}, but found invalid values:\n{value}"
            )

    def _is_derived(self, name: str) -> bool:
        """Whether the parameter follows from another, which is checked in its place."""
        return name not in self.__dict__ and isinstance(getattr(type(self), name, None), lazy_property)

    def _validate_sample(self, value: Tensor) -> None:
        """ValueError unless value is a tensor whose shape fits, and whose events lie in the support."""
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        shape, event = value.shape, self._event_shape
        if shape[max(len(shape) - len(event), 0) :] != event:
            raise ValueError(f"The right-most size of value must match event_shape: {shape} vs {event}.")
        expected = self._batch_shape + event
        if any(i != j and 1 not in (i, j) for i, j in zip(shape[::-1], expected[::-1], strict=False)):
            raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {shape} vs {expected}.")
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `support` to enable sample validation. Please initialize the "
                "distribution with `validate_args=False` to turn off validation.", stacklevel=3,
            )  # fmt: skip
            return
        check_values(support.check(value), partial(self._refuse_value, support), value)

    def _refuse_value(self, support: Any, valid: Any, value: Tensor) -> None:
        if not valid.all():
            raise ValueError(
                f"Expected value argument ({_kind(value)}) to be within the support ({support!r}) of the distribution "
                f"{self!r}, but found invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        names = [name for name in self.arg_constraints if name in self.__dict__]
        values = [self.__dict__[name] for name in names]
        shown = [v if not isinstance(v, Tensor) or v.numel() == 1 else v.shape for v in values]
        return f"{type(self).__name__}({', '.join(f'{n}: {v}' for n, v in zip(names, shown, strict=True))})"


def _kind(value: Tensor) -> str:
    return f"{type(value).__name__} of shape {tuple(value.shape)}"
