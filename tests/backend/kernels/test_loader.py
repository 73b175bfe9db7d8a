"""Where kernels are found, how they are compiled and launched, and what is refused; no kernel runs here."""

import ctypes
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from types import SimpleNamespace

import emulated
import formula_functors
import numpy as np
import pytest
from checkout import ROOT

from autograd_gpu.backend import kernels
from autograd_gpu.backend.cuda import runtime
from autograd_gpu.backend.formulas.cuda_code import Functor
from autograd_gpu.backend.kernels import constants, functors, instances, launcher, loader, scalars
from autograd_gpu.backend.kernels.scalars import Scalars
from autograd_gpu.backend.kernels.tiles import MOST_BLOCKS

pytestmark = pytest.mark.cpu
formula_functors.declare()


def test_import_reads_no_kernel_and_no_cupy():
    program = (
        "import sys; opened = []\n"
        "sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == 'open' else None)\n"
        "from autograd_gpu.backend import kernels\n"
        "assert 'cupy' not in sys.modules\n"
        "assert any(name.endswith('.pyc') or name.endswith('.py') for name in opened)\n"
        "assert not [name for name in opened if name.endswith(('.cu', '.cuh'))]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_checkout_reads_its_own_kernels():
    assert kernels.folder() == ROOT / "kernels"


def installed(folder, monkeypatch):
    """As if the package lay in `folder`, which holds no kernels yet."""
    monkeypatch.setattr(loader, "__file__", str(folder / "autograd_gpu" / "backend" / "kernels" / "loader.py"))
    return folder / "autograd_gpu" / "_kernels"


def test_installed_package_reads_the_kernels_inside_it(tmp_path, monkeypatch):
    inside = installed(tmp_path, monkeypatch)
    inside.mkdir(parents=True)
    (tmp_path / "kernels").mkdir()  # somebody else's: not looked at
    assert kernels.folder() == inside


def test_missing_kernels_are_said_to_be_missing(tmp_path, monkeypatch):
    inside = installed(tmp_path, monkeypatch)
    with pytest.raises(FileNotFoundError, match="install autograd_gpu again") as caught:
        kernels.folder()
    assert str(inside) in str(caught.value)


def test_source_has_each_header_once_and_the_lines_of_the_disk(tmp_path, monkeypatch):
    inside = installed(tmp_path, monkeypatch)
    (inside / "include").mkdir(parents=True)
    (inside / "a.cu").write_text('#include "include/b.cuh"\n#include "include/c.cuh"\n#include <cuda_fp16.h>\nint a;\n')
    (inside / "include" / "b.cuh").write_text('#pragma once\n#include "c.cuh"\nint b;\n')
    (inside / "include" / "c.cuh").write_text("#pragma once\nint c;\n")
    assert kernels.source("a.cu").splitlines() == [
        constants.definitions(), '#line 1 "a.cu"', '#line 1 "b.cuh"', "", '#line 1 "c.cuh"', "", "int c;",
        '#line 3 "b.cuh"', "int b;", '#line 2 "a.cu"', "#include <cuda_fp16.h>", "int a;",
    ]  # fmt: skip


def test_functors_of_formulas_take_the_place_of_an_include(tmp_path, monkeypatch):
    """Those that the instances name, each once, with a line of their own for error messages."""
    inside = installed(tmp_path, monkeypatch)
    (inside / "include").mkdir(parents=True)
    (inside / "a.cu").write_text('#include "formulas/elementwise.cuh"\nint a;\n')
    text = "// one\nstruct One {};\n"
    monkeypatch.setattr(instances, "INSTANCES", {})
    for module in (functors, loader):
        monkeypatch.setattr(module, "INSTANCES", instances.INSTANCES)
    for width in (1, 4):
        functors.declare_unit("a.cu", "", [functors.Declared(Functor("One", text), f"one<{width}>", "one", ())])
    assert kernels.source("a.cu", ["one<1>", "one<4>"]).splitlines()[1:] == [
        '#line 1 "a.cu"', '#line 1 "formulas/elementwise.cuh"', "// one", "struct One {};", '#line 2 "a.cu"', "int a;",
    ]  # fmt: skip
    assert "One" not in kernels.source("a.cu")
    with pytest.raises(ValueError, match="one<4> is declared by two formulas; rename an op"):
        functors.declare_unit("a.cu", "", [functors.Declared(Functor("One", "// another"), "one<4>", "one", ())])


def test_constants_stand_on_top_of_every_source_and_nowhere_else(monkeypatch):
    monkeypatch.setattr(constants, "CHUNK", 4096)
    top = kernels.source("foreach.cu").partition("\n")[0]
    numbers = dict(re.findall(r"constexpr int (\w+)(?:\[\])? = ([^;]+);", top))
    assert (numbers["THREADS"], numbers["CHUNK"]) == ("256", "4096")
    assert numbers["NORM_STRIPS"] == "{0, 8, 4, 0, 4, 0, 0, 0, 2}"
    for path in kernels.folder().rglob("*.cu*"):
        assert re.findall(rf"\b(?:{'|'.join(numbers)})(?:\[\])? = ", path.read_text()) == [], path


@pytest.mark.more  # compiles every instance
@pytest.mark.parametrize("file", sorted({instance[0] for instance in kernels.INSTANCES.values()}))
def test_declared_parameters_are_those_of_the_compiler(file):
    module = emulated.compiled(file, "none")
    for name, (home, _, parameters, *_) in kernels.INSTANCES.items():
        if home == file:
            declared = [
                (p.kind, p.dtype.itemsize if p.kind in ("scalar", "struct") else 8, p.dtype in kernels.C_NAMES)
                for p in parameters
            ]
            assert declared == [(p.kind, p.size, p.floating) for p in module.kernels[name].parameters], name


def test_instance_is_declared_once():
    with pytest.raises(ValueError, match=r"column_sum<float, float, 4> is declared twice, by x.cu and column_sum.cu"):
        instances.declare("column_sum<float, float, 4>", "x.cu", "x", ())


# ---- grids -------------------------------------------------------------------------------------------


SIZES = [0, 1, 2, 3, 7, 8, 9, 31, 32, 33, 255, 256, 257, 1000, 65536, 10**7]


@pytest.mark.parametrize("tiles", [kernels.tiles, kernels.sum_tiles])
@pytest.mark.parametrize(("width", "itemsize"), [(4, 4), (8, 2), (2, 8), (1, 4), (1, 2), (1, 8)])
def test_grid_covers_the_matrix_within_cudas_limits(tiles, width, itemsize):
    for rows in SIZES:
        for cols in [width * strips for strips in SIZES]:
            (blocks, parts), (across, down) = tiles(rows, cols, width, itemsize)
            assert across * down == kernels.THREADS
            assert across & (across - 1) == 0
            assert (blocks - 1) * across * width < cols <= blocks * across * width or cols == blocks == 0
            assert parts <= 65535
            assert (parts - 1) * down < max(rows, 1)  # no part without a row
            assert parts >= 1 or (rows == 0 and tiles is kernels.tiles)


@pytest.mark.parametrize(("width", "itemsize"), [(4, 4), (8, 2), (2, 8), (1, 4), (1, 2), (1, 8)])
def test_grid_along_rows_covers_the_matrix_within_cudas_limits(width, itemsize):
    for rows in SIZES:
        for cols in [width * strips for strips in SIZES]:
            (blocks, parts), (across, down) = kernels.row_tiles(rows, cols, width, itemsize)
            assert across * down == kernels.THREADS
            assert across & (across - 1) == 0
            assert (blocks - 1) * down < rows <= blocks * down or rows == blocks == 0
            assert 1 <= parts <= 65535
            assert (parts - 1) * across * width < max(cols, 1)  # no part without a column


def test_small_sums_take_one_stage_and_large_ones_fill_a_gpu():
    assert kernels.sum_tiles(512, 256, 4, 4)[0] == (8, 1)
    blocks, parts = kernels.sum_tiles(10**6, 256, 4, 4)[0]
    assert blocks * parts == MOST_BLOCKS
    assert kernels.sum_tiles(10**6, 256, 4, 4, stages=1)[0] == (8, 1)


# ---- launching ---------------------------------------------------------------------------------------


class Scalar:
    """A CScalar, as far as a launch asks."""

    def __init__(self, value, dtype):
        self.number = np.array(value, dtype)[()]


class Recorder:
    """The part of CuPy that a launch goes through; keeps what is compiled and launched, and how often it was asked."""

    def __init__(self, error=None):
        self.error, self.compiled, self.launched, self.asked = error, [], [], Counter()
        self.cuda = SimpleNamespace(
            runtime=SimpleNamespace(getDevice=lambda: self.ask("device", 0)),
            get_current_stream=lambda: self.ask("stream", None),
            compiler=SimpleNamespace(CompileException=SyntaxError),
            Device=lambda: SimpleNamespace(compute_capability="90"),
        )
        scalar = SimpleNamespace(CScalar=lambda *number: self.ask("CScalar", Scalar(*number)))
        self._core = SimpleNamespace(_scalar=scalar)

    def ask(self, what, answer):
        self.asked[what] += 1
        return answer

    def RawModule(self, **module):
        def get_function(name):
            if self.error is not None:
                raise self.error
            time.sleep(0.01)  # long enough for other threads to come in between
            self.compiled.append((name, module))
            return Kernel(self, name)

        return SimpleNamespace(get_function=get_function)


class Kernel:
    """A RawKernel: what is launched is the Function behind it."""

    def __init__(self, recorder, name):
        self.recorder, self.name = recorder, name

    @property
    def kernel(self):
        return self.recorder.ask("kernel", lambda *launch: self.recorder.launched.append((self.name, *launch)))


@pytest.fixture
def recorder(monkeypatch):
    """Stands for CuPy; nothing is compiled yet."""
    monkeypatch.setattr(loader, "_MODULES", {})
    monkeypatch.setattr(loader, "_LOADED", {})
    monkeypatch.setattr(loader, "SCALARS", {dtype: Scalars(dtype) for dtype in scalars.SCALARS})
    result = Recorder()
    monkeypatch.setattr(runtime, "cupy", lambda: result.ask("cupy", result))
    monkeypatch.setattr(runtime, "current", type(runtime.current)())
    arrays = [instances.Parameter(name, kind, np.dtype("float32"), name == "bias")
              for name, kind in (("x", "read"), ("bias", "read"), ("out", "write"), ("a", "scalar"), ("b", "scalar"))]
    parameters = (*arrays, *instances.SIZE)
    scaled = instances.Instance("column_sum.cu", "scaled", parameters, "scaled", None)
    monkeypatch.setitem(kernels.INSTANCES, SCALED, scaled)
    return result


def array(dtype="float32", contiguous=True, device=0):
    """What a launch asks of an array."""
    data = SimpleNamespace(device_id=device)
    return SimpleNamespace(dtype=np.dtype(dtype), _c_contiguous=contiguous, data=data)


ONE_BLOCK = (1, 1), (1, 256)
SCALED = "scaled<float, 4>"


def test_every_argument_has_the_type_of_its_parameter(recorder):
    x, out = array(), array()
    launcher.launch(SCALED, ONE_BLOCK, x, None, out, 0.5, 1, 3, np.int32(4))
    ((name, grid, block, arguments),) = recorder.launched
    assert (name, grid, block) == (SCALED, *ONE_BLOCK)
    assert arguments[:3] == [x, None, out]
    assert [(type(value.number), value.number) for value in arguments[3:]] == [
        (np.float32, 0.5), (np.float32, 1), (np.int64, 3), (np.int64, 4),
    ]  # fmt: skip


def test_a_launch_asks_for_the_device_and_nothing_else(recorder):
    """Compiled once, and its numbers made once: later launches find them."""
    x, bias, out = array(), array(), array()

    def launch(rows):
        recorder.asked.clear()
        launcher.launch(SCALED, ONE_BLOCK, x, bias, out, 0.5, -0.0, rows, 4)
        return recorder.asked

    first = launch(3)
    assert (first["kernel"], first["CScalar"]) == (1, 5)  # 0.5, both zeros, 3 and 4
    assert launch(3) == {"device": 1}
    assert launch(5)["CScalar"] == 1


def test_zeros_keep_their_sign(recorder):
    result = scalars_of(recorder, 0.0, -0.0, 0, -0.0, 0.0)
    assert np.signbit([scalar.number for scalar in result]).tolist() == [False, True, False, True, False]
    assert result[0] is result[2] is result[4]
    assert result[1] is result[3]


def test_zeros_are_looked_up_like_other_numbers(recorder, monkeypatch):
    """Not by the method for numbers that are not there, which takes three times as long."""
    scalars_of(recorder, 0.0, 1.0)
    monkeypatch.setattr(Scalars, "__missing__", lambda self, value: pytest.fail(f"{value} is not found"))
    assert len(scalars_of(recorder, 0.0, -0.0, 0, False)) == 6


def test_numbers_of_other_types_are_read_in_the_parameters(recorder):
    """NumPy's scalars, a bool, and a 0-d array, which cannot be a key."""
    result = scalars_of(recorder, np.float64(0.1), True, np.array(0.25), 2, np.array(0.25))
    assert [(type(scalar.number), scalar.number) for scalar in result] == [
        (np.float32, np.float32(0.1)), (np.float32, 1), (np.float32, 0.25), (np.float32, 2), (np.float32, 0.25),
    ]  # fmt: skip


def scalars_of(recorder, *values):
    """What launches get for `values` of a float32 parameter."""
    for value in values:
        launcher.launch(SCALED, ONE_BLOCK, array(), None, array(), value, 0, 1, 4)
    return [arguments[3] for _, _, _, arguments in recorder.launched]


def test_few_numbers_are_kept(recorder, monkeypatch):
    """Counters of random numbers never come again."""
    monkeypatch.setattr(scalars, "_MAX_CACHED", 10)
    kept = Scalars(np.dtype("uint64"))
    for value in range(35):
        assert kept[value].number == value
        assert len(kept) <= 10


def test_cupys_scalar_holds_the_parameters_bytes():
    """Of the CuPy that is installed: a launch reads its memory, whose type nothing checks there."""
    scalar = pytest.importorskip("cupy")._core._scalar.CScalar
    for dtype in scalars.SCALARS:
        for value in (0, 1, 7, 2**31 - 1) if dtype.kind != "f" else (0.0, -0.0, 0.1, float("inf"), 3):
            assert ctypes.string_at(scalar(value, dtype).ptr, dtype.itemsize) == dtype.type(value).tobytes()
    with pytest.raises(OverflowError):
        scalar(2**31, np.dtype("int32"))


def test_every_type_of_a_parameter_has_its_numbers():
    passed = {p.dtype for instance in kernels.INSTANCES.values() for p in instance.parameters if p.kind == "scalar"}
    assert passed == scalars.SCALARS.keys()


@pytest.mark.parametrize(
    ("wrong", "error", "text"),
    [
        (array("float64"), TypeError, "scaled: x must be float32, not float64; convert"),
        (array(contiguous=False), ValueError, "scaled: x must be contiguous; copy"),
        (array(device=1), RuntimeError, r"x is on cuda:1, but the current device is cuda:0; .*Device\(1\)"),
    ],
)
def test_array_of_another_kind_is_refused(recorder, wrong, error, text):
    with pytest.raises(error, match=text):
        launcher.launch(SCALED, ONE_BLOCK, wrong, None, array(), 0, 0, 1, 4)
    assert not recorder.launched


def test_wrong_number_of_arguments_is_refused(recorder):
    with pytest.raises(ValueError, match="argument"):
        launcher.launch(SCALED, ONE_BLOCK, array(), None, array(), 1)


@pytest.mark.parametrize("grid", [(0, 1), (1, 0)])
def test_empty_grid_launches_nothing(recorder, grid):
    launcher.launch(SCALED, (grid, (1, 256)), array(), None, array(), 0, 0, 0, 4)
    assert not recorder.compiled


def test_threads_compile_once(recorder):
    def launch():
        launcher.launch("column_sum<float, float, 4>", ONE_BLOCK, array(), array(), None, 1, 4)

    threads = [threading.Thread(target=launch) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(recorder.launched) == 8
    ((_, module),) = recorder.compiled
    assert module == {
        "code": kernels.source("column_sum.cu"),
        "options": kernels.OPTIONS,
        "name_expressions": kernels.instances_of("column_sum.cu", "float, 4"),
    }


@pytest.mark.timeout(20)
def test_a_kernel_may_be_loaded_while_another_one_compiles(recorder, monkeypatch):
    """As by a finalizer that runs in the middle of a compilation, in the same thread."""
    compiled = loader._compiled

    def interrupted(name):
        if name.startswith("column_sum"):
            loader.load("row_sum<float, float, 4>", 0)
        return compiled(name)

    monkeypatch.setattr(loader, "_compiled", interrupted)
    loader.load("column_sum<float, float, 4>", 0)
    assert len(recorder.compiled) == 2


def test_units_are_compiled_apart(recorder):
    """The first gelu of a float compiles three instances, not the whole file, and not those of odd rows."""
    for kernel, types in (("", "float, 4"), ("_backward", "float, 4"), ("", "float, 1"), ("", "__half, 1")):
        loader.load(f"bias_activation{kernel}<Gelu, {types}>", 0)
    first, same, narrow, other = [module["name_expressions"] for _, module in recorder.compiled]
    assert first is same
    for names, types in ((first, "float, 4"), (narrow, "float, 1"), (other, "__half, 1")):
        assert len(names) == 3
        assert all(name.endswith(f"<Gelu, {types}>") for name in names)


def test_a_unit_is_declared_as_a_whole_before_one_of_its_instances_is_compiled(recorder):
    """As an op that is first called now does: an instance that came later would not be in the module."""
    for f, count in ((formula_functors.value_of("mish"), 3), (formula_functors.value_of("sinc"), 1)):
        name = kernels.declare_elementwise(f, np.dtype("float32"), 4)
        loader.load(name, 0)
        (names,) = [module["name_expressions"] for loaded, module in recorder.compiled if loaded == name]
        assert len(names) == count
    for backward in (False, True):
        silu = formula_functors.activation("silu").functor
        name = kernels.declare_activation_jet(silu, np.dtype("float32"), 4, backward)
        loader.load(name, 0)
        assert recorder.compiled[-1][1]["name_expressions"] == (name,)


@pytest.mark.parametrize(("kernel", "instances"), [("softmax", 2), ("layer_norm", 3)])
def test_first_launches_of_rows_in_parts_are_compiled_apart(recorder, kernel, instances):
    """Most programs share no rows, and do not wait for them."""
    for instance in (kernel, f"{kernel}_backward", f"{kernel}_parts", f"{kernel}_backward_parts"):
        loader.load(f"{instance}<float, 4>", 0)
    most, same, first, too = [module["name_expressions"] for _, module in recorder.compiled]
    assert (most is same, first is too, len(most)) == (True, True, instances)
    assert sorted(first) == [f"{kernel}_backward_parts<float, 4>", f"{kernel}_parts<float, 4>"]


def test_instances_of_both_widths_are_never_compiled_together():
    widths = {}
    for name, instance in kernels.INSTANCES.items():
        actual = re.search(r", ([1248])>$", name)
        if actual:
            widths.setdefault((instance.file, instance.unit), set()).add(actual[1])
    assert widths
    assert [unit for unit, actual in widths.items() if len(actual) > 1] == []


def test_compile_error_names_file_architecture_and_log(recorder):
    recorder.error = SyntaxError("column_sum.cu(3): error: no such thing")
    with pytest.raises(RuntimeError, match="no such thing") as caught:
        loader.load("column_sum<float, float, 4>", 0)
    assert str(kernels.folder() / "column_sum.cu") in str(caught.value)
    assert "sm_90" in str(caught.value)


def test_the_emulator_compiles_a_later_formula_by_itself(monkeypatch):
    """With those before it, it would be compiled again for each one that follows, and kept under another name.

    Of each type and width it is compiled in the same object, whichever is asked for first.
    """
    asked = []

    def compile_alone(source, options, names, check):
        asked.append((source, tuple(names)))
        return SimpleNamespace(kernels=dict.fromkeys(names))

    monkeypatch.setattr(emulated, "compile_alone", compile_alone)
    formula_functors.declare()
    names = kernels.instances_of("elementwise.cu")
    later = [name for name in names if "<Gelu, " in name]
    assert len(later) == 2
    for name in later:
        known = emulated.Kernels("elementwise.cu", "none")
        known.declared = tuple([name for name in names if "<Gelu" not in name])
        assert known[name] is known["elementwise<Gelu, float, 1>"] is known[known.declared[0]] is None
    of_gelu, together, *again = asked
    assert set(later) < set(of_gelu[1])
    assert together[1] == known.declared[: emulated.TOGETHER]
    assert again == [of_gelu, together]
