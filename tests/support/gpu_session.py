"""What a test run on a GPU leaves although it may be cut short at any time; ci/gpu.sh runs pytest with these options.

    --outcomes FILE   a JSON line for each test when it ends, and for each file that cannot be imported; the option
                      turns this plugin on
    --failures FILE   a JSON line for each failure, with its last 40 lines
    --stage NAME      what the lines call this run
    --passed FILE     names of tests to leave out, as a JSON list
    --until TIME      seconds since the epoch after which no test begins

Lines are appended by one write each, by the process that has the reports: beside pytest-xdist that is the controller.
After each test its process waits for the device, so that what a kernel did wrong is the failure of this test. Where the
device then answers no more (an illegal address ends its use by a process), an xdist worker ends at once: the controller
starts another one, and no other test is blamed. Without xdist the session ends.
"""

from __future__ import annotations

import json
import os
import sys
import time

import pytest

LAST, WIDTH = 40, 400  # of a failure: lines, and characters of a line
SHORT, MOST = 12 << 20, 15 << 20  # bytes of the failures' file: from there on without lines, and none at all
RANK = ("passed", "xfailed", "skipped", "failed", "error", "crashed")  # the outcome of a test is its worst part's


def add_options(parser):
    group = parser.getgroup("gpu session", "what a run on a GPU leaves (tests/support/gpu_session.py)")
    group.addoption("--outcomes", metavar="FILE", help="append a JSON line for each test")
    group.addoption("--failures", metavar="FILE", help="append a JSON line for each failure")
    group.addoption("--stage", default="", help="the name of this run in those lines")
    group.addoption("--passed", metavar="FILE", help="JSON list of tests to leave out")
    group.addoption("--until", metavar="TIME", type=float, help="seconds since the epoch after which no test begins")


def register(config):
    """For pytest_configure: the plugins of this process, if the run is one of ours."""
    if not config.getoption("outcomes"):
        return
    worker = hasattr(config, "workerinput")
    config.pluginmanager.register(Selection(config), "gpu-session-selection")
    if worker or not config.getoption("numprocesses", None):
        config.pluginmanager.register(Guard(config, worker), "gpu-session-guard")
    if not worker:
        config.pluginmanager.register(Lines(config), "gpu-session-lines")
        config.pluginmanager.register(Deaf(), "gpu-session-deaf")


class Selection:
    """Leaves out the tests that passed in an earlier run; all workers choose the same."""

    def __init__(self, config):
        path = config.getoption("passed")
        self.passed = frozenset()
        if path:
            with open(path) as file:
                self.passed = frozenset(json.load(file))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config, items):
        left_out = [item for item in items if item.nodeid in self.passed]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if item.nodeid not in self.passed]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session):
        if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self.passed:
            session.exitstatus = pytest.ExitCode.OK  # all have passed already


class Guard:
    """Runs where the tests run: waits for the device after each, and begins none after the deadline."""

    def __init__(self, config, worker):
        self.until, self.worker, self.lost = config.getoption("until"), worker, None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item):
        try:
            return (yield)
        finally:
            self.wait(item)

    def wait(self, item):
        """Waits for the device; an error is this test's, and `lost` if the next call fails, too."""
        runtime = _runtime()
        if runtime is None:
            return
        try:
            runtime.deviceSynchronize()
        except Exception as error:
            try:
                runtime.deviceSynchronize()
            except Exception:
                self.lost = f"{type(error).__name__}: {error}"
            raise

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item):
        outcome = yield
        if self.lost is not None:
            text = f"{item.nodeid}: {self.lost}; the device answers no more"
            if self.worker:  # its reports have been sent, and the controller takes the test for the one that crashed
                print(f"gpu_session: {text}: this worker ends", file=sys.stderr, flush=True)
                os._exit(1)
            item.session.shouldstop = text
        elif self.until is not None and time.time() > self.until:
            item.session.shouldstop = "the deadline of --until has passed"
        return outcome


def _runtime():
    """CUDA's, if CuPy or its stand-in is in use."""
    cupy = sys.modules.get("cupy")
    return cupy.cuda.runtime if hasattr(cupy, "ndarray") else None


class Deaf:
    """Lets pytest-xdist's controller talk to a worker that has just ended.

    It would end itself, by a broken pipe. The worker's end is the next that it hears of, and its tests go to others.
    """

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node):
        send = node.sendcommand

        def send_if_alive(name, **words):
            try:
                send(name, **words)
            except OSError as error:
                print(f"gpu_session: {node!r} has ended and does not hear {name!r}: {error}", file=sys.stderr)

        node.sendcommand = send_if_alive


class Lines:
    """Writes the lines. A test has one when it has ended; one more if its worker dies with it."""

    def __init__(self, config):
        self.stage, self.passed = config.getoption("stage"), 0
        self.outcomes = _open(config.getoption("outcomes"))
        self.failures = _open(config.getoption("failures")) if config.getoption("failures") else None
        self.running, self.ended = {}, set()

    def pytest_runtest_logstart(self, nodeid):
        self.running[nodeid] = {"test": nodeid, "outcome": "passed", "seconds": 0.0}

    def pytest_runtest_logreport(self, report):
        crashed = report.when not in ("setup", "call", "teardown")  # xdist's report of a worker that died
        result = self.running.setdefault(report.nodeid, {"test": report.nodeid, "outcome": "passed", "seconds": 0.0})
        word = "crashed" if crashed else _outcome(report)
        result["outcome"] = max(result["outcome"], word, key=RANK.index)
        result["seconds"] = round(result["seconds"] + getattr(report, "duration", 0.0), 4)
        if report.failed:
            self.fail(report.nodeid, report.when, report.longreprtext)
        if crashed:
            self.pytest_runtest_logfinish(report.nodeid)

    def pytest_runtest_logfinish(self, nodeid):
        result = self.running.pop(nodeid, None)
        if result is not None:
            self.ended.add(nodeid)
            _append(self.outcomes, result)

    def pytest_collectreport(self, report):
        if report.failed:
            _append(self.outcomes, {"test": report.nodeid, "outcome": "error", "seconds": 0.0})
            self.fail(report.nodeid, "collect", report.longreprtext)

    def pytest_internalerror(self, excrepr):
        self.fail("", "internal", str(excrepr))

    def fail(self, nodeid, when, text):
        if self.failures is None:
            return
        size = os.fstat(self.failures).st_size
        if size < MOST:
            lines = [line[:WIDTH] for line in text.splitlines()[-LAST:]] if size < SHORT else ["(the file is full)"]
            _append(self.failures, {"stage": self.stage, "test": nodeid, "when": when, "lines": lines})

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session):
        for actual in self.running.values():  # in workers that do not answer
            _append(self.outcomes, actual | {"outcome": "unfinished"})
        missing = session.testscollected - len(self.ended) - len(self.running)
        if missing > 0:
            _append(self.outcomes, {"session": f"{missing} of {session.testscollected} tests were not run"})


def _outcome(report):
    """In one word; what fails before or after the test itself is an error."""
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "passed"
    return "error" if report.failed and report.when != "call" else report.outcome


def _open(path):
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def _append(file, value):
    os.write(file, json.dumps(value).encode() + b"\n")
