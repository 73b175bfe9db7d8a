"""Which PyTorch the oracle tests hold for, and what an older one is known to do otherwise.

Found by running the tests beside PyTorch 2.11. With one older than 2.13 those are skipped, each with its reason; others
run with any.
"""

from importlib import metadata

HOLDS_FOR = (2, 13)

_NORM_BIAS = "its norms have no argument `bias`"
OLDER = {  # how a test's name begins -> what PyTorch 2.11 does
    "utils/checkpoint/test_checkpoint_oracle.py::test_warnings_and_errors[list]": "it quotes an error twice",
    "ops/test_composites.py::test_gradients[trace(float64[6, 4])]": "trace's gradient of a tall matrix has wrong rows",
    "core/graph/test_hooks_oracle.py::test_same_error[unused]": "the error does not say which tensor was not used",
    "core/graph/test_hooks_oracle.py::test_same_error[no inputs]": "the error for no inputs is a RuntimeError",
    "autograd/test_inference_mode.py::TestMode::test_generator": "Python 3.12 deprecates how it throws into generators",
    "ops/inplace/test_inplace_oracle.py::test_derivatives[nextafter]": "nextafter has no derivative",
    "nn/test_layers.py::test_repr_equals_pytorch": _NORM_BIAS,
    **{
        f"nn/test_modules_oracle.py::test_{what}_pytorch[{norm}": _NORM_BIAS
        for what in ("equals", "signature_equals")
        for norm in ("BatchNorm", "InstanceNorm", "GroupNorm")
    },
    "nn/test_modules_oracle.py::test_equals_pytorch[LayerNorm]": "the text of its LayerNorm has no `bias`",
    "ops/test_op_oracle.py::test_promotion[addmv]": "addmv promotes",
    "ops/test_public.py::test_equals_pytorch[aminmax]": "aminmax has no second derivative",
    "ops/test_public.py::test_equals_pytorch[narrow_copy]": "narrow_copy has no derivative",
    "ops/shape/test_shapes.py::test_values_and_derivatives[narrow_copy": "narrow_copy has no derivative",
}


def installed():
    """(major, minor) of the PyTorch that is installed, or None; it is not imported."""
    try:
        version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        return None
    return tuple(int(part) for part in version.split(".")[:2])


def reason_to_skip(nodeid, version):
    """Why the test does not hold for PyTorch `version`, or None."""
    if version is None or version >= HOLDS_FOR:
        return None
    name = nodeid.removeprefix("tests/")
    for beginning, what in OLDER.items():
        if name.startswith(beginning):
            return f"holds for PyTorch {HOLDS_FOR[0]}.{HOLDS_FOR[1]}; in 2.11 {what}"
    return None
