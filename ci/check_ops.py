"""Fail on what the files of ops, and those above them, must not name: python ci/check_ops.py [repository root].

1. In ops/, `F.name` in a function with a parameter F is an op, and `RAW.name` and `RECORD.name` are ops or what a file
   of ops/ assigns to them: a misspelt name must not wait for the rule to run.
2. ops/ imports from core through core/extend.py; binding.py, which binds the names of ops, core/declare/public.py too.
3. Only core/, backend/ and the files of SLOT touch `_array`, the slot of a tensor; others read its property `array`.
4. In ops/ and nn/ only the functions in READS read the values of a tensor: a function that does cannot run under vmap,
   and what it makes of them has no tangent. Functions with a parameter `xp` take arrays.
"""

import ast
import difflib
import sys
from pathlib import Path

from check_layers import PACKAGE, targets

OPS, CORE = f"{PACKAGE}/ops/", f"{PACKAGE}.core"
DECORATORS = ("defop", "pointwise", "elementwise_loss")  # which declare the op that a class is
BESIDE = {"keeping_saved"}  # what every F has beside the ops (core/dispatch.py)
NAMESPACES = {"RAW", "RECORD"}
DOORS = {f"{CORE}.extend"}
MORE_DOORS = {f"{OPS}binding.py": {f"{CORE}.declare.public"}}

HOT = "each call reads it, and so few other lines run that the property would show"
SLOT = {
    f"{PACKAGE}/autograd/backward.py": "each backward reads it, of each output and gradient",
    f"{PACKAGE}/autograd/context.py": "each backward of a Function reads it, of each gradient",
    f"{PACKAGE}/compilation/backward.py": "the engine takes the arrays of the inputs",
    f"{PACKAGE}/compilation/dynamic.py": "a call with other sizes reads it, of each argument",
    f"{PACKAGE}/compilation/guards.py": "each compiled call reads it, of each tensor from outside",
    f"{PACKAGE}/compilation/key.py": "each compiled call reads it, of each argument",
    f"{PACKAGE}/compilation/native_runs.py": "each compiled call reads it, of the classes of a loss",
    f"{PACKAGE}/compilation/record.py": "a value of a trace is an array",
    f"{PACKAGE}/compilation/replay.py": "each compiled call reads it",
    f"{PACKAGE}/compilation/sizes.py": "a value of a trace is an array",
    f"{PACKAGE}/compilation/tracer.py": "a value of a trace is an array",
    f"{PACKAGE}/cuda/compiled_graphs.py": "each replay reads it, of each argument",
    f"{PACKAGE}/cuda/graphed_step.py": "each replay reads it, of each input",
    f"{PACKAGE}/distributed/memory.py": "asks whether a tensor has an array; those of transforms have none",
    f"{PACKAGE}/func/local/plan.py": "each second derivative reads it, of each call of the function",
    f"{PACKAGE}/func/local/push.py": "each second derivative reads it, of each layer",
    f"{PACKAGE}/func/reverse.py": "the engine takes the arrays of the points",
    f"{PACKAGE}/hooks/pack_cache.py": "packs in a traced call, which `array` would tell of a read",
    f"{PACKAGE}/hooks/quantize.py": "packs in a traced call, which `array` would tell of a read",
    f"{PACKAGE}/nn/convert.py": "gives a parameter other memory",
    f"{PACKAGE}/nn/parameter.py": "makes parameters of arrays; the slot of an uninitialized one refuses to be read",
    f"{PACKAGE}/nn/utils/clip_grad.py": "each step reads it, of each gradient",
    f"{PACKAGE}/profiler/memory.py": "asks whether a tensor has an array; those of transforms have none",
    f"{PACKAGE}/optim/in_one_call.py": "each step reads it, of each parameter and gradient",
    f"{PACKAGE}/optim/optimizer.py": "each step reads it, of each state",
    f"{PACKAGE}/optim/step_count.py": "the slot holds a number until it is read",
    f"{PACKAGE}/optim/update_call.py": "each step reads it, of each parameter and gradient",
    f"{OPS}_support/out.py": "writes to the memory of `out`",
    f"{OPS}creation/convert.py": "float8 tensors hold codes, which are wrapped as they are",
    f"{OPS}creation/from_data.py": "decides whether a tensor shares memory with what it is made of",
    f"{OPS}creation/like.py": "gives a new tensor the order of another's memory",
    f"{OPS}foreach/arguments.py": HOT,
    f"{OPS}foreach/inplace.py": "writes to the memory of tensors",
    f"{OPS}indexing/basic_index.py": HOT,
    f"{OPS}indexing/gather.py": HOT,
    f"{OPS}indexing/index.py": HOT,
    f"{OPS}indexing/index_put.py": HOT,
    f"{OPS}indexing/masked.py": HOT,
    f"{OPS}indexing/scatter.py": HOT,
    f"{OPS}indexing/setitem.py": "writes to the memory of a tensor",
    f"{OPS}inplace/expanded.py": "writes to the memory of a tensor",
    f"{OPS}inplace/random.py": "writes to the memory of a tensor",
    f"{OPS}inplace/views.py": "makes a tensor a view of its own memory",
    f"{OPS}inplace/record.py": "writes to the memory of a tensor",
    f"{OPS}inplace/write.py": "writes to the memory of a tensor",
    f"{OPS}nn/linear_activation.py": HOT,
    f"{OPS}shape/permute.py": HOT,
    f"{OPS}shape/view.py": "makes views, and tells a view from a copy",
}

NUMBER = "takes a number, which may be a tensor of one element"
ARRAYS = "takes arrays"
SIZES = "lengths of sequences, which decide about sizes"
READS = {
    f"{PACKAGE}/nn/batchnorm.py": {"BatchNorm.forward": "a buffer, where momentum is None"},
    f"{PACKAGE}/nn/convert.py": {"convert": "gives a parameter other memory"},
    f"{PACKAGE}/nn/init.py": dict.fromkeys(("trunc_normal_", "orthogonal_", "sparse_"), "new random numbers"),
    f"{PACKAGE}/nn/parallel/join_hook.py": {"DDPJoinHook.post_hook": "the number of a rank"},
    f"{PACKAGE}/nn/parallel/reducer.py": {
        "Bucket.__init__": "makes the memory of gradients",
        **dict.fromkeys(("Reducer.arrange", "Reducer.refit"), "whether parameters have other memory"),
        **dict.fromkeys(("Reducer.prepare", "Reducer.finish", "Reducer.agree"), "numbers of ranks and parameters"),
        "Reducer._ready": "gradients, during backward",
    },
    f"{PACKAGE}/nn/parallel/synchronize.py": {"broadcast_tensors": "memory to write to", "_broadcast": "the same"},
    f"{PACKAGE}/nn/utils/clip_grad.py": dict.fromkeys(
        ("get_total_norm", "clip_grads_with_norm_", "_left"), "gradients, between backward and a step"
    ),
    f"{PACKAGE}/nn/recurrent.py": {"RNNBase._ag_run_packed": SIZES},
    f"{PACKAGE}/nn/utils/rnn.py": dict.fromkeys(("_lengths", "pad_packed_sequence", "unpad_sequence"), SIZES),
    f"{OPS}creation/factories.py": {"full": NUMBER},
    f"{OPS}creation/from_data.py": {"_plain": NUMBER},
    f"{OPS}creation/like.py": {"full_like": NUMBER},
    f"{OPS}creation/pinning.py": dict.fromkeys(("pin_memory", "is_pinned"), "where the memory is"),
    f"{OPS}elementwise/comparison.py": dict.fromkeys(("allclose", "equal"), "returns a bool"),
    f"{OPS}foreach/arguments.py": {"_plain": "takes a number"},
    f"{OPS}foreach/functions.py": {"_with_value": NUMBER},
    f"{OPS}indexing/index.py": {"flat_index_of": "only indices; batched ones are refused"},
    f"{OPS}indexing/scatter.py": {"_distinct": "decides between two ways to the same result; not of a lifted index"},
    f"{OPS}indexing/setitem.py": {"setitem": NUMBER},
    f"{OPS}inplace/resize.py": {"resize_": "where the memory is"},
    f"{OPS}inplace/write.py": {"_operand": NUMBER},
    f"{OPS}nn/cross_entropy.py": {"_of_no_classes": "a check"},
    f"{OPS}nn/embedding_bag.py": {"_bag_numbers": "offsets, which decide about sizes"},
    f"{OPS}numpy_api/answers.py": {"_share": "where the memory is"},
    f"{OPS}random/sampling.py": {"_few_with_replacement": ARRAYS},
    f"{OPS}reduction/variance.py": {"_mean_dominates": ARRAYS},
    f"{OPS}shape/split.py": {"tensor_split": "the cuts, which decide about sizes"},
    f"{OPS}sorting/quantile.py": {"_by_partition": "ranks that are not batched; they are constants"},
}  # fmt: skip


OWN = "the device is what the function is about"
DEVICES = {
    f"{OPS}creation/like.py": {"new": "checks that data are on the device of the tensor"},
    f"{OPS}creation/pinning.py": dict.fromkeys(("pin_memory", "is_pinned"), OWN),
    f"{OPS}creation/tensor_types.py": dict.fromkeys(
        ("TensorType.__instancecheck__", "TensorType.__call__", "", "type_method", "typename",
         "set_default_tensor_type"), OWN
    ),
    f"{OPS}indexing/index.py": {"key_part": "moves an index to the device of the tensor"},
    f"{OPS}inplace/random.py": {"random_": "NumPy's generators draw floats faster than integers"},
    f"{OPS}linalg/svd.py": {"lstsq": "PyTorch's default driver, whose name decides what is returned, differs"},
    f"{OPS}nn/cross_entropy.py": {"cross_entropy": "chooses one of two ops, which save different arrays"},
    f"{OPS}properties.py": {"is_cpu": OWN},
    f"{OPS}sorting/quantile.py": {"_quantile": "ranks on the host are read, those on a device are not"},
}


def declared(trees):
    """The names of the ops: of the classes that `@defop` or its like decorates."""
    return {
        node.name
        for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
        if any(isinstance(d, ast.Name) and d.id in DECORATORS for d in node.decorator_list)
    }  # fmt: skip


def attributes(tree, names):
    """The attributes of variables with one of these names."""
    return [
        node for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in names
    ]  # fmt: skip


def through_f(tree):
    """The attributes of F in functions that take an F, and of the namespaces of ops anywhere."""
    nodes = attributes(tree, NAMESPACES)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.Lambda) and takes(node, "F"):
            nodes += attributes(node, {"F"})
    return dict.fromkeys(nodes)


def no_ops(where, tree, ops, assigned):
    for node in through_f(tree):
        space, name = node.value.id, node.attr
        if name not in ops and name not in BESIDE and (space, name) not in assigned:
            near = difflib.get_close_matches(name, ops, 1)
            advice = f"{space}.{near[0]} is one" if near else "declare a class of that name with @defop below ops/"
            yield where, node.lineno, f"{space}.{name} is no op: {advice}"


def side_doors(where, tree, modules):
    package, doors = where.rpartition("/")[0].replace("/", "."), DOORS | MORE_DOORS.get(where, set())
    statements = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
    for node, target in [(n, t) for n in statements for t in targets(n, package, modules)]:
        if f"{target}.".startswith(f"{CORE}.") and target not in doors:
            advice = "take the name from core/extend.py, and add it there if it is missing"
            yield where, node.lineno, f"imports from {target}: {advice}"


def reads(tree):
    """(function, line) of each place that reads values, outside of functions with a parameter `xp`."""
    places = []

    def visit(node, name):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                if isinstance(child, ast.ClassDef) or not takes(child, "xp"):
                    visit(child, f"{name}.{child.name}".lstrip("."))
                continue
            if is_read(child) and not (isinstance(child.value, ast.Name) and child.value.id in ("np", "xp")):
                places.append((name, child.lineno))
            if not (isinstance(child, ast.Lambda) and takes(child, "xp")):
                visit(child, name)

    visit(tree, "")
    return places


def is_read(node):
    return isinstance(node, ast.Attribute) and node.attr in ("array", "item", "tolist", "numpy")


def asks_device(node):
    """Whether an expression asks for the array module or the kind of device: `xp is np`, `x.is_cuda`, `is_cuda(x)`."""
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot):
        return any(isinstance(n, ast.Name) and n.id == "xp" for n in (node.left, *node.comparators))
    if isinstance(node, ast.Attribute):
        is_type = node.attr == "type" and isinstance(node.value, ast.Attribute) and node.value.attr == "device"
        return is_type or node.attr == "is_cuda"
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "is_cuda"


def device_questions(tree):
    """(function, line) of each expression that asks for the device."""
    places = []

    def visit(node, name):
        for child in ast.iter_child_nodes(node):
            if asks_device(child):
                places.append((name, child.lineno))
            named = isinstance(child, ast.FunctionDef | ast.ClassDef)
            visit(child, f"{name}.{child.name}".lstrip(".") if named else name)

    visit(tree, "")
    return places


def takes(function, name):
    taken = function.args
    return any(a.arg == name for a in (*taken.posonlyargs, *taken.args, *taken.kwonlyargs))


def unlisted(where, places, listed, does, does_not, advice):
    """The `places` in functions that are not among `listed`, and functions listed that have none."""
    for name, line in places:
        if name not in listed:
            yield where, line, f"{name or 'the module'} {does}: {advice}"
    for name in listed.keys() - {name for name, _ in places}:
        yield where, 1, f"{name or 'the module'} {does_not} in ci/check_ops.py"


def check(root, slot=SLOT, read=READS, device=DEVICES):
    """Return the violations below `root` as sorted (file, line, message) rows."""
    paths = sorted((root / PACKAGE).rglob("*.py"))
    trees = {p.relative_to(root).as_posix(): ast.parse(p.read_text(encoding="utf-8"), str(p)) for p in paths}
    modules = {where.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for where in trees}
    of_ops = {where: tree for where, tree in trees.items() if where.startswith(OPS)}
    ops = declared(of_ops.values())
    assigned = {
        (node.value.id, node.attr)
        for tree in of_ops.values() for node in attributes(tree, NAMESPACES) if isinstance(node.ctx, ast.Store)
    }  # fmt: skip
    rows = []
    for where, tree in of_ops.items():
        rows += [*no_ops(where, tree, ops, assigned), *side_doors(where, tree, modules)]
    lines = {
        where: [n.lineno for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr == "_array"]
        for where, tree in trees.items() if not where.startswith((f"{PACKAGE}/core/", f"{PACKAGE}/backend/"))
    }  # fmt: skip
    advice = "use `.array`, or add the file with a reason to SLOT in ci/check_ops.py"
    rows += [(w, line, f"touches `._array`: {advice}") for w in lines if w not in slot for line in lines[w]]
    advice = "take the file off SLOT in ci/check_ops.py"
    rows += [(where, 1, f"does not touch `._array`: {advice}") for where in slot if not lines.get(where)]
    of_values = [where for where in trees if where.startswith((OPS, f"{PACKAGE}/nn/"))]
    for where in dict.fromkeys([*of_values, *read]):
        places = reads(trees.get(where, ast.Module([], [])))
        advice = "use ops, every_value for a check, or add the function with a reason to READS in ci/check_ops.py"
        texts = "reads the values of a tensor", "does not read values: take it off READS", advice
        rows += unlisted(where, places, read.get(where, {}), *texts)
    for where in dict.fromkeys([*of_ops, *device]):
        places = device_questions(trees.get(where, ast.Module([], [])))
        advice = "say `cuda` in a block, call a function of backend/, or add the function with a reason to DEVICES in "
        texts = "asks for the device", "does not ask for the device: take it off DEVICES", f"{advice}ci/check_ops.py"
        rows += unlisted(where, places, device.get(where, {}), *texts)
    return sorted(rows)


if __name__ == "__main__":
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    if not (root / PACKAGE).is_dir():
        sys.exit(f"{root} holds no {PACKAGE}/ to check")
    violations = check(root)
    for where, line, message in violations:
        print(f"{where}:{line}: {message}")
    sys.exit(bool(violations))
