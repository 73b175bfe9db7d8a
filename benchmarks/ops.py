"""Every public op: one call on 2x2 float32 beside PyTorch's same call, and a million elements beside NumPy.

At 2x2 the arithmetic costs next to nothing. The operands require grad, so that making the node of the graph is part of
the call. For the commonest ops NumPy alone, which records nothing, is the floor of a Python library on NumPy arrays.
Samples are short and all calls take turns, so that the samples of one op are spread over the whole run; on CUDA, where
nobody else is at work, a few dozen do.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from types import ModuleType
from typing import Any

import numpy as np
import scipy.special

import autograd_gpu as ag

from . import middle_calls, op_calls
from .common import device_kind, make_parser, require_agreement, run_workload, to_numpy
from .op_tables import LARGE, MIDDLE
from .peers import clock_for, load_peers
from .report import OURS, Report
from .timing import Call, Contender, interleave

NAME = "ops"
PEERS = ("torch", "numpy")
TOGETHER = 32  # cases on CUDA
# Results that are drawn at random, that nobody wrote, that are determined up to signs, or that PyTorch computes to 1e-3
# (_standard_gamma_grad): only shapes are compared.
LOOSE = """
    F.alpha_dropout F.dropout F.dropout1d F.dropout2d F.dropout3d F.feature_alpha_dropout F.gumbel_softmax F.rrelu
    F.rrelu_ _sample_dirichlet _standard_gamma _standard_gamma_grad alpha_dropout_ bernoulli binomial dropout_ empty
    empty_like feature_alpha_dropout_ feature_dropout feature_dropout_ linalg.eig linalg.eigh linalg.eigvals
    linalg.svd multinomial normal poisson
    rand rand_like randint randint_like randn randn_like randperm z.bernoulli_() z.exponential_() z.normal_()
    z.random_() z.uniform_()"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    return make_parser(NAME, PEERS, __doc__, repeats=15)


# ---- the calls ------------------------------------------------------------------------------


def small_arrays() -> dict[str, np.ndarray]:
    """The operands of 2x2 calls."""
    return {name: float32(value) for name, value in (op_calls.LEAVES | op_calls.CONSTANTS).items()}


def large_arrays(tiny: bool) -> dict[str, np.ndarray]:
    """The operands of calls on a million elements: numbers in (-1, 1) of both signs, above 1 for `big`, and a mask."""
    rng, side = np.random.default_rng(5), 10 if tiny else 1000
    sizes = {name: float32(rng.uniform(0.01, 0.99, (side, side))) for name in ("x", "y", "z", "big")}
    arrays = {name: size * float32(rng.choice([-1.0, 1.0], size.shape)) for name, size in sizes.items()}
    return arrays | {"big": sizes["big"] + 1, "b": arrays["x"] > arrays["y"]}


def operands(case: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """`arrays`, or their magnitudes where the op is defined for positive numbers only."""
    if case not in op_calls.POSITIVE:
        return dict(arrays)
    return {name: abs(array) if array.dtype.kind == "f" else array for name, array in arrays.items()}


def float32(value: Any) -> np.ndarray:
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype == float else array


def tensor_call(
    lib: ModuleType, expression: str, arrays: Mapping[str, np.ndarray], leaves: Iterable[str], device: str
) -> Call:
    """The call in a library with PyTorch's names, on operands of its own: some calls write to them."""
    scope = {"lib": lib, "F": lib.nn.functional, "linalg": lib.linalg, "special": lib.special}
    scope |= {name: lib.tensor(array, device=device) for name, array in arrays.items()}
    for name in leaves:
        scope[name].requires_grad_()
    return eval(f"lambda: {expression}", scope)


def numpy_call(expression: str, arrays: Mapping[str, np.ndarray]) -> Call:
    return eval(f"lambda: {expression}", {"np": np, "special": scipy.special, **arrays})


def flattened(value: Any) -> list[np.ndarray]:
    """The tensors and numbers of a result as arrays of floats, None as zero."""
    if isinstance(value, (tuple, list)):
        return [item for part in value for item in flattened(part)]
    array = to_numpy(0 if value is None else value)
    return [array if array.dtype.kind in "fc" else array.astype(float)]


def check(case: str, by_library: Mapping[str, Call]) -> None:
    """All libraries answer the same."""
    results = {name: flattened(call()) for name, call in by_library.items()}
    if case.removeprefix(MIDDLE) in LOOSE.split():
        results = {name: [np.array([part.ndim, *part.shape]) for part in parts] for name, parts in results.items()}
    require_agreement(results, 1e-4, case)


# ---- measuring ------------------------------------------------------------------------------

Cases = dict[str, dict[str, Call]]  # case -> library -> call


def small_cases(present: Mapping[str, ModuleType], device: str) -> Cases:
    """On 2x2: all ops in all libraries, the commonest in NumPy too."""
    arrays = small_arrays()
    calls: Cases = {}
    for case, expression in op_calls.calls().items():
        calls[case] = {
            name: tensor_call(lib, expression, arrays, op_calls.LEAVES, device)
            for name, lib in tensor_libraries(present)
        }
        if "numpy" in present and case in op_calls.NUMPY:
            calls[case]["numpy"] = numpy_call(op_calls.NUMPY[case], arrays)
    return calls


def large_cases(present: Mapping[str, ModuleType], tiny: bool, device: str) -> Cases:
    """On a million elements, without grad: elementwise ops and reductions in all libraries."""
    arrays = large_arrays(tiny)
    calls: Cases = {}
    for case, (expression, in_numpy) in op_calls.large().items():
        inputs = operands(case, arrays)
        calls[LARGE + case] = {
            name: tensor_call(lib, expression, inputs, (), device) for name, lib in tensor_libraries(present)
        }
        if "numpy" in present:
            calls[LARGE + case]["numpy"] = numpy_call(in_numpy, inputs)
    return calls


def middle_cases(present: Mapping[str, ModuleType], tiny: bool, device: str) -> Cases:
    """On about 10^5 elements, without grad: all ops beside PyTorch."""
    arrays = middle_calls.arrays(tiny)
    magnitudes = {name: abs(array) if array.dtype == np.float32 else array for name, array in arrays.items()}
    return {
        MIDDLE + case: {
            name: tensor_call(lib, call, magnitudes if case in middle_calls.POSITIVE else arrays, (), device)
            for name, lib in tensor_libraries(present)
        }
        for case, call in middle_calls.calls(tiny).items()
    }


def tensor_libraries(present: Mapping[str, ModuleType]) -> list[tuple[str, ModuleType]]:
    return [(OURS, ag), *((name, module) for name, module in present.items() if name != "numpy")]


def measure(report: Report, cases: Cases, present: Mapping[str, ModuleType], args: argparse.Namespace) -> None:
    """Check, time and add all cases: in turns on the CPU, on CUDA some at a time, so that they come out one by one."""
    together = len(cases) if args.device == "cpu" else TOGETHER
    rest = iter(cases.items())
    while group := dict(islice(rest, together)):
        measure_in_turns(report, group, present, args)


def measure_in_turns(
    report: Report, cases: Cases, present: Mapping[str, ModuleType], args: argparse.Namespace
) -> None:
    """Check these cases, time those that agree in turns, add them."""
    agreed: Cases = {}
    for case, by_library in cases.items():
        with report.attempt(case):
            check(case, by_library)
            agreed[case] = by_library
    modules = {OURS: ag, **present}
    contenders = [
        Contender(f"{name} {case}", call, clock_for(modules[name], args.device))
        for case, by_library in agreed.items()
        for name, call in by_library.items()
    ]
    taken = interleave(contenders, args.repeats, sample_s=args.sample_s, pause_s=0.0)
    with report.at_once():
        for case, by_library in agreed.items():
            report.add(case, {name: taken[f"{name} {case}"] for name in by_library}, unit="us")


@contextmanager
def one_thread(present: Mapping[str, ModuleType]) -> Iterator[None]:
    """PyTorch without its workers, which some ops wake even for four elements: waiting for them is slower."""
    if "torch" not in present:
        yield
        return
    threads = present["torch"].get_num_threads()
    present["torch"].set_num_threads(1)
    try:
        yield
    finally:
        present["torch"].set_num_threads(threads)


def run(args: argparse.Namespace) -> Report:
    """Time every op at both sizes."""
    args.sample_s = 1e-5 if args.tiny else 1e-3
    present, absent = load_peers(args.peers, PEERS, args.device)
    config = {"tiny": args.tiny, "commonest": list(op_calls.NUMPY)}
    title = f"Every op, float32, {args.device}"
    report = Report(NAME, title, device_kind(args.device), config, absent, args.json)
    middle = [MIDDLE + case for case in middle_calls.calls(args.tiny)]
    report.plan([*op_calls.calls(), *middle, *[LARGE + case for case in op_calls.large()]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's, of functions that it wants to drop
        with one_thread(present):
            measure(report, small_cases(present, args.device), present, args)
        args.sample_s *= 5  # several calls: the first gets memory that the call before it gave back to the system
        with one_thread(present):
            measure(report, middle_cases(present, args.tiny, args.device), present, args)
        measure(report, large_cases(present, args.tiny, args.device), present, args)
    return report


def main(argv: Sequence[str] | None = None) -> Report:
    """Run from the command line."""
    return run_workload(parser(), run, argv)


if __name__ == "__main__":
    main()
