"""Print one end of what the project supports, as pyproject.toml and this machine have it.

    ci/supported.py numpy    numpy==<its lower bound>
    ci/supported.py oldest   the interpreter of the oldest supported Python that is to be had
    ci/supported.py newest   that of the newest

Interpreters are looked for in PATH and in pyenv's folder. Where only one version is found, both ends are that one, and
stderr says so.
"""

import argparse
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


def lowest_numpy(project):
    """A requirement that pip takes."""
    (requirement,) = [word for word in project["dependencies"] if re.match(r"numpy\b", word)]
    return "numpy==" + re.search(r">=([\d.]+)", requirement)[1]


def versions(project):
    """The supported minor versions of Python 3, in order."""
    matches = (re.fullmatch(r"Programming Language :: Python :: 3\.(\d+)", line) for line in project["classifiers"])
    return sorted(int(match[1]) for match in matches if match)


def interpreter(minor, environment=os.environ):
    """The path of a Python 3.`minor` that runs, or None; pyenv has stubs in PATH that do not."""
    name, home = f"python3.{minor}", Path(environment.get("PYENV_ROOT") or Path.home() / ".pyenv")
    folders = [Path(folder) for folder in environment.get("PATH", "").split(os.pathsep) if folder]
    for folder in (*folders, *sorted((home / "versions").glob(f"3.{minor}.*/bin"))):
        path = folder / name
        if path.is_file() and os.access(path, os.X_OK):
            code = "import sys, ensurepip; print(sys.version_info.minor)"
            done = subprocess.run([path, "-c", code], capture_output=True, text=True, env=environment)
            if done.stdout.strip() == str(minor):
                return str(path)
    return None


def ends(project):
    """The interpreters of the oldest and the newest version that is to be had, by version."""
    paths = {minor: interpreter(minor) for minor in versions(project)}
    paths = {minor: path for minor, path in paths.items() if path is not None}
    if not paths:
        sys.exit(f"none of Python 3.{versions(project)} is in PATH or in pyenv's folder: install one of them")
    return min(paths.items()), max(paths.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("end", choices=("numpy", "oldest", "newest"))
    end = parser.parse_args().end
    project = tomllib.loads(PROJECT.read_text())["project"]
    if end == "numpy":
        print(lowest_numpy(project))
        return
    oldest, newest = ends(project)
    if oldest == newest:
        print(f"supported: Python 3.{oldest[0]} is the only supported one here: it is the oldest and the newest",
              file=sys.stderr)  # fmt: skip
    print((oldest if end == "oldest" else newest)[1])


if __name__ == "__main__":
    main()
