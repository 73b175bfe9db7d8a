"""compile: a function whose calls are recorded until two agree, and then replayed."""

from __future__ import annotations

import functools
import logging
import threading
import weakref
from collections.abc import Callable
from typing import Any

from .. import pytrees
from ..backend.cuda import capture
from ..core.interpret.interpreters import only_watched
from ..core.interpret.tracing import inlineable
from ..core.tensor import Tensor
from ..core.thread_state import THREAD
from ..errors import warn_user
from ..modes import MODES, RECORDING_MASK
from .dynamic import AGAIN, MOST_KINDS, Family, Template, family_of
from .explain import Explanation, explanation, readable
from .explaining import Unexplained
from .graph import CompileError, Trace
from .guards import Guards
from .key import Unfit, key_of, matcher
from .record import record
from .replay import Replay
from .same import difference
from .saving import hooks_word
from .sizes import Sizes
from .tracer import Tracer

LOGGER = logging.getLogger("autograd_gpu.compilation")
LOGGER.setLevel(logging.WARNING)
MOST_TRACES = 4  # of a key until two in a row agree
MOST_PROGRAMS = 8  # of a key
_ALIVE: weakref.WeakSet[Compiled] = weakref.WeakSet()
REPLAYS: dict[str, type[Replay]] = {"default": Replay}  # by mode: what replays a trace
WRAPPERS: dict[type, Callable[[Compiled], Any]] = {}  # by class of what is compiled: what is made of its Compiled


class Counts:
    """How often calls of a compiled function were traced, replayed, and run as they are."""

    def __init__(self) -> None:
        self.traced = self.compiled = self.eager = 0

    def __repr__(self) -> str:
        return f"Counts(traced={self.traced}, compiled={self.compiled}, eager={self.eager})"


class Kind:
    """The calls with one key: traces that are compared, and programs."""

    def __init__(self) -> None:
        self.last: Trace | None = None
        self.attempts = 0
        self.programs: list[tuple[Guards, Replay]] = []
        self.refused: str | None = None
        self.optimizers: dict[int, Any] = {}
        self.matches: Any = None  # the function of key.matcher, False if there is none


class Compiled:
    """A function whose calls are replayed; `ag.compile` makes it."""

    def __init__(
        self, fn: Callable[..., Any], fullgraph: bool, mode: str = "default", dynamic: bool = False
    ) -> None:  # fmt: skip
        functools.update_wrapper(self, fn, updated=())
        self._fn, self._fullgraph, self._mode, self._dynamic = fn, fullgraph, mode, dynamic
        self.reset()
        _ALIVE.add(self)

    def __reduce__(self) -> Any:
        return Compiled, (self._fn, self._fullgraph, self._mode, self._dynamic)

    def reset(self) -> None:
        """Drops all programs: the next calls are traced anew."""
        self._local = threading.local()
        self._warned: set[str] = set()
        self.counts = Counts()
        self.recompiles: list[str] = []
        self._specs: dict[int, Any] = {}

    def explain(self) -> Explanation:
        """What was compiled on this thread, and what was not, with the reason, file and line.

        >>> double = ag.compile(lambda x: x * 2)
        >>> _ = [double(ag.ones(3)) for _ in range(3)]
        >>> print(double.explain())
        program 0: (x: f32[3]), 1 of 1 instructions, 0 bytes saved; 1 mul
        """
        return explanation(self._kinds.values(), self._families.values())

    def print_readable(self, print_output: bool = True) -> str:
        """The programs of this thread as Python; printed, too, unless `print_output` is False.

        >>> double = ag.compile(lambda x: x * 2)
        >>> _ = [double(ag.ones(3)) for _ in range(3)]
        >>> "mul" in double.print_readable(print_output=False)
        True
        """
        text = readable(self._kinds.values(), self._families.values())
        if print_output:
            print(text)
        return text

    def __getattr__(self, name: str) -> Any:
        if name == "_fn":
            raise AttributeError(name)
        return getattr(self._fn, name)

    def __repr__(self) -> str:
        return f"<compiled {getattr(self._fn, '__qualname__', self._fn)}: {self.counts}>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if MODES.bits > RECORDING_MASK and not only_watched() and MODES.stack:
            return self._fn(*args, **kwargs)  # inside of a transform or of another trace
        last = getattr(self._local, "last", None)
        if last is not None and not kwargs and len(args) == last[0] and last[1](args) and not last[2].failed(args):
            self.counts.compiled += 1
            return last[3](args)
        leaves, spec = self._parts(args, kwargs)
        try:
            self._check_modes()
            key = key_of(leaves, spec, hooks_word())
        except Unfit as unfit:
            return self._eagerly(str(unfit), args, kwargs)
        kind = self._kinds.get(key)
        reason = None
        if kind is not None:
            for guards, replay in kind.programs:
                reason = guards.failed(leaves)
                if reason is None:
                    self.counts.compiled += 1
                    if leaves is args:
                        if kind.matches is None:
                            kind.matches = matcher(leaves) or False
                        self._local.last = (len(args), kind.matches, guards, replay) if kind.matches else None
                    return replay(leaves)
        return self._without_program(key, kind, reason, args, kwargs, leaves, spec)

    def _without_program(
        self, key: Any, kind: Kind | None, reason: str | None, args: Any, kwargs: Any, leaves: Any, spec: Any
    ) -> Any:
        """A call whose kind has no program that may run: by one for many sizes, recorded, or as it is."""
        family, lengths = self._family(leaves, key) if self._dynamic else (None, ())
        if family is not None:
            done, result = self._by_template(family, lengths, key, leaves)
            if done:
                return result
            reason = reason or family.reason
        if kind is None:
            kind = self._kind(key, family)
        if kind.refused is not None:
            return self._eagerly(kind.refused, args, kwargs)
        if capture.is_capturing():  # what a trace copies to look at it could not be captured
            self.counts.eager += 1
            return self._fn(*args, **kwargs)
        if reason is not None and kind.last is None:
            self._note_recompile(reason)
        return self._record(kind, args, kwargs, leaves, spec, family, lengths)

    def _family(self, leaves: Any, key: Any) -> tuple[Family | None, Sizes]:
        """The calls that differ from this one by sizes only, and its sizes."""
        known = family_of(leaves, key)
        if known is None:
            return None, ()
        families = self._families
        family = families.get(known[0])
        if family is None:
            family = families[known[0]] = Family(list(known[1]))
        return family, tuple(known[1].values())

    def _by_template(self, family: Family, lengths: Sizes, key: Any, leaves: Any) -> tuple[bool, Any]:
        """Runs a call by a program for many sizes: whether there is one, and the result."""
        template = family.template(leaves, lengths)
        if template is None:
            return False, None
        if template.count(lengths) > AGAIN:
            kind = self._kinds.get(key) or self._kind(key, family)
            if len(kind.programs) < MOST_PROGRAMS:
                kind.programs.append((template.guards, template.instance(REPLAYS[self._mode], lengths)))
        try:
            result = template.run(leaves, lengths)
        except Unexplained as unexplained:
            family.reason = str(unexplained)
            return False, None
        self.counts.compiled += 1
        return True, result

    def _kind(self, key: Any, family: Family | None) -> Kind:
        """Makes the kind of calls with this key; drops the oldest one if there are too many that differ by sizes."""
        kind = self._kinds[key] = Kind()
        if family is not None:
            family.kinds[key] = None
            if len(family.kinds) > MOST_KINDS:
                del self._kinds[family.kinds.popitem(last=False)[0]]
        return kind

    def _drop_records(self, family: Family) -> None:
        """Drops what was recorded for sizes that have no program of their own."""
        LOGGER.info("%r: compiled for varying sizes", self)
        for key in [key for key in family.kinds if not self._kinds[key].programs]:
            self._kinds[key].last = None

    def _parts(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """The leaves of the arguments and their structure, which is known for tensors by place."""
        if not kwargs and all(isinstance(x, Tensor) for x in args):
            spec = self._specs.get(len(args))
            if spec is None:
                spec = self._specs[len(args)] = pytrees.flatten((args, kwargs))[1]
            return args, spec
        return pytrees.flatten((args, kwargs))

    @property
    def _kinds(self) -> dict[Any, Kind]:
        """By key; programs belong to a thread."""
        kinds: dict[Any, Kind] | None = getattr(self._local, "kinds", None)
        if kinds is None:
            kinds, self._local.families = {}, {}
            self._local.kinds = kinds
        return kinds

    @property
    def _families(self) -> dict[Any, Family]:
        """With dynamic=True: by what the keys of calls have besides sizes."""
        families: dict[Any, Family] = self._local.families if self._kinds is not None else {}
        return families

    def _check_modes(self) -> None:
        thread = THREAD.state
        if thread.anomaly:
            raise Unfit("anomaly mode is on")
        if thread.start_hooks:
            raise Unfit("hooks of on_node_start are set")

    def _note_recompile(self, reason: str) -> None:
        self.recompiles.append(reason)
        LOGGER.info("%r: traced anew: %s", self, reason)

    def _record(
        self, kind: Kind, args: Any, kwargs: Any, leaves: Any, spec: Any, family: Family | None, lengths: Sizes
    ) -> Any:  # fmt: skip
        if len(kind.programs) >= MOST_PROGRAMS:
            kind.refused = f"it has {MOST_PROGRAMS} programs for arguments of this kind already; what changes from " \
                           f"call to call must be an argument ({self.recompiles[-1]})"
            return self._eagerly(kind.refused, args, kwargs)
        self.counts.traced += 1
        sized = None if family is None else family.tracer(self._fullgraph, lengths)
        tracer = Tracer(self._fullgraph) if sized is None else sized
        trace, result = record(self._fn, leaves, spec, kind.optimizers.values(), tracer)
        kind.optimizers.update({key: optimizer for key, (optimizer, _) in trace.settings.items()})
        if trace.refused is not None:
            self._refuse(kind, trace.refused)
            return result
        if family is not None and sized is not None:
            family.learn(trace, sized, lengths, functools.partial(Template, self._fn, self._name, spec))
            if family.templates and family.reason is None:
                self._drop_records(family)
        differs = "" if kind.last is None else difference(kind.last, trace)
        if differs is None:
            kind.programs.append((Guards(trace), REPLAYS[self._mode](self._fn, self._name, spec, trace)))
            kind.last, kind.attempts = None, 0
            LOGGER.info("%r: compiled", self)
            return result
        kind.last, kind.attempts = trace, kind.attempts + 1
        if kind.attempts >= MOST_TRACES:
            self._refuse(kind, differs)
        return result

    @property
    def _name(self) -> str:
        name = getattr(self._fn, "__name__", type(self._fn).__name__)
        return name if name.isidentifier() else "compiled"

    def _refuse(self, kind: Kind, reason: str) -> None:
        kind.refused, kind.last = reason, None
        self._warn(reason)

    def _eagerly(self, reason: str, args: Any, kwargs: Any) -> Any:
        self._warn(reason)
        self.counts.eager += 1
        return self._fn(*args, **kwargs)

    def _warn(self, reason: str) -> None:
        if self._fullgraph:
            raise CompileError(f"ag.compile with fullgraph=True: {reason}")
        if reason not in self._warned:
            self._warned.add(reason)
            warn_user(f"{getattr(self._fn, '__qualname__', self._fn)} runs eagerly, not compiled: {reason}")


def reset() -> None:
    """Drops the programs of all compiled functions.

    >>> ag.compiler.reset()
    """
    for compiled in list(_ALIVE):
        compiled.reset()


def compile(
    model: Any = None, *, dynamic: bool | None = False, fullgraph: bool = False, mode: str | None = "default",
    disable: bool = False, **options: Any,
) -> Any:  # fmt: skip
    """A function or module whose calls are recorded, and replayed once two calls in a row have done the same.

    A replay does what the call would do, to the last bit: gradients, in-place writes, steps of optimizers, random
    numbers. It runs the recorded operations without dispatch, graph and engine. Arguments of other shapes, dtypes or
    values, and globals, cells and attributes that changed, lead to further programs. A call that cannot be compiled
    runs as it is, with one warning that says why; with `fullgraph` that is a CompileError. Also a decorator.

    mode: "default", or "reduce-overhead": on CUDA a program becomes a CUDA graph, into whose memory arguments are
    copied; on the CPU that is "default". ValueError for another mode. options: PyTorch's; they change nothing.
    disable: returns `model` as it is. dynamic: False makes a program for each size of the arguments; with True or None
    calls that differ by sizes only share one, after three of them were recorded, where the sizes explain what differs.

    >>> w = ag.ones(3, requires_grad=True)
    >>> @ag.compile
    ... def step(x):
    ...     w.grad = None
    ...     loss = ((x * w).sum() - 1) ** 2
    ...     loss.backward()
    ...     with ag.no_grad():
    ...         w.sub_(0.05 * w.grad)
    ...     return loss
    >>> losses = [step(ag.tensor([1.0, 2.0, 3.0])).item() for _ in range(6)]
    >>> losses[0] > losses[-1]
    True
    >>> step.counts
    Counts(traced=3, compiled=3, eager=0)
    """
    mode = "default" if mode is None else mode
    if mode not in REPLAYS:
        raise ValueError(f"ag.compile(mode={mode!r}) is not supported; there are {', '.join(map(repr, REPLAYS))}. No "
                         "kernels are tuned, so leave mode out")
    if model is None:
        return functools.partial(compile, dynamic=dynamic, fullgraph=fullgraph, mode=mode, disable=disable, **options)
    if not callable(model):
        raise TypeError(f"ag.compile takes a function or a module, not {type(model).__name__}")
    if disable:
        return model
    compiled = Compiled(model, fullgraph, mode, dynamic is not False)
    return next((wrapper(compiled) for cls, wrapper in WRAPPERS.items() if isinstance(model, cls)), compiled)


compile.inlineable, compile.CompileError = inlineable, CompileError  # type: ignore[attr-defined]
