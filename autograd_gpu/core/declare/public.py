"""Registers the public names of functions: module functions, Tensor methods, in-place methods and NumPy ufuncs.

The block of an op has specs of these names; other functions pass them to the decorator `public` or `method`:

    public    names below `autograd_gpu`: "exp", "special.exp2", "linalg.svd", "nn.functional.gelu"; True: the name of
              the function. A name that ends in "_" is the function form of the in-place method of that name.
    methods   Tensor methods; True: the public names without a module.
    inplace   in-place methods; True: the names in `methods` with "_" appended.
    ufunc     NumPy and CuPy ufuncs that call the function for tensors; True: the name of the function.
    out       only for functions that are not ops: the function takes `out`.
    view      only for functions that are not ops: the result is a view, and the in-place method turns the tensor into
              that view.

`ops/binding.py` derives the Tensor methods and the contents of the public modules from the list NAMED, and
`ci/write_stubs.py` derives the stubs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict, TypeVar

from ...errors import OpDeclarationError

Function = TypeVar("Function", bound=Callable[..., Any])
Spec = bool | str | tuple[str, ...]


class Specs(TypedDict):
    """The naming specs of an op's block."""

    public: Spec
    methods: Spec
    inplace: Spec
    ufunc: Spec


class Named(NamedTuple):
    """A function and all its public names."""

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
    """Appends `function`, whose name is `name`, to NAMED; the head of this file describes the specs."""
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
    """Decorates a function composed of ops: registers it as `names`, by default its own name."""

    def decorate(function: Function) -> Function:
        add_names(function, function.__name__, names or True, methods, inplace, ufunc, out, view)
        return function

    return decorate


def method(*names: str) -> Callable[[Function], Function]:
    """Decorates a function: registers it only as the Tensor methods `names`, by default its own name."""

    def decorate(function: Function) -> Function:
        add_names(function, function.__name__, False, names or (function.__name__,), False, False)
        return function

    return decorate
