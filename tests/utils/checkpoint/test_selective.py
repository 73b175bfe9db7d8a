"""utils.checkpoint with a policy: whose results are kept, that they are not computed again, and what goes wrong."""

import functools
import types
import weakref

import numpy as np
import pytest
from op_checks import has_own_code, over
from op_db import BETWEEN_RUNS, Call, assert_close, values
from op_rows import ROWS

import autograd_gpu as ag
from autograd_gpu import nn
from autograd_gpu.core.declare.op import REGISTRY
from autograd_gpu.core.interpret.interpreters import entered
from autograd_gpu.core.interpret.watcher import Watcher
from autograd_gpu.utils.checkpoint import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    checkpoint,
    create_selective_checkpoint_contexts,
)


def leaf(*shape, seed=0, **kwargs):
    numbers = np.random.default_rng(seed).standard_normal(shape)
    return ag.tensor(numbers, requires_grad=True, **kwargs)


W, V = leaf(4, 4, seed=1), leaf(4, 4, seed=2)


def keeping(policy, fn, *args, **kwargs):
    contexts = functools.partial(create_selective_checkpoint_contexts, policy)
    return checkpoint(fn, *args, use_reentrant=False, context_fn=contexts, **kwargs)


def always(policy):
    return lambda context, op, *args, **kwargs: policy


def mlp(x):
    return ((x @ W).tanh() @ V).sigmoid() @ W


def products(policy):
    """The products of forward and of backward."""
    x = leaf(4, 4)
    with ag.profiler.count() as forward:
        y = keeping(policy, mlp, x).exp().sum()
    with ag.profiler.count() as backward:
        grads = ag.autograd.grad(y, [x, W, V])
    expected = ag.autograd.grad(mlp(x).exp().sum(), [x, W, V])
    assert all(bool((a == b).all()) for a, b in zip(grads, expected, strict=True))
    return sum(forward.matmuls.values()), sum(backward.matmuls.values())


@pytest.mark.parametrize("policy", [[ag.matmul], ["matmul"], always(True), always(CheckpointPolicy.PREFER_SAVE),
                                    always(CheckpointPolicy.MUST_CPU_OFFLOAD)])  # fmt: skip
def test_what_is_kept_is_not_computed_again(policy):
    assert products(policy) == (3, 6)


@pytest.mark.parametrize("policy", [[], [ag.tanh], always(False), always(CheckpointPolicy.MUST_RECOMPUTE)])
def test_what_is_not_kept_is_computed_again(policy):
    assert products(policy) == (3, 6 + 3)


def test_part_is_kept():
    def policy(context, op, *args, **kwargs):
        return CheckpointPolicy.MUST_SAVE if op is ag.matmul and args[1] is W else CheckpointPolicy.PREFER_RECOMPUTE

    assert products(policy) == (3, 6 + 1)


def test_what_the_policy_is_told():
    calls = []

    def policy(context, op, *args, **kwargs):
        assert type(context) is SelectiveCheckpointContext
        calls.append((op.op.name, context.is_recompute, context.op_output, args, kwargs))
        return CheckpointPolicy.PREFER_RECOMPUTE

    x = leaf(2, 2)
    y = keeping(policy, lambda x: ag.cat([x * 2.0, x], dim=1).max(1).values, x)
    y.sum().backward()
    mul, cat, largest = calls
    assert (mul[0], mul[1], mul[3][0] is x, mul[3][1], mul[4]) == ("mul", False, True, 2.0, {})
    assert (cat[0], cat[3][0][0] is mul[2], cat[4]) == ("cat", True, {"dim": 1})
    assert largest[2].values is y


def test_bytes_between_forward_and_backward():
    alive = []

    class Results(Watcher):
        def around(self, op, args, attributes, forward):
            def noting(xp, *arrays, **named):
                out = forward(xp, *arrays, **named)
                alive.append(weakref.ref(out))
                return out

            return noting, None

    def run(policy):
        alive.clear()
        x = leaf(4, 4)
        with entered(Results()):
            y = keeping(policy, mlp, x).sum()
        count = sum(ref() is not None for ref in alive)
        y.backward()
        return count, sum(ref() is not None for ref in alive)

    last = 1  # y itself
    assert run([]) == (last, last)
    assert run([ag.tanh]) == (last + 1, last)
    assert run([ag.tanh, ag.sigmoid]) == (last + 2, last)


def test_random_operations():
    def fn(x):
        return nn.functional.dropout(nn.functional.dropout(x.exp(), 0.5).sin(), 0.5) * ag.rand(64)

    x = leaf(64)
    for policy in (["random_dropout"], ["exp"], []):
        for preserve in (True, False) if policy == ["random_dropout"] else (True,):
            ag.manual_seed(1)
            y = keeping(policy, fn, x, preserve_rng_state=preserve)
            state = ag.get_rng_state()
            (gradient,) = ag.autograd.grad(y.sum(), x)
            ag.manual_seed(1)
            (expected,) = ag.autograd.grad(fn(x).sum(), x)
            if preserve:
                assert bool((gradient == expected).all())
                assert ag.get_rng_state().equal(state)
            else:
                assert bool(((gradient == 0) >= (expected == 0)).all())  # the masks are kept, the factor is not


def test_a_second_backward_computes():
    x = leaf(4, 4)
    y = keeping([ag.matmul], mlp, x).sum()
    ag.autograd.grad(y, x, retain_graph=True)
    with ag.profiler.count() as c:
        (gradient,) = ag.autograd.grad(y, x)
    assert sum(c.matmuls.values()) == 3 + 3
    assert bool((gradient == ag.autograd.grad(mlp(x).sum(), x)[0]).all())


def test_double_backward_and_nesting():
    x = leaf(4, 4)

    def second(y):
        (g,) = ag.autograd.grad(y.sum(), x, create_graph=True)
        return ag.autograd.grad((g * g).sum(), [x, W, V])

    expected = second(mlp(mlp(x).exp()))
    inner = functools.partial(keeping, [ag.tanh], mlp)
    for outer in ([ag.matmul], always(True), []):
        result = second(keeping(outer, lambda x: inner(mlp(x).exp()), x))
        assert all(bool((a == b).all()) for a, b in zip(result, expected, strict=True))


def test_backward_inside_the_function():
    x = leaf(4)

    def fn(x):
        z = (x.sin() * x).cos()
        (g,) = ag.autograd.grad(z.sum(), x, retain_graph=True)
        return (g * x).sin() + z

    (expected,) = ag.autograd.grad(fn(x).sum(), x)
    (gradient,) = ag.autograd.grad(keeping(always(True), fn, x).sum(), x)
    assert bool(ag.allclose(gradient, expected))


def test_modification():
    def fn(x):
        y = x.exp()
        z = y.sin() * y.detach()
        with ag.no_grad():
            y.detach().add_(0.0)
        return z

    for policy in ([ag.exp], always(True)):
        with pytest.raises(RuntimeError, match="Tensor cached during selective activation checkpoint has been mutated"):
            keeping(policy, fn, leaf(3)).sum().backward()


def test_modification_may_be_allowed():
    x = leaf(3)
    contexts = functools.partial(create_selective_checkpoint_contexts, [ag.exp], allow_cache_entry_mutation=True)
    y = checkpoint(lambda x: x.exp(), x, use_reentrant=False, context_fn=contexts)
    z = y.sum()
    with ag.no_grad():
        y.detach().mul_(2.0)
    z.backward()
    assert bool(ag.allclose(x.grad, 2 * x.detach().exp()))


def test_other_operations_in_the_second_run():
    calls = []

    def fn(x):
        calls.append(1)
        return x.exp().sin() if len(calls) == 1 else x.cos().sin()

    with pytest.raises(RuntimeError, match="cos invocation index 0 encountered during backward but not found"):
        keeping([ag.exp], fn, leaf(2)).sum().backward()


def test_errors():
    with pytest.raises(TypeError, match="policy_fn_or_list must be either a function or a list of ops"):
        create_selective_checkpoint_contexts("matmul")
    unnamed = types.SimpleNamespace(op=None)
    for wrong in (ag.dropout, "matmull", 3, [1], unnamed):
        with pytest.raises(ValueError, match="Expected op in `op_list` to be an operation, or the name of one"):
            create_selective_checkpoint_contexts([wrong])

    def policy(context, op, *args, **kwargs):
        raise ValueError(op.op.name)

    with pytest.raises(ValueError, match=r"^exp$"):
        keeping(policy, ag.exp, leaf(2))
    assert leaf(2).exp().requires_grad  # no mode is left on


def test_no_reference_cycles(no_gc):
    x = leaf(4, 4)
    y = keeping(always(True), lambda x: mlp(x * 1.0), x).sum()
    alive = weakref.ref(x)
    del x, y
    assert alive() is None


RULED = [row for row in ROWS if row.op in REGISTRY and row.definition.has_rules]


@over(RULED, lambda op: not (op.random or has_own_code(op)))
def test_every_operation(row, device):
    """Run again, and kept: the gradients are those of the plain run."""
    ag.manual_seed(0)
    for sample in row.draw():
        seen = []
        for policy in (None, [], always(True)):
            ag.manual_seed(0)
            call = Call(row, sample, device)
            call.outs = call.run().outs if policy is None else keeping(policy, lambda call: call.run().outs, call)
            seen.append(call.grad() if call.differentiable else [])
        for again in seen[1:]:
            for a, b in zip(again, seen[0], strict=True):
                assert (a is None) == (b is None)
                if a is not None:
                    assert_close(a, values(b), BETWEEN_RUNS[device], sample)
