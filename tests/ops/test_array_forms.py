"""Every op of the table on arrays as users hand them in: of a subclass, unaligned, with negative strides."""

import itertools

import numpy as np
import pytest
from op_rows import ROWS

import autograd_gpu as ag

pytestmark = pytest.mark.cpu


class Strict(np.ndarray):
    """Raises wherever NumPy would let a subclass answer for itself."""

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        raise AssertionError(f"{ufunc.__name__} met the subclass")

    def __array_function__(self, function, types, args, kwargs):
        raise AssertionError(f"{function.__name__} met the subclass")


def unaligned(array):
    data = np.empty(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    data[...] = array
    return data


def backwards(array):
    """The same values with a negative stride in each dimension."""
    return np.asarray(np.flip(np.flip(array).copy()))


FORMS = {"strict": lambda a: a.view(Strict), "unaligned": unaligned, "backwards": backwards}


def converted(value, form):
    if isinstance(value, list):
        return [converted(item, form) for item in value]
    return form(value) if isinstance(value, np.ndarray) else value


COMPUTING = {"cholesky", "eigh", "eigvalsh"}  # their rows make a symmetric matrix of what they get


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.op)
def test_an_op_takes_each_form_of_array(row):
    for sample, form in itertools.product(row.draw()[:3], FORMS):
        if (form == "strict" and row.op in COMPUTING) or (form == "backwards" and "layouts" in row.skip):
            continue  # the row wants an array as NumPy makes it
        results = []
        for change in (np.copy, FORMS[form]):
            ag.manual_seed(0)
            result = row.call(*[converted(a, change) for a in sample.args], **sample.kwargs)
            results.append([t.numpy() for t in (result if isinstance(result, tuple) else (result,))])
        for expected, array in zip(*results, strict=True):
            assert type(array) is np.ndarray
            np.testing.assert_allclose(array, expected, rtol=1e-12)
