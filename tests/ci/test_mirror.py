"""Tests lie as the packages do: each module of core has its namesake, and each folder is that of a package."""

from pathlib import Path

import pytest
from checkout import ROOT, TESTS

pytestmark = pytest.mark.cpu

PACKAGE = ROOT / "autograd_gpu"
OF_NO_PACKAGE = {"ci", "cuda_emu", "programs", "support"}  # tests/README.md says what they hold


def found(folder, pattern):
    paths = (path.relative_to(folder) for path in folder.rglob(pattern))
    return sorted(path for path in paths if "__pycache__" not in path.parts)


@pytest.mark.parametrize("module", found(PACKAGE / "core", "*.py"), ids=str)
def test_a_module_of_core_has_its_namesake(module):
    if module.name != "__init__.py":
        assert (TESTS / "core" / module.with_name(f"test_{module.name}")).is_file()


def test_a_folder_is_that_of_a_package():
    folders = {path.parent for path in found(TESTS, "*.py")} - {Path(".")}
    mirrored = {folder for folder in folders if folder.parts[0] not in OF_NO_PACKAGE}
    assert sorted(folder for folder in mirrored if not (PACKAGE / folder / "__init__.py").is_file()) == []
    assert {folder.parts[0] for folder in folders - mirrored} == OF_NO_PACKAGE


def test_beside_the_folders_lie_tests_of_single_modules_and_of_names():
    """A file at the top is about a module at the top, or about names all over the package."""
    modules = {path.stem for path in PACKAGE.glob("*.py")}
    names = {"import", "names", "torch_names"}
    assert {path.stem for path in TESTS.glob("test_*.py")} <= {f"test_{name.strip('_')}" for name in names | modules}
