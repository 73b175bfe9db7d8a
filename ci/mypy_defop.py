"""A plugin for mypy: `@defop` turns the block of an op, a class, into a function, which mypy's types cannot say.

The class gets the flag of a class with a base of type Any: it may be called with anything, and what the call returns
is taken for any type. What users call is typed by ops/__init__.pyi.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.plugin import ClassDefContext, Plugin


class DefopPlugin(Plugin):
    def get_class_decorator_hook_2(self, fullname: str) -> Callable[[ClassDefContext], bool] | None:
        return _mark if fullname == "autograd_gpu.core.dispatch.defop" else None


def _mark(context: ClassDefContext) -> bool:
    context.cls.info.fallback_to_any = True
    return True


def plugin(version: str) -> type[Plugin]:
    return DefopPlugin
