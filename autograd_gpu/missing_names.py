"""PyTorch's names that are not here on purpose: why, and what to use instead, in the text of the AttributeError.

`REASONS` says it by patterns of dotted names below the package. The `__getattr__` of public modules raises
`MissingName`, and so do, for methods, the descriptors `MissingMethod` that ops/binding.py puts on Tensor: a class's
`__getattr__` would make each attribute of a tensor slower to read. hasattr is False in both cases.
"""

from __future__ import annotations

import difflib
import fnmatch
import importlib
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from .errors import warn_user

PACKAGE = __name__.rpartition(".")[0]

# (why, and what to use instead; patterns of names)
REASONS: tuple[tuple[str, str], ...] = (
    ("convolutions are not aimed at; use PyTorch for them, or Tensor.unfold and a matrix product for a small one",
     "conv* nn.*Conv* nn.functional.conv* nn.Fold nn.Unfold nn.functional.fold nn.functional.unfold "),
    ("layers for images are not aimed at; use PyTorch for them, or a reshape and mean, amax or nn.functional.pad",
     "*Pool[23]d *pool[23]d nn.*Unpool?d nn.functional.max_unpool1d nn.LPPool1d nn.functional.lp_pool1d "
     "nn.AdaptiveMaxPool1d nn.functional.adaptive_max_pool1d nn.Upsampl* nn.functional.upsample* "
     "nn.functional.interpolate nn.functional.grid_sample nn.functional.affine_grid nn.LocalResponseNorm "
     "nn.functional.local_response_norm "
     "nn.CrossMapLRN2d nn.ChannelShuffle nn._*PoolNd nn.FractionalMaxPool?d"),
    ("padding layers are not here; call nn.functional.pad in forward", "nn.*Pad?d"),
    ("there are no complex dtypes; keep real and imaginary parts as two tensors",
     "complex complex32 chalf view_as_complex view_as_real polar imag angle resolve_conj resolve_neg "
     "Tensor.imag Tensor.cfloat Tensor.cdouble Tensor.angle Tensor.is_conj Tensor.resolve_conj Tensor.resolve_neg"),
    ("Fourier transforms are not here; multiply by matrices of cosines and sines, which is differentiable, or use "
     "numpy.fft on x.numpy()",
     "fft stft istft *_window Tensor.stft Tensor.istft"),
    ("there are no sparse tensors; use index_select and index_add, or a dense tensor",
     "sparse sparse.* sparse_*_tensor sparse_bs* hspmm hsmm dsmm smm sspaddmm Tensor.to_sparse Tensor.coalesce "
     "Tensor.is_coalesced Tensor.indices Tensor.sparse_* Tensor.dense_dim optim.SparseAdam nn.modules.sparse_*"),
    ("programs are not exported or saved; call the function itself or ag.compile it, and save a state_dict by ag.save",
     "jit.* fx fx.* export export.* onnx onnx.* _dynamo _inductor package cond while_loop compiler.*"),
    ("models are not downloaded; ag.load reads PyTorch's state dicts from a file",
     "hub hub.* utils.model_zoo"),
    ("MPI brings the processes together: start the program by mpiexec -n N python script.py, leave store and "
     "init_method out, and send objects by distributed.broadcast_object_list",
     "distributed.*Store distributed.*rendezvous* distributed.run* distributed.launch* distributed.elastic*"),
    ("rank 0 saves a state_dict by ag.save, and all ranks load it by ag.load", "distributed.checkpoint*"),
    ("distributed.algorithms.ddp_comm_hooks.default_hooks has fp16_compress_hook, bf16_compress_hook and "
     "fp8_compress_hook, which send fewer bytes; no_sync() has fewer reductions",
     "distributed.algorithms.ddp_comm_hooks.* distributed.algorithms.model_averaging*"),
    ("a mesh is made of groups: distributed.new_group, split_group and new_subgroups",
     "distributed.device_mesh* distributed.DeviceMesh distributed.init_device_mesh"),
    ("use the collective on one flat tensor", "distributed.*_coalesced"),
    ("models are not split over processes; ag.nn.parallel.DistributedDataParallel has a whole one in each",
     "distributed.* nn.parallel* cuda.comm cuda.nccl"),
    ("processes share no memory of tensors; ag.distributed sends them, and multiprocessing copies them",
     "Tensor.share_memory_ Tensor.is_shared"),
    ("quantized arithmetic is not aimed at; ag.hooks.quantize stores saved tensors in fewer bits",
     "ao quantization quantize_* dequantize qint* quint* nn.quantized nn.qat nn.intrinsic Tensor.is_quantized "
     "Tensor.dequantize Tensor.q_* Tensor.int_repr"),
    ("nested, masked and named tensors are not here; pad, and multiply by a mask",
     "nested nested.* masked masked.* Tensor.names Tensor.rename Tensor.align_to Tensor.refine_names"),
    ("a tensor's memory is the NumPy or CuPy array x.array; untyped_storage() only says where it lies",
     "[A-SV-Z]*Storage storage is_storage Tensor.set_ Tensor.is_set_to"),
    ("every tensor is strided and dense", "Tensor.to_mkldnn"),
    ("Python functions of single elements are slow; use operations on the whole tensor",
     "Tensor.apply_ Tensor.map_ Tensor.map2_"),
    ("operations on a subclass of Tensor give plain tensors; hold the tensor in an object of your own",
     "overrides overrides.* Tensor.as_subclass"),
    ("there are no meta, MPS or XPU devices; a device is \"cpu\" or \"cuda\"",
     "mps xpu mtia"),
    ("extensions in C++ are not here; write an ag.autograd.Function over NumPy or CuPy", "utils.cpp_extension _C.*"),
    ("ag.profiler.profile records events, a Chrome trace and live bytes; it has no other observers",
     "profiler.* autograd.profiler.*"),
    ("it has moved to ag.linalg", "symeig eig lstsq solve matrix_rank geqrf orgqr ormqr"),
    ("use arange, whose end is excluded", "range"),
    ("ag.random.default_generator(device) returns it", "default_generator cuda.default_generators"),
    ("ag.from_dlpack takes another library's tensor itself, and other libraries take ours", "to_dlpack utils.dlpack*"),
    ("connectionist temporal classification is not aimed at", "ctc_loss nn.CTCLoss nn.functional.ctc_loss"),
)

# Methods and properties of PyTorch's tensors that REASONS explains.
TENSOR_NAMES = [
    pattern.removeprefix("Tensor.") for _, patterns in REASONS for pattern in patterns.split()
    if pattern.startswith("Tensor.") and "*" not in pattern
]  # fmt: skip


def explanation(dotted: str) -> str | None:
    """Why the name, "nn.Conv2d" or "Tensor.imag", is not here and what to use instead; None where nothing is known."""
    for text, patterns in REASONS:
        if any(fnmatch.fnmatchcase(dotted, pattern) for pattern in patterns.split()):
            return text
    return None


class MissingName(AttributeError):
    """The AttributeError for a name that `owner` does not have; its text is made when it is read."""

    def __init__(self, owner: str, name: str) -> None:
        super().__init__(owner, name, name=name)

    def __str__(self) -> str:
        owner, name = self.args
        below = owner.removeprefix(PACKAGE).removeprefix(".")
        if below == "Tensor":
            beginning = f"'Tensor' object has no attribute '{name}'"
        else:
            beginning = f"module '{owner}' has no attribute '{name}'"
        why = explanation(f"{below}.{name}" if below else name)
        if why is not None:
            return f"{beginning}: {why}"
        known = [other for other in dir(sys.modules.get(owner)) if not other.startswith("_")]
        near = [other for other in known if other.lower() == name.lower()]
        near += difflib.get_close_matches(name, known, 1, 0.65)
        return f"{beginning}. Did you mean: '{near[0]}'?" if near else beginning


def getattr_of(module: str, /, **later: str) -> Callable[[str], Any]:
    """A `__getattr__` for the module of that name: imports the names in `later`, and raises MissingName for others.

    `later` says for each name in which submodule it is; "" for a name that is a submodule itself. Modules and
    placeholders of `compat` are found as well.
    """
    path = module.removeprefix(PACKAGE).removeprefix(".").removeprefix("compat.")

    def __getattr__(name: str) -> Any:
        if name not in later:
            compat = None if name.startswith("__") else importlib.import_module(f"{PACKAGE}.compat.import_paths")
            value = compat and compat.lookup(path, name)
            if value is None:
                raise MissingName(f"{PACKAGE}.{path}" if path else PACKAGE, name)
            return value
        home = later[name]
        value = importlib.import_module(f"{module}.{home or name}")
        return getattr(value, name) if home else value

    return __getattr__


class MissingMethod:
    """In the place of a method that Tensor does not have: reading it raises MissingName."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise MissingName("Tensor", self.name)


_WARNED: set[str] = set()


def warn_once(subject: str, text: str) -> None:
    """A UserWarning about `subject` at its first use in the process."""
    if subject not in _WARNED:
        _WARNED.add(subject)
        warn_user(text)
