"""Where users find a function: its public names, Tensor methods, in-place methods and NumPy ufuncs.

The block of an op says it by the specs of this name, any other function by the decorator `public` or `method`:

    public    names below `autograd_gpu`: "exp", "special.exp2", "linalg.svd", "nn.functional.gelu"; True: its own.
              A name that ends in "_" is the in-place method of that name as a function.
    methods   Tensor methods; True: its public names without a module.
    inplace   in-place methods; True: those of `methods`, with "_" behind.
    ufunc     NumPy's and CuPy's ufuncs that call it for tensors; True: its own name.
    out       of a function that is no op: it takes `out`.
    view      of a function that is no op: its result is a view, and its in-place method makes the tensor that view.

`ops/binding.py` derives Tensor's methods and what the public modules contain from the list NAMED, `ci/write_stubs.py`
the stubs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict, TypeVar

from ...errors import OpDeclarationError

Function = TypeVar("Function", bound=Callable[..., Any])
Spec = bool | str | tuple[str, ...]


class Specs(TypedDict):
    """What the block of an op says."""

    public: Spec
    methods: Spec
    inplace: Spec
    ufunc: Spec


class Named(NamedTuple):
    """A function and all names under which users find it."""

    function: Callable[..., Any]
    public: tuple[str, ...]
    methods: tuple[str, ...]
    inplace: tuple[str, ...]
    ufunc: tuple[str, ...]
    out: bool
    view: bool


NAMED: list[Named] = []


def add_names(
    function: Callable[..., Any], name: str, public: Spec, methods: Spec, inplace: Spec, ufunc: Spec, out: bool = False,
    view: bool = False,
) -> None:  # fmt: skip
    """Appends `function`, whose own name is `name`, to NAMED; specs are as at the head of this file."""
    names = _names(public, (name,))
    bound = _names(methods, tuple(n for n in names if "." not in n and not n.endswith("_")))
    if methods is True and not bound:
        raise OpDeclarationError(f"{name}: methods = True stands for its public names, of which it has none")
    written = _names(inplace, tuple(f"{n}_" for n in bound))
    for n in written:
        if not n.endswith("_"):
            raise OpDeclarationError(f"{name}: the in-place method {n!r} has to end in '_'")
    NAMED.append(Named(function, names, bound, written, _names(ufunc, (name,)), out, view))


def _names(spec: Spec, own: tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(spec, bool):
        return own if spec else ()
    return (spec,) if isinstance(spec, str) else tuple(spec)


def public(
    *names: str, methods: Spec = False, inplace: Spec = False, ufunc: Spec = False, out: bool = False,
    view: bool = False,
) -> Callable[[Function], Function]:
    """Decorates a function that is made of ops: users find it by `names`, by default its own."""

    def decorate(function: Function) -> Function:
        add_names(function, function.__name__, names or True, methods, inplace, ufunc, out, view)
        return function

    return decorate


def method(*names: str) -> Callable[[Function], Function]:
    """Decorates a function that users find as the Tensor methods `names` only, by default its own name."""

    def decorate(function: Function) -> Function:
        add_names(function, function.__name__, False, names or (function.__name__,), False, False)
        return function

    return decorate
