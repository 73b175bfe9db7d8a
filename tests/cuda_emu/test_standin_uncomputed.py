"""The stand-in that computes nothing: it counts what the one that computes counts, and has shapes but no values."""

import subprocess
import sys

import pytest
from checkout import ROOT

from benchmarks import host_time

pytestmark = pytest.mark.emulated

# What may differ: requests that go on to the device, by addresses; and with copies in flight how often is asked whether
# they are done.
MAY_DIFFER = {
    "MLP, SGD, batch 8": set(), "MLP, Adam, batch 8": {"calls"},
    "20 layers": set(), "20 layers, save_on_cpu": set(), "20 layers, save_on_cpu, pinned": {"calls"},
}


def counts_of(computes):
    """The counts of the steps in a process of their own: what tests before this one have cached does not matter."""
    settings = {**host_time.settings(), "AUTOGRAD_GPU_EMU_COMPUTES": computes}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host_time, "settings", lambda: settings)
        return {record["case"]: record["counts"] for record in host_time.records(MAY_DIFFER)}


def test_counts_are_those_of_the_stand_in_that_computes():
    computed, uncomputed = counts_of("1"), counts_of("0")
    for name, may_differ in MAY_DIFFER.items():
        for key in computed[name].keys() - may_differ - {"cudaMalloc"}:
            assert uncomputed[name][key] == computed[name][key], (name, key)


def uncomputed_run(code):
    """The last line that `code` prints, with the stand-in as `cp`."""
    answer = subprocess.run([sys.executable, "-c", f"import cupy as cp\n{code}"], capture_output=True, text=True,
                            cwd=ROOT, env=host_time.settings())  # fmt: skip
    return (answer.stdout or answer.stderr).splitlines()[-1]


@pytest.mark.parametrize(("code", "expected"), [
    ("x = (cp.ones((3, 4), 'f4').T + cp.ones(3, 'f4')).sum(0); print(x.shape, x.dtype, x.strides)",
     "(3,) float32 (4,)"),
    ("print(cp.ones(3).get())", "[0. 0. 0.]"),  # there are no values
    ("p = cp.ones(3).data.ptr; print(p > 0, cp.ones(50).data.ptr == p)", "True True"),
    ("a, b = cp.empty(1 << 34, 'i1'), cp.empty(1 << 34, 'i1'); print(b.data.ptr > a.data.ptr + (1 << 34))", "True"),
    ("print(cp.nonzero(cp.ones(3)))", "NotImplementedError: nonzero goes by values, of which there are none"),
    ("x = cp.ones(3); x[x > 0]", "NotImplementedError: mask goes by values, of which there are none"),
    ("cp.cumsum(cp.ones(3, 'bfloat16'))", "cupy._errors.CompileException: error: no operator"),
    ("cp.ones(3) + cp.ones(4)", "ValueError: operands could not be broadcast together with shapes (3,), (4,)"),
], ids=lambda text: text[:24])  # fmt: skip
def test_there_are_shapes_and_no_values(code, expected):
    code = f"cp._emulation.SETTINGS.memory = 1 << 40\n{code}"
    assert uncomputed_run(code).startswith(expected)


def test_every_request_is_counted():
    code = """with cp._emulation.counted() as found:
    x = cp.ones(100)
    x = None
    y = cp.asarray([1.0, 2.0])
    y.get()
    cp.cuda.Device().synchronize()
    stream = cp.cuda.Stream()
    stream.synchronize()
    event = stream.record()
    event.synchronize()
print(found.allocations, found.device_allocations, found.to_device, found.to_host, found.waits, found.kernels)"""
    assert uncomputed_run(code) == "2 1 1 1 4 Counter({'fill': 1})"
