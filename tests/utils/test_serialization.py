"""save and load: every dtype and structure, files for and from other tools, atomic writes, errors."""

import argparse
import io
import json
import math
import mmap
import os
import pickle
import stat
import threading
import tracemalloc
from collections import OrderedDict

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
    to_dtype = getattr(ag, dtype if dtype != "bool" else "bool", None)
    for values in ([0.0, 1.0, 0.5, -2.0], 1.0, [[]]):
        values = np.abs(values) if dtype.startswith("u") else values
        t = ag.tensor(values, dtype=ag.float32, device=device).to(to_dtype)
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
        ({"x": np.complex64(1)}, "type complex64 at 'x'"),
        ({"x": {(1, 2): 3}}, "a key of the dict at 'x' is a tuple"),
        ({"x": [np.zeros(1, complex)]}, "can't convert an array of dtype complex128.* at 'x.0'"),
    ],
)
def test_unsupported_objects(path, obj, message):
    with pytest.raises(TypeError, match=message):
        ag.save(obj, path)
    assert not path.exists()


def test_whole_modules_are_pickles_which_load_refuses_by_default(path):
    net = nn.Linear(2, 1)
    saved = {"net": net, "optimizer": optim.Adam(net.parameters()), "args": argparse.Namespace(lr=0.1)}
    ag.save(saved, path, pickle_protocol=4, _use_new_zipfile_serialization=False)
    with pytest.raises(pickle.UnpicklingError, match="pass weights_only=False; else get a file"):
        ag.load(path)
    loaded = ag.load(path, weights_only=False)
    assert loaded["net"].weight.tolist() == net.weight.tolist()
    assert loaded["optimizer"].param_groups[0]["params"][0] is loaded["net"].weight
    assert loaded["args"].lr == 0.1
    ag.save(net, path)
    assert ag.load(path, "cpu", weights_only=False).bias.tolist() == net.bias.tolist()


def test_an_ordered_dict_stays_one(path):
    ag.save(OrderedDict(b=ag.ones(1), a={"c": 1}), path)
    loaded = ag.load(path)
    assert (type(loaded), list(loaded), type(loaded["a"])) == (OrderedDict, ["b", "a"], dict)


def test_a_state_dict_keeps_its_class_and_its_versions(path):
    class Versioned(ag.nn.Linear):
        _version = 3

    state = ag.nn.Sequential(Versioned(2, 1)).state_dict()
    ag.save({"model": state}, path)
    loaded = ag.load(path)["model"]
    assert type(loaded) is type(state) is OrderedDict
    assert list(loaded) == list(state)
    assert loaded._metadata == state._metadata == {"": {"version": 1}, "0": {"version": 3}}


def test_a_failed_save_leaves_the_old_file(path, monkeypatch):
    ag.save(ag.ones(1), path)

    def fail(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        ag.save(ag.zeros(1), path)
    assert ag.load(path).tolist() == [1.0]
    assert os.listdir(path.parent) == [path.name]


def test_a_new_file_is_not_waited_for(path, monkeypatch):
    """Nothing is replaced, so nothing can be lost: hooks save many tensors."""
    monkeypatch.delattr(os, "fsync")
    ag.save(ag.ones(1), path)
    assert ag.load(path).tolist() == [1.0]


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


# ---- files -------------------------------------------------------------------------------------


class Stream(io.BytesIO):
    """A file that hands out a few bytes at a time."""

    def readinto(self, buffer):
        return super().readinto(memoryview(buffer)[:7])


@pytest.mark.parametrize("kind", [io.BytesIO, Stream])
def test_a_file_object_in_place_of_a_path(kind):
    obj = {"a": ag.arange(100), "b": [1.5, ag.ones(2, 3)], "empty": ag.zeros(0, 2)}
    file = kind()
    file.write(b"before")
    ag.save(obj, file)
    file.seek(6)
    back = ag.load(file)
    assert back["a"].tolist() == list(range(100))
    assert back["b"][1].shape == (2, 3)
    assert back["empty"].shape == (0, 2)
    with pytest.raises(RuntimeError, match="mmap=True needs the path"):
        ag.load(file, mmap=True)
    with pytest.raises(TypeError, match="in binary mode that can seek, not StringIO"):
        ag.load(io.StringIO("x"))


def test_safetensors_reads_every_kind_of_entry(path):
    reader = pytest.importorskip("safetensors.numpy")
    arrays = {"b": np.ones(3, np.float32), "a": np.eye(2), "c": np.arange(3, dtype=np.int8), "A": np.zeros((0, 2))}
    ag.save({name: ag.as_tensor(array, device="cpu") for name, array in arrays.items()}, path)
    back = reader.load(path.read_bytes())
    assert {name: array.tolist() for name, array in back.items()} == {n: a.tolist() for n, a in arrays.items()}
    assert all(array.dtype == arrays[name].dtype for name, array in back.items())


def test_arrays_come_back_as_arrays(path, device):
    mine = ag.full((2,), 3.0, device=device).array
    obj = {"a": np.arange(3.0)[::-1], "row": np.arange(2).view(np.recarray), "mine": mine, "number": np.float32(0.5)}
    ag.save(obj, path)
    back = ag.load(path, device=device)
    assert type(back["a"]) is np.ndarray
    assert back["a"].tolist() == [2, 1, 0]
    assert back["row"].tolist() == [0, 1]
    assert type(back["mine"]) is type(mine)
    assert back["mine"].tolist() == [3, 3]
    assert back["number"] == 0.5
    assert type(ag.load(path)["mine"]) is np.ndarray
    with pytest.raises(ValueError, match=r"save: a masked array .* at 'x'"):
        ag.save({"x": np.ma.array([1.0], mask=[True])}, path)


def test_pytorchs_keywords(path, device):
    ag.save(ag.ones(2), path)
    for weights_only in (True, False):
        assert ag.load(path, map_location=device, weights_only=weights_only).device.type == device
        assert ag.load(path, map_location={"cpu": device}, weights_only=weights_only).device.type == device
        assert ag.load(path, map_location={"cuda:0": "cuda:1"}, weights_only=weights_only).device.type == "cpu"
    assert ag.load(path, device).device.type == device
    with pytest.raises(TypeError, match="two names of one argument"):
        ag.load(path, device, device="cpu")


@pytest.mark.cpu
def test_a_mapped_file(path):
    ag.save({"w": ag.arange(10.0), "x": ag.ones(3, dtype=ag.int8), "y": ag.zeros(0)}, path)
    before = path.read_bytes()
    state = ag.load(path, mmap=True)
    assert type(owner(state["w"].array)) is mmap.mmap
    state["w"].mul_(2)
    assert state["w"].tolist() == [2.0 * i for i in range(10)]
    assert (state["x"].tolist(), state["y"].shape) == ([1, 1, 1], (0,))
    assert path.read_bytes() == before
    ag.save(ag.zeros(1), path)
    assert state["x"].tolist() == [1, 1, 1]


def owner(array):
    while isinstance(array, (np.ndarray, memoryview)):
        array = array.base if isinstance(array, np.ndarray) else array.obj
    return array


@pytest.mark.cpu
def test_loading_takes_the_files_own_size(path):
    """Measured by what Python's allocators hand out."""
    ag.save({f"w{i}": ag.ones(2**18) for i in range(8)}, path)
    tracemalloc.start()
    try:
        state = ag.load(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(state) == 8
    assert peak < 1.1 * path.stat().st_size


@pytest.mark.cpu
@pytest.mark.skipif(os.name != "posix", reason="modes and links of POSIX")
def test_a_file_has_the_mode_that_the_umask_leaves_and_keeps_its_own(path):
    before = os.umask(0o027)
    try:
        ag.save(ag.ones(1), path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o604)
        ag.save(ag.zeros(1), path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o604
    finally:
        os.umask(before)


@pytest.mark.cpu
@pytest.mark.skipif(os.name != "posix", reason="links of POSIX")
def test_a_symbolic_link_stays_one(tmp_path):
    (tmp_path / "far").mkdir()
    target, link = tmp_path / "far" / "v1", tmp_path / "latest"
    link.symlink_to(target)
    for values in ([1.0], [2.0]):  # at first there is no target
        ag.save(ag.tensor(values), link)
        assert link.is_symlink()
        assert ag.load(target).tolist() == values
    assert os.listdir(target.parent) == ["v1"]


@pytest.mark.cpu
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of POSIX")
def test_a_pipe_is_written_to(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    seen = []
    reader = threading.Thread(target=lambda: seen.append(pipe.read_bytes()))
    reader.start()
    ag.save(ag.ones(2), pipe)
    reader.join()
    assert ag.load(io.BytesIO(seen[0])).tolist() == [1, 1]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_headers_that_lie(path):
    def file(entries, data=b"\0" * 8):
        header = json.dumps(entries).encode()
        return len(header).to_bytes(8, "little") + header + data

    good = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    path.write_bytes(file({"a": good}))
    assert ag.load(path)["a"].tolist() == [0, 0]
    for entries in (
        {"a": good | {"shape": [3]}}, {"a": good | {"data_offsets": [0, 4]}}, {"a": good | {"data_offsets": [8, 0]}},
        {"a": good | {"shape": [-1, -2]}}, {"a": good | {"shape": [2.0]}}, {"a": good, "b": good}, {"a": 3}, [good], {},
        {"a": good | {"data_offsets": [0]}}, {"a": {"dtype": "F32"}}, {"a": good | {"shape": [True, 2]}},
    ):  # fmt: skip
        path.write_bytes(file(entries))
        with pytest.raises(ValueError, match="is damaged or not a safetensors file"):
            ag.load(path)
