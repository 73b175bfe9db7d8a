"""Products and selections: dtypes, and how far from NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

import autograd_gpu as ag
from autograd_gpu.backend.cuda import cublas, cublaslt, libcublas
from autograd_gpu.compilation.passes.relu_layers import relu

from .table import FLOATS, Found, Lab, check, difference
from .timing import device_us

# Least and largest errors of products of 500 terms, relative to the largest number. TF32 has some, or it was not used.
PRODUCTS = {"float64": (0.0, 1e-14), "float32": (0.0, 3e-6), "float16": (0.0, 1e-3), "bfloat16": (0.0, 8e-3),
            "TF32": (1e-5, 3e-3)}  # fmt: skip


@check("products", 4)
def products(lab: Lab) -> Found:
    """a @ b by our cuBLAS calls, either operand transposed as a view, beside NumPy's product in float64."""
    errors: dict[str, float] = {}
    for kind in PRODUCTS:
        dtype, precision = FLOATS.get(kind, FLOATS["float32"]), "high" if kind == "TF32" else "highest"
        a, b = (lab.random.standard_normal((500, 500)).astype(dtype) for _ in range(2))
        exact = a.astype(np.float64) @ b.astype(np.float64)
        pairs = [(lab.cp.asarray(a), lab.cp.asarray(b)), (lab.cp.asarray(a.T.copy()).T, lab.cp.asarray(b)),
                 (lab.cp.asarray(a), lab.cp.asarray(b.T.copy()).T)]  # fmt: skip
        errors[kind] = max(difference(cublas.gemm(*pair, precision=precision), exact) for pair in pairs)
    good = {kind: low <= errors[kind] <= high for kind, (low, high) in PRODUCTS.items()}
    return {"ok": all(good.values()), "relative_error": errors, "bounds": PRODUCTS}


@check("layer with relu by cuBLASLt", 39)
def layer_with_relu(lab: Lab) -> Found:
    """relu(x @ weight.T + bias) by one launch beside product and kernel: values, NaN, and microseconds."""
    outcome: Found = {"found": libcublas.lt_library() is not None}
    timings: dict[str, Any] = {}
    outcome["right"] = {name: cublaslt.is_right(0, np.dtype(dtype), relu) for name, dtype in FLOATS.items()}
    for rows, width in ((8, 256), (128, 256), (4096, 1024)) if not lab.emulated else ((8, 16),):
        x, weight, bias = lab.normal(rows, width), lab.normal(width, width), lab.normal(width)

        def joined(x: Any = x, weight: Any = weight, bias: Any = bias) -> None:
            cublaslt.linear_relu(x, weight, bias)

        def apart(x: Any = x, weight: Any = weight, bias: Any = bias) -> None:
            relu(cublas.gemm(x, weight.T), bias)

        exact = np.maximum(x.get().astype(float) @ weight.get().astype(float).T + bias.get(), 0)
        out = cublaslt.linear_relu(x, weight, bias)
        outcome[f"error, {rows} x {width}"] = None if out is None else difference(out, exact)
        timings[f"{rows} x {width}"] = {"one launch": device_us(lab, joined), "two": device_us(lab, apart)}
    right = all(outcome["right"][name] for name in ("float32", "float16", "bfloat16"))
    return {"ok": outcome["found"] and right, **outcome, "us": timings}


@check("where keeps the dtype")
def where(lab: Lab) -> Found:
    """cupy.where and ours on every float dtype."""
    cp, dtypes = lab.cp, {"cupy": {}, "ours": {}}
    mask = cp.asarray([True, False])
    for name, dtype in FLOATS.items():
        a, b = cp.asarray(np.array([1, 2], dtype)), cp.asarray(np.array([3, 4], dtype))
        dtypes["cupy"][name] = str(cp.where(mask, a, b).dtype)
        out = ag.where(ag.tensor(mask), ag.tensor(a), ag.tensor(b))
        right = out.array.get().astype(float).tolist() == [1.0, 4.0]
        dtypes["ours"][name] = str(out.dtype) if right else f"wrong: {out.tolist()}"
    return {"ok": all(name == dtype for name, dtype in dtypes["ours"].items()), **dtypes}


@check("product added into a gradient", 4)
def accumulate(lab: Lab) -> Found:
    """beta = 1 beside a product and a sum: microseconds on the device."""
    cp, timings = lab.cp, {}
    for size in (256, 1024, 4096) if not lab.emulated else (16,):
        a, b, total = (lab.normal(size, size) for _ in range(3))

        def added(a: Any = a, b: Any = b, total: Any = total) -> None:
            cublas.gemm(a, b, total, accumulate=True)

        def apart(a: Any = a, b: Any = b, total: Any = total) -> None:
            cp.add(total, cublas.gemm(a, b), out=total)

        timings[size] = {"beta = 1": device_us(lab, added), "product and sum": device_us(lab, apart)}
    faster = all(times["beta = 1"] <= 1.05 * times["product and sum"] for times in timings.values())
    return {"ok": lab.judge(faster), "us": timings}
