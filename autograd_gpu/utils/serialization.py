"""save and load: nested tensors and numbers in one safetensors file. Nothing in a file is ever executed.

Tensors are stored under dotted paths; those of a flat dict are its keys, so any safetensors reader can use
the file. The structure around them, with the order that safetensors does not keep, is JSON in the file's
metadata:
{"dict": [[key, value], ...]}, [...] for a list, {"tuple": [...]}, {"tensor": name}, {"float": "nan"}, or a
scalar.
"""

from __future__ import annotations

import json
import math
import os
import secrets
from pathlib import Path
from typing import Any

import numpy as np

from ..backend import dtypes
from ..backend.device import Device
from ..core.tensor import Tensor
from ..ops.creation import as_tensor

_STRUCTURE = "autograd_gpu.structure"
_RESERVED = "__metadata__"  # the one name that safetensors keeps for itself
_DTYPES = {
    "F64": dtypes.float64, "F32": dtypes.float32, "F16": dtypes.float16, "BF16": dtypes.bfloat16,
    "F8_E4M3": dtypes.float8_e4m3fn, "F8_E5M2": dtypes.float8_e5m2, "BOOL": dtypes.bool_,
    "I64": dtypes.int64, "I32": dtypes.int32, "I16": dtypes.int16, "I8": dtypes.int8,
    "U64": dtypes.uint64, "U32": dtypes.uint32, "U16": dtypes.uint16, "U8": dtypes.uint8,
}  # fmt: skip


def save(obj: Any, path: str | os.PathLike[str]) -> None:
    """Writes a tensor, or dicts, lists and tuples of tensors, numbers, strings, bools and None, to a file.

    State dicts of modules and of optimizers are such objects. Values and dtypes are kept; devices,
    requires_grad and shared memory are not. The file appears whole or not at all. TypeError for any other
    object, which says where in `obj` it is.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> ag.save(ag.nn.Linear(2, 1).state_dict(), path)
    >>> list(ag.load(path))
    ['weight', 'bias']
    """
    tensors: dict[str, np.ndarray] = {}
    structure = _encode(obj, "", tensors)
    _write(tensors, Path(path), {_STRUCTURE: json.dumps(structure, allow_nan=False)})


def load(path: str | os.PathLike[str], device: str | Device = "cpu") -> Any:
    """Reads what `save` wrote, its tensors on `device`; of a file by another tool, a dict of tensors by name.

    FileNotFoundError if there is no such file, ValueError if it is damaged or no safetensors file.
    """
    device = Device(device)
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {os.fspath(path)!r} to load") from None
    try:
        header, arrays = _parse(data)
        structure = header.get(_STRUCTURE)
        encoded = None if structure is None else json.loads(structure)
    except Exception as error:  # the library raises errors of its own, KeyError, UnicodeDecodeError ...
        raise ValueError(f"{os.fspath(path)!r} is damaged or not a safetensors file: {error}") from error
    tensors = {name: as_tensor(array, device=device) for name, array in arrays.items()}
    if encoded is None:
        return tensors
    try:
        return _decode(encoded, tensors)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{os.fspath(path)!r} is damaged: its structure does not fit its tensors") from error


def _encode(obj: Any, path: str, tensors: dict[str, np.ndarray]) -> Any:
    """The structure of `obj` as JSON; its tensors go into `tensors`."""
    if obj is None or isinstance(obj, (bool, int, str)):
        return obj
    if isinstance(obj, float):
        return float(obj) if math.isfinite(obj) else {"float": repr(float(obj))}
    if isinstance(obj, Tensor):
        name = _unused(path or "tensor", tensors)
        tensors[name] = np.ascontiguousarray(obj.detach().cpu().numpy()).reshape(obj.shape)
        return {"tensor": name}
    if isinstance(obj, dict):
        return {"dict": [[_key(k, path), _encode(v, _join(path, k), tensors)] for k, v in obj.items()]}
    if type(obj) in (list, tuple):
        items = [_encode(value, _join(path, i), tensors) for i, value in enumerate(obj)]
        return items if type(obj) is list else {"tuple": items}
    where = f" at {path!r}" if path else ""
    raise TypeError(
        f"save: cannot save an object of type {type(obj).__name__}{where}; "
        "it may consist of tensors, dicts, lists, tuples, numbers, strings, bools and None"
    )


def _key(key: Any, path: str) -> Any:
    if key is not None and not isinstance(key, (bool, int, str)):
        where = f" of the dict at {path!r}" if path else ""
        raise TypeError(f"save: a key{where} is a {type(key).__name__}; use strings, integers, bools or None")
    return key


def _join(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)


def _unused(name: str, tensors: dict[str, np.ndarray]) -> str:
    """`name`, or where two paths read alike ("a.b" may be one key or two) a variant of it."""
    candidate, n = name, 1
    while candidate in tensors or candidate == _RESERVED:
        n += 1
        candidate = f"{name}#{n}"
    return candidate


def _decode(encoded: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(encoded, list):
        return [_decode(item, tensors) for item in encoded]
    if not isinstance(encoded, dict):
        return encoded
    ((kind, content),) = encoded.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "dict":
        return {key: _decode(value, tensors) for key, value in content}
    if kind == "tuple":
        return tuple([_decode(item, tensors) for item in content])
    if kind == "float":
        return float(content)
    raise ValueError(f"unknown kind {kind!r}")


def _write(tensors: dict[str, np.ndarray], path: Path, metadata: dict[str, str]) -> None:
    """Into a temporary file beside `path`, which then takes its name: a crash leaves the old file."""
    import safetensors.numpy

    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no directory {str(path.parent)!r} to save {path.name!r} in")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        safetensors.numpy.save_file(tensors, temporary, metadata)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _parse(data: bytes) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """The metadata, and the arrays by name in the order of the header."""
    import safetensors

    arrays = {}
    for name, entry in safetensors.deserialize(data):  # validates header, offsets and lengths
        dtype = _DTYPES.get(entry["dtype"])
        if dtype is None:
            raise ValueError(f"tensor {name!r} has dtype {entry['dtype']}, which has no counterpart here")
        arrays[name] = np.frombuffer(entry["data"], dtype).reshape(entry["shape"]).copy()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    return header.pop(_RESERVED, None) or {}, {name: arrays[name] for name in header}
