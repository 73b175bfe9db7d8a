"""PyTorch's import paths lead to our layers; each module of nn.modules shows what PyTorch's of that name does."""

import importlib
import inspect
import subprocess
import sys

import pytest

import autograd_gpu as ag

pytestmark = pytest.mark.cpu
PATHS = [name for name in dir(ag.nn.modules) if name[0].islower()]


@pytest.mark.parametrize("name", PATHS)
def test_modules_by_import_and_by_attribute(name):
    module = importlib.import_module(f"autograd_gpu.nn.modules.{name}")
    assert getattr(ag.nn.modules, name) is module
    theirs = importlib.import_module(pytest.importorskip("torch").__name__ + f".nn.modules.{name}")
    shown = [n for n, value in vars(module).items() if n[:1] != "_" and inspect.isclass(value)]
    assert shown or name == "utils"
    for n in getattr(module, "__all__", ()):
        assert hasattr(theirs, n), n
        assert getattr(module, n) is getattr(ag.nn, n, getattr(module, n))


def test_every_layer_is_in_pytorchs_module():
    torch = pytest.importorskip("torch")
    for name in ag.nn.modules.__all__:
        path = getattr(torch.nn, name).__module__.rpartition(".")
        if path[0] == "torch.nn.modules" and path[2] in PATHS:
            module = importlib.import_module(f"autograd_gpu.nn.modules.{path[2]}")
            assert getattr(module, name) is getattr(ag.nn, name) is getattr(ag.nn.modules, name)


def test_base_classes():
    loss, batchnorm = ag.nn.modules.loss, ag.nn.modules.batchnorm
    assert isinstance(ag.nn.MSELoss(), loss._Loss)
    assert isinstance(ag.nn.CrossEntropyLoss(), loss._WeightedLoss)
    assert not isinstance(ag.nn.MSELoss(), loss._WeightedLoss)
    assert isinstance(ag.nn.BatchNorm2d(2), batchnorm._BatchNorm)
    assert isinstance(ag.nn.BatchNorm1d(2), batchnorm._NormBase)
    assert isinstance(ag.nn.InstanceNorm1d(2), ag.nn.modules.instancenorm._InstanceNorm)
    assert not isinstance(ag.nn.InstanceNorm1d(2), batchnorm._BatchNorm)
    assert isinstance(ag.nn.Dropout(), ag.nn.modules.dropout._DropoutNd)


@pytest.mark.filterwarnings("ignore:size_average and reduce")
@pytest.mark.parametrize("args", [(), (None, None, "sum"), (False,), (True, False)])
def test_losses_of_users_take_pytorchs_arguments(args):
    torch = pytest.importorskip("torch")
    for cls in ("_Loss", "_WeightedLoss"):
        made = []
        for m in (torch, ag):

            class Mine(getattr(m.nn.modules.loss, cls)):
                def __init__(self, *arguments):
                    super().__init__(*arguments)

            made.append(Mine(*args) if cls == "_Loss" else Mine(None, *args))
        assert made[0].reduction == made[1].reduction


@pytest.mark.filterwarnings("ignore:size_average and reduce")
def test_losses_take_their_old_arguments_in_pytorchs_places():
    torch = pytest.importorskip("torch")
    for m in (torch, ag):
        assert m.nn.CrossEntropyLoss(None, False, 3).reduction == "sum"
        assert m.nn.CrossEntropyLoss(None, None, 3).ignore_index == 3
        assert m.nn.NLLLoss(None, True, -1, False).reduction == "none"
        assert m.nn.SmoothL1Loss(None, None, "sum", 2.0).beta == 2.0
        assert m.nn.KLDivLoss(None, None, "batchmean").reduction == "batchmean"
        assert m.nn.MarginRankingLoss(0.5, False).reduction == "sum"
        assert m.nn.PoissonNLLLoss(True, False, None, 1e-3).eps == 1e-3
        assert m.nn.TripletMarginLoss(1.0, 2.0, 1e-6, False, False).reduction == "sum"


def test_tuples():
    torch = pytest.importorskip("torch")
    for name in ("_single", "_pair", "_triple", "_quadruple"):
        for value in (3, (1, 2), [1, 2, 3], 2.5, "ab"):
            assert getattr(ag.nn.modules.utils, name)(value) == getattr(torch.nn.modules.utils, name)(value)
    assert ag.nn.modules.utils._ntuple(5)(1) == (1,) * 5


def test_names_in_optim_and_utils():
    from autograd_gpu.nn.utils.convert_parameters import parameters_to_vector
    from autograd_gpu.optim.adamw import AdamW
    from autograd_gpu.optim.lr_scheduler import LRScheduler, _LRScheduler
    from autograd_gpu.optim.optimizer import Optimizer, required

    assert parameters_to_vector is ag.nn.utils.parameters_to_vector
    assert (AdamW, _LRScheduler) == (ag.optim.AdamW, LRScheduler)

    class Mine(Optimizer):
        def __init__(self, params, lr=required):
            super().__init__(params, {"lr": lr})

    assert repr(required) == "<required parameter>"
    with pytest.raises(ValueError, match="didn't specify a value of required optimization parameter lr"):
        Mine([ag.ones(1, requires_grad=True)])
    assert Mine([{"params": [ag.ones(1, requires_grad=True)], "lr": 2.0}]).param_groups[0]["lr"] == 2.0


def test_imported_at_first_use_only():
    code = ("import sys, autograd_gpu as ag; print([n for n in sys.modules if n.startswith(('autograd_gpu.nn.modules', "
            "'autograd_gpu.amp', 'autograd_gpu.jit', 'autograd_gpu.nn.utils.prune'))]); "
            "print(ag.nn.modules.loss._Loss.__name__, ag.nn.utils.prune.identity.__name__)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "Loss identity"]


def test_initializers_by_their_old_names():
    torch = pytest.importorskip("torch")
    for name in ("uniform", "normal", "constant", "eye", "xavier_uniform", "xavier_normal", "kaiming_uniform",
                 "kaiming_normal", "orthogonal", "sparse"):  # fmt: skip
        args = {"constant": (3.0,), "sparse": (0.5,)}.get(name, ())
        for m in (torch, ag):
            w = m.empty(3, 3)
            with pytest.warns(FutureWarning, match=f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`"):
                assert getattr(m.nn.init, name)(w, *args) is w
    with pytest.warns(FutureWarning, match="clip_grad_norm_"):
        assert ag.nn.utils.clip_grad_norm([ag.nn.Parameter(ag.ones(1))], 1.0).item() == 0
