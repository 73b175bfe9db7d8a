"""What the record of a declared op answers."""

import pytest

from autograd_gpu.core.codegen import source
from autograd_gpu.core.declare.op import REGISTRY

pytestmark = pytest.mark.cpu


def test_every_op_says_what_it_is():
    assert not [name for name, op in REGISTRY.items() if not op.doc]


def test_no_input_has_a_name_that_generated_code_uses():
    assert not {name for op in REGISTRY.values() for name in op.inputs if name in source.SCOPE}


def test_attributes_are_filled_with_their_defaults():
    op = REGISTRY["sum"]
    assert op.filled({"keepdim": True}) == {**op.attributes, "keepdim": True}
    with pytest.raises(TypeError, match=r"sum has no attribute 'bins'; it has .*keepdim"):
        op.filled({"bins": 3})
    with pytest.raises(TypeError, match="permute needs its attribute 'dims'"):
        REGISTRY["permute"].filled({})
