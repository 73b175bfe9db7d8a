"""Recurrent layers and cells against PyTorch's: outputs, states and all gradients, printed forms, errors."""

from __future__ import annotations

import inspect
import itertools

import numpy as np
import pytest

import autograd_gpu as ag

torch = pytest.importorskip("torch")
STEPS, BATCH, SIZE, UNITS = 4, 3, 2, 3
FLAGS = ("num_layers", "bias", "batch_first", "bidirectional")
ALL = [dict(zip(FLAGS, values, strict=True)) for values in itertools.product((1, 2), *[(True, False)] * 3)]
OTHERS = {"RNN": ({}, {"nonlinearity": "relu"}), "GRU": ({},), "LSTM": ({}, {"proj_size": 2})}
COMBINATIONS = [(name, flags | other) for name in OTHERS for flags in ALL for other in OTHERS[name]]
KINDS = "batched", "unbatched", "sorted", "unsorted"
LENGTHS = {"sorted": [4, 2, 1], "unsorted": [1, 4, 2]}


def pair(name, *args, **kwargs):
    """The module in both libraries, in float64, with the same state."""
    theirs = getattr(torch.nn, name)(*args, **kwargs).double()
    ours = getattr(ag.nn, name)(*args, **kwargs, dtype=ag.float64)
    state = {key: ag.tensor(value.numpy(), device="cpu") for key, value in theirs.state_dict().items()}
    assert repr(ours.load_state_dict(state)) == "<All keys matched successfully>"
    assert repr(ours) == repr(theirs)
    return ours, theirs


def flat(value):
    """The tensors of nested tuples."""
    return [tensor for part in value for tensor in flat(part)] if isinstance(value, tuple) else [value]


def gradients(lib, module, outs, leaves):
    """The outputs and the gradients of a weighted sum of them."""
    rng = np.random.default_rng(1)
    like = {"dtype": lib.float64, "device": outs[0].device}
    loss = sum((out * lib.tensor(rng.normal(size=tuple(out.shape)), **like)).sum() for out in outs)
    loss.backward()
    return [y.detach() for y in outs] + [x.grad for x in (*leaves, *module.parameters())]


def run(lib, module, kind, x, states, device):
    """Outputs, last states and gradients for an input of this kind."""
    leaves = [lib.tensor(value, device=device).requires_grad_() for value in (x, *states)]
    first, hx = leaves[0], tuple(leaves[1:])
    rnn, order = lib.nn.utils.rnn, {"batch_first": module.batch_first}
    if kind in LENGTHS:
        first = rnn.pack_padded_sequence(first, LENGTHS[kind], enforce_sorted=kind == "sorted", **order)
    hx = None if not hx else hx if module.mode == "LSTM" else hx[0]
    out, last = module(first, hx)
    if kind in LENGTHS:
        out, lengths = rnn.pad_packed_sequence(out, **order)
        assert lengths.tolist() == LENGTHS[kind]
    return gradients(lib, module, flat((out, last)), leaves)


def check(name, flags, kind, with_states, device):
    ours, theirs = pair(name, SIZE, UNITS, **flags)
    rng = np.random.default_rng(0)
    shape = (BATCH, STEPS, SIZE) if flags.get("batch_first") else (STEPS, BATCH, SIZE)
    layers = flags.get("num_layers", 1) * (2 if flags.get("bidirectional") else 1)
    sizes = [flags.get("proj_size") or UNITS, UNITS][: 2 if name == "LSTM" else 1]
    x, states = rng.normal(size=shape), [rng.normal(size=(layers, BATCH, size)) for size in sizes]
    if kind == "unbatched":
        x, states = rng.normal(size=(STEPS, SIZE)), [state[:, 0] for state in states]
    states = states if with_states else []
    result, expected = run(ag, ours.to(device), kind, x, states, device), run(torch, theirs, kind, x, states, "cpu")
    for a, b in zip(result, expected, strict=True):
        np.testing.assert_allclose(a.numpy(force=True), b.numpy(), rtol=1e-9, atol=1e-11, strict=True)


@pytest.mark.cpu
@pytest.mark.parametrize(("name", "flags"), COMBINATIONS, ids=str)
def test_every_combination_of_flags(name, flags):
    for number, kind in enumerate(KINDS):
        check(name, flags, kind, number % 2 == flags["bias"], "cpu")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OTHERS)
def test_on_the_device(name, kind, device):
    for with_states, other in itertools.product((True, False), OTHERS[name]):
        check(name, {"num_layers": 2, "bidirectional": True, **other}, kind, with_states, device)


CELLS = ("RNNCell", {}), ("RNNCell", {"nonlinearity": "relu"}), ("GRUCell", {}), ("LSTMCell", {})


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("name", "other"), CELLS, ids=str)
def test_cells(name, other, bias, device):
    """Two steps of a cell, batched and not, from given states and from zeros."""
    for batch, with_states in itertools.product((2, None), (True, False)):
        ours, theirs = pair(name, SIZE, UNITS, bias=bias, **other)
        rng = np.random.default_rng(0)
        lead = () if batch is None else (batch,)
        values = [rng.normal(size=(*lead, SIZE)), *(rng.normal(size=(*lead, UNITS)) for _ in range(2))]
        results = []
        for lib, module in ((ag, ours.to(device)), (torch, theirs)):
            where = device if lib is ag else "cpu"
            x, *hx = leaves = [lib.tensor(value, device=where).requires_grad_() for value in values]
            leaves = leaves if with_states else leaves[:1]
            states = (tuple(hx) if name == "LSTMCell" else hx[0]) if with_states else None
            leaves = leaves if name == "LSTMCell" else leaves[:2]
            states = module(x * 2, module(x, states))
            results.append(gradients(lib, module, flat((states,)), leaves))
        for a, b in zip(*results, strict=True):
            np.testing.assert_allclose(a.numpy(force=True), b.numpy(), rtol=1e-9, atol=1e-11, strict=True)


def outcome(lib, program):
    try:
        program(lib)
    except (RuntimeError, ValueError, TypeError) as error:
        return type(error), str(error).replace("torch.", "").replace("autograd_gpu.", "")
    return None


ERRORS = {
    "dropout": lambda m: m.nn.LSTM(2, 3, dropout=2.0),
    "a bool as dropout": lambda m: m.nn.LSTM(2, 3, dropout=True),
    "bias": lambda m: m.nn.LSTM(2, 3, bias=1),
    "batch_first": lambda m: m.nn.LSTM(2, 3, batch_first=None),
    "input_size": lambda m: m.nn.GRU(2.0, 3),
    "no input": lambda m: m.nn.GRU(0, 3),
    "no units": lambda m: m.nn.GRU(2, 0),
    "no layers": lambda m: m.nn.GRU(2, 3, 0),
    "negative projection": lambda m: m.nn.LSTM(2, 3, proj_size=-1),
    "wide projection": lambda m: m.nn.LSTM(2, 3, proj_size=3),
    "projection of a GRU": lambda m: m.nn.GRU(2, 3, proj_size=1),
    "projection of an RNN": lambda m: m.nn.RNN(2, 3, proj_size=1),
    "nonlinearity": lambda m: m.nn.RNN(2, 3, nonlinearity="sin"),
    "mode": lambda m: m.nn.RNNBase("CELL", 2, 3),
    "rank, RNN": lambda m: m.nn.RNN(2, 3)(m.zeros(2)),
    "rank, LSTM": lambda m: m.nn.LSTM(2, 3)(m.zeros(1, 1, 1, 2)),
    "rank, GRU": lambda m: m.nn.GRU(2, 3)(m.zeros(2)),
    "dtype": lambda m: m.nn.GRU(2, 3)(m.zeros(4, 1, 2, dtype=m.float64)),
    "columns": lambda m: m.nn.GRU(2, 3)(m.zeros(4, 1, 5)),
    "no steps": lambda m: m.nn.GRU(2, 3)(m.zeros(0, 1, 2)),
    "unbatched state of a batch": lambda m: m.nn.GRU(2, 3)(m.zeros(4, 1, 2), m.zeros(1, 3)),
    "batched state of one sequence": lambda m: m.nn.GRU(2, 3)(m.zeros(4, 2), m.zeros(1, 1, 3)),
    "batched states of one sequence": lambda m: m.nn.LSTM(2, 3)(m.zeros(4, 2), (m.zeros(1, 1, 3),) * 2),
    "unbatched states of a batch": lambda m: m.nn.LSTM(2, 3)(m.zeros(4, 1, 2), (m.zeros(1, 3),) * 2),
    "state": lambda m: m.nn.GRU(2, 3)(m.zeros(4, 1, 2), m.zeros(1, 2, 3)),
    "h": lambda m: m.nn.LSTM(2, 3)(m.zeros(4, 1, 2), (m.zeros(2, 1, 3), m.zeros(1, 1, 3))),
    "c": lambda m: m.nn.LSTM(2, 3)(m.zeros(4, 1, 2), (m.zeros(1, 1, 3), m.zeros(1, 1, 2))),
    "rank, RNNCell": lambda m: m.nn.RNNCell(2, 3)(m.zeros(1, 1, 2)),
    "rank, LSTMCell": lambda m: m.nn.LSTMCell(2, 3)(m.zeros(1, 1, 2)),
    "rank, GRUCell": lambda m: m.nn.GRUCell(2, 3)(m.zeros(1, 1, 2)),
    "rank of a state": lambda m: m.nn.GRUCell(2, 3)(m.zeros(1, 2), m.zeros(1, 1, 3)),
    "rank of c": lambda m: m.nn.LSTMCell(2, 3)(m.zeros(1, 2), (m.zeros(1, 3), m.zeros(1, 1, 3))),
    "columns of a cell": lambda m: m.nn.GRUCell(2, 3)(m.zeros(1, 5)),
    "columns of a state": lambda m: m.nn.LSTMCell(2, 3)(m.zeros(1, 2), (m.zeros(1, 3), m.zeros(1, 5))),
    "batch of a state": lambda m: m.nn.GRUCell(2, 3)(m.zeros(1, 2), m.zeros(4, 3)),
    "nonlinearity of a cell": lambda m: m.nn.RNNCell(2, 3, nonlinearity="sin")(m.zeros(1, 2)),
    "forward of the base": lambda m: m.nn.RNNBase("GRU", 2, 3)(m.zeros(1, 2)),
}  # fmt: skip


@pytest.mark.parametrize("what", ERRORS)
def test_errors_are_those_of_pytorch(what):
    expected = outcome(torch, ERRORS[what])
    assert expected is not None
    assert outcome(ag, ERRORS[what]) == expected


def test_warning_of_dropout_behind_one_layer():
    texts = []
    for lib in (ag, torch):
        with pytest.warns(UserWarning, match="dropout option adds dropout") as caught:
            lib.nn.GRU(2, 3, dropout=0.5)
        texts.append(str(caught[0].message))
    assert texts[0] == texts[1]


@pytest.mark.cpu
@pytest.mark.parametrize("name", OTHERS)
def test_arguments_are_those_of_the_base(name):
    """torch.nn's take *args and **kwargs: those of RNNBase, and the documented place of `nonlinearity`."""
    expected = [p for p in inspect.signature(torch.nn.RNNBase.__init__).parameters if p != "mode"]
    result = inspect.signature(getattr(ag.nn, name)).parameters
    if name != "LSTM":
        expected.remove("proj_size")
    if name == "RNN":
        assert list(result)[3] == "nonlinearity"
        expected.insert(4, "nonlinearity")
    assert list(result) == [p for p in expected if p != "self"] + ([] if name == "LSTM" else ["projection"])


@pytest.mark.cpu
def test_initial_values_and_names():
    for name in OTHERS:
        ours, theirs = (getattr(lib.nn, name)(5, 4, 2, bidirectional=True) for lib in (ag, torch))
        shapes = {key: tuple(p.shape) for key, p in theirs.named_parameters()}
        assert {key: tuple(p.shape) for key, p in ours.named_parameters()} == shapes
        values = np.concatenate([p.numpy(force=True).ravel() for p in ours.parameters()])
        assert abs(values).max() <= 0.5
        assert abs(values.mean()) < 0.1 < 0.25 < values.std() < 0.33  # uniform in +-1/2: 0.289
        mine, other = ([[tuple(p.shape) for p in layer] for layer in m.all_weights] for m in (ours, theirs))
        assert mine == other
