"""What is made, used and dropped leaves no cycle: its memory falls without Python's collector."""

import functools
import gc

import pytest
from selection import first

import autograd_gpu as ag
from autograd_gpu import nn, optim
from autograd_gpu.autograd import graph
from autograd_gpu.nn.utils import parametrizations, parametrize
from autograd_gpu.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).mT


def symmetric():
    return parametrize.register_parametrization(nn.Linear(2, 2), "weight", Symmetric())


def parametrized_twice():
    module = parametrize.register_parametrization(symmetric(), "bias", nn.Identity())
    module(ag.ones(1, 2)).sum().backward()
    for name in ("weight", "bias"):
        parametrize.remove_parametrizations(module, name)


def context(make):
    def use():
        x = ag.ones(2, 2, requires_grad=True)
        with make():
            (x @ x).exp().sum().backward()

    return use


def checkpointed(**options):
    def use():
        x = ag.ones(2, 2, requires_grad=True)
        checkpoint(lambda x: (x @ x).exp(), x, use_reentrant=False, **options).sum().backward()

    return use


def function():
    class Own(ag.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            ctx.save_for_backward(x, y)
            ctx.register_hook(lambda gs, _: None)
            ctx.note = y.detach()
            return y

        @staticmethod
        def backward(ctx, g):
            return g * 2

    Own.apply(ag.ones(2, requires_grad=True)).sum().backward()
    return Own


def hooked():
    module = nn.Linear(2, 2)
    module.register_full_backward_hook(lambda *args: None)
    ag.hooks.quantize(ag.bfloat16).attach(module)
    module(ag.ones(1, 2)).sum().backward()


def stepped_in_backward():
    x = ag.ones(2, requires_grad=True)
    optimizer = optim.SGD([x], lr=0.1)
    handle = optim.step_in_backward(optimizer)
    x.sum().backward()
    return optimizer, handle


SAVE = functools.partial(create_selective_checkpoint_contexts, [ag.matmul])
MAKERS = {
    "save_on_cpu": context(graph.save_on_cpu),
    "save_on_cpu pinned": context(lambda: graph.save_on_cpu(pin_memory=True, prefetch=1)),
    "saved_tensors_hooks": context(lambda: graph.saved_tensors_hooks(lambda t: t, lambda t: t)),
    "allow_mutation_on_saved_tensors": context(graph.allow_mutation_on_saved_tensors),
    "offload": context(ag.hooks.offload), "quantize": context(lambda: ag.hooks.quantize(ag.bfloat16)),
    "anomaly": context(lambda: ag.autograd.set_detect_anomaly(True)), "count": context(ag.profiler.count),
    "weight_norm": lambda: parametrizations.weight_norm(nn.Linear(2, 2)),
    "spectral_norm": lambda: parametrizations.spectral_norm(nn.Linear(2, 2)),
    "parametrization": symmetric, "two parametrizations": parametrized_twice, "hooks of modules": hooked,
    "checkpoint": checkpointed(), "selective checkpoint": checkpointed(context_fn=SAVE),
    "checkpoint with debug": checkpointed(debug=True), "step_in_backward": stepped_in_backward,
    "transformer layer": lambda: nn.TransformerEncoderLayer(4, 2, 8)(ag.ones(1, 2, 4)).sum().backward(),
}  # fmt: skip


@pytest.mark.parametrize("maker", first(MAKERS, 5))
def test_nothing_is_left_to_the_collector(maker, no_gc):
    MAKERS[maker]()  # what is kept for good is made now
    gc.collect()
    MAKERS[maker]()
    assert gc.collect() == 0


def test_a_function_leaves_its_own_class_only(no_gc):
    own = function()
    gc.collect()
    x = ag.ones(2, requires_grad=True)
    own.apply(x).sum().backward()
    del x
    assert gc.collect() == 0


def test_parametrized_modules_of_one_class_stay_apart():
    first, second = symmetric(), symmetric()
    assert type(first) is type(second)
    parametrize.register_parametrization(second, "bias", nn.Identity())
    assert not parametrize.is_parametrized(first, "bias")
    parametrize.remove_parametrizations(first, "weight")
    assert type(first) is nn.Linear
    assert parametrize.is_parametrized(second, "weight")
    assert bool((second.weight == second.weight.mT).all())
