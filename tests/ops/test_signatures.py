"""The public functions take PyTorch's parameters by PyTorch's names."""

import inspect

import pytest

import autograd_gpu as ag

torch = pytest.importorskip("torch")

LAYOUT = {"out", "layout", "pin_memory", "memory_format", "names", "sparse_grad", "_stacklevel", "out_dtype"}
# Long deprecated, or of the machinery.
OLD = {"args", "kwargs", "size_average", "reduce", "tol", "cudnn_enabled", "cudnn_enable"}
DIFFERENT = {
    "dropout": "training, as in nn.functional", "alpha_dropout": "training, as in nn.functional",
    "feature_dropout": "training, as in nn.functional", "feature_alpha_dropout": "training, as in nn.functional",
    "det": "A, as in linalg", "slogdet": "A, as in linalg", "inverse": "A, as in linalg", "vdot": "tensor, as in dot",
    "embedding": "as in nn.functional", "embedding_bag": "as in nn.functional", "batch_norm": "as in nn.functional",
    "instance_norm": "as in nn.functional", "from_dlpack": "no copies between devices",
    "set_default_dtype": "d says nothing", "save": "safetensors", "load": "safetensors",
    "set_rng_state": "any device's", "rrelu": "the default generator's", "enable_grad": "a class there",
    "device": "a class there", "unique": "dispatched by hand there", "unique_consecutive": "dispatched by hand there",
    "max_pool1d": "dispatched by hand there", "einsum": "*args there",
    "tensor_split": "the documented name", "hsplit": "the documented name", "vsplit": "the documented name",
    "dsplit": "the documented name", "multi_head_attention_forward": "fewer switches",
    "vector_norm": "the documented name", "elu": "elu_ has machinery there",
    "compile": "any option, none has an effect",
}  # fmt: skip
SPACES = [(torch, ag, ""), (torch.linalg, ag.linalg, "linalg_"), (torch.special, ag.special, "special_"),
          (torch.nn.functional, ag.nn.functional, "")]  # fmt: skip


def parameters_of(space, name, prefix):
    """The lists of parameters that PyTorch's function may be called with."""
    try:
        return [list(inspect.signature(getattr(space, name)).parameters)]
    except ValueError:
        packet = getattr(torch.ops.aten, prefix + name, None)
    schemas = [getattr(packet, o)._schema for o in packet.overloads()] if packet is not None else []
    return [["input" if a.name == "self" else a.name for a in schema.arguments] for schema in schemas]


def shared():
    for theirs, ours, prefix in SPACES:
        for name in dir(ours):
            function = getattr(ours, name)
            known = callable(function) and not inspect.isclass(function) and hasattr(theirs, name)
            if known and name[0] != "_" and name.removesuffix("_") not in DIFFERENT:
                result = parameters_of(theirs, name, prefix)
                if result:
                    yield pytest.param(function, result, id=f"{theirs.__name__}.{name}")


@pytest.mark.parametrize(("function", "theirs"), list(shared()))
def test_parameters(function, theirs):
    ours = set(inspect.signature(function).parameters)
    assert any(set(names) - LAYOUT - OLD <= ours for names in theirs), (ours, theirs)


def test_methods_take_sizes_by_name():
    x = ag.ones(2, 3)
    assert x.view(size=(3, 2)).shape == x.reshape(shape=(3, 2)).shape == x.permute(dims=(1, 0)).shape == (3, 2)
    assert x.view(dtype=ag.int32).dtype == ag.int32
    assert x[:, :1].expand(size=(2, 3)).shape == (2, 3)
    assert x.repeat(repeats=(1, 2)).shape == x.tile(dims=(2,)).shape == (2, 6)
    assert x.flip(dims=(0,)).shape == (2, 3)
    assert [part.shape for part in x.split(split_size=2, dim=1)] == [(2, 2), (2, 1)]
    assert ag.max(x, other=ag.zeros(3)).tolist() == x.max(other=ag.zeros(3)).tolist() == [[1.0] * 3] * 2
    assert ag.min(x, other=ag.zeros(3)).tolist() == [[0.0] * 3] * 2


def test_factories_take_their_size_by_name():
    for function in (ag.zeros, ag.ones, ag.empty, ag.rand, ag.randn):
        assert function(size=(2, 3)).shape == function(2, 3).shape == function((2, 3)).shape == (2, 3)
        with pytest.raises(TypeError, match="the shape twice"):
            function(2, size=(2, 3))
    assert ag.randint(high=1, size=(2,)).tolist() == [0, 0]
    assert ag.arange(end=3).tolist() == ag.arange(3).tolist() == [0, 1, 2]
    for call, message in ((ag.arange, "required argument: end"), (ag.randint, r"randint\(high, size\)")):
        with pytest.raises(TypeError, match=message):
            call()


def test_help_says_what_the_names_of_a_block_are_called():
    assert inspect.getdoc(ag.addcmul).endswith("x is `input`, a is `tensor1`, b is `tensor2`.")
