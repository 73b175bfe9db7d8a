"""save and load: every dtype and structure, files for and from other tools, atomic writes, errors."""

import json
import math
import os

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import nn, optim

DTYPES = [
    "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2",
    "int64", "int32", "int16", "int8", "uint8", "bool",
]  # fmt: skip


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file.safetensors"


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_round_trip(path, dtype, device):
    wanted = getattr(ag, dtype if dtype != "bool" else "bool", None)
    for values in ([0.0, 1.0, 0.5, -2.0], 1.0, [[]]):
        values = np.abs(values) if dtype.startswith("u") else values
        t = ag.tensor(values, dtype=ag.float32, device=device).to(wanted)
        ag.save(t, path)
        back = ag.load(path, device=device)
        assert back.dtype == t.dtype
        assert back.shape == t.shape
        assert back.device == t.device
        assert back.array.tobytes() == t.array.tobytes()


def test_special_values_keep_their_bits(path):
    bits = np.array([0x7FC00001, 0xFF800000, 0x80000000, 1], dtype=np.uint32)
    ag.save(ag.tensor(bits.view(np.float32)), path)
    assert ag.load(path).numpy().view(np.uint32).tolist() == bits.tolist()


def test_structure_round_trips(path):
    obj = {
        "t": ag.arange(3),
        "list": [1, -2.5, "x", None, True, ag.zeros(1)],
        "tuple": (1, (2.0,), []),
        3: {"deep": {"a.b": ag.ones(1), "a": {"b": ag.zeros(2)}}},
        True: math.inf,
        None: -math.inf,
        "__metadata__": ag.ones(2),
        "": ag.ones(3),
        "big": 2**80,
        "empty": {},
        "text": 'quotes " and ünïcode',
    }
    ag.save(obj, path)
    back = ag.load(path)
    assert list(back) == list(obj)
    assert [type(k) for k in back] == [type(k) for k in obj]
    assert back["t"].tolist() == [0, 1, 2]
    assert back["list"][:5] == obj["list"][:5]
    assert [type(v) for v in back["list"][:5]] == [type(v) for v in obj["list"][:5]]
    assert back["tuple"] == obj["tuple"]
    assert back[3]["deep"]["a.b"].tolist() == [1.0]
    assert back[3]["deep"]["a"]["b"].tolist() == [0.0, 0.0]
    assert (back[True], back[None]) == (math.inf, -math.inf)
    assert back["__metadata__"].tolist() == [1.0, 1.0]
    assert back[""].tolist() == [1.0] * 3
    assert back["big"] == 2**80
    assert back["empty"] == {}
    assert back["text"] == obj["text"]
    ag.save(math.nan, path)
    assert math.isnan(ag.load(path))


def test_requires_grad_and_views_are_saved_by_value(path):
    w = ag.ones(2, 3, requires_grad=True)
    ag.save({"w": w, "t": ag.arange(6).reshape(2, 3).mT}, path)
    back = ag.load(path)
    assert not back["w"].requires_grad
    assert back["t"].tolist() == [[0, 3], [1, 4], [2, 5]]
    with ag.no_grad():
        back["w"].add_(1)
    assert back["w"].tolist() == [[2.0] * 3] * 2


def test_module_and_optimizer_continue_where_they_stopped(path, device):
    def build():
        net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).to(device)
        return net, optim.AdamW(net.parameters(), lr=0.1)

    def step(net, optimizer):
        optimizer.zero_grad()
        loss = (net(ag.ones(2, 3, device=device)) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss.item()

    net, optimizer = build()
    for _ in range(3):
        step(net, optimizer)
    ag.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, path)
    twin, other = build()
    saved = ag.load(path, device=device)
    assert saved["epoch"] == 3
    twin.load_state_dict(saved["net"])
    other.load_state_dict(saved["optimizer"])
    assert other.param_groups[0]["betas"] == (0.9, 0.999)
    assert [step(twin, other) for _ in range(3)] == [step(net, optimizer) for _ in range(3)]


def test_a_state_dict_is_a_plain_file_for_other_tools(path):
    numpy_reader = pytest.importorskip("safetensors.numpy")
    state = nn.Linear(2, 3).state_dict()
    ag.save(state, path)
    back = numpy_reader.load_file(path)
    assert set(back) == {"weight", "bias"}
    assert back["weight"].tolist() == state["weight"].tolist()
    assert list(ag.load(path)) == ["weight", "bias"]  # the order, which safetensors itself does not keep


def test_files_by_other_tools_load(path):
    writer = pytest.importorskip("safetensors.numpy")
    writer.save_file({"a": np.arange(3), "b": np.ones((2, 2), np.float32)}, path, {"made_by": "numpy"})
    back = ag.load(path)
    assert back["a"].tolist() == [0, 1, 2]
    assert back["b"].shape == (2, 2)
    writer.save_file({"c": np.ones(1, np.complex64)}, path)
    with pytest.raises(ValueError, match="dtype C64, which has no counterpart"):
        ag.load(path)


def test_bfloat16_and_float8_agree_with_pytorch(path):
    torch = pytest.importorskip("torch")
    reader = pytest.importorskip("safetensors.torch")
    values = [0.1, -3.0, 100.0]
    dtypes = ["bfloat16", "float8_e4m3fn", "float8_e5m2"]
    ag.save({d: ag.tensor(values).to(getattr(ag, d)) for d in dtypes}, path)
    theirs = reader.load_file(path)
    for d in dtypes:
        assert theirs[d].dtype == getattr(torch, d)
        assert theirs[d].float().tolist() == torch.tensor(values).to(getattr(torch, d)).float().tolist()
    reader.save_file(theirs, path)
    for d, t in ag.load(path).items():
        assert str(t.dtype) == d


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        ({"a": [1, {2}]}, "type set at 'a.1'"),
        (object(), "cannot save an object of type object"),
        ({"x": np.float32(1)}, "type float32 at 'x'"),
        ({"x": {(1, 2): 3}}, "a key of the dict at 'x' is a tuple"),
        (nn.ReLU(), "type ReLU;"),
    ],
)
def test_unsupported_objects(path, obj, message):
    with pytest.raises(TypeError, match=message):
        ag.save(obj, path)
    assert not path.exists()


def test_a_failed_save_leaves_the_old_file(path, monkeypatch):
    ag.save(ag.ones(1), path)

    def fail(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr("safetensors.numpy.save_file", fail)
    with pytest.raises(OSError, match="disk full"):
        ag.save(ag.zeros(1), path)
    assert ag.load(path).tolist() == [1.0]
    assert os.listdir(path.parent) == [path.name]


def test_missing_files_and_directories(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*nothing\.st"):
        ag.load(tmp_path / "nothing.st")
    with pytest.raises(FileNotFoundError, match="there is no directory"):
        ag.save(ag.ones(1), tmp_path / "no" / "file.st")
    assert os.listdir(tmp_path) == []


def test_damaged_files(path):
    ag.save({"a": ag.arange(100), "b": [ag.ones(3)]}, path)
    whole = path.read_bytes()
    header = json.loads(whole[8 : 8 + int.from_bytes(whole[:8], "little")])
    assert "__metadata__" in header
    broken = [b"", b"x", b"\x80\x04pickle of something", whole[:-1], whole[:50], whole + b"z"]
    broken.append(whole.replace(b'"dict', b'"dxct').replace(b'\\"dict', b'\\"dxct'))
    broken.append(whole.replace(b'tensor\\":\\"a', b'tensor\\":\\"z').replace(b'tensor\\": \\"a', b'tensor\\": \\"z'))
    for data in broken:
        assert data != whole
        path.write_bytes(data)
        with pytest.raises(ValueError, match="is damaged"):
            ag.load(path)
