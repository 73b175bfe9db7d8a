"""softmax and its kin without a dimension, as old programs call them, against PyTorch."""

import numpy as np
import pytest

import autograd_gpu as ag

torch = pytest.importorskip("torch")
SHAPES = [(), (3,), (2, 3), (2, 3, 4), (2, 3, 4, 2), (2, 2, 2, 2, 2)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin", "Softmax", "LogSoftmax", "Softmin"])
def test_the_dimension_is_pytorchs(name, shape, device):
    x, result = np.random.normal(size=shape), []
    for lib, where in ((ag, device), (torch, "cpu")):
        call = getattr(lib.nn, name)() if name[0].isupper() else getattr(lib.nn.functional, name)
        with pytest.warns(UserWarning, match="Implicit dimension choice") as warned:
            result.append((call(lib.tensor(x, device=where)).numpy(force=True), str(warned[0].message)))
        if name[0].islower():
            assert warned[0].filename == __file__
    (ours, text), (theirs, expected) = result
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert text == expected
