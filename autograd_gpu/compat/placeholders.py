"""Names of PyTorch outside of this library's aims: classes and functions that raise only when they are called.

So imports, annotations, `isinstance` and subclasses work in programs that do not come to such a call. `NAMES` has them
by the dotted path of PyTorch's module; a path that is no module here becomes one (import_paths.py).
"""

from __future__ import annotations

import functools
import re
from typing import Any

from .. import nn
from ..missing_names import PACKAGE, explanation

# "name" is a class if it begins with a capital letter, else a function; "name(base)" is a class below another one of
# the row or of nn.
NAMES: dict[str, str] = {
    "nn.modules.conv": (
        "_ConvNd(Module) Conv1d(_ConvNd) Conv2d(_ConvNd) Conv3d(_ConvNd) _ConvTransposeNd(_ConvNd) "
        "ConvTranspose1d(_ConvTransposeNd) ConvTranspose2d(_ConvTransposeNd) ConvTranspose3d(_ConvTransposeNd) "
        "LazyConv1d(Conv1d) LazyConv2d(Conv2d) LazyConv3d(Conv3d) LazyConvTranspose1d(ConvTranspose1d) "
        "LazyConvTranspose2d(ConvTranspose2d) LazyConvTranspose3d(ConvTranspose3d)"
    ),
    "nn.modules.pooling": (
        "_MaxPoolNd(Module) MaxPool2d(_MaxPoolNd) MaxPool3d(_MaxPoolNd) _MaxUnpoolNd(Module) MaxUnpool1d(_MaxUnpoolNd) "
        "MaxUnpool2d(_MaxUnpoolNd) MaxUnpool3d(_MaxUnpoolNd) _AvgPoolNd(Module) AvgPool2d(_AvgPoolNd) "
        "AvgPool3d(_AvgPoolNd) FractionalMaxPool2d(Module) FractionalMaxPool3d(Module) _LPPoolNd(Module) "
        "LPPool1d(_LPPoolNd) LPPool2d(_LPPoolNd) LPPool3d(_LPPoolNd) _AdaptiveMaxPoolNd(Module) "
        "AdaptiveMaxPool1d(_AdaptiveMaxPoolNd) AdaptiveMaxPool2d(_AdaptiveMaxPoolNd) "
        "AdaptiveMaxPool3d(_AdaptiveMaxPoolNd) _AdaptiveAvgPoolNd(Module) AdaptiveAvgPool2d(_AdaptiveAvgPoolNd) "
        "AdaptiveAvgPool3d(_AdaptiveAvgPoolNd)"
    ),
    "nn.modules.padding": (
        "_ConstantPadNd(Module) ConstantPad1d(_ConstantPadNd) ConstantPad2d(_ConstantPadNd) "
        "ConstantPad3d(_ConstantPadNd) ZeroPad1d(ConstantPad1d) ZeroPad2d(ConstantPad2d) ZeroPad3d(ConstantPad3d) "
        "_CircularPadNd(Module) CircularPad1d(_CircularPadNd) CircularPad2d(_CircularPadNd) "
        "CircularPad3d(_CircularPadNd) _ReflectionPadNd(Module) ReflectionPad1d(_ReflectionPadNd) "
        "ReflectionPad2d(_ReflectionPadNd) ReflectionPad3d(_ReflectionPadNd) _ReplicationPadNd(Module) "
        "ReplicationPad1d(_ReplicationPadNd) ReplicationPad2d(_ReplicationPadNd) ReplicationPad3d(_ReplicationPadNd)"
    ),
    "nn.modules.upsampling": "Upsample(Module) UpsamplingBilinear2d(Upsample) UpsamplingNearest2d(Upsample)",
    "nn.modules.fold": "Fold(Module) Unfold(Module)",
    "nn.modules.channelshuffle": "ChannelShuffle(Module)",
    "nn.modules.normalization": "LocalResponseNorm(Module) CrossMapLRN2d(Module)",
    "nn.modules.loss": "CTCLoss(Module)",
    "": "Future conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d",
    "nn.functional": (
        "adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d "
        "affine_grid avg_pool2d avg_pool3d conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d "
        "ctc_loss fold fractional_max_pool2d fractional_max_pool3d grid_sample interpolate local_response_norm "
        "lp_pool1d lp_pool2d lp_pool3d max_pool2d max_pool3d max_unpool1d max_unpool2d max_unpool3d unfold "
        "upsample upsample_bilinear upsample_nearest"
    ),
    "nn.parallel.parallel_apply": "parallel_apply",
    "nn.parallel.replicate": "replicate",
    "distributed": "Backend Store TCPStore FileStore HashStore",
    "distributed._tensor": "DTensor Replicate Shard",
    "distributed.algorithms._checkpoint": "",
    "distributed.algorithms._checkpoint.checkpoint_wrapper": (
        "CheckpointImpl CheckpointWrapper apply_activation_checkpointing checkpoint_wrapper"
    ),
    "distributed.algorithms.ddp_comm_hooks.powerSGD_hook": "PowerSGDState powerSGD_hook batched_powerSGD_hook",
    "distributed.algorithms.ddp_comm_hooks.post_localSGD_hook": "PostLocalSGDState post_localSGD_hook",
    "distributed.algorithms.ddp_comm_hooks.quantization_hooks": (
        "quantization_pertensor_hook quantization_perchannel_hook"
    ),
    "distributed.algorithms.model_averaging": "",
    "distributed.algorithms.model_averaging.averagers": "ModelAverager PeriodicModelAverager",
    "distributed.checkpoint": "FileSystemReader FileSystemWriter load save",
    "distributed.checkpoint.state_dict": "get_model_state_dict get_state_dict set_model_state_dict set_state_dict",
    "distributed.device_mesh": "DeviceMesh init_device_mesh",
    "distributed.fsdp": "FullyShardedDataParallel(Module) MixedPrecision ShardingStrategy CPUOffload fully_shard",
    "distributed.fsdp.fully_sharded_data_parallel": (
        "BackwardPrefetch CPUOffload FullStateDictConfig FullyShardedDataParallel(Module) MixedPrecision "
        "ShardingStrategy StateDictType"
    ),
    "distributed.fsdp.wrap": "enable_wrap size_based_auto_wrap_policy transformer_auto_wrap_policy wrap",
    "distributed.launch": "main",
    "distributed.optim": "DistributedOptimizer",
    "distributed.rpc": "RRef init_rpc rpc_async rpc_sync remote shutdown",
    "distributed.run": "main",
    "distributed.tensor": "DTensor Partial Placement Replicate Shard distribute_module distribute_tensor",
    "distributed.tensor.parallel": (
        "ColwiseParallel PrepareModuleInput RowwiseParallel SequenceParallel loss_parallel parallelize_module"
    ),
    "distributed.utils": "",
    "export": "ExportedProgram Dim export load save",
    "fft": (
        "fft ifft rfft irfft hfft ihfft fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn fftfreq rfftfreq fftshift "
        "ifftshift"
    ),
    "fx": "Graph GraphModule(Module) Interpreter Node Proxy Tracer Transformer replace_pattern symbolic_trace",
    "fx.experimental": "",
    "fx.experimental.proxy_tensor": "ProxyTorchDispatchMode get_proxy_mode make_fx",
    "fx.graph": "Graph CodeGen",
    "fx.graph_module": "GraphModule(Module)",
    "fx.node": "Node map_arg",
    "fx.passes": "",
    "fx.proxy": "Proxy",
    "hub": "get_dir list load load_state_dict_from_url set_dir",
    "jit": "ScriptFunction ScriptModule(Module) RecursiveScriptModule(ScriptModule) fork load save wait",
    "onnx": "ONNXProgram export",
    "optim": "SparseAdam",
    "sparse": "addmm log_softmax mm softmax spdiags sum",
    "utils.cpp_extension": "BuildExtension CppExtension CUDAExtension include_paths load load_inline",
    "utils.model_zoo": "load_url",
    "utils.mobile_optimizer": "optimize_for_mobile",
}


def _refuse(path: str, name: str) -> Any:
    shown = f"nn.{name}" if path.startswith("nn.modules.") else f"{path}.{name}".lstrip(".")
    why = explanation(shown) or explanation(path)
    raise NotImplementedError(f"{shown} is a name only, for imports and isinstance; it cannot be called: {why}")


def _placeholder(path: str, name: str, base: type | None) -> Any:
    """The class or function of that name."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        _refuse(path, name)

    if base is None and not name.lstrip("_")[0].isupper():
        refuse.__name__ = refuse.__qualname__ = name
        refuse.__module__, refuse.__doc__ = f"{PACKAGE}.{path}".rstrip("."), "Not here: raises NotImplementedError."
        return refuse
    body = {"__init__": refuse, "__class_getitem__": classmethod(lambda cls, item: cls),  # Future[int] in annotations
            "__module__": f"{PACKAGE}.{path}", "__doc__": "Not here: cannot be constructed."}  # fmt: skip
    return type(name, (base or object,), body)


@functools.cache
def of(path: str) -> dict[str, Any]:
    """The placeholders of the module `path` of PyTorch, by name."""
    made: dict[str, Any] = {}
    for name, base in re.findall(r"(\w+)(?:\((\w+)\))?", NAMES.get(path, "")):
        made[name] = _placeholder(path, name, (made.get(base) or getattr(nn, base)) if base else None)
    return made


def find(path: str, name: str) -> Any:
    """The placeholder `name` of the module `path`, None if there is none; `nn` has those of the modules below it."""
    below = [p for p in NAMES if p.startswith("nn.modules.")] if path in ("nn", "nn.modules") else [path]
    return next((of(p)[name] for p in below if name in of(p)), None)
