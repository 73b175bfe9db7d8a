"""Exports all names that the files of `ops/` may import from core.

A family of ops needs `defop`, the values of the specs in its block, and `public` for functions composed of ops. The
other names are for in-place operations, indexing and conversions, which handle tensors, storage and history directly.
"""

from .codegen.keywords import as_number, as_numbers, numbers_last, other_words
from .codegen.node_class import OpNode
from .codegen.source import Source, deferred, materialize
from .declare.batch_rules import (
    BROADCASTING,
    LEADING,
    LOOP,
    MATRICES,
    REDUCING,
    BatchWord,
    aligned,
    along,
    as_it_is,
    call,
    counted_from_right,
    example,
    expanded,
    impossible,
    moved,
    one_by_one,
    rank,
    run_batched,
)
from .declare.jvp_rules import ELEMENTWISE, LINEAR, MULTILINEAR, added, push_forward
from .declare.jvp_word import JvpWord
from .declare.op import (
    ALWAYS,
    ANY,
    BY_VALUE,
    EACH,
    FITTING,
    FLOAT,
    PROMOTE,
    RAW,
    RECORD,
    REGISTRY,
    SAME,
    ZERO,
    OpDef,
)
from .declare.op_call import Call
from .declare.pointwise import Family
from .declare.pointwise_several import Several
from .declare.public import method, public
from .dispatch import defop, matched, operator, pointwise
from .graph.storage import (
    INFERENCE_STORAGE,
    FollowingStorage,
    Storage,
    bump_version,
    notify_write_listeners,
    shares_memory,
    storage_of,
    version_of,
)
from .history.rebase import check_inplace, overwrite, rebase_history, refresh_if_stale, set_data, set_gradient_edge
from .interpret.batched import check_values, every_value, is_batched, refuse_batched
from .interpret.interpreters import in_transform, only_watched
from .interpret.level_tensor import LevelTensor
from .interpret.new_tensors import drawn, lifted_like, made_inside
from .interpret.recorded import holds_recorded, outlived
from .interpret.tracing import refuse as refuse_traced
from .interpret.tracing import tracer
from .interpret.writes import (
    adopt_view,
    concerns_level,
    push_written,
    refuse_inner,
    set_apart,
    to_detach,
    value_for,
    write_lifted,
)
from .saved.saved_tensor import SavedIntoView, SavedOutput, plain
from .saved.saved_tensor_hooks import EnoughSaved, give, withholding
from .size import Size
from .tensor import Float8Tensor, Parameter, Tensor, alias, as_subclass, wrap, wrap_codes, wrap_given

__all__ = [
    "ALWAYS",
    "ANY",
    "BROADCASTING",
    "BY_VALUE",
    "EACH",
    "ELEMENTWISE",
    "FITTING",
    "FLOAT",
    "INFERENCE_STORAGE",
    "LEADING",
    "LINEAR",
    "LOOP",
    "MATRICES",
    "MULTILINEAR",
    "PROMOTE",
    "RAW",
    "RECORD",
    "REDUCING",
    "REGISTRY",
    "SAME",
    "ZERO",
    "BatchWord",
    "Call",
    "EnoughSaved",
    "Family",
    "Float8Tensor",
    "FollowingStorage",
    "JvpWord",
    "LevelTensor",
    "OpDef",
    "OpNode",
    "Parameter",
    "SavedIntoView",
    "SavedOutput",
    "Several",
    "Size",
    "Source",
    "Storage",
    "Tensor",
    "added",
    "adopt_view",
    "alias",
    "aligned",
    "along",
    "as_it_is",
    "as_number",
    "as_numbers",
    "as_subclass",
    "bump_version",
    "call",
    "check_inplace",
    "check_values",
    "concerns_level",
    "counted_from_right",
    "deferred",
    "defop",
    "drawn",
    "every_value",
    "example",
    "expanded",
    "give",
    "holds_recorded",
    "impossible",
    "in_transform",
    "is_batched",
    "lifted_like",
    "made_inside",
    "matched",
    "materialize",
    "method",
    "moved",
    "notify_write_listeners",
    "numbers_last",
    "one_by_one",
    "only_watched",
    "operator",
    "other_words",
    "outlived",
    "overwrite",
    "plain",
    "pointwise",
    "public",
    "push_forward",
    "push_written",
    "rank",
    "rebase_history",
    "refresh_if_stale",
    "refuse_batched",
    "refuse_inner",
    "refuse_traced",
    "run_batched",
    "set_apart",
    "set_data",
    "set_gradient_edge",
    "shares_memory",
    "storage_of",
    "to_detach",
    "tracer",
    "value_for",
    "version_of",
    "withholding",
    "wrap",
    "wrap_codes",
    "wrap_given",
    "write_lifted",
]  # fmt: skip
