"""Without any one seam, guard or refusal of `ag.compile` a program gives another result, or is not refused or replayed.

Each fault switches off one of them, and a case finds that. The cases are in `support/compiled_cases` and
`support/refused_calls`.
"""

import ast
from pathlib import Path

import compiled_cases
import pytest
import refused_calls
from planting import plant, sayings, silence

import autograd_gpu as ag
from autograd_gpu.compilation.watching import chains_of

pytestmark = pytest.mark.cpu
ROOT = Path(ag.__file__).parent
TRACING = "autograd_gpu.core.interpret.tracing:Tracing"
TRACER = "autograd_gpu.compilation.tracer:Tracer"
RECORD = "autograd_gpu.compilation.record"
SAME = "autograd_gpu.compilation.same"
GUARDS = "autograd_gpu.compilation.guards:Guards"
KEY = "autograd_gpu.compilation.key"
# What refuses or tells calls apart: where, a part of the text, and the case that notices if that statement is left out.
REFUSALS = [
    (f"{TRACING}.run", "a checkpoint's policy", "policy_of_a_checkpoint"),
    (f"{TRACING}.run", "a checkpoint draws", "checkpointed_dropout"),
    ("autograd_gpu.core.interpret.new_tensors:drawn", "a checkpoint draws", "checkpointed_rand"),
    (f"{TRACER}.value", "a float8 tensor", "float8_as_result"),
    (f"{TRACER}.value", "a .grad that has a history", "history_of_a_grad"),
    (f"{TRACER}.call", "the size of the result", "mask"),
    (f"{TRACER}.saves", "saved-tensor hooks are set", "saved_tensor_hooks"),
    (f"{TRACER}.read", "the values of a tensor are read", "item"),
    (f"{RECORD}:_set_data", "the data of a tensor", "data_of_a_parameter"),
    ("autograd_gpu.ops.properties:refuse_place", "of a tensor is asked for", "place_in_memory"),
    (f"{RECORD}:record", "the call leaves a mode", "mode_left_on"),
    (f"{RECORD}:record", "the call changes a container", "container_of_an_argument"),
    (f"{RECORD}:_record_backward", "the graph of a result has hooks", "tensor_hook_on_a_result"),
    (f"{RECORD}:_record_backward", "two leaves show one array", "two_leaves_of_one_array"),
    (f"{RECORD}:_record_backward", "a tensor from outside was computed", "outside_and_what_it_is_made_of"),
    (f"{RECORD}:_record_backward", "the graph of one result was freed", "one_graph_of_two_is_freed"),
    (f"{RECORD}:_record_backward", "the backward of a result raises", "backward_that_raises"),
    (f"{RECORD}:_note_gradients", "a leaf is returned beside", "leaf_beside_its_results"),
    (f"{RECORD}:_check", "which is no tensor", "attribute_of_a_module"),
    (f"{RECORD}:_check", "is written to beside", "write_beside"),
    (f"{RECORD}:_check", "the call changes options", "options_before_the_step"),
    (f"{RECORD}:_check", "reaches the history of an argument", "history_of_an_argument"),
    (f"{RECORD}:_check", "an argument gets another history", "requires_grad_of_an_argument"),
    (f"{RECORD}:_check", "an argument shares memory", "memory_of_an_argument"),
    (f"{SAME}:difference", "gets another history", "detached_outside"),
    (f"{SAME}:difference", "one call took", "number_of_operations"),
    (f"{SAME}:difference", "in the next one", "other_operations"),
    (f"{SAME}:difference", "the .grad of another tensor", "other_grads"),
    (f"{SAME}:difference", "got other options", "numbers_of_python"),
    (f"{SAME}:difference", "a tensor from outside, are read", "values_from_outside"),
    (f"{SAME}:difference", "the structure of the result", "structure_of_results"),
    (f"{SAME}:difference", "a result that is no tensor", "numbers_beside_results"),
    (f"{SAME}:difference", "whether a result requires grad", "history_of_results"),
    (f"{SAME}:difference", "a result is made of other", "other_results"),
    (f"{SAME}:_different", "has another tensor", "shape_of_an_operand"),
    (f"{SAME}:_different", "whose values differ", "numbers_of_numpy"),
    (f"{SAME}:_different", "uses a tensor that is another", "other_parameters"),
    (f"{SAME}:_different", "gets other tensors", "order_of_operands"),
    (f"{GUARDS}.failed", "has other memory", "tensors_from_outside"),
    (f"{GUARDS}.failed", "has another history", "requires_grad_of_what_is_outside"),
    (f"{GUARDS}.failed", "a tensor from outside has a hook", "hooks_of_what_is_outside"),
    (f"{GUARDS}.failed", " has a hook", "hooks_of_what_is_outside", 1),
    (f"{GUARDS}.failed", "a .grad is another one", "whether_there_is_a_grad"),
    (f"{GUARDS}.failed", "a .grad is another one", "grads_accumulate", 1),
    (f"{GUARDS}.failed", "a .grad is another one", "grads_accumulate", 2),
    (f"{GUARDS}._failed_item", "a module has a hook", "hooks_of_modules"),
    (f"{GUARDS}._failed_item", "has changed", "globals_cells_and_attributes"),
    (f"{GUARDS}._failed_item", "has changed", "globals_cells_and_attributes", 1),
    (f"{GUARDS}._failed_item", "has changed", "attributes_of_modules", 2),
    ("autograd_gpu.compilation.saving:hooks_word", "inside of saved-tensor hooks", "unmarked_hooks_around_calls"),
    ("autograd_gpu.core.engine.hook_calls:_refuse_traced", "a hook on a tensor", "tensor_hook"),
    ("autograd_gpu.optim.optimizer:Optimizer._ag_trace", "a differentiable optimizer", "differentiable"),
    ("autograd_gpu.optim.hooks:_traced", "an optimizer has hooks", "optimizer_hook"),
    ("autograd_gpu.optim.hooks:_traced", "call it outside", "optimizer_of_a_user"),
    ("autograd_gpu.optim.lbfgs:LBFGS.step", "a step of LBFGS", "lbfgs"),
    ("autograd_gpu.optim.lr_scheduler.scheduler:refuse_capture", "of a learning-rate scheduler", "scheduler"),
    ("autograd_gpu.amp.grad_scaler:GradScaler._factor", "GradScaler.scale", "grad_scaler"),
    ("autograd_gpu.random.generator:Generator._refuse_in_capture", "a generator", "seed"),
    ("autograd_gpu.autograd.saved_hooks:increment_version", "a version is incremented", "version"),
    ("autograd_gpu.core.dispatch:_on_codes", "moves the codes", "float8_codes"),
    ("autograd_gpu.ops.creation.convert:convert", "converted to or from float8", "float8_from_outside"),
    ("autograd_gpu.ops.creation.from_data:tensor", "copies the values", "copied_array"),
]
# Flags and lines: where, what is there, what is put in its place, and the case that notices.
TRACED = "MODES.stack and (level := tracer()) is not None"
PLANTS = [
    # 1. The interpreter at the bottom of the stack, which is no transform and sees derivatives.
    (f"{TRACING}.is_transform", False, True, "graphs_that_are_freed"),
    (f"{TRACING}.sees_backward", True, False, "second_derivatives"),
    (f"{TRACING}.is_trace", True, False, "fused_rules"),
    (f"{TRACING}.nests_reverse", False, True, "checkpoints"),
    ("autograd_gpu.compilation.compiled:Compiled.__call__", "not only_watched()", "False", "inside_of_others"),
    # 2. Values are arrays by identity: one of two calls is a tensor from outside, others of equal content constants.
    (f"{SAME}:resolve", "v.kind, v.content = (CAPTURED, None)", "pass", "tensors_from_outside"),
    (f"{TRACER}.value", "if _has_history(x):", "if False:", "history_of_what_is_outside"),
    ("autograd_gpu.compilation.replay:Replay.__init__", "v.keep()", "pass", "constants_as_results"),
    # 3. Hooks made of operations.
    (f"{TRACING}.run", "MODES.bits &= ~SAVING", "pass", "hooks_of_operations"),
    ("autograd_gpu.compilation.saving:_word", "*map(word, held)", "", "hooks_of_cells_around_calls"),
    ("autograd_gpu.compilation.saving:_word", "named is not None", "False", "hooks_around_calls"),
    # 4. Writes.
    ("autograd_gpu.core.interpret.writes:concerns_level", "isinstance(level, Tracing)", "False", "writes"),
    ("autograd_gpu.ops.inplace.record:record", "tracing.copied(x._array, original._array)", "pass", "writes"),
    ("autograd_gpu.ops.inplace.record:record", "tracing.wrote(x, result)", "pass", "writes"),
    (f"{TRACER}.unfix", "value.fixed = False", "pass", "values_of_a_written_constant"),
    ("autograd_gpu.compilation.effects:write", "bump_version(tensor)", "pass", "writes"),
    ("autograd_gpu.compilation.passes.facts:aged", "ages[v.root] = ages.get(v.root, 0) + 1", "pass", "writes"),
    # 5. Draws: never dropped, merged or computed in advance, and repeated by a derivative of higher order.
    ("autograd_gpu.compilation.graph:Call.has_effect", "bool(self.op.random)", "False", "draws"),
    ("autograd_gpu.compilation.graph:Draw.has_effect", True, False, "draws"),
    ("autograd_gpu.compilation.passes.facts:is_pure", "and (not node.op.random)", "", "draws"),
    ("autograd_gpu.core.interpret.new_tensors:drawn", "tracing.drew(draw, sizes, value)", "pass", "draws"),
    ("autograd_gpu.compilation.backward:repeated", "snapshot is None", "True", "draws_with_a_backward_outside"),
    # 6. Functions run with the tracer on, and recomputations of checkpoints, too.
    (f"{TRACING}.function", "(*MODES.stack, self)", "MODES.stack", "functions"),
    ("autograd_gpu.utils.checkpoint.recomputation:repeated", "or level.is_trace", "", "checkpoints"),
    # 7. Fused rules are one instruction.
    (f"{TRACER}.fused", "if rule is None:", "if True:", "fused_rules"),
    # 8. `.grad`.
    (f"{TRACING}.accumulate", "self.wrote(grad, total)", "pass", "grads_accumulate"),
    (f"{TRACER}.asked_grad", "self.journal.entry(x)", "pass", "whether_there_is_a_grad"),
    (f"{TRACER}.grad_changes", "self._pending = (leaf, leaf._grad)", "pass", "grads_that_are_set"),
    (f"{TRACER}._owner_of_grad", "return value.tensor", "return None", "grads_accumulate"),
    ("autograd_gpu.compilation.effects:set_grad", "leaf._grad =", "_ =", "grads_that_are_set"),
    # 9. Routines, which read options at each call.
    ("autograd_gpu.optim.optimizer:Optimizer._ag_trace", "[*params, *states]", "states", "optimizers"),
    ("autograd_gpu.optim.optimizer:Optimizer.step", TRACED, "False", "optimizers"),
    ("autograd_gpu.optim.hooks:_traced", "optimizer._ag_steps_taken -= 1", "pass", "optimizers"),
    ("autograd_gpu.optim.swa_utils:AveragedModel.update_parameters", TRACED, "False", "averaged_models"),
    ("autograd_gpu.nn.utils.clip_grad:clip_grad_norm_", TRACED, "False", "grads_set_to_zero"),
    (f"{TRACER}.routine", "self._storages[id(storage)][2] +=", "_ =", "grads_set_to_zero"),
    (f"{TRACER}.notice", "self.settings.setdefault", "len", "options_before_the_step"),
    # 10. Reads and checks.
    (f"{RECORD}:_read", "level.read(self)", "pass", "array"),
    ("autograd_gpu.core.interpret.batched:every_value", "tracing.read(x)", "pass", "values_at_places"),
    ("autograd_gpu.core.interpret.batched:check_values", "tracing.checked(test", "map(test", "checks_of_values"),
    ("autograd_gpu.compilation.graph:Check.has_effect", True, False, "checks_of_values"),
    # Key.
    (f"{KEY}:modes", "(bits, ", "(", "modes_of_the_caller"),
    (f"{KEY}:modes", "get_default_dtype(), ", "", "modes_of_the_caller"),
    (f"{KEY}:modes", ", float32_matmul.precision", "", "precision_of_products"),
    (f"{KEY}:key_of", "(spec, hooks,", "(hooks,", "structures"),
    (f"{KEY}:key_of", "(spec, hooks,", "(spec,", "hooks_around_calls"),
    (f"{KEY}:key_of", ", *words,", ",", "numbers"),
    (f"{KEY}:key_of", ", *shared_memory(leaves))", ")", "shared_memory_of_arguments"),
    (f"{KEY}:word", "type(x), ", "", "numbers"),
    (f"{KEY}:word", "x.hex() if type(x) is float else x", "x", "numbers"),
    (f"{KEY}:_tensor_word", "named, ", "", "parameters_as_arguments"),
    (f"{KEY}:_tensor_word", "array.shape, ", "", "shapes_and_dtypes"),
    (f"{KEY}:_tensor_word", "array.strides, ", "", "shapes_and_dtypes"),
    (f"{KEY}:_tensor_word", "array.dtype, ", "", "shapes_and_dtypes"),
    (f"{KEY}:_tensor_word", "x.requires_grad, ", "", "whether_an_argument_requires_grad"),
    (f"{KEY}:_tensor_word", ", x.is_inference()", "", "modes_of_the_caller"),
    (f"{KEY}:shared_memory", "append((i, j, ", "append((", "which_arguments_share_memory"),
    (f"{KEY}:shared_memory", ", a is b, leaves", ", leaves", "shared_memory_of_arguments"),
    (f"{KEY}:shared_memory", ", leaves[i] is leaves[j])", ")", "one_leaf_twice_and_two_leaves_of_one_array"),
    (f"{KEY}:matcher", ".shape != {x.shape!r} or {", ".size < 0 or {", "shapes_and_dtypes"),
    (f"{KEY}:matcher", ".strides != {x._array.strides!r} or {", ".size < 0 or {", "orders_of_memory_in_turns"),
    (f"{KEY}:matcher", "(x._fn is None) is {x.requires_grad}", "False", "whether_an_argument_requires_grad"),
    (f"{KEY}:matcher", "(x._storage is INFERENCE) is not", "False and", "modes_of_the_caller"),
    (f"{KEY}:matcher", "return MODES.bits == {MODES.bits} and", "return", "modes_of_the_caller"),
    (f"{KEY}:matcher", "dtype_now() is dtype and", "", "modes_of_the_caller"),
    (f"{KEY}:matcher", "matmul.precision == {float32_matmul.precision!r}", "True", "precision_of_products"),
    (f"{KEY}:matcher", "if len(arrays) > 1:", "if False:", "shared_memory_of_arguments"),
    # What code names.
    ("autograd_gpu.compilation.watching:Watch._frame", "if kind == 'global':", "if False:",
     "globals_cells_and_attributes"),
    ("autograd_gpu.compilation.watching:Watch.function", "self._kept(CellItem(cell, None, name))", "cell",
     "globals_cells_and_attributes"),
    ("autograd_gpu.compilation.watching:Watch._within", "_parts(value)", "()", "attributes_by_variables"),
    ("autograd_gpu.compilation.watching:Watch._within", "self.module(value, reader)", "pass",
     "children_of_lists_of_modules"),
    ("autograd_gpu.compilation.watching:Watch._content", "isinstance(part, CONTAINERS)", "False",
     "contents_of_defaults"),
    ("autograd_gpu.compilation.watching:Watch.module", "self._kept(AttributeItem(", "str((", "attributes_of_modules"),
    ("autograd_gpu.compilation.items:snapshot", "not isinstance(x, CONTAINERS) or", "True or",
     "globals_cells_and_attributes"),
    ("autograd_gpu.compilation.items:equal", "type(a) is not type(b)", "False", "equal_values"),
    ("autograd_gpu.compilation.items:equal", "type(a) is float", "False", "equal_values"),
    ("autograd_gpu.compilation.watching:_arguments_of", "code.co_kwonlyargcount", "0", "attributes_of_arguments"),
    ("autograd_gpu.compilation.watching:_parts", "held = (_instance_dict(value) or {}).values() if children else ()",
     "held = ()", "attributes_by_variables"),
    ("autograd_gpu.nn.fused:through", "level.relies_on(layer, activation)", "pass", "modules_that_run_fused"),
    ("autograd_gpu.nn.utils.stateless:_exchanged", "level.relies_on(owner)", "pass", "replaced_parameters_of_a_module"),
    # The backward outside, and the passes.
    ("autograd_gpu.compilation.backward:CompiledBackward._checked", "storage.version != version", "False",
     "errors_of_versions"),
    ("autograd_gpu.compilation.replay:Replay._link", "self.trace.freed", "False", "graphs_that_are_freed"),
    ("autograd_gpu.compilation.passes.constants:constants", "v.root in facts.written or", "", "writes_to_constants"),
    ("autograd_gpu.compilation.passes.common:common", "v.root in facts.written or facts.escaping[v.root]", "False",
     "results_that_are_equal"),
    ("autograd_gpu.compilation.passes.algebra:_same_as", "not facts.is_private(source) or", "",
     "results_that_are_equal"),
    ("autograd_gpu.compilation.passes.algebra:_without_copies", "late.add(v)", "pass", "writes_before_backward"),
    ("autograd_gpu.compilation.passes.plan:Plan._may_be_placed", "self.root_of(v) not in self.kept", "True",
     "memory_of_programs"),
    ("autograd_gpu.compilation.passes.plan:Plan.last_uses", "**dict.fromkeys(self.kept, len(nodes))", "",
     "steps_by_hand"),
    ("autograd_gpu.compilation.passes.plan:Plan.is_free_behind", "and (self._last[root] == i)", "",
     "memory_of_programs"),
]
# What is refused elsewhere: where a test of it is, or why there is none.
ELSEWHERE = {
    "gets a tensor for a number": "no op takes one today; a check of what an op block may declare",
    "keeps a number for its derivative": "the same",
    "a step of GradScaler": "scale() comes before it",
    "a tensor from outside of shape": "a part of other texts",
    "a result has a .grad": "a leaf that the call makes, with its .grad: test_programs",
    "has another number of tensors": "the same op with the same options has as many",
    "another tensor has a gradient": "a difference of the operations is found before",
    "gradients are computed from other tensors": "the same",
    "offloads saved tensors": "test_saved_tensor_hooks, on CUDA",
    "a CUDA graph is replayed": "tests/cuda",
    "a collective communicates": "test_refusals",
    "compiler.disable": "test_refusals",
    "anomaly mode is on": "test_refusals",
    "hooks of on_node_start": "test_refusals",
    "neither a tensor nor hashable": "test_refusals",
    "an argument is a float8 tensor": "test_refusals",
    "it needs the history of an argument": "test_refusals",
    "a result is a leaf that requires grad and was made by the call": "test_refusals",
    "is used as a plain number": "test_dynamic, as the following ones",
    "saved-tensor hooks may decide by size": "",
    "a size inside of a transform": "",
    "something else than for other sizes": "",
    "do not follow from those of the arguments": "",
    "the size of a tensor is read by len()": "",
    "stride() of a tensor is read": "",
}


@pytest.fixture(autouse=True)
def _chains_anew():
    """What code names is looked up again, also after a fault in that."""
    chains_of.cache_clear()
    yield
    chains_of.cache_clear()


def fault(case):
    """What is wrong with compiled calls, by one of the cases."""
    module = refused_calls if case in refused_calls.REFUSED else compiled_cases
    with ag.enable_grad():  # and whatever a case leaves is put back
        return module.fault(case)


@pytest.mark.parametrize("case", compiled_cases.CASES)
def test_without_a_fault(case):
    assert case not in refused_calls.REFUSED
    assert fault(case) == ""


@pytest.mark.parametrize(("where", "text", "case", "which"), [(*row, 0)[:4] for row in REFUSALS])
def test_a_refusal_that_is_left_out_is_noticed(where, text, case, which, monkeypatch):
    silence(monkeypatch, where, text, which)
    assert fault(case) != ""


@pytest.mark.parametrize(("where", "old", "new", "case"), PLANTS)
def test_a_fault_is_noticed(where, old, new, case, monkeypatch):
    plant(monkeypatch, where, old, new)
    assert fault(case) != ""


def test_every_refusal_is_left_out_once():
    """Of the text of all that is refused a part stands above."""
    known = [text for _, text, *_ in REFUSALS] + list(ELSEWHERE)
    comparing = {ROOT / "compilation" / name for name in ("same.py", "guards.py")}
    missing = []
    for path in ROOT.rglob("*.py"):
        for node, words in sayings(ast.parse(path.read_text())):
            refuses = not isinstance(node, ast.Return) and "live_numbers" not in ast.unparse(node)
            if len(words) > 2 and (refuses or path in comparing) and not any(text in words for text in known):
                missing.append(f"{path.relative_to(ROOT)}:{node.lineno}: {words}")
    assert not missing, "\n".join(missing)
