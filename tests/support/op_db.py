"""The op table: what a row says, and what makes its inputs.

Every declared op has a row in `op_rows/`, which has one module per module of `autograd_gpu/ops/`:

    from op_db import Error, Row, Sample, binary, normal, positive, unary

    ROWS = [
        unary("exp", np.exp),                                  # any float input; torch.exp is the oracle
        unary("log", np.log, positive),                        # inputs from where it is defined and smooth
        binary("mul", np.multiply, errors=[Error("shapes", lambda op, x: op(x(2, 3), x(4)), RuntimeError, "mul")]),
        Row("cat", samples=lambda rng: [Sample([normal(rng, 2, 3), normal(rng, 1, 3)], dim=0)],
            reference=lambda tensors, dim: np.concatenate(tensors, axis=dim)),
    ]

`test_op_db.py`, `test_op_rules.py` and `test_op_memory.py` run every check on every row, `test_op_oracle.py` compares
with PyTorch. A sample holds float64 arrays; the harness makes tensors of them, on the device and in the dtype under
test, requiring grad where the op's block declares a derivative. Positions count: `args` are the op's inputs in the
order of the block, attributes go by keyword. An integer or bool array becomes a tensor as it is; numbers, None and all
keywords are passed on untouched.
The samples of a row contain an empty tensor and a 0-d one, or `skip` says why not: {"empty": "...", "zero_dim": "..."}.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from effort import some

from autograd_gpu import backend
from autograd_gpu.autograd.backward import grad
from autograd_gpu.backend.arrays import dtypes
from autograd_gpu.backend.arrays.device import Device
from autograd_gpu.backend.arrays.dtypes import as_dtype
from autograd_gpu.core.declare.op import RECORD, REGISTRY, OpDef
from autograd_gpu.core.tensor import Tensor, wrap

FLOATS = ("float16", "bfloat16", "float32", "float64")
TOLERANCES = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "float64": 1e-10}  # relative to 1 + |reference|
INPUTS = 6  # different non-empty samples that are compared with PyTorch, at least
AS_PYTORCH = 1e-9  # relative to 1 + |value|, in float64
CHECKS = (
    "forward", "dtypes", "integers", "gradcheck", "gradgradcheck", "need", "saved", "layouts", "empty", "zero_dim",
    "cycles", "unmodified", "freed", "versions", "oracle", "oracle_forward", "oracle_grad", "oracle_gradgrad",
    "oracle_dtypes", "oracle_bool", "jvp", "batch", "half",
)  # fmt: skip


class Sample:
    """The arguments of one call: arrays, lists of arrays, numbers and None; attributes by keyword."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args = tuple(np.asarray(a) if isinstance(a, np.generic) else a for a in args)  # NumPy's 0-d results
        self.kwargs = kwargs

    @property
    def arrays(self) -> list[np.ndarray]:
        flat = [item for a in self.args for item in (a if isinstance(a, list) else [a])]
        return [item for item in flat if isinstance(item, np.ndarray)]

    def __repr__(self) -> str:
        def show(value: Any) -> str:
            if isinstance(value, list):
                return f"[{', '.join(map(show, value))}]"
            return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else repr(value)

        return ", ".join([*map(show, self.args), *(f"{k}={v!r}" for k, v in self.kwargs.items())])


def whole(value: Any, dtype: str) -> Any:
    """A float array as integers away from zero of this dtype, absolute ones if it is unsigned; else what it was."""
    if isinstance(value, list):
        return [whole(item, dtype) for item in value]
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        return value
    result = np.nan_to_num(np.where(value >= 0, np.ceil(value), np.floor(value)), posinf=1, neginf=-1)
    return (np.abs(result) if dtype in ("uint8", "bool") else result).astype(dtype)


@dataclass(frozen=True)
class Error:
    """A bad call. `call(op, x)` gets the op's function, and `x(*shape, dtype="float32")` that makes tensors of ones."""

    what: str
    call: Callable[..., Any]
    exception: type[Exception]
    match: str  # a regular expression that the message must contain
    by_value: bool = False  # depends on values, which nobody looks at on CUDA, where that would mean waiting


@dataclass(frozen=True)
class Point:
    """The gradients at a kink, tie or boundary, where numerical ones say nothing: one array or number per input."""

    sample: Sample
    grads: Sequence[Any]  # per differentiable input, for a cotangent of ones


@dataclass(frozen=True, kw_only=True)
class _Fields:
    samples: Callable[[np.random.Generator], Sequence[Sample]]
    reference: Callable[..., Any]  # NumPy, called as the op is; a tuple if the op has several outputs
    fn: Callable[..., Any] | None = None  # what to call, default: the op's public function; takes the op's inputs
    dtypes: Sequence[str] = FLOATS  # what the float inputs may be
    tol: dict[str, float] = field(default_factory=dict)  # dtype -> tolerance, where the default is too tight
    # Float dtype in -> dtype of every output, or a tuple of them; default: as the reference, floats kept.
    result: Callable[[str], str | tuple[str, ...]] | None = None
    integers: str | None = "auto"  # result dtype of int64 inputs: "float32", "int64", "bool", None: not taken
    integer_samples: Callable[[np.random.Generator], Sequence[Sample]] | None = None  # default: samples, rounded
    grad_atol: float = 1e-5  # of gradcheck and gradgradcheck
    constant: Sequence[str] = ()  # float inputs that have no derivative although the block has a joint rule
    points: Sequence[Point] = ()
    errors: Sequence[Error] = ()
    torch: str | Callable[..., Any] | None = "auto"  # by name; (torch, *args, **kwargs) -> result; None: see skip
    no_batch: Callable[..., bool] = lambda sample, batched: False  # which samples cannot be batched, and say why
    skip: dict[str, str] = field(default_factory=dict)  # name of a check (CHECKS) -> why it does not apply


@dataclass(frozen=True)
class Row(_Fields):
    """One op: how to call it, and what must come out. The fields are described where they are declared."""

    op: str

    def __post_init__(self) -> None:
        unknown = set(self.skip) - set(CHECKS)
        if unknown or not all(self.skip.values()):
            raise ValueError(f"row {self.op}: skip takes {{check: reason}} with checks among {CHECKS}, got {self.skip}")
        if (self.torch is None) != ("oracle" in self.skip):
            raise ValueError(f'row {self.op}: torch=None goes with skip={{"oracle": reason}}')

    @property
    def definition(self) -> OpDef:
        return REGISTRY[self.op]

    @property
    def call(self) -> Callable[..., Any]:
        return self.fn or getattr(RECORD, self.op)

    def draw(self, seed: int = 0) -> list[Sample]:
        """The samples, some of them on an emulated device; the same numbers at every call."""
        return some(list(self.samples(np.random.default_rng(seed))))

    def draw_different(self, count: int) -> list[Sample]:
        """Samples without repetitions, at least `count` of them without an empty tensor."""
        seen: dict[Any, Sample] = {}
        for seed in range(1, 2 * count):
            seen |= {(repr(s), *(a.tobytes() for a in s.arrays)): s for s in self.draw(seed)}
            if sum(all(a.size for a in s.arrays) for s in seen.values()) >= count:
                return list(seen.values())
        raise ValueError(f"row {self.op}: its samples hold too few different numbers")

    def draw_in(self, dtype: str) -> list[Sample]:
        """The samples; with integers of this dtype in place of floats, unless it is a floating one."""
        if dtype in FLOATS:
            return self.draw()
        samples = self.draw() if self.integer_samples is None else self.integer_samples(np.random.default_rng(0))
        return [Sample(*(whole(a, dtype) for a in s.args), **s.kwargs) for s in samples]

    def compared(self, check: str) -> str:
        """Whether `check`, one of the oracle's, compares the op with PyTorch: "yes", "none" to compare, or why not."""
        if check in ("oracle_grad", "oracle_gradgrad") and not self.definition.has_rules:
            return "none"
        return self.skip.get("oracle") or self.skip.get(check) or "yes"

    def tolerance(self, dtype: str) -> float:
        return self.tol.get(dtype, TOLERANCES[dtype])


# ---- inputs: domain(rng, *shape) -> float64 array -----------------------------------------------------


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return np.asarray(rng.normal(size=shape))


def uniform(low: float, high: float) -> Callable[..., np.ndarray]:
    """The domain of numbers in [low, high)."""
    return lambda rng, *shape: np.asarray(rng.uniform(low, high, size=shape))


positive = uniform(0.3, 3.0)
unit = uniform(-0.8, 0.8)


def nonzero(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Both signs, 0.3 <= |x| < 3: away from the kink or pole at 0."""
    return positive(rng, *shape) * rng.choice([-1.0, 1.0], size=shape)


def fractional(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """At least 0.1 away from every multiple of one half: away from the jumps of floor, ceil and round."""
    return rng.integers(-6, 6, size=shape) * 0.5 + np.asarray(rng.uniform(0.1, 0.4, size=shape))


def distinct(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """No two elements closer than 0.2: away from the ties of max, min, sort and median."""
    count = int(np.prod(shape))
    return (rng.permutation(count) - 0.5 * count + 0.1 + rng.uniform(0, 0.1, size=count)).reshape(shape) * 0.3


def indices(rng: np.random.Generator, high: int, *shape: int) -> np.ndarray:
    """int64 in [0, high)."""
    return np.asarray(rng.integers(0, high, size=shape))


def bools(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return np.asarray(rng.integers(0, 2, size=shape).astype(bool))


# ---- rows of elementwise ops ------------------------------------------------------------------------


def elementwise(
    op: str, reference: Callable[..., Any], *domains: Callable[..., np.ndarray], numbers: bool = False, **row: Any
) -> Row:
    """A row for an op of n broadcasting inputs; with `numbers` each input in turn is a Python number."""

    def samples(rng: np.random.Generator) -> list[Sample]:
        def take(shapes: Sequence[tuple[int, ...]]) -> Sample:
            return Sample(*(domain(rng, *shapes[i % len(shapes)]) for i, domain in enumerate(domains)))

        results = [take([(2, 3)]), take([()]), take([(0,)]), take([(2, 3, 2)])]
        if len(domains) > 1:
            results += [take([(2, 3), (3,)]), take([(3,), (2, 1)]), take([(), (4,)]), take([(2, 1, 3), (1, 2, 1)])]
            results += [take([(0, 3), (3,)])]
        for i, domain in enumerate(domains if numbers and len(domains) > 1 else ()):
            args: list[Any] = list(take([(2, 3)]).args)
            args[i] = float(domain(rng))
            results.append(Sample(*args))
        return results

    row.setdefault("samples", samples)
    return Row(op, reference=reference, **row)


def unary(op: str, reference: Callable[..., Any], domain: Callable[..., np.ndarray] = normal, **row: Any) -> Row:
    """A row for an elementwise op of one input."""
    return elementwise(op, reference, domain, **row)


def binary(
    op: str, reference: Callable[..., Any], a: Callable[..., np.ndarray] = normal,
    b: Callable[..., np.ndarray] | None = None, *, numbers: bool = True, **row: Any,
) -> Row:  # fmt: skip
    """A row for a broadcasting op of two inputs, tensor or number, from domains `a` and `b` (default: `a`)."""
    return elementwise(op, reference, a, b or a, numbers=numbers, **row)


# ---- one call on tensors ----------------------------------------------------------------------------


def contiguous(array: Any) -> Any:
    return array


class Call:
    """A sample as tensors, and after `run` what came out.

    inputs     the tensors that have a derivative; those numbered in `wants` (default: all) require grad
    names      per input the name in the op's block; `bits` its bit in a node's mask
    tensors    (name, tensor) of every tensor among the arguments
    """

    def __init__(
        self, row: Row, sample: Sample, device: str = "cpu", dtype: str = "float64", wants: Sequence[int] | None = None,
        layout: Callable[[Any], Any] = contiguous,
    ) -> None:  # fmt: skip
        self.row, self.sample, self.device, self.dtype, self.layout = row, sample, device, dtype, layout
        self.inputs: list[Tensor] = []
        self.names: list[str] = []
        self.bits: list[int] = []
        self.tensors: list[tuple[str, Tensor]] = []
        self.outs: tuple[Tensor, ...] = ()
        self.args = [self._argument(position, value) for position, value in enumerate(sample.args)]
        for i, tensor in enumerate(self.inputs):
            tensor.requires_grad_(wants is None or i in wants)

    def _argument(self, position: int, value: Any) -> Any:
        op = self.row.definition
        if isinstance(value, list):
            return [self._tensor(op.inputs[position], i, item) for i, item in enumerate(value)]
        if isinstance(value, np.ndarray):
            return self._tensor(op.inputs[position], position, value)
        return value

    def _tensor(self, name: str, bit: int, array: np.ndarray) -> Tensor:
        op, floating = self.row.definition, array.dtype.kind == "f"
        array = array.astype(as_dtype(self.dtype)) if floating else array.copy()
        tensor = wrap(self.layout(backend.to_device(array, Device(self.device))))
        ruled = name in op.rules or (op.joint is not None and name not in self.row.constant)
        if ruled and tensor.dtype in dtypes.FLOATS:
            self.inputs.append(tensor)
            self.names.append(name)
            self.bits.append(1 << bit)
        self.tensors.append((name, tensor))
        return tensor

    def run(self) -> Call:
        self.outs = as_tuple(self.row.call(*self.args, **self.sample.kwargs))
        return self

    def expected(self) -> tuple[np.ndarray, ...]:
        """The reference's answer for the same values, computed in float64 (integers as they are)."""

        def plain(value: Any) -> Any:
            if isinstance(value, Tensor):
                array = backend.to_numpy(value._array)
                return array.astype(np.float64) if value.dtype in dtypes.FLOATS else array.copy()
            return [plain(item) for item in value] if isinstance(value, list) else value

        return tuple(map(np.asarray, as_tuple(self.row.reference(*map(plain, self.args), **self.sample.kwargs))))

    @property
    def differentiable(self) -> list[Tensor]:
        """The outputs that have a gradient."""
        return [out for out in self.outs if out.requires_grad]

    @property
    def node(self) -> Any:
        """The node of the row's op in the graph of the outputs; None if there is none."""
        stack = [out._node for out in self.outs]
        while stack:
            node = stack.pop()
            if isinstance(node, self.row.definition.node):
                return node
            stack += [child for child in node.edges if child is not None] if node is not None else []
        return None

    def cotangents(self) -> list[Tensor]:
        """A gradient per differentiable output, the same at every call for the same shapes."""
        rng = np.random.default_rng(7)
        arrays = [rng.uniform(0.5, 1.5, size=out.shape) for out in self.differentiable]
        return [
            wrap(backend.to_device(np.asarray(array).astype(out.dtype), Device(self.device)))
            for array, out in zip(arrays, self.differentiable, strict=True)
        ]

    def grad(self, wrt: Sequence[int] | None = None, **options: Any) -> list[Tensor | None]:
        """Gradients with respect to the inputs numbered in `wrt` (default: those that require grad)."""
        wrt = [i for i, t in enumerate(self.inputs) if t.requires_grad] if wrt is None else wrt
        leaves = [self.inputs[i] for i in wrt]
        return list(grad(self.differentiable, leaves, self.cotangents(), allow_unused=True, **options))

    def function(self) -> Callable[..., Any]:
        """fn(*inputs) -> the floating outputs, for gradcheck."""

        def rebuild(value: Any, tensors: list[Tensor]) -> Any:
            if isinstance(value, list):
                return [rebuild(item, tensors) for item in value]
            for mine, theirs in zip(self.inputs, tensors, strict=True):
                if value is mine:
                    return theirs
            return value

        def fn(*tensors: Tensor) -> Any:
            outs = as_tuple(self.row.call(*[rebuild(a, list(tensors)) for a in self.args], **self.sample.kwargs))
            return tuple(out for out in outs if out.requires_grad)

        return fn


def as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def values(tensor: Tensor) -> np.ndarray:
    """A tensor's values in NumPy, floating ones as float64."""
    array = backend.to_numpy(tensor._array)
    return array.astype(np.float64) if tensor.dtype in dtypes.FLOATS else array


# How far two runs in float64 may lie apart: on CUDA atomics add numbers in any order.
BETWEEN_RUNS = {"cpu": 0.0, "cuda": 1e-12}


def assert_close(actual: Tensor, expected: np.ndarray, tolerance: float, what: object = "") -> None:
    """Equal shapes, and |found - expected| <= tolerance * (1 + |expected|); NaN and infinities in the same places."""
    array = values(actual)
    assert array.shape == expected.shape, f"{what}: shape {array.shape}, expected {expected.shape}"
    np.testing.assert_allclose(array, expected, rtol=tolerance, atol=tolerance, err_msg=str(what))
