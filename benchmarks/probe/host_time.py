"""Host time of calls, beside PyTorch's."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

import autograd_gpu as ag
from autograd_gpu.backend import kernels
from autograd_gpu.backend.cuda import cublas
from autograd_gpu.ops.nn.activation import relu

from .table import Found, Lab, check
from .timing import host_us

SIDE = 64
NOTHING = 'extern "C" __global__ void nothing(float* x, int n) { if (n < 0) x[0] = 0; }'
OVERHEAD = 4.0  # of PyTorch's time for the same op: more would be a surprise. CuPy's own ufuncs may exceed it


@check("host time", 3, seconds=20.0)
def host_time(lab: Lab) -> Found:
    """Microseconds per call on 64 x 64 float32: CuPy's parts, ours, PyTorch's."""
    ours = {name: host_us(lab, call) for name, call in our_calls(lab).items()}
    torch, why = load_torch()
    if torch is None:
        return {"ok": True, "us": ours, "torch": why}
    theirs = {name: host_us(lab, call, torch.cuda.synchronize) for name, call in torch_calls(torch).items()}
    pairs = {"matmul": "cublas.gemm", "mul, out=": "ufunc, out=", "a * b, recorded": "a * b, recorded"}
    ratios = {name: round(ours[mine] / theirs[name], 2) for name, mine in pairs.items()}
    surprising = max(ratios[name] for name in ("matmul", "a * b, recorded")) > OVERHEAD
    return {"ok": not surprising, "us": ours, "torch_us": theirs, "ours / torch": ratios}


def our_calls(lab: Lab) -> dict[str, Callable[[], Any]]:
    cp = lab.cp
    (a, b, out), row = (lab.normal(SIDE, SIDE) for _ in range(3)), lab.normal(SIDE)
    raw, count = cp.RawKernel(NOTHING, "nothing"), np.int32(1)
    x, y = ag.tensor(a, requires_grad=True), ag.tensor(b, requires_grad=True)
    stream, act = cp.cuda.get_current_stream(), relu.family.cuda.activation()
    return {
        "RawKernel": lambda: raw((1,), (32,), (a, count)),
        "our kernel, out=": lambda: kernels.bias_activation(act, a, row, out),
        "our kernel": lambda: kernels.bias_activation(act, a, row),
        "ufunc, out=": lambda: cp.multiply(a, b, out=out),
        "ufunc": lambda: cp.multiply(a, b),
        "cublas.gemm, out=": lambda: cublas.gemm(a, b, out),
        "cublas.gemm": lambda: cublas.gemm(a, b),
        "cupy.matmul, out=": lambda: cp.matmul(a, b, out=out),
        "cupy.matmul": lambda: cp.matmul(a, b),
        "empty": lambda: cp.empty((SIDE, SIDE), np.float32),
        "stream.is_capturing": stream.is_capturing,
        "a * b, recorded": lambda: x * y,
        "a @ b, recorded": lambda: x @ y,
        "a @ b, recorded, and backward": lambda: ag.autograd.grad((x @ y).sum(), [x, y]),
    }


def load_torch() -> tuple[Any, str]:
    """PyTorch, or why it cannot stand beside."""
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        return None, f"not installed ({error})"
    return (torch, "") if torch.cuda.is_available() else (None, "sees no CUDA device")


def torch_calls(torch: Any) -> dict[str, Callable[[], Any]]:
    a, b, out = (torch.randn(SIDE, SIDE, device="cuda") for _ in range(3))
    x, y = (torch.randn(SIDE, SIDE, device="cuda", requires_grad=True) for _ in range(2))
    return {
        "mul, out=": lambda: torch.mul(a, b, out=out),
        "mul": lambda: torch.mul(a, b),
        "matmul, out=": lambda: torch.matmul(a, b, out=out),
        "matmul": lambda: torch.matmul(a, b),
        "relu": lambda: torch.relu(a),
        "empty": lambda: torch.empty(SIDE, SIDE, device="cuda"),
        "a * b, recorded": lambda: x * y,
        "a @ b, recorded": lambda: x @ y,
        "a @ b, recorded, and backward": lambda: torch.autograd.grad((x @ y).sum(), [x, y]),
    }
