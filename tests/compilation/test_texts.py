"""The text of some programs is that of a committed file: a change of passes and emitters shows what it changes."""

import compiled_texts
import pytest

pytestmark = pytest.mark.cpu


def test_programs_have_the_committed_text():
    assert compiled_texts.text() == compiled_texts.TEXT.read_text(), f"if that is meant: {compiled_texts.COMMAND}"
