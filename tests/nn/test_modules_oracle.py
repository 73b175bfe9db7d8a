"""Every module against PyTorch's: signature, printed form, state dict, output and gradients with the same state."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest
from module_cases import CASES, CONSTANT, LOSSES, MASK, RNG

import autograd_gpu as ag
from autograd_gpu import nn
from autograd_gpu.nn.module import Module

torch = pytest.importorskip("torch")

# ---- the comparison ----------------------------------------------------------------------------------


def make(library, name, args, kwargs):
    def convert(value):
        tensor = ag.tensor if library is nn else torch.tensor
        return tensor(value) if isinstance(value, np.ndarray) else value

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return getattr(library, name)(*map(convert, args), **{k: convert(v) for k, v in kwargs.items()})


def inputs_of(values, make, constant):
    """Tensors; the float ones require grad unless they stand in `constant`. The same array is the same tensor."""
    known = {}
    for i, value in enumerate(values):
        if id(value) not in known:
            tensor = make(value)
            known[id(value)] = tensor.requires_grad_() if value.dtype == np.float64 and i not in constant else tensor
    return [known[id(value)] for value in values]


def run(module, inputs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        out = module(*inputs)
    return out if isinstance(out, tuple) else (out,)


def same(ours, theirs, what):
    assert (ours is None) == (theirs is None), what
    if ours is not None:
        expected = theirs.numpy(force=True)
        assert ours.shape == expected.shape, what
        np.testing.assert_allclose(ours.numpy(force=True), expected, rtol=1e-8, atol=1e-9, err_msg=what)


def compare(name, args, kwargs, arrays, device):
    ours, theirs = (make(library, name, args, kwargs) for library in (nn, torch.nn))
    theirs = theirs.double()
    if name == "LazyLinear":
        theirs(torch.tensor(arrays[0]))
    state = {key: ag.tensor(value.numpy(force=True)) for key, value in theirs.state_dict().items()}
    ours = ours.to(device, ag.float64)
    assert repr(ours.load_state_dict(state)) == "<All keys matched successfully>"
    assert ours.extra_repr() == theirs.extra_repr() or name == "LazyLinear"
    constant = CONSTANT.get(name, ())
    for training in (True, False):
        assert ours.train(training).training == theirs.train(training).training
        for module in (ours, theirs):
            module.zero_grad()
        x = inputs_of(arrays, lambda a: ag.tensor(a, device=device), constant)
        y = inputs_of(arrays, torch.tensor, constant)
        outs, expected = run(ours, x), run(theirs, y)
        for a, b in zip(outs, expected, strict=True):
            same(a, b, f"{name}: output")
        if expected[0].requires_grad:
            g = np.asarray(np.random.default_rng(1).normal(size=outs[0].shape))
            outs[0].backward(ag.tensor(g, device=device))
            expected[0].backward(torch.tensor(g))
            for a, b in zip(x, y, strict=True):
                same(a.grad, b.grad, f"{name}: gradient of an input")
            gradients = {key: p.grad for key, p in theirs.named_parameters()}
            for key, parameter in ours.named_parameters():
                same(parameter.grad, gradients[key], f"{name}: gradient of {key}")
        expected = theirs.state_dict()
        for key, value in ours.state_dict().items():
            same(value, expected[key], f"{name}: {key} after the call")


@pytest.mark.parametrize("name", CASES)
def test_equals_pytorch(name, device):
    for args, kwargs, arrays in CASES[name]:
        compare(name, args, kwargs, arrays, device)


@pytest.mark.parametrize("name", LOSSES)
def test_losses_equal_pytorch(name, device):
    for args, kwargs, arrays in LOSSES[name]:
        for reduction in ("mean", "sum", "none", "batchmean") if name == "KLDivLoss" else ("mean", "sum", "none"):
            compare(name, args, {**kwargs, "reduction": reduction}, arrays, device)


def test_every_module_is_compared():
    without = {
        "Buffer", "Parameter", "UninitializedParameter", "Module", "ModuleDict", "ModuleList", "ParameterDict",
        "ParameterList", "Sequential", "TransformerDecoder", "TransformerEncoder", "RReLU", "Dropout", "Dropout1d",
        "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout", "Hardsigmoid",
            "SyncBatchNorm",  # compared on ranks
    }  # fmt: skip
    recurrent = {"RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell", "RNNBase", "RNNCellBase"}
    modules = {name for name in nn.__all__ if inspect.isclass(getattr(nn, name))}
    assert modules - set(CASES | LOSSES) - recurrent == without  # test_recurrent_oracle.py compares those


LEFT_OUT = {"enable_nested_tensor", "mask_check", "min_value", "max_value", "self"}
CONTAINERS = {"Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"}  # their forward raises
BASES = {"RNNBase", "RNNCellBase"}  # their forward is that of Module


def parameters_of(function):
    return [p for p in inspect.signature(function).parameters.values() if p.name not in LEFT_OUT]


@pytest.mark.parametrize("name", [n for n in nn.__all__ if inspect.isclass(getattr(nn, n)) and n != "Module"])
def test_signature_equals_pytorch(name):
    ours, theirs = getattr(nn, name), getattr(torch.nn, name)
    if not issubclass(ours, Module) or name in CONTAINERS:
        return
    expected = parameters_of(theirs.__init__)
    if theirs.__init__ is not torch.nn.Module.__init__ and expected[0].name != "args":  # as RNN, LSTM and GRU have it
        result = parameters_of(ours.__init__)
        assert [p.name for p in result] == [p.name for p in expected]
        for a, b in zip(result, expected, strict=True):
            if not callable(b.default):
                assert a.default == b.default, a.name
    if name in BASES:
        return
    assert [p.name for p in parameters_of(ours.forward)] == [p.name for p in parameters_of(theirs.forward)]


def test_attention_masks(device):
    """bool and float masks, padding, both together; with and without weights, per head or averaged."""
    x = RNG.normal(size=(4, 2, 6))
    padding = np.array([[False, False, False, True], [False, False, True, True]])
    per_head = np.stack([MASK, ~MASK & ~np.eye(4, dtype=bool)] * 2)
    per_head[:, :, 0] = False
    for attn in (None, MASK, np.where(MASK, -np.inf, 0.5), per_head):
        for pad in (None, padding):
            for options in ({}, {"need_weights": False}, {"average_attn_weights": False}):
                ours, theirs = nn.MultiheadAttention(6, 2), torch.nn.MultiheadAttention(6, 2).double()
                state = {key: ag.tensor(value.numpy(force=True)) for key, value in theirs.state_dict().items()}
                ours.to(device, ag.float64).load_state_dict(state)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)
                    b = torch.tensor(x)
                    expected = theirs(
                        b, b, b,
                        attn_mask=None if attn is None else torch.tensor(attn),
                        key_padding_mask=None if pad is None else torch.tensor(pad), **options,
                    )  # fmt: skip
                a = ag.tensor(x, device=device)
                result = ours(
                    a, a, a,
                    attn_mask=None if attn is None else ag.tensor(attn, device=device),
                    key_padding_mask=None if pad is None else ag.tensor(pad, device=device), **options,
                )  # fmt: skip
                for o, t in zip(result, expected, strict=True):
                    same(o, t, f"{attn} {pad} {options}")


def test_attention_errors():
    layer, x = nn.MultiheadAttention(4, 2), ag.ones(3, 1, 4)
    with pytest.raises(ValueError, match="embed_dim must be divisible by num_heads"):
        nn.MultiheadAttention(4, 3)
    with pytest.raises(ValueError, match="must be greater than 0"):
        nn.MultiheadAttention(0, 3)
    with pytest.raises(RuntimeError, match="query should be unbatched 2D or batched 3D"):
        layer(ag.ones(4), x, x)
    with pytest.raises(RuntimeError, match="expected `key` and `value` to be 3-D but found 2-D"):
        layer(x, ag.ones(3, 4), x)
    with pytest.raises(RuntimeError, match="was expecting embedding dimension of 4, but got 5"):
        layer(ag.ones(3, 1, 5), x, x)
    with pytest.raises(RuntimeError, match=r"The shape of the 2D attn_mask is \[2, 2\], but should be \[3, 3\]"):
        layer(x, x, x, attn_mask=ag.zeros(2, 2))
    with pytest.raises(RuntimeError, match="only bool and floating types of attn_mask are supported"):
        layer(x, x, x, attn_mask=ag.zeros(3, 3).long())
    with pytest.raises(RuntimeError, match="Need attn_mask if specifying the is_causal hint"):
        layer(x, x, x, is_causal=True)
    with pytest.raises(RuntimeError, match="expected `key_padding_mask` to be `None` or 2-D"):
        layer(x, x, x, key_padding_mask=ag.zeros(3) == 0)


def test_transformer_encoder(device):
    layer = nn.TransformerEncoderLayer(6, 2, 8, 0.0)
    ours = nn.TransformerEncoder(layer, 2, nn.LayerNorm(6), enable_nested_tensor=False).to(device, ag.float64)
    layer = torch.nn.TransformerEncoderLayer(6, 2, 8, 0.0).double()
    theirs = torch.nn.TransformerEncoder(layer, 2, torch.nn.LayerNorm(6).double(), enable_nested_tensor=False)
    ours.load_state_dict({key: ag.tensor(value.numpy(force=True)) for key, value in theirs.state_dict().items()})
    x = RNG.normal(size=(4, 2, 6))
    mask = nn.transformer.generate_square_subsequent_mask(4, device, ag.float64)
    expected = theirs(torch.tensor(x), torch.tensor(mask.numpy(force=True)))
    same(ours(ag.tensor(x, device=device), mask), expected, "encoder")
    with pytest.raises(RuntimeError, match="activation should be relu/gelu, not tanh"):
        nn.TransformerEncoderLayer(6, 2, activation="tanh")


def test_transformer_with_masks(device):
    sizes = {"d_model": 6, "nhead": 2, "num_encoder_layers": 1, "num_decoder_layers": 2, "dim_feedforward": 8}
    ours = nn.Transformer(**sizes, dropout=0.0, dtype=ag.float64, device=device)
    with warnings.catch_warnings(action="ignore"):  # PyTorch would like batch_first, for speed
        theirs = torch.nn.Transformer(**sizes, dropout=0.0, dtype=torch.float64)
    ours.load_state_dict(theirs.state_dict())
    src, tgt = RNG.normal(size=(4, 2, 6)), RNG.normal(size=(3, 2, 6))
    hidden = np.array([[False, False, False, True], [False, True, False, False]])
    causal, seen = np.triu(np.full((3, 3), -np.inf), 1), RNG.normal(size=(3, 4))

    def run(module, tensor):
        return module(
            tensor(src), tensor(tgt), tgt_mask=tensor(causal), memory_mask=tensor(seen), tgt_is_causal=True,
            src_key_padding_mask=tensor(hidden), memory_key_padding_mask=tensor(np.where(hidden, -np.inf, 0.0)),
        )  # fmt: skip

    same(run(ours, lambda a: ag.tensor(a, device=device)), run(theirs.train(), torch.tensor), "transformer")
    mask = ours.generate_square_subsequent_mask(3, device, ag.float64)
    assert np.array_equal(mask.numpy(force=True), causal)
    x = ag.ones(4, 2, 6, dtype=ag.float64, device=device)
    with pytest.raises(RuntimeError, match="the batch number of src and tgt must be equal"):
        ours(x, x[:, :1])
    with pytest.raises(RuntimeError, match="the feature number of src and tgt must be equal to d_model"):
        ours(x, x[..., :3])
    with pytest.raises(RuntimeError, match="activation should be relu/gelu, not tanh"):
        nn.TransformerDecoderLayer(6, 2, activation="tanh")
