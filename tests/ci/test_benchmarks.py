"""The workloads run at tiny size, write what they document, and count what they claim."""

import contextlib
import gc
import json
import re
from collections import Counter

import numpy as np
import pytest
from one_thread import one_thread

import autograd_gpu as ag
from autograd_gpu.backend.cpu import blas, pool
from benchmarks import (
    common,
    compile_time,
    counting,
    foreach,
    formulas,
    headline_picture,
    headline_tables,
    hessian,
    hessian_calls,
    host_steps,
    host_time,
    kernel_tables,
    kernels,
    library_tables,
    models,
    op_calls,
    ops,
    optimizer_step,
    peers,
    pinn,
    programs,
    saved_memory,
    small_graph,
    tables,
    timing,
    train_mlp,
    transforms,
    unrolled,
)
from benchmarks.graphed import NEED_CUDA, results_of
from benchmarks.hessian_calls import METHODS
from benchmarks.replayed import absent_on
from benchmarks.report import (
    COMPILED,
    GRAPH,
    LOOP,
    NUMPY_CODE,
    OURS,
    REPLAY,
    REPLAYED_LOOP,
    REPLAYED_NUMPY,
    REPLAYS,
    Report,
)

pytestmark = pytest.mark.cpu

MODULES = (small_graph, unrolled, transforms, hessian, train_mlp, pinn, compile_time, optimizer_step, foreach,
           saved_memory, programs, kernels, ops, formulas, host_time)  # fmt: skip
WORKLOADS = {module.NAME: module for module in MODULES}
TOP = {
    "schema", "benchmark", "title", "device", "config", "environment", "absent", "planned", "failed", "cases",
    "summary", "series",
}  # fmt: skip
CONTENDER = {"median_s", "min_s", "samples_s", "calls_per_sample", "ratio", "ratio_min", "counts"}


@pytest.fixture(scope="module", autouse=True)
def _on_one_thread():
    with one_thread():
        yield


@pytest.fixture(scope="module")
def results(device, tmp_path_factory):
    """The JSON of each workload, run once at tiny size beside PyTorch where that is installed."""
    folder = tmp_path_factory.mktemp("results")
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        for module in (timing, unrolled, programs):  # thousands of collections of all that pytest holds
            patch.setattr(module, "settle", lambda pause_s: None)
            patch.setattr(module, "garbage_collector", lambda enabled=True: contextlib.nullcontext())
        patch.setattr(host_steps, "STEPS", dict([*host_steps.STEPS.items()][:2]))  # test_host_time.py has all
        for name, module in WORKLOADS.items():
            path = folder / f"{device}-{name}.json"
            words = ["--tiny", "--repeats", str(common.MIN_REPEATS), "--device", device, "--peers", "torch"]
            module.main([*words, "--json", str(path)])
            found[name] = json.loads(path.read_text())
    return found


@pytest.mark.more
@pytest.mark.parametrize("name", WORKLOADS)
def test_json_has_the_documented_fields(results, name):
    result = results[name]
    assert set(result) == TOP
    assert result["benchmark"] == name
    assert result["config"]["tiny"] is True
    assert {"date", "commit", "device", "cpu", "cores", "python", "versions", "threads"} <= set(
        result["environment"]
    )
    assert result["cases"]
    assert [case["case"] for case in result["cases"]] == result["planned"]
    assert not result["failed"]
    for case in result["cases"]:
        assert next(iter(case["contenders"])) == OURS
        assert case["contenders"][OURS]["ratio"] == 1
        for contender in case["contenders"].values():
            assert set(contender) == CONTENDER
            assert len(contender["samples_s"]) == case["repeats"] >= common.MIN_REPEATS
            assert 0 < contender["min_s"] <= contender["median_s"]
        measured = set(case["contenders"]) | set(result["absent"])  # or said to be absent
        if "disk" in case["case"]:  # of machine code, which nobody else has
            assert measured == {OURS}
            continue
        assert measured - {LOOP, NUMPY_CODE, *REPLAYS, *METHODS, *NEED_CUDA} == {OURS, "torch"}


# label -> products of ours, by "auto" and the other methods, and of PyTorch's loop
HESSIANS = {
    "Tanh, Hessian": ({OURS: 30, "push": 30, "pull": 30, "nested": 60, LOOP: 80}, 80),
    "Tanh, Hessian with backward": ({OURS: 90, "push": 90, "pull": 90, "nested": 180, LOOP: 240}, 240),
    "SiLU, Hessian": ({OURS: 30, "push": 30, "pull": 30, "nested": 60, LOOP: 80}, 80),
    "GELU, Hessian": ({OURS: 30, "push": 30, "pull": 30, "nested": 60, LOOP: 80}, 80),
    "ReLU, Hessian": ({OURS: 5, "push": 5, "pull": 5, "nested": 30, LOOP: 20}, 80),
    "ReLU, Hessian with backward": ({OURS: 15, "push": 15, "pull": 15, "nested": 40, LOOP: 30}, 150),
    "Tanh, Laplacian": ({OURS: 20, "push": 20, "pull": 30, "nested": 60, LOOP: 80}, 80),
    "Tanh, Laplacian with backward": ({OURS: 60, "push": 60, "pull": 90, "nested": 180, LOOP: 240}, 240),
    "Tanh, diagonal": ({OURS: 25, "push": 25, "pull": 30, "nested": 60, LOOP: 80}, 80),
    "Tanh, hvp": ({OURS: 20, LOOP: 20}, 20),
    "Tanh, width 16": ({OURS: 30}, 80),
    "Tanh, inputs 2, outputs 1": ({"push": 30, "pull": 20}, 30),
    "Tanh, inputs 10, outputs 1": ({"push": 330, "pull": 60}, 110),
    "Tanh, inputs 10, outputs 3": ({"push": 330, "pull": 70}, 320),
    "Tanh, Hessian, small width 8": ({"push": 18, "pull": 12}, 18),
    "Tanh, Laplacian with backward, small width 8": ({OURS: 36}, 54),
}


@pytest.mark.more
@pytest.mark.parametrize("label", HESSIANS)
def test_second_derivatives_run_the_products_that_are_needed(results, label):
    (case,) = [c for c in results["hessian"]["cases"] if re.sub(", FP32$", "", c["case"]) == label]
    found = {name: result["counts"]["hidden products"] for name, result in case["contenders"].items()
             if name not in REPLAYS}  # whose products are those of what they replay
    ours, torch = HESSIANS[label]
    if OURS not in ours:  # "auto" weighs the two
        assert found.pop(OURS) in (found["push"], found["pull"])
    assert found == ours | ({"torch": torch} if "torch" in found else {})
    assert case["contenders"][OURS]["counts"]["peak bytes"] > 0


@pytest.mark.more
def test_training_step_runs_eight_products(results):
    for case in results["train_mlp"]["cases"]:  # 3 forward, 3 for the weights, 2 for hidden inputs
        for name in {OURS, "torch"} & set(case["contenders"]):
            assert case["contenders"][name]["counts"]["products"] == 8


@pytest.mark.more
def test_unrolled_reports_growth_and_the_curve(results):
    result = results["unrolled"]
    blocks = result["config"]["steps"] // result["config"]["block"]
    for key in ("collector on", "collector off"):
        assert result["summary"][f"step {result['config']['steps']} / step 200, {key}"][OURS] > 0
        assert len(result["series"][f"seconds per block, {key}"][OURS]) == blocks


def test_every_public_op_is_timed_or_named_as_none():
    timed = {word for call in op_calls.calls() for word in re.findall(r"\w+", call)}
    without = set(op_calls.NO_OPS.split())
    names: dict[int, set[str]] = {}  # of each function, under all its names
    for module in (ag, ag.linalg, ag.special, ag.nn.functional):
        for name in module.__all__:
            in_place = name.endswith("_")  # timed as methods
            if callable(getattr(module, name)) and not in_place and not isinstance(getattr(module, name), np.dtype):
                names.setdefault(id(getattr(module, name)), set()).add(name)
    missing = [found for found in names.values() if not found & timed and not found & without]
    assert not missing
    assert not without - set.union(*names.values())
    assert set(op_calls.NUMPY) <= set(op_calls.calls())
    assert len(op_calls.NUMPY) == 40


@pytest.mark.more
def test_compiled_calls_are_contenders(results):
    replays = {REPLAY, REPLAYED_NUMPY} - absent_on("cpu").keys()
    for name in ("train_mlp", "pinn"):
        assert all(replays <= case["contenders"].keys() for case in results[name]["cases"])
    small = [case["contenders"].keys() for case in results["hessian"]["cases"] if "small width" in case["case"]]
    assert len(small) == 2  # the Hessian, and training on the Laplacian
    assert all(replays | {REPLAYED_LOOP} <= names for names in small)


@pytest.mark.more
def test_a_second_process_compiles_nothing_of_a_step(results):
    pytest.importorskip("llvmlite", reason="what is compiled needs the extra [native]")
    compiled = {case["case"]: case["contenders"][OURS]["counts"]["compiled"]
                for case in results["compile_time"]["cases"]}
    assert len(compiled) == 8
    for case, count in compiled.items():
        assert (count == 0) == case.endswith(", second process"), (case, count)


# ---- the parts ------------------------------------------------------------------------------


@pytest.mark.more
def test_cuda_graphs_are_said_to_be_absent(results):
    for name in ("train_mlp", "hessian"):
        assert results[name]["absent"] == absent_on("cpu")
    assert absent_on("cpu").keys() >= NEED_CUDA.keys()
    assert results["saved_memory"]["absent"].keys() == {GRAPH}


@pytest.mark.more
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_what_pytorch_compiles_agrees(monkeypatch):
    """On the CPU without its code generator, which takes a minute."""
    torch = pytest.importorskip("torch")
    whole = torch.compile
    monkeypatch.setattr(torch, "compile", lambda function, mode=None: whole(function, backend="eager"))
    weights, x = models.make_weights([784, 4, 10]), np.zeros((3, 2), np.float32)
    steps = {"torch": train_mlp.eager_step, COMPILED: train_mlp.compiled_step}
    losses = {name: [float(step().detach()) for _ in range(3)]
              for name, make in steps.items() for step in [make(torch, weights, 8, "SGD", "cpu")]}
    assert losses[COMPILED] == pytest.approx(losses["torch"], rel=1e-5)
    problem = hessian_calls.Problem(models.make_weights([2, 4, 3]), x, "Tanh", "hessian", False, "cpu")
    ours, theirs = (
        hessian_calls.eager_call(torch, problem, by, is_loop=False)()
        for by in (hessian_calls.by_torch_func("hessian"), hessian_calls.by_compiler("hessian"))
    )
    for left, right in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(left.detach(), right.detach(), rtol=1e-5)


def test_a_compiler_that_refuses_is_noted():
    def refuse():
        raise RuntimeError("Unsupported: this\nand more")

    calls = {OURS: lambda: 1, COMPILED: refuse}
    assert results_of(calls, lambda name, call: call()) == (
        {OURS: 1}, ["torch compiled: not measured, RuntimeError: Unsupported: this"])
    assert list(calls) == [OURS]
    with pytest.raises(RuntimeError):
        results_of({OURS: refuse}, lambda name, call: call())


def test_hidden_products_counts_by_rows():
    products = Counter({(24, 8, 8): 3, (8, 24, 8): 2, (24, 2, 8): 7, (72, 8, 8): 1, (3, 24, 8, 8): 1})
    assert counting.hidden_products(products, batch=24, hidden=8) == 3 + 2 + 3 + 3
    with pytest.raises(ValueError, match="batch != hidden"):
        counting.hidden_products(products, batch=8, hidden=8)


def test_held_bytes_are_what_the_answer_keeps():
    def call():
        ag.zeros(1 << 20)  # 4 MB that go at once
        return ag.zeros(1 << 18) + 1

    assert 1 << 20 <= counting.held_bytes("cpu", call) < 1.1 * (1 << 20)
    assert pool.MAX_FREE


@pytest.mark.more
def test_saved_memory_counts_what_each_hook_holds(results):
    cases = {case["case"]: case["contenders"][OURS]["counts"] for case in results["saved_memory"]["cases"]}
    for activation in ("Tanh", "ReLU"):
        without = cases[f"{activation}, no hooks"]["MiB held"]
        for name, share in {"float16": 0.5, "bfloat16": 0.5, "float8_e5m2": 0.25, "save_on_cpu": 1}.items():
            assert abs(cases[f"{activation}, {name}"]["MiB held"] / without - share) < 0.15
        assert cases[f"{activation}, float16"]["error"] < cases[f"{activation}, float8_e5m2"]["error"] < 0.2
        assert cases[f"{activation}, checkpoint"]["error"] == 0


def test_peak_bytes_sees_memory_that_the_pool_would_hand_out_again():
    def call():
        for _ in range(3):  # one 4 MB array at a time, beside the two of an addition
            assert (ag.ones(1 << 20) + 1.0).shape == (1 << 20,)

    kept = pool.MAX_FREE
    call()  # now the pool holds such arrays
    assert 8 << 20 <= counting.peak_bytes("cpu", call) < 9 << 20
    assert kept == pool.MAX_FREE


def test_samples_are_taken_in_turns_and_the_collector_is_put_back():
    order = []

    def clock(name):
        def measure(call, count):
            order.append(name)
            assert not gc.isenabled()
            return 1.0

        return measure

    contenders = [timing.Contender(name, int, clock(name)) for name in (OURS, "peer")]
    timings = timing.interleave(contenders, 7, collector=False)
    assert order[-14:] == [OURS, "peer"] * 7
    assert gc.isenabled()
    assert timings["peer"].median == 1.0


def test_short_calls_are_repeated_to_fill_a_sample():
    def clock(call, count):
        return count * 1e-6

    (taken,) = timing.interleave([timing.Contender(OURS, int, clock)], 7, sample_s=1e-3).values()
    assert taken.calls == pytest.approx(1000, rel=0.01)
    assert taken.median == pytest.approx(1e-6)


def test_a_peer_that_is_not_installed_is_reported(monkeypatch):
    monkeypatch.setitem(peers.MODULES, "torch", "no_such_library")
    present, absent = peers.load_peers(["torch", "jax"], ["torch"], "cpu")
    assert present == {}
    assert absent["torch"].startswith("not installed")
    assert absent["jax"] == "this workload has no version for it"


@pytest.mark.parametrize("arguments", [["--peers", "torhc"], ["--repeats", "3"], ["--activations", "foo"]])
def test_wrong_arguments_are_refused(arguments, capsys):
    with pytest.raises(SystemExit):
        hessian.main(arguments)
    assert arguments[1] in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [1.1, np.nan])
def test_disagreement_stops_a_benchmark(wrong):
    same, other = [np.ones(3), np.zeros(2)], [np.array([1, 1, wrong]), np.zeros(2)]
    assert common.require_agreement({OURS: same, "peer": same}, 1e-6, "case") == {"peer": 0.0}
    with pytest.raises(common.Disagreement, match="case: autograd_gpu and peer differ"):
        common.require_agreement({OURS: same, "peer": other}, 1e-6, "case")


# ---- the tables of the pages ------------------------------------------------------------------------


@pytest.fixture
def folder(results, device, tmp_path):
    """The results as if they had been measured at full size, and a file to write them to."""
    for name, result in results.items():
        config = result["config"] | {"tiny": False}
        (tmp_path / f"{device}-{name}.json").write_text(json.dumps(result | {"config": config}))
    blocks = {"README.md": "ratios", "headlines.md": "headlines", "benchmarks.md": "bench", "op-speed.md": "ops",
              "memory.md": "memory", "hessian-figures.md": "hessian"}
    for name, block in blocks.items():
        text = f"above\n<!-- {block}:begin -->\nformer tables\n<!-- {block}:end -->\nbelow\n"
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.more
@pytest.mark.parametrize(
    "name", ["README.md", "headlines.md", "benchmarks.md", "op-speed.md", "memory.md", "hessian-figures.md"]
)
def test_tables_are_written_and_checked(folder, results, name, capsys):
    path, where = folder / name, ["--results", str(folder)]
    assert tables.main(["--check", str(path), *where]) == 1
    assert "tables --write" in capsys.readouterr().out
    assert tables.main(["--write", str(path), *where]) == 0
    assert tables.main(["--check", str(path), *where]) == 0
    text = path.read_text()
    assert text.startswith("above\n")
    assert text.endswith("below\n")
    assert "former tables" not in text
    beside_torch = any("torch" in case["contenders"] for case in results["ops"]["cases"])
    shown = {
        "README.md": ("| Hessian, 2 inputs, six Tanh layers of 512 |", "| training on that Hessian |"),
        "headlines.md": ("| gradient of a product of 2x2 tensors |", "| `vmap(hessian)` of a network 4-16-16-1 |"),
        "benchmarks.md": ("20 products", "| Matrix products |", "| float8_e5m2 |",
                          *(["x.expand(2, 2)"] if beside_torch else [])),
        "op-speed.md": ("`linalg.qr`", "`sum`"),
        "memory.md": ("| | bytes held | peak bytes | error, Tanh | error, ReLU | step time, Tanh |", "| checkpoint |"),
        "hessian-figures.md": ("| Our methods, ms | autograd_gpu | by push | by pull | nested | a loop of ours |",
                       "| Peak MiB |", "| Tanh, inputs 10, outputs 3 |"),
    }
    assert all(part in text for part in shown[name])


@pytest.mark.more
def test_tables_refuse_tiny_results_and_missing_markers(folder, results, device):
    with pytest.raises(ValueError, match="bench:begin"):
        tables.replace_blocks("no markers", [])
    with pytest.raises(ValueError, match="ops:end"):
        tables.replace_blocks("<!-- ops:end --> <!-- ops:begin -->", [])
    (folder / f"{device}-hessian.json").write_text(json.dumps(results["hessian"]))
    with pytest.raises(ValueError, match="--tiny"):
        tables.load(folder)


def test_kernels_are_shown_by_family_and_dtype():
    """Which takes a GPU to measure: 60 GB/s here, and 75 % of a copy."""
    report = Report("kernels", "kernels", "cuda", {}, {})
    for dtype in ("float32", "float16"):
        counts = {OURS: {"GB/s": 60}, "copy": {"GB/s": 80}}
        report.add(f"softmax, {dtype}", {OURS: timing.Timing((4.0,)), "copy": timing.Timing((3.0,))}, counts=counts)
    for size, seconds in ((128, 1.0), (256, 2.0), (512, 4.0)):
        pair = {OURS: timing.Timing((1.0,)), "torch": timing.Timing((seconds,))}
        report.add(f"product NN, TF32, {size}", pair)
    report.add("SGD, batch 128", {OURS: timing.Timing((3e-3,)), "torch": timing.Timing((2e-3,))})
    text = kernel_tables.summary({"title": "Kernels", "cases": report.cases})
    assert "| GB/s | float32 | float16 |\n| --- | ---: | ---: |\n| `softmax` | 60 | 60 |" in text
    assert "| share of a copy | float32 | float16 |\n| --- | ---: | ---: |\n| `softmax` | 75% | 75% |" in text
    assert "| products of TF32 | | 0.50 | 0.25 | 1.00 |" in text
    assert "| SGD, batch 128 | 3 ms | 1.50 | | |" in text


def test_compiled_calls_are_compared_with_the_peers():
    report = Report("pinn", "A step", "cpu", {}, {})
    times = {OURS: 3.0, REPLAY: 2.0, "torch": 4.0, "jax": 1.0}
    report.add("a", {name: timing.Timing((seconds,)) for name, seconds in times.items()})
    report.add("b", {name: timing.Timing((times[name],)) for name in (OURS, "torch")})
    text = library_tables.by_library(report.as_dict())
    assert "| | our compiled / PyTorch | our compiled / JAX jit |\n| --- | ---: | ---: |\n| a | 0.50 | 2.00 |" in text
    assert "| b | 3000 | - | 4000 | - | - | 0.75 | - |" in text


@pytest.mark.parametrize(("ratio_min", "notes"), [(1.16, ["ours / PyTorch is 1.16 by the minima"]), (0.75, [])])
def test_a_ratio_that_depends_on_the_statistic_gets_a_note(ratio_min, notes):
    peer = {"median_s": 0.473, "ratio": 0.69, "ratio_min": ratio_min, "counts": {}}
    case = {"unit": "ms", "contenders": {"torch": peer}}
    assert (library_tables.time(case, "torch", "ms"), library_tables.ratio(case, "torch")) == ("473", "0.69")
    assert library_tables.by_minima(case) == notes


def test_the_picture_shows_each_ratio_in_its_place():
    row = next(row for row in headline_tables.SHOWN if row.label == "Hessian, ReLU layers")
    ratios = {("cuda", row.cuda): 0.5, ("cpu", row.cpu): 2.0}
    text = headline_picture.render([
        {"device": device, "benchmark": "hessian", "cases": [{"case": case, "contenders": {"torch": {"ratio": ratio}}}]}
        for (device, case), ratio in ratios.items()
    ])
    at = {device: float(x) for device, x in re.findall(r'class="(cpu|cuda)" c?x="([\d.]+)" (?!c?y="30|y="25)', text)}
    one = headline_picture.place(1)
    assert at["cpu"] - one == pytest.approx(one - (at["cuda"] + 5), abs=0.2)  # a square is placed by its corner
    assert ">Hessian, ReLU layers<" in text
    assert text.count("<circle") == 2  # one of them in the legend
    with pytest.raises(ValueError, match="widen RANGE"):
        headline_picture.place(100)


def test_the_committed_results_are_shown():
    assert tables.main(["--check"]) == 0


def test_every_table_names_the_kernels_of_blas(capsys):
    """Of the CPU: the printed one, and those of docs/benchmarks.md, whose results may come from several machines."""
    report = Report("small_graph", "Small graphs", "cpu", {}, {})
    report.print()
    if (used := blas.kernels()) is not None:
        assert f"OpenBLAS with {used} kernels" in " ".join(capsys.readouterr().out.split())
    results, page = tables.load(), (tables.ROOT / "docs/benchmarks.md").read_text()
    for result in results:
        line = tables.kernels_of_blas(result)
        assert len(line) == (result["device"] == "cpu")
        assert tables.render_one(result).count("<sub>OpenBLAS with ") == len(line)
    assert page.count("\n<sub>OpenBLAS with ") == sum([result["device"] == "cpu" for result in results])
