"""The demo: one run at a tenth of its size, its report in a browser, and chapters that fail or are stopped."""

import html.parser
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import types

import numpy as np
import pytest
from checkout import ROOT
from one_thread import one_thread

import autograd_gpu as ag

for package in ("sklearn", "matplotlib", "rich", "jinja2"):
    pytest.importorskip(package)
charts = importlib.import_module("benchmarks.demo.charts")
demo = importlib.import_module("benchmarks.demo.__main__")
derivatives = importlib.import_module("benchmarks.demo.derivatives")
terrain = importlib.import_module("benchmarks.demo.terrain")
story = importlib.import_module("benchmarks.demo.story")

pytestmark = pytest.mark.cpu
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
UNITS = {"": 1, "%": 0.01, "s": 1, "ms": 1e-3, "m": 1, "/km": 1, "°": 1, "MiB": 1 << 20, "KiB": 1 << 10}
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class Figures(html.parser.HTMLParser):
    """Collects (path, value, text) of each figure in a report, and what it loads."""

    def __init__(self, page):
        super().__init__()
        self.figures, self.sources, self.open = [], [], None
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        if tag == "data":
            self.open = named["data-path"], json.loads(named["value"]), ""
        self.sources += [named[key] for key in ("src", "href") if key in named]

    def handle_data(self, text):
        if self.open:
            self.open = (*self.open[:2], self.open[2] + text)

    def handle_endtag(self, tag):
        if tag == "data":
            self.figures.append(self.open)
            self.open = None


def at(told, path):
    """A figure in demo.json."""
    chapter, *keys = path.split("/")
    value = told["chapters"][chapter]["figures"]
    for key in keys:
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """The folder and the output of one run, in which warnings are errors."""
    out = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-W", "error", "-m", "benchmarks.demo", "--device", "cpu", "--tiny", "--out", str(out)]
    environment = {**os.environ, **ONE_THREAD, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr
    return out, done.stdout


@pytest.fixture(scope="module")
def told(tiny):
    return json.loads((tiny[0] / "demo.json").read_text())


@pytest.fixture(scope="module")
def report(tiny):
    return (tiny[0] / "report.html").read_text()


# ---- what a run tells -----------------------------------------------------------------------


def test_digits_are_read_and_misread_ones_are_listed(told):
    figures = told["chapters"]["digits"]["figures"]
    assert figures["accuracy"] >= 0.97
    assert sum(map(sum, figures["confusion"])) == figures["test images"] == 450
    assert len(figures["misread"]) == round((1 - figures["accuracy"]) * 450) > 0
    for entry in figures["misread"]:
        assert entry["digit"] != entry["read"]
        assert 0.1 < entry["certainty"] <= 1


def test_the_ground_is_learnt_with_its_slopes(told):
    figures = told["chapters"]["terrain"]["figures"]
    assert figures["sobolev"]
    assert figures["RMSE metres"] < 0.8 * figures["spread metres"]
    assert figures["batch RMSE metres"][-1] < figures["batch RMSE metres"][0]


def test_second_derivatives_are_counted_and_the_committed_ones_are_another_machines(told):
    figures = told["chapters"]["derivatives"]["figures"]
    assert [row["autograd_gpu"]["products"] for row in figures["today"].values()] == [30, 20, 5]
    assert [row["loop"]["products"] for row in figures["today"].values()] == [80, 80, 20]
    past = json.loads((ROOT / "benchmarks/results/cpu-hessian.json").read_text())
    by_name = {case["case"]: case["contenders"] for case in past["cases"]}
    assert figures["committed"]["date"] == past["environment"]["date"][:10]
    for case, row in figures["committed"]["cases"].items():
        assert {"torch", "torch.func", "jax"} <= set(row)
        assert all(one["seconds"] == by_name[case][name]["median_s"] for name, one in row.items())


def test_committed_figures_say_which_cases_they_lack():
    """A run on a lent GPU may end before its last case."""
    past = derivatives.committed("cuda")
    lacking = [case for case in derivatives.CASES if case not in past["cases"]]
    figures = {"config": {"batch": 1, "layers": 6, "hidden": 512}, "committed": past, "today": {}, "absent": {},
               "measured on": "here", "repeats": 5, "load per core": 3.0}  # fmt: skip
    today, shown = [block for block in derivatives.blocks_of(figures) if getattr(block, "title", "").endswith("a call")]
    assert shown.committed
    assert derivatives.BUSY in today.note
    assert derivatives.BUSY not in derivatives.blocks_of(figures | {"load per core": 0.9})[2].note
    assert [case for case, _ in shown.groups] == list(past["cases"])
    assert "H200" in shown.note
    assert past["date"] in shown.note
    assert shown.note.count("was not measured there") == len(lacking)


def test_hooks_hold_fewer_bytes_layer_by_layer(told):
    figures = told["chapters"]["memory"]["figures"]
    hooks = {row["hook"]: row for row in figures["hooks"]}
    layer = 4 * figures["batch"] * figures["width"]
    assert hooks["none"]["parts"] == [*[layer] * (figures["layers"] - 1), 0, layer]  # the last has no Tanh
    for name, share in {"fp16": 0.5, "bf16": 0.5, "fp8": 0.25}.items():
        assert hooks[name]["share"] == pytest.approx(share, rel=0.01)
        assert hooks[name]["loss"] == pytest.approx(hooks["none"]["loss"], rel=0.02)
        assert hooks[name]["loss"] != hooks["none"]["loss"]
    assert hooks["checkpoint"]["loss"] == hooks["none"]["loss"]
    assert hooks["checkpoint"]["gradient error"] == 0 < hooks["fp16"]["gradient error"] < hooks["fp8"]["gradient error"]
    assert len(hooks["none"]["loss"]) == figures["steps"]


# ---- the report -----------------------------------------------------------------------------


def test_report_and_terminal_show_the_figures_of_the_json_file(tiny, told, report):
    figures = Figures(report).figures
    assert {path.split("/")[0] for path, *_ in figures} == set(demo.CHAPTERS)
    printed = " ".join(tiny[1].split())
    for path, value, text in figures:
        assert at(told, path) == value, path
        assert text in printed, path
        if not text:  # of the confusion matrix
            assert value == 0
            continue
        number, unit = re.fullmatch(r"([-+.,\de]+) ?(\D*)", text).groups()
        digits = float(number.replace(",", "")) * UNITS[unit]
        assert digits == pytest.approx(value, rel=0.06, abs=0.05 * UNITS[unit]), (path, text)


def test_report_needs_no_network_and_follows_the_reader(report):
    assert all(source.startswith(("data:", "#")) for source in Figures(report).sources)
    assert "url(" not in report
    assert "@import" not in report
    assert "prefers-color-scheme: dark" in report
    assert 'name="viewport"' in report
    assert report.count("data:image/png") == report.count("read as") / 2 > 0  # alt text and caption
    assert report.count("data:image/jpeg") == 12


PROBE = """
<body><script>
const results = {};
for (const width of [390, 1200]) {
  const frame = document.createElement("iframe");
  frame.style.cssText = `width: ${width}px; height: 8000px; border: 0`;
  frame.onload = () => {
    const page = frame.contentDocument, shown = [...page.querySelectorAll("text, .axis span, th, td, figcaption span")];
    const beside = (a, b) => a.right <= b.left + 1 || a.bottom <= b.top + 1;
    const apart = (a, b) => beside(a, b) || beside(b, a);
    const overlaps = [];
    for (const one of shown) for (const other of shown) {
      if (one === other || one.parentElement !== other.parentElement) continue;
      if (!apart(one.getBoundingClientRect(), other.getBoundingClientRect()))
        overlaps.push(`${one.textContent} | ${other.textContent}`);
    }
    results[width] = {
      wide: page.documentElement.scrollWidth,
      images: page.images.length,
      broken: [...page.images].filter(image => !image.naturalWidth).map(image => image.alt),
      overlaps: overlaps,
    };
    if (Object.keys(results).length == 2) {
      document.body.innerHTML = `<pre id="results"></pre>`;
      document.getElementById("results").textContent = JSON.stringify(results);
    }
  };
  frame.src = "report.html";
  document.body.append(frame);
}
</script></body>
"""


def browse(folder, *words):
    """Runs headless Chromium; answers what it printed."""
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        pytest.skip(f"no browser is installed: none of {', '.join(BROWSERS)}")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
               "--allow-file-access-from-files", "--enable-logging=stderr", "--virtual-time-budget=4000",
               f"--user-data-dir={folder / 'profile'}", *words]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=120)


def test_report_opens_in_a_browser(tiny, report):
    probe = tiny[0] / "probe.html"
    probe.write_text(PROBE)
    done = browse(tiny[0], "--window-size=1200,1000", "--dump-dom", probe.as_uri())
    assert ":CONSOLE" not in done.stderr
    results = json.loads(html.unescape(re.search(r'<pre id="results">(.*)</pre>', done.stdout)[1]))
    for width, seen in results.items():
        assert seen["wide"] <= int(width)
        assert seen["images"] == report.count("<img ") > 12
        assert seen["broken"] == []
        assert seen["overlaps"] == []


@pytest.mark.parametrize("dark", [False, True])
def test_a_screenshot_is_not_blank(tiny, dark):
    image = pytest.importorskip("matplotlib.image")
    target = tiny[0] / f"screenshot-{dark}.png"
    browse(tiny[0], "--window-size=1200,3000", f"--blink-settings=preferredColorScheme={0 if dark else 1}",
           f"--screenshot={target}", (tiny[0] / "report.html").as_uri())  # fmt: skip
    pixels = image.imread(target)[..., :3]
    colours = np.unique((pixels[::4, ::4] * 31).astype(int).reshape(-1, 3), axis=0)
    assert len(colours) > 50
    assert (pixels.mean() < 0.5) == dark


# ---- chapters that fail, miss or are stopped ------------------------------------------------


def chapter(outcome):
    """A module with one figure, or one that raises."""

    def run(settings, advance):
        advance(0.5, "half")
        if isinstance(outcome, BaseException):
            raise outcome
        return story.Story({"count": 3}, [story.Cards([(story.Figure("count"), "things")])], outcome)

    return types.SimpleNamespace(TITLE="Title", run=run)


def run_chapters(monkeypatch, out, *outcomes):
    """The exit code, demo.json and the report of a demo of such chapters: a, b, ..."""
    monkeypatch.setattr(demo, "CHAPTERS", dict(zip("abc", map(chapter, outcomes), strict=False)))
    only = ",".join("abc"[: len(outcomes)])
    code = demo.main(["--device", "cpu", "--only", only, "--out", str(out)])
    return code, json.loads((out / "demo.json").read_text())["chapters"], (out / "report.html").read_text()


def test_a_chapter_that_fails_says_so_and_the_others_run(monkeypatch, tmp_path, capsys):
    code, chapters, page = run_chapters(monkeypatch, tmp_path, "", ValueError("no <b>"), "")
    assert code == 1
    assert [one["state"] for one in chapters.values()] == ["done", "failed", "done"]
    assert chapters["b"]["error"] == "ValueError: no <b>"
    assert [path for path, *_ in Figures(page).figures] == ["a/count", "c/count"]
    assert "This chapter failed: ValueError: no &lt;b&gt;" in page
    assert "Traceback (most recent call last)" in page
    captured = capsys.readouterr()
    assert "Title: failed, ValueError: no <b>" in captured.err
    assert "Traceback (most recent call last)" in captured.out


def test_a_chapter_that_misses_its_target_fails_with_its_figures(monkeypatch, tmp_path):
    code, chapters, page = run_chapters(monkeypatch, tmp_path, "too few")
    assert (code, chapters["a"]["state"], chapters["a"]["figures"]) == (1, "failed", {"count": 3})
    assert "This chapter failed: too few" in page
    assert Figures(page).figures == [("a/count", 3, "3")]


def test_too_little_training_misses_the_target_of_digits(tmp_path, capsys):
    with one_thread():
        code = demo.main(["--device", "cpu", "--only", "digits", "--epochs", "1", "--out", str(tmp_path)])
    assert code == 1
    assert "is below 97%: train for more --epochs" in capsys.readouterr().err


def test_after_an_interrupt_the_finished_chapters_are_in_the_report(monkeypatch, tmp_path):
    code, chapters, page = run_chapters(monkeypatch, tmp_path, "", KeyboardInterrupt(), "")
    assert code == 130
    assert [one["state"] for one in chapters.values()] == ["done", "interrupted", "not run"]
    assert [path for path, *_ in Figures(page).figures] == ["a/count"]
    assert "This chapter was interrupted: stopped by Ctrl-C" in page


def test_what_cannot_be_done_is_refused(monkeypatch, capsys):
    with pytest.raises(SystemExit):
        demo.main(["--only", "digits,numbers"])
    assert "unknown chapter 'numbers'" in capsys.readouterr().err
    monkeypatch.setattr(ag.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="no CUDA device answers"):
        demo.main(["--device", "cuda"])


# ---- the geometry of the terrain ------------------------------------------------------------


def test_slope_aspect_and_curvature_of_known_surfaces():
    x, y = np.meshgrid(np.arange(-50.0, 51.0), np.arange(50.0, -51.0, -1.0))  # the first row is the north
    plane = terrain.central_differences(terrain.Grid(100 - y, 1.0, 1.0))
    np.testing.assert_allclose(plane.slope(), 45)
    np.testing.assert_allclose(plane.aspect(), 0, atol=1e-9)  # down to the north
    east = terrain.central_differences(terrain.Grid(-0.5 * x, 1.0, 1.0))
    np.testing.assert_allclose(east.aspect(), 90)
    assert np.isnan(terrain.central_differences(terrain.Grid(0 * x, 1.0, 1.0)).aspect()).all()
    sphere = terrain.central_differences(terrain.Grid(-np.sqrt(200.0**2 - x**2 - y**2), 1.0, 1.0))
    np.testing.assert_allclose(sphere.curvature()[1:-1, 1:-1], 1000 / 200, rtol=1e-3)  # a hollow of 200 m


def test_the_networks_derivatives_are_those_of_its_surface():
    rows, columns = np.mgrid[:30, :40]
    grid = terrain.Grid(50 * np.sin(rows / 9) + 30 * np.cos(columns / 7), 80.0, 100.0)
    differences = terrain.central_differences(grid)
    data = terrain.tensors(grid, differences, "cpu")
    ag.manual_seed(0)
    model = terrain.SineNetwork(16, 2, 1.0)
    network = terrain.surface_of(model, grid, data, lambda share, words: None)
    again = terrain.central_differences(grid._replace(height=network.z))
    for name in ("x", "y", "xx", "xy", "yy"):
        exact, approximate = (getattr(one, name)[2:-2, 2:-2] for one in (network, again))
        np.testing.assert_allclose(approximate, exact, atol=0.05 * np.abs(exact).max())


@pytest.mark.parametrize("sobolev", [False, True])
def test_the_loss_of_the_terrain_counts_slopes_if_it_is_told_to(sobolev):
    grid = terrain.load_grid(20)
    data = terrain.tensors(grid, terrain.central_differences(grid), "cpu")
    model = terrain.SineNetwork(8, 2, 1.0)
    loss, square = terrain.loss_of(model, data, ag.arange(100), sobolev)
    assert (loss.item() > square.item()) == sobolev
    loss.backward()
    assert all(parameter.grad is not None for parameter in list(model.parameters())[:-1])


# ---- axes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 10444), (0, 0.0123), (0.85, 1), (3, 4)])
def test_linear_ticks_are_few_and_round(low, high):
    ticks = charts.linear_ticks(low, high, 4)
    assert 2 <= len(ticks) <= 6
    assert all(low - 1e-9 <= tick <= high * (1 + 1e-9) for tick in ticks)
    step = ticks[1] - ticks[0]
    np.testing.assert_allclose(np.diff(ticks), step)
    assert float(f"{step:.0e}") == pytest.approx(step) or float(f"{step:.1e}") == pytest.approx(step)


@pytest.mark.parametrize(("low", "high"), [(0.01, 1), (8.2, 160), (0.031, 0.5), (0.29, 0.3), (1e-6, 1e6)])
def test_log_ticks_lie_on_the_axis(low, high):
    ticks = charts.log_ticks(low, high)
    assert len(ticks) >= 2
    assert all(low * (1 - 1e-9) <= tick <= high * (1 + 1e-9) for tick in ticks)
