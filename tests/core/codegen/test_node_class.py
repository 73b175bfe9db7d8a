"""The inputs that a node shows, in `next_functions` and to its hooks: as PyTorch, tensors before numbers."""

from __future__ import annotations

import pytest
from against_torch import both, leaf


def const(m):
    return m.tensor([3.0, 4.0])


def index(m):
    return m.tensor([0])


WAYS = {
    "number times": lambda m, b: 2 * b, "number plus": lambda m, b: 2 + b, "times number": lambda m, b: b * 2,
    "number minus": lambda m, b: 2 - b, "minus number": lambda m, b: b - 2, "over number": lambda m, b: b / 2,
    "number to the": lambda m, b: 2**b, "to a number": lambda m, b: b**2, "pow": lambda m, b: m.pow(2, b),
    "modulo number": lambda m, b: b % 2, "fmod number": lambda m, b: b.fmod(2.0),
    "rsub": lambda m, b: m.rsub(b, 2), "mul": lambda m, b: m.mul(b, 2), "add_": lambda m, b: (b * 1).add_(2),
    "constant times": lambda m, b: const(m) * b, "constant plus": lambda m, b: const(m) + b,
    "constant minus": lambda m, b: const(m) - b, "constant over": lambda m, b: const(m) / b,
    "constant to the": lambda m, b: const(m)**b, "constant modulo": lambda m, b: const(m) % b,
    "where number": lambda m, b: m.where(const(m) > 3, 2.0, b),
    "where, number": lambda m, b: m.where(const(m) > 3, b, 2.0),
    "where constant": lambda m, b: m.where(const(m) > 3, const(m), b),
    "where both": lambda m, b: m.where(const(m) > 3, b, b),
    "lerp by number": lambda m, b: m.lerp(b, const(m), 0.5),
    "lerp from constant": lambda m, b: m.lerp(const(m), b, 0.5),
    "lerp by constant": lambda m, b: m.lerp(b, const(m), const(m)),
    "lerp by": lambda m, b: m.lerp(const(m), const(m), b),
    "xlogy of number": lambda m, b: m.special.xlogy(2.0, b), "xlogy by number": lambda m, b: m.special.xlogy(b, 2.0),
    "xlog1py of number": lambda m, b: m.special.xlog1py(2.0, b), "copysign": lambda m, b: m.copysign(b, 2.0),
    "masked_fill": lambda m, b: b.masked_fill(const(m) > 3, 2.0), "clamp": lambda m, b: b.clamp(0, 1.5),
    "clamp by tensor": lambda m, b: b.clamp(const(m)), "float_power": lambda m, b: m.float_power(b, 2),
    "maximum": lambda m, b: m.maximum(const(m), b), "addcmul": lambda m, b: m.addcmul(const(m), const(m), b),
    "gather": lambda m, b: b.gather(0, index(m)), "index_select": lambda m, b: b.index_select(0, index(m)),
    "index": lambda m, b: b[index(m)],
    "mask": lambda m, b: b[const(m) > 3],
    "scatter": lambda m, b: b.scatter(0, index(m), 2.0),
    "scatter_add": lambda m, b: b.scatter_add(0, index(m), m.tensor([1.0])), "take": lambda m, b: b.take(index(m)),
    "index_add": lambda m, b: b.index_add(0, index(m), m.tensor([1.0])),
    "masked_select": lambda m, b: b.masked_select(const(m) > 3), "atan2": lambda m, b: m.atan2(const(m), b),
    "embedding": lambda m, b: m.nn.functional.embedding(index(m), b.view(1, 2)),
    "mse": lambda m, b: m.nn.functional.mse_loss(const(m), b),
    "bce": lambda m, b: m.nn.functional.binary_cross_entropy_with_logits(b, const(m) * 0),
}  # fmt: skip


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", WAYS)
def test_of_an_op(name, create_graph):
    def program(m):
        b, seen = leaf(m), []
        y = WAYS[name](m, b)
        shown = [node is not None for node, _ in y.grad_fn.next_functions]
        y.grad_fn.register_hook(lambda grads, gs: seen.append(grads))
        y.grad_fn.register_hook(lambda grads, gs: tuple(None if g is None else g * 3 for g in grads))
        (g,) = m.autograd.grad(y.sum(), b, create_graph=create_graph)
        return shown, seen, g

    both(program)


def test_the_walk_down_from_a_number_in_front():
    def program(m):
        b = leaf(m)
        node, names = (3 - 2 * (1 + 2**b)).sum().grad_fn, []
        while node is not None and node.next_functions:
            names.append(len(node.next_functions))
            node = node.next_functions[0][0]
        return names, node.variable is b

    both(program)
