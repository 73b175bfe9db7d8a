"""Pruning: masks, state dicts, gradients and errors are PyTorch's."""

import copy
import importlib

import numpy as np
import pytest

import autograd_gpu as ag

torch = pytest.importorskip("torch")
importlib.import_module("torch.nn.utils.prune")

W = np.random.default_rng(0).permutation(24).reshape(4, 6) / 8 - 1.4  # no two of the same size


def layer(m, scale=1.0):
    made = m.nn.Linear(6, 4)
    made.weight.data.copy_(m.tensor(W * scale, dtype=m.float32))
    made.bias.data.copy_(m.arange(4.0) + 0.01)
    return made


def seen(net):
    """All that can be seen of a pruned layer, or of an ordinary one."""
    return (
        {name: value.tolist() for name, value in net.state_dict().items()},
        [name for name, _ in net.named_parameters()],
        net.weight.tolist(),
        [type(hook).__name__ for hook in net._forward_pre_hooks.values()],
    )


PRUNED = {
    "fraction of elements": lambda p, net: p.l1_unstructured(net, "weight", 0.3),
    "number of elements": lambda p, net: p.l1_unstructured(net, "weight", 5),
    "no element": lambda p, net: p.l1_unstructured(net, "weight", 0),
    "bias": lambda p, net: p.l1_unstructured(net, "bias", 0.5),
    "rows by 2-norm": lambda p, net: p.ln_structured(net, "weight", 0.5, 2, 0),
    "columns by largest element": lambda p, net: p.ln_structured(net, "weight", 2, float("inf"), 1),
    "rows by 1-norm": lambda p, net: p.ln_structured(net, "weight", 1, 1, -2),
    "no row": lambda p, net: p.ln_structured(net, "weight", 0.0, 2, 0),
    "identity": lambda p, net: p.identity(net, "weight"),
}
REPEATED = {
    "elements twice": lambda p, net: p.l1_unstructured(p.l1_unstructured(net, "weight", 0.3), "weight", 0.5),
    "elements, then columns": lambda p, net: p.ln_structured(p.l1_unstructured(net, "weight", 0.3), "weight", 2, 2, 1),
    "rows, then elements": lambda p, net: p.l1_unstructured(p.ln_structured(net, "weight", 2, 2, 0), "weight", 3),
    "rows, then rows": lambda p, net: p.ln_structured(p.ln_structured(net, "weight", 1, 2, 0), "weight", 1, 2, 0),
    "two parameters": lambda p, net: p.l1_unstructured(p.l1_unstructured(net, "weight", 3), "bias", 1),
    "removed": lambda p, net: p.remove(p.l1_unstructured(net, "weight", 0.5), "weight"),
}
REFUSED = {
    "a negative amount": lambda p, m: p.l1_unstructured(layer(m), "weight", -1),
    "too large a fraction": lambda p, m: p.l1_unstructured(layer(m), "weight", 1.5),
    "no number": lambda p, m: p.l1_unstructured(layer(m), "weight", "a"),
    "more than there are": lambda p, m: p.l1_unstructured(layer(m), "weight", 100),
    "channels of a vector": lambda p, m: p.ln_structured(layer(m), "bias", 1, 2, 0),
    "a wrong dimension": lambda p, m: p.ln_structured(layer(m), "weight", 1, 2, 5),
    "not pruned": lambda p, m: p.remove(layer(m), "weight"),
    "a wrong name": lambda p, m: p.identity(layer(m), "nothing"),
    "scores of another shape": lambda p, m: p.l1_unstructured(layer(m), "weight", 1, importance_scores=m.ones(2)),
    "a mask of another shape": lambda p, m: p.custom_from_mask(layer(m), "weight", m.ones(2)),
    "no pairs": lambda p, m: p.global_unstructured(3, p.L1Unstructured),
    "structured everywhere": lambda p, m: p.global_unstructured([(layer(m), "weight")], p.LnStructured, amount=1, n=2),
    "scores that are no dict": lambda p, m: p.global_unstructured(
        [(layer(m), "weight")], p.L1Unstructured, importance_scores=m.ones(1), amount=1),
    "no method": lambda p, m: p.PruningContainer().add_pruning_method(3),
}  # fmt: skip


def under_both(call):
    return [call(m.nn.utils.prune, m) for m in (ag, torch)]


@pytest.mark.parametrize("name", [*PRUNED, *REPEATED])
def test_like_pytorch(name):
    change = {**PRUNED, **REPEATED}[name]
    ours, theirs = under_both(lambda p, m: change(p, layer(m)))
    assert seen(ours) == seen(theirs)
    for m, net in ((ag, ours), (torch, theirs)):
        (net(m.ones(2, 6)) ** 2).sum().backward()
    for (_, p), (_, q) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        assert np.allclose(p.grad.tolist(), q.grad.tolist())
    assert ag.nn.utils.prune.is_pruned(ag.nn.Sequential(ours)) == torch.nn.utils.prune.is_pruned(theirs)


def test_the_parameter_is_masked_anew_at_each_call():
    net = ag.nn.utils.prune.l1_unstructured(layer(ag), "weight", 0.5)
    net.weight_orig.data.fill_(1.0)
    net(ag.ones(1, 6))
    assert net.weight.tolist() == net.weight_mask.tolist()
    again = copy.deepcopy(ag.nn.utils.prune.remove(net, "weight"))
    assert isinstance(again.weight, ag.nn.Parameter)
    assert not ag.nn.utils.prune.is_pruned(again)


def test_global_pruning():
    def prune(p, m):
        a, b = layer(m), layer(m, 1.03)
        p.global_unstructured([(a, "weight"), (b, "weight"), (b, "bias")], p.L1Unstructured, amount=0.4)
        p.global_unstructured([(a, "weight")], p.L1Unstructured, amount=3,
                              importance_scores={(a, "weight"): m.arange(24.0).reshape(4, 6) + 1})  # fmt: skip
        return seen(a), seen(b)

    ours, theirs = under_both(prune)
    assert ours == theirs


def test_scores_and_masks_of_the_user():
    scores = np.arange(24.0).reshape(4, 6)

    def prune(p, m):
        a = p.l1_unstructured(layer(m), "weight", 4, importance_scores=m.tensor(scores))
        b = p.ln_structured(layer(m), "weight", 1, 2, 0, importance_scores=m.tensor(scores))
        c = p.custom_from_mask(layer(m), "weight", m.tensor(W > 0))
        t = m.tensor(W)
        d = p.L1Unstructured(3).prune(t, default_mask=m.tensor(W > 0).double())
        return *map(seen, (a, b, c)), d.tolist(), p.L1Unstructured(3).prune(t, importance_scores=t + 1).tolist()

    ours, theirs = under_both(prune)
    assert ours == theirs


def test_a_method_of_the_user():
    def prune(p, m):
        class Halves(p.BasePruningMethod):
            PRUNING_TYPE = "unstructured"

            def compute_mask(self, t, default_mask):
                mask = default_mask.clone()
                mask.view(-1)[::2] = 0
                return mask

        net = layer(m)
        first = Halves.apply(net, "weight")
        second = Halves.apply(net, "weight")
        assert [type(first), len(second), type(second[0])] == [Halves, 2, Halves]
        return seen(net)

    ours, theirs = under_both(prune)
    assert ours == theirs


@pytest.mark.parametrize("amount", [5, 0.25])
def test_random_amounts(amount):
    prune = ag.nn.utils.prune
    net = prune.random_unstructured(layer(ag), "weight", amount)
    assert int((net.weight_mask == 0).sum()) == (5 if amount == 5 else 6)
    net = prune.random_structured(layer(ag), "weight", 2, 1)
    assert sorted(net.weight_mask.sum(0).tolist()) == [0, 0, 4, 4, 4, 4]


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_refused(call):
    with pytest.raises(Exception) as theirs:  # noqa: PT011  whatever PyTorch raises
        call(torch.nn.utils.prune, torch)
    with pytest.raises(theirs.type) as ours:
        call(ag.nn.utils.prune, ag)
    known = str(theirs.value).replace("torch.Size([", "(").replace("])", ")").replace("(2)", "(2,)")
    known = known.replace("(4)", "(4,)").replace("torch.nn.utils", "autograd_gpu.nn.utils")
    assert str(ours.value) == known or theirs.type in (AttributeError, AssertionError, IndexError)


def test_a_failure_leaves_the_module_alone():
    net = layer(ag)
    before = seen(net)
    with pytest.raises(ValueError, match="should be smaller"):
        ag.nn.utils.prune.l1_unstructured(net, "weight", 100)
    assert seen(net) == before
