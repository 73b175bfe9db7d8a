"""Every kernel compiles for every architecture, and costs no more than kernel_resources.json says; no GPU is needed."""

import json
import re

import pytest

from autograd_gpu.backend import kernels

NEEDS = "needs CuPy and NVRTC: pip install cupy-cuda13x nvidia-cuda-nvrtc nvidia-cuda-runtime"
pytestmark = [pytest.mark.cpu, pytest.mark.more]
resources = pytest.importorskip("kernel_resources", reason=NEEDS, exc_type=ImportError)
try:
    resources.version()
except RuntimeError as error:
    pytest.skip(f"{NEEDS}; {error}", allow_module_level=True)

# More values alive at once than launch bounds leave registers for.
SPILLING = """
extern "C" __global__ void __launch_bounds__(1024, 2) bad(const float* x, float* out) {
    float value[64];
    #pragma unroll
    for (int i = 0; i < 64; ++i) value[i] = x[threadIdx.x + 1024 * i];
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 64; ++i) out[threadIdx.x + 1024 * i] = value[63 - i] * value[(i * 7 + 3) % 64];
}
"""
# A struct that is passed by value and indexed at run time is copied to local memory.
INDEXING = """
struct Pointers { float* at[8]; };
extern "C" __global__ void bad(Pointers tensors, float factor) { tensors.at[blockIdx.x][threadIdx.x] *= factor; }
"""


@pytest.fixture(scope="module")
def table():
    return json.loads(resources.TABLE.read_text())


@pytest.fixture(scope="module")
def files(table):
    """What is compiled for each architecture: for all but one what has changed since the table was written."""
    chosen = {arch: resources.changed(table) for arch in resources.ARCHS} | {resources.READ: resources.files()}
    resources.prepare(chosen)
    return chosen


@pytest.fixture(scope="module", params=resources.ARCHS)
def arch(request):
    return request.param


@pytest.fixture
def ptx(files):
    """The PTX of every instance."""
    read = {file: resources.compiled(file, resources.READ).ptx for file in files[resources.READ]}
    return {name: text for instances in read.values() for name, text in instances.items()}


def test_every_file_is_compiled():
    assert resources.files() == sorted({instance.file for instance in kernels.INSTANCES.values()})


def test_every_instance_is_measured(files, arch):
    declared = [name for file in files[arch] for name in kernels.instances_of(file)]
    assert sorted(resources.measure(arch, files[arch])) == sorted(declared)


def test_table_is_of_these_sources(table):
    assert table["sources"] == resources.sources(), f"write the table anew: {resources.COMMAND}"


def test_no_kernel_spills_or_has_a_stack_frame_and_the_compiler_has_no_warning(files, arch):
    assert resources.blemishes(arch, files[arch]) == []


def test_table_says_what_kernels_cost(files, table, arch):
    """To the register by the compiler that the table is from; another version divides them a little differently."""
    leeway = 0 if resources.version() == table["nvrtc"] else 4 * resources.UNIT  # 24 were seen
    others = {name for file in resources.files() if file not in files[arch] for name in kernels.instances_of(file)}
    rows = {name: row for name, row in table[arch].items() if name not in others}
    faults = resources.faults(resources.measure(arch, files[arch]), rows, leeway)
    assert not faults, (
        f"{arch}, NVRTC {resources.version()} (the table is from {table['nvrtc']}): {'; '.join(faults)}. "
        f"If that is meant, write the table anew: {resources.COMMAND}"
    )


def test_table_has_no_other_architecture(table):
    assert table.keys() == {"nvrtc", "headers", "sources", *resources.ARCHS}


USED = {"k": resources.Usage(registers=33, stack=0, spills=0, shared=1024)}


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        ({}, "k is not in the table"),
        ({"k": {"registers": 40, "shared": 1024}, "gone": {"registers": 8, "shared": 0}}, "gone is in the table, but"),
        ({"k": {"registers": 32, "shared": 1024}}, "33 registers; the table allows 32"),
        ({"k": {"registers": 56, "shared": 1024}}, "33 registers; the table is loose, with 56"),
        ({"k": {"registers": 40, "shared": 0}}, "1024 bytes of shared memory; the table says 0"),
    ],
)
def test_wrong_table_is_noticed(table, fault):
    (result,) = resources.faults(USED, table)
    assert fault in result


@pytest.mark.parametrize("registers", [40, 48])
def test_bound_may_be_one_unit_too_high(registers):
    assert resources.faults(USED, {"k": {"registers": registers, "shared": 1024}}) == []


def test_another_compiler_has_leeway():
    table = {name: {"registers": 8, "shared": row["shared"]} for name, row in resources.limits(USED).items()}
    assert resources.faults(USED, table)
    assert resources.faults(USED, table, leeway=248) == []


def test_written_table_has_no_fault():
    assert resources.faults(USED, resources.limits(USED)) == []


def test_spills_are_noticed(arch):
    assert resources.compile(SPILLING, ("bad",), arch).usages["bad"].spills > 0


def test_stack_frame_is_noticed(arch):
    result = resources.compile(INDEXING, ("bad",), arch)
    assert result.usages["bad"].stack > 0
    assert local_memory(result.ptx["bad"])


def local_memory(text):
    return re.findall(r"\b(?:ld|st)\.local", text)


def test_no_kernel_uses_local_memory(ptx):
    assert [name for name, text in ptx.items() if local_memory(text)] == []


def test_only_kernels_of_double_compute_in_double(ptx):
    """A literal such as 0.5 without its f is enough for arithmetic at a fraction of the speed.

    Numbers that change between the replays of a CUDA graph are read and converted; `skip` is compared with 0 once.
    """
    arithmetic = re.compile(r"^\s*(?:@!?%p\d+\s+)?(?!ld|st|mov|cvt)[a-z]\w*(?:\.\w+)*\.f64\b.*", re.MULTILINE)
    computing = set()
    for name, text in ptx.items():
        lines = arithmetic.findall(text)
        if any(parameter.name == "skip" for parameter in kernels.INSTANCES[name].parameters):
            assert re.search(r"setp\.\w+\.f64\s+%p\d+, %fd\d+, 0d0+;", lines.pop(0)), name
        if lines:
            computing.add(name)
    doubles = {name for name in ptx if re.search(r"\bdouble\b", name)}
    assert computing <= doubles
    assert {name for name in doubles if not re.match("gather|foreach<ForeachClone_l", name)} <= computing


# What a wide instance moves 16 bytes at a time: what it reads, but for codes of fewer bytes.
WIDE_MOVES = {"quantize": r"ld\.global\.nc\S*", "dequantize": r"st\.global\S*"}


# Of half types these take half as many elements, since their sums would spill.
NARROW = re.compile(r"activation_jet_backward<\w+, __(half|nv_bfloat16), 4>")


# Of a row, or of a part of it, there is one number each.
BY_ROW = {"mean", "rstd", "found"}


def test_wide_instances_move_sixteen_bytes_at_once(ptx):
    """But for numbers that a row has one of, such as its class or its mean."""
    wide = {name: text for name, text in ptx.items() if re.search(r" [248]>$", name)}
    of_formulas = [name for name in wide if name.startswith("elementwise")]  # few of them are compiled for odd sizes
    assert len(wide) - len(of_formulas) == sum(name.endswith(" 1>") and name[:11] != "elementwise" for name in ptx)
    for name, text in wide.items():
        moves = re.findall(WIDE_MOVES.get(name.partition("<")[0], r"ld\.global\S*"), text)
        if any(p.kind == "read" and p.name in BY_ROW for p in kernels.INSTANCES[name].parameters):
            moves = [move for move in moves if not re.search(r"global\.nc\.[fb](32|64)$", move)]
        if any(parameter.name == "live" for parameter in kernels.INSTANCES[name].parameters):  # seed and counter
            moves = [move for move in moves if move != "ld.global.u64"]
        if name.startswith("group"):  # scalars, rows and columns
            moves = [move for move in moves if not re.search(r"global\.[bfu](16|32|64)$", move)]
        at_once = [bool(re.search(r"\.v4\.[bfu]32$|\.v2\.[bfu]64$", move)) for move in moves]
        if NARROW.match(name):
            at_once = [bool(re.search(r"\.v2\.[bfu]32$|\.[bfu]64$|\.v4\.[bu]16$", move)) for move in moves]
        assert any(at_once), name
        assert all(at_once) or name.startswith("cross_entropy"), (name, moves)


# What kernels call a matrix that they write, and kernels whose result is no matrix.
WRITTEN = {"out", "dx", "dg"}
SUMS = {"column_sum", "row_sum", "row_statistic", "row_variance", "cross_entropy", "local_terms"}


def test_wide_instances_write_sixteen_bytes_at_once(ptx):
    """The compiler has stored the elements of strips one by one."""
    for name, text in ptx.items():
        entry = kernels.INSTANCES[name]
        written = WRITTEN & {parameter.name for parameter in entry.parameters if parameter.kind == "write"}
        if written and entry.kernel not in SUMS and re.search(r" [248]>$", name) and not NARROW.match(name):
            assert re.search(r"st\.global\.wb\.v4\.u32", text), name


def test_codes_are_written_in_one_piece(ptx):
    """Four or more of them; two of one byte make no better piece than two bytes."""
    for name, text in ptx.items():
        if name.startswith("quantize") and not name.endswith((" 1>", " 2>")):
            assert set(re.findall(r"st\.global\.(?:wb\.)?(\w+)", text)) <= {"f32", "u32", "u64", "b32", "b64"}, name


def test_kernels_over_lists_move_sixteen_bytes_of_global_memory_at_once(ptx):
    """Their addresses lie in a struct, and the compiler has to see that they are global."""
    over_lists = [name for name, instance in kernels.INSTANCES.items() if instance.parameters[0].kind == "struct"]
    assert over_lists
    for name in over_lists:
        moves = re.findall(r"\b(?:ld|st)\.(?!param|shared|const)\S*", ptx[name])
        assert [move for move in moves if not re.search(r"\.global\.", move)] == [], name
        wide = {move[:2] for move in moves if re.search(r"\.v4\.[fu]32$|\.v2\.f64$", move)}
        if name.endswith(" 1>"):  # of arrays whose addresses or sizes are odd
            assert wide == set(), (name, moves)
            continue
        assert wide == ({"ld"} if name.startswith("list_norm") else {"ld", "st"}), (name, moves)


def test_inputs_that_nobody_writes_go_through_the_read_only_path(ptx):
    reading = "column_sum", "row_sum", "layer_norm"
    assert all("ld.global.nc" in text for name, text in ptx.items() if name.startswith(reading))


@pytest.mark.parametrize(
    ("text", "place"),
    [("Wide<In> sums[WIDTH] = {};", "column_sum.cu(10)"), ("static_cast<Wide<T>>(value); }", "types.cuh(11)")],
)
def test_error_names_the_line_as_it_stands_on_disk(text, place):
    """Although headers are pasted into the source."""
    source = kernels.source("column_sum.cu")
    assert text in source
    with pytest.raises(RuntimeError, match=re.escape(f"{place}: error:")):
        resources.compile(source.replace(text, f"{text} nonsense"), kernels.instances_of("column_sum.cu"), "sm_90")
