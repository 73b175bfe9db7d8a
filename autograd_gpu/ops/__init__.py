# ruff: noqa: F401, I001  modules are imported for the ops that they declare
"""The ops by PyTorch's names: those that the declarations in these modules make public, see `binding`.

Type checkers and editors read __init__.pyi, written by `ci/write_stubs.py`.
"""

from .creation import convert, factories, from_data, like, pinning, strided, tensor_types
from .elementwise import (
    arithmetic,
    bessel,
    bitwise,
    clamp,
    comparison,
    division,
    erf,
    gamma,
    logarithm,
    rounding,
    trigonometric,
    unary,
)
from .indexing import (
    basic_index,
    batched_key,
    flat_index,
    gather,
    index,
    index_put,
    masked,
    scatter,
    scatter_prod,
    setitem,
)
from .inplace import expanded, random, resize, views, write
from .linalg import (
    addmm,
    checks,
    cholesky,
    det,
    distance,
    eig,
    einsum,
    lu,
    matmul,
    matrix_functions,
    norms,
    old_names,
    qr,
    solve,
    svd,
    tensordot,
    vector_products,
)
from .nn import (
    activation,
    attention,
    batch_norm,
    batched_cross_entropy,
    bilinear,
    class_indices,
    cross_entropy,
    dropout,
    embedding,
    embedding_bag,
    exponential_activations,
    gelu,
    glu,
    gru,
    layer_norm,
    likelihood_losses,
    linear,
    linear_activation,
    logits_cross_entropy,
    lstm,
    margin_losses,
    one_hot,
    pad,
    piecewise_activations,
    pooling,
    recurrence,
    regression_losses,
    rnn,
    similarity,
    softmax,
)
from .random import gamma_samples, sampling
from .reduction import (
    covariance,
    cumulative,
    difference,
    dimensions,
    logsumexp,
    minmax,
    nan,
    norm,
    pairs,
    sum,
    variance,
)
from .shape import as_strided, broadcast, concat, diagonal, meshgrid, permute, rearrange, reshape, split, view
from .sorting import histogram, order_statistics, quantile, searchsorted, sort, unique
from .foreach import functions as foreach_functions
from . import jets, layer_jets, properties, storages
from .binding import MODULES

globals().update(MODULES[""])
__all__ = sorted(MODULES[""])  # noqa: PLE0605
