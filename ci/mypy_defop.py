"""A plugin for mypy: `@defop` and its like make a function of the block of an op, a class, which no type can say.

The class gets the flag of a class with a base of type Any: it may be called with anything, and passed as any function.
A call returns Any. What users call is typed by ops/__init__.pyi.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.nodes import TypeInfo
from mypy.plugin import ClassDefContext, FunctionContext, Plugin
from mypy.types import AnyType, Type, TypeOfAny

DEFOP = "autograd_gpu.core.dispatch.defop"  # its full name wherever it is imported from, core/extend.py as well
DECORATORS = (
    DEFOP, "autograd_gpu.core.dispatch.internal_op", "autograd_gpu.core.dispatch.pointwise",
    "autograd_gpu.ops.nn.elementwise_loss.elementwise_loss",
)  # fmt: skip


class DefopPlugin(Plugin):
    def get_class_decorator_hook_2(self, fullname: str) -> Callable[[ClassDefContext], bool] | None:
        return _mark if fullname in DECORATORS else None

    def get_function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        if not fullname.startswith("autograd_gpu.ops."):
            return None
        symbol = self.lookup_fully_qualified(fullname)
        is_op = symbol is not None and isinstance(symbol.node, TypeInfo) and DEFOP in symbol.node.metadata
        return _returns_any if is_op else None


def _mark(context: ClassDefContext) -> bool:
    context.cls.info.fallback_to_any = True
    context.cls.info.metadata[DEFOP] = {}
    return True


def _returns_any(context: FunctionContext) -> Type:
    return AnyType(TypeOfAny.special_form)


def plugin(version: str) -> type[Plugin]:
    return DefopPlugin
