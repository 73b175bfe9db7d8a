"""What the distributions of vectors share that are made of a categorical one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..core.size import Size
from ..core.tensor import Tensor
from . import constraints
from .categorical import Categorical
from .distribution import Distribution
from .utils import as_size


class OnCategorical(Distribution):
    """A distribution of vectors with an element for each category of `_categorical`, which has the parameters."""

    arg_constraints: ClassVar = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def _set_categorical(self, probs: Tensor | None, logits: Tensor | None, validate_args: bool | None) -> None:
        """Sets the parameters and shapes; ValueError unless exactly one of probs and logits is given."""
        self._categorical = Categorical(probs, logits)
        shape = self._categorical.param_shape
        Distribution.__init__(self, shape[:-1], shape[-1:], validate_args=validate_args)

    def _expanded_categorical(self, cls: type, batch_shape: Sequence[int], _instance: Any, *same: str) -> Any:
        """What `expand` of cls returns; the attributes in `same` stay as they are."""
        new, batch_shape = self._get_checked_instance(cls, _instance), as_size(batch_shape)
        for name in same:
            setattr(new, name, getattr(self, name))
        new._categorical = self._categorical.expand(batch_shape)
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def probs(self) -> Tensor:
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        return self._categorical.logits

    @property
    def param_shape(self) -> Size:
        return self._categorical.param_shape
