"""The public functions that are made of ops, on six inputs each beside PyTorch: values, dtypes, both derivatives."""

from __future__ import annotations

import itertools
import operator
from collections import Counter

import composite_cases
import nn_cases
import numpy as np
import pytest
from checkout import TESTS
from public_calls import CALLS, INPUTS, flat, inputs_of
from torch_names import NAMES

import autograd_gpu as ag

torch = pytest.importorskip("torch")

WITHOUT_SECOND = {"cdist", "nn.functional.hardsigmoid", "nn.functional.pdist"}  # in PyTorch
TOLERANCES = {"nn.functional.hardsigmoid": 1e-7}  # PyTorch takes one sixth in float32


def assert_equal(ours, theirs, what, tolerance=1e-8):
    if ours is None or theirs is None:  # None stands for zeros
        for g in (ours, theirs):
            assert g is None or not g.numpy(force=True).any(), f"{what}: not zero"
        return
    result, expected = ours.numpy(force=True), theirs.numpy(force=True)
    assert result.shape == expected.shape, what
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance / 10, err_msg=what)


def gradients(module, outs, variables, seed):
    """Of the weighted squares of `outs`, which bend what is straight; None where there is nothing to differentiate."""
    kept = [out for out in outs if out is not None and out.requires_grad]
    if not kept:
        return [None] * len(variables)
    rng = np.random.default_rng(seed)
    cotangents = [module.tensor(np.asarray(rng.uniform(0.5, 1.5, tuple(out.shape)))) for out in kept]
    return module.autograd.grad([y * y for y in kept], variables, cotangents, create_graph=True, allow_unused=True)


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("name", CALLS)
def test_equals_pytorch(name, device):
    for call, arrays in inputs_of(name):
        x, y = ([m.tensor(a, requires_grad=True) for a in arrays] for m in (ag, torch))
        ours, theirs = flat(call(ag, *x)), flat(call(torch, *y))
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            if not isinstance(b, torch.Tensor):
                assert a == b
                continue
            assert str(a.dtype) == str(b.dtype).removeprefix("torch.")
            assert a.requires_grad == b.requires_grad
            assert_equal(a, b, name)
        ours, theirs = ([t for t in outs if hasattr(t, "requires_grad")] for outs in (ours, theirs))
        for seed in (1,) if name in WITHOUT_SECOND else (1, 2):  # the first gradients, and theirs
            ours, theirs = gradients(ag, ours, x, seed), gradients(torch, theirs, y, seed)
            for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
                assert_equal(a, b, f"derivative {seed} of {name} by {i}", TOLERANCES.get(name, 1e-8))


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("name", CALLS)
def test_result_dtypes(name, device):
    """Where PyTorch takes the dtype."""
    calls = inputs_of(name)[: len(CALLS[name])]
    for dtype, (call, arrays) in itertools.product(("float16", "bfloat16", "float32", "int64"), calls):
        tensors = [[m.tensor(np.round(a * 3)).to(getattr(m, dtype)) for a in arrays] for m in (ag, torch)]
        try:
            theirs = flat(call(torch, *tensors[1]))
        except (RuntimeError, TypeError):
            continue
        with np.errstate(all="ignore"):
            ours = flat(call(ag, *tensors[0]))
        for a, b in zip(ours, theirs, strict=True):
            if isinstance(b, torch.Tensor):
                assert str(a.dtype) == str(b.dtype).removeprefix("torch.")
                assert a.shape == tuple(b.shape)


# ---- that no function is left out ---------------------------------------------------------------------

ELSEWHERE = {  # name -> the file that tests it
    **dict.fromkeys(NAMES["Random numbers"], "random/test_random.py"),
    **dict.fromkeys(("_sample_dirichlet", "_standard_gamma"), "ops/random/test_gamma_samples.py"),
    "_standard_gamma_grad": "ops/random/test_gamma_samples.py",
    **dict.fromkeys(NAMES["Dropout"], "nn/test_functional_inplace.py"),
    "cuda.manual_seed_all": "cuda/test_cuda.py",
    **dict.fromkeys(("empty_strided", "unsafe_chunk", "unsafe_split"), "ops/inplace/test_functions.py"),
    "unsafe_split_with_sizes": "ops/inplace/test_functions.py",
    "from_dlpack": "core/test_interop.py",
    "from_numpy": "core/test_tensor.py", "frombuffer": "ops/creation/test_frombuffer.py",
    **dict.fromkeys(("scalar_tensor", "Tensor.to_dense"), "ops/test_old_forms.py"),
    "qr": "ops/linalg/test_old_names.py",
    "nn.functional.gumbel_softmax": "nn/test_functional_inplace.py",
}
OTHERS = {  # which have their own tests
    "Checkpoints", "Compilers, mixed precision", "Data", "Derivatives", "Import paths", "In place", "Layers", "Modules",
    "Old tensor types", "Optimizers", "Properties, dtypes, modes", "Pruning", "Recurrent layers",
    "Settings and devices",
}  # fmt: skip


def made_of_ops():
    names = [name for family, names in NAMES.items() if family not in OTHERS for name in names]
    names = [name for name in names if not (name.startswith("Tensor.") and name.endswith("_"))]  # test_inplace.py
    return [name for name in names if not hasattr(operator.attrgetter(name)(ag), "op")]


def test_no_function_is_left_out():
    """Here, or with as many inputs in the tables of composite_cases.py and nn_cases.py."""
    compared = Counter(case.name for case in [*composite_cases.CASES, *composite_cases.COUNTS])
    known = {*CALLS, *ELSEWHERE, *(f"nn.functional.{name}" for name in nn_cases.CASES)}
    assert not [name for name in made_of_ops() if name not in known and compared[name] < INPUTS]


@pytest.mark.parametrize(("name", "file"), ELSEWHERE.items())
def test_what_is_tested_elsewhere_is_named_there(name, file):
    assert name.rpartition(".")[2] in (TESTS / file).read_text()


def mentioned(code):
    return {*code.co_names, *(name for c in code.co_consts if hasattr(c, "co_code") for name in mentioned(c))}


@pytest.mark.parametrize("name", [name for name in CALLS if not name.endswith("__")])
def test_calls_are_of_the_function(name):
    last = name.rpartition(".")[2]
    for call, *_ in CALLS[name]:
        assert last in mentioned(call.__code__) or last.rstrip("_") in (call.__defaults__ or ())
