"""PyTorch's face of the profiler: contexts, schedules, ranges, tables, stacks, bounded memory, errors."""

from __future__ import annotations

import gzip
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from profiled import check_trace, lines, of_kind

import autograd_gpu as ag
from autograd_gpu.profiler import ProfilerActivity, profile, record_function, schedule, tensorboard_trace_handler

pytestmark = pytest.mark.cpu
CPU = [ProfilerActivity.CPU]


def square():
    return ag.ones(2) * ag.ones(2)


def test_a_schedule_records_its_active_steps():
    cycles = []
    with profile(schedule=schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1),
                 on_trace_ready=lambda p: cycles.append((p.step_num, lines(p)))) as prof:  # fmt: skip
        for i in range(12):
            with record_function(f"work {i}"):
                square()
            prof.step()
    assert cycles == [(5, ["ProfilerStep#3", "  work 3", "    mul", "ProfilerStep#4", "  work 4", "    mul"]),
                      (9, ["ProfilerStep#7", "  work 7", "    mul", "ProfilerStep#8", "  work 8", "    mul"])]
    assert ag.modes.MODES.bits == 0


def test_a_schedule_is_off_while_it_waits():
    with profile(schedule=schedule(wait=1, warmup=0, active=1)) as prof:
        assert ag.modes.MODES.stack == ()
        prof.step()
        assert len(ag.modes.MODES.stack) == 1
        prof.step()
        assert ag.modes.MODES.stack == ()


@pytest.mark.parametrize("numbers", [{"wait": -1, "warmup": 0, "active": 1}, {"wait": 0, "warmup": 0, "active": 0}])
def test_a_schedule_without_sense(numbers):
    with pytest.raises(ValueError, match="schedule: wait, warmup, repeat and skip_first are at least 0"):
        schedule(**numbers)


def test_schedules_are_pytorchs():
    torch = pytest.importorskip("torch")
    for numbers in ({"wait": 1, "warmup": 2, "active": 3, "repeat": 2, "skip_first": 1},
                    {"wait": 0, "warmup": 1, "active": 1}):  # fmt: skip
        ours, theirs = schedule(**numbers), torch.profiler.schedule(**numbers)
        assert [ours(i).name for i in range(20)] == [theirs(i).name for i in range(20)]


def test_ranges_nest_and_decorate():
    @record_function("decorated")
    def f():
        return square()

    f()
    with profile() as prof, record_function("outer", "7"):
        f()
        inner = record_function("inner")
        with inner, inner:
            pass
    assert lines(prof) == ["outer", "  decorated", "    mul", "  inner", "    inner"]
    assert prof.events()[0].facts == {"args": "7"}
    assert f.__name__ == "f"


def test_a_range_that_outlives_the_profile():
    prof = profile()
    prof.start()
    with record_function("open"):
        square()
        prof.stop()
    assert lines(prof) == ["open", "  mul"]
    assert prof.events()[0].facts == {"unfinished": True}


def test_profiles_do_not_nest():
    with profile() as prof:
        with pytest.raises(RuntimeError, match="profiles do not nest"), profile():
            pass
        square()
    assert lines(prof) == ["mul"]
    with prof:
        square().exp()
    assert lines(prof) == ["mul", "exp"]


def test_misuse_is_an_error():
    prof = profile()
    for method in (prof.stop, prof.step):
        with pytest.raises(RuntimeError, match="without start"):
            method()
    with pytest.raises(RuntimeError, match=r"events\(\) before anything was recorded"):
        prof.events()
    with pytest.raises(ValueError, match="activities"):
        profile(activities=[])
    with prof, ThreadPoolExecutor(1) as pool, pytest.raises(RuntimeError, match="on the thread that has started"):
        pool.submit(prof.step).result()
    with pytest.raises(RuntimeError, match="profile_memory=True"):
        prof.live_bytes()


@pytest.mark.skipif(ag.cuda.is_available(), reason="about machines without a GPU")
def test_cuda_without_a_device_is_an_error():
    prof = profile(activities=[ProfilerActivity.CUDA])
    for _ in range(2):
        with pytest.raises((ImportError, RuntimeError)), prof:
            pass
    with profile():
        square()


def test_an_exception_ends_the_profile():
    def failing():
        with prof:
            square()
            raise ZeroDivisionError

    prof = profile()
    with pytest.raises(ZeroDivisionError):
        failing()
    assert lines(prof) == ["mul"]
    assert ag.modes.MODES.bits == 0
    assert not ag.backend.counters.ACTIVE


def test_memory_is_bounded():
    prof = profile(max_events=10, activities=CPU)
    prof.start()
    for _ in range(15):
        square()
    with pytest.warns(UserWarning, match=r"profile: 5 records were dropped.*max_events=10"):
        prof.stop()
    assert len(prof.events()) == 10


def test_a_table():
    x = ag.ones(2, 2, requires_grad=True)
    with profile(record_shapes=True) as prof:
        (x @ x).exp().sum().backward()
    rows = prof.key_averages()
    text = rows.table(sort_by="count", row_limit=2, header="of a test").splitlines()
    assert text[0] == "of a test"
    assert text[2].split("  ")[0] == "Name"
    assert text[-1] == f"{len(rows) - 2} more rows"
    assert text[-2].startswith("Self CPU time total: ")
    assert {len(line) for line in text[1:6]} == {len(text[1])}
    times = [row.self_cpu_time_total for row in sorted(rows, key=lambda row: -row.self_cpu_time_total)]
    first = rows.table(sort_by="self_cpu_time_total").splitlines()[3].split()[2]
    assert first == (f"{times[0]:.3f}us" if times[0] < 1e3 else f"{times[0] / 1e3:.3f}ms")
    with pytest.raises(ValueError, match="sort_by is one of cpu_time_total"):
        rows.table(sort_by="size")
    assert "[[2, 2], [2, 2]]" in prof.key_averages(group_by_input_shape=True).table()
    assert prof.events().table(row_limit=3).endswith("more rows")
    top = prof.events().table(top_level_events_only=True)
    assert "backward" in top
    assert "ExpBackward0" not in top


def test_totals_count_a_range_inside_of_its_own_kind_once():
    x = ag.ones(2, 2)
    with profile(profile_memory=True) as prof, record_function("again"):
        with record_function("again"):
            x @ x
        x @ x
    (row,) = [row for row in prof.key_averages() if row.key == "again"]
    outer = max((e for e in prof.events() if e.name == "again"), key=lambda e: e.cpu_time_total)
    assert (row.count, row.products) == (2, 2)
    assert row.cpu_time_total == outer.cpu_time_total > row.self_cpu_time_total > 0


def test_stacks(tmp_path):
    with profile(with_stack=True) as prof:
        square().exp()
    (product, _) = of_kind(prof, "op")
    assert "square" in product.stack[0]
    assert __file__ in product.stack[0]
    prof.export_stacks(tmp_path / "stacks")
    (line, _) = (tmp_path / "stacks").read_text().splitlines()
    assert line.split(";")[-1].split()[0] == "mul"
    assert "test_stacks" in line.split(";")[-3]
    by_stack = prof.key_averages(group_by_stack_n=1)
    assert [row.stack[0].split(": ")[-1] for row in by_stack] == ["square", "test_stacks"]
    with profile() as prof:
        square()
    with pytest.raises(RuntimeError, match="with_stack=True"):
        prof.export_stacks(tmp_path / "none")


def test_a_handler_for_tensorboard(tmp_path):
    with profile(on_trace_ready=tensorboard_trace_handler(tmp_path / "runs", "me", use_gzip=True)) as prof:
        prof.add_metadata("note", "text")
        prof.add_metadata_json("numbers", "[1, 2]")
        square()
    (path,) = (tmp_path / "runs").iterdir()
    assert path.name.startswith("me.")
    assert path.name.endswith(".pt.trace.json.gz")
    trace = json.loads(gzip.decompress(path.read_bytes()))
    check_trace(trace)
    assert (trace["note"], trace["numbers"], trace["dropped"]) == ("text", [1, 2], 0)


def test_pytorchs_older_face():
    older = ag.autograd.profiler
    with older.profile(record_shapes=True) as prof, older.record_function("range"):
        square()
    assert [e.name for e in prof.events()] == ["range", "mul"]
    assert "range" in prof.table(sort_by="cpu_time_total")
    assert prof.self_cpu_time_total == pytest.approx(prof.events()[0].cpu_time_total)
    with older.profile(enabled=False), profile():
        square()
