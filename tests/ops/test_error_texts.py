"""What PyTorch says of a mistake, which users search for, stands in what we say of it."""

import pytest

import autograd_gpu as ag

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.cpu  # on CUDA nobody looks at positions


def place(m, key, value):
    x = m.ones(4, 5)
    x[key(m)] = value(m)


CALLS = [
    lambda m: m.ones(2, 3) + m.ones(4),
    lambda m: m.ones(2, 3) * m.ones(5, 2, 4),
    lambda m: m.where(m.ones(3) > 0, m.ones(2), m.ones(3)),
    lambda m: m.lerp(m.ones(1, 3), m.ones(2, 1), m.ones(2)),
    lambda m: m.atan2(m.ones(3), m.ones(4)),
    lambda m: m.ones(2, 3).sum(3),
    lambda m: m.ones(2, 3).softmax(-3),
    lambda m: m.stack([m.ones(2), m.ones(2)], 3),
    lambda m: m.ones(0, 3).max(0),
    lambda m: m.ones(0, 3).argmin(0),
    lambda m: m.ones(2, 3).size(2),
    lambda m: m.ones(2, 3).stride(-3),
    lambda m: m.ones(2, 3).unsqueeze(4),
    lambda m: m.reshape(m.ones(2, 3), -1),
    lambda m: m.unique(m.ones(2, 0), dim=0),
    lambda m: m.ones(4, 5)[0, 0, 0],
    lambda m: m.ones(4, 5)[4],
    lambda m: m.ones(4, 5)[m.tensor([4])],
    lambda m: m.ones(4, 5)[:, m.tensor([0]), 0],
    lambda m: m.ones(3, 4).scatter(1, m.tensor([[4]]), 1.0),
    lambda m: place(m, lambda m: 5, lambda m: 0.0),
    lambda m: place(m, lambda m: (0, 0, 0), lambda m: 0.0),
    lambda m: place(m, lambda m: m.tensor([0, 1]), lambda m: m.ones(3, 5)),
    lambda m: place(m, lambda m: m.tensor([0, 1]), lambda m: m.ones(4)),
    lambda m: setattr(m.ones(2), "grad", m.ones(3)),
    lambda m: setattr(m.ones(2), "grad", 3),
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS, ids=range(len(CALLS)))
def test_texts(call):
    texts = []
    for module in (ag, torch):
        with pytest.raises((RuntimeError, IndexError, TypeError)) as caught:
            call(module)
        texts.append(str(caught.value))
    assert texts[1] in texts[0]


def test_texts_of_our_own():
    with pytest.raises(IndexError, match="invalid index of a 0-dim tensor"):
        ag.tensor(1.0)[0]
    with pytest.raises(TypeError, match="can't assign a str to a tensor"):
        place(ag, lambda m: 0, lambda m: "1")
    with pytest.raises(IndexError, match="Dimension specified as 0 but tensor has no dimensions"):
        ag.tensor(1.0).size(0)
    with pytest.raises(RuntimeError, match="a gradient with dtype 'float64' to a tensor with dtype 'float32'"):
        ag.ones(2).grad = ag.ones(2, dtype=ag.float64)
    with pytest.raises(TypeError, match="gradients can be either Tensors or None, but got float"):
        ag.ones(2, requires_grad=True).exp().backward(2.0)
