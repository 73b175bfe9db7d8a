"""`python -m benchmarks report`: the page says what the files say, needs nothing else, and fits a phone."""

import copy
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from benchmarks import __main__
from benchmarks.report import OURS
from benchmarks.tables import RESULTS
from benchmarks.web import page

pytestmark = pytest.mark.cpu
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PHONE = """<iframe src="page.html" style="width: 390px; height: 800px; border: 0"></iframe><script>
onload = () => {
  const inside = document.querySelector("iframe").contentDocument, root = inside.documentElement;
  inside.querySelectorAll("details").forEach(each => each.open = true);
  document.title = `too wide by ${root.scrollWidth - root.clientWidth}, ${inside.querySelectorAll(".dot").length} dots`;
};</script>"""


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    out = tmp_path_factory.mktemp("page") / "page.html"
    assert __main__.main(["report", str(RESULTS), "-o", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def results():
    return [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]


def test_the_figures_are_those_of_the_files(written, results):
    text = written.read_text()
    hessian = next(r for r in results if (r["device"], r["benchmark"]) == ("cpu", "hessian"))
    for case in hessian["cases"]:
        row = text.partition(f'<span class="label">{case["case"]}</span>')[2].partition("</div>")[0]
        ratio = case["contenders"]["torch"]["ratio"]
        assert f">{ratio:.2f}</b>" in row
        (left,) = re.findall(r'<i class="dot[^"]*"[^>]* left: ([\d.]+)%"', row)
        assert float(left) == pytest.approx(np.clip(50 + 12.5 * np.log2(ratio), 0, 100), abs=0.01)
    memory = next(r for r in results if (r["device"], r["benchmark"]) == ("cuda", "saved_memory"))
    for case in memory["cases"]:
        counts = case["contenders"][OURS]["counts"]
        assert f'<span class="label">{case["case"].partition(", ")[2]}</span>' in text
        assert f"<span>{counts['MiB held']:.0f}</span>" in text
    for result in results:
        assert result["environment"]["date"][:10] in text


def test_compiled_calls_have_rows_of_their_own(written, results):
    text = written.read_text()
    (result,) = [r for r in results if (r["device"], r["benchmark"]) == ("cpu", "train_mlp")]
    assert '<span class="label">train_mlp</span>' in text
    rows = text.partition('<span class="label">train_mlp, our compiled</span>')[2]
    for case in result["cases"]:
        row = rows.partition(f'<span class="label">{case["case"]}</span>')[2].partition("</div>")[0]
        compiled, torch = (case["contenders"][name]["median_s"] for name in ("compiled", "torch"))
        assert f">{compiled / torch:.2f}</b>" in row


def test_the_page_needs_nothing_else(written):
    text = written.read_text()
    assert not re.search(r"<script|<link|<img|\bsrc=|https?://|url\(|@import", text)
    assert len(text) < 600_000


def test_sweeps_are_drawn():
    """Widths, batches, inputs and depths, by the numbers in the names of cases; what no result varies is said."""
    result = json.loads((RESULTS / "cpu-hessian.json").read_text())
    result["cases"] = result["cases"][:3]
    group, _ = page.machines([result])
    assert "No result varies: batch, hidden layers, inputs, width of the hidden layers." in page.scaling(group)
    first = result["cases"][0]
    for kind in ("width", "batch", "inputs", "depth"):
        for number in (2, 8, 4):
            result["cases"].append({**copy.deepcopy(first), "case": f"Tanh, {kind} {number}"})
    drawn = page.sweeps(result)
    assert [kind for kind, _ in drawn] == ["width", "batch", "inputs", "depth"]
    assert all([x for x, _ in by_name[OURS]] == [2, 4, 8] for by_name in drawn.values())
    text = page.scaling(group)
    assert text.count("<svg") == 4
    assert "No result varies" not in text


def test_a_later_result_of_a_machine_replaces_an_earlier_one(results):
    later = copy.deepcopy(results[0])
    later["environment"]["date"] = "2099-01-01T00:00:00"
    group, replaced = page.machines([later, *results])
    assert len(replaced) == 1
    assert "is replaced by that of 2099-01-01" in page.render([later, *results])
    assert sum(len(machine.results) for machine in group) == len(results)


def test_what_measures_nothing_is_refused(results, tmp_path, capsys):
    tiny = copy.deepcopy(results[0])
    tiny["config"]["tiny"] = True
    with pytest.raises(ValueError, match="--tiny"):
        page.render([tiny])
    with pytest.raises(SystemExit):
        page.main([str(tmp_path)])
    assert "no JSON file in" in capsys.readouterr().err


@pytest.mark.more
@pytest.mark.skipif(BROWSER is None, reason="no Chromium: `apt-get install chromium`")
def test_a_browser_shows_it(written):
    """No error on the console, nothing wider than a phone with everything opened, and a picture that is not blank."""
    pixels = pytest.importorskip("matplotlib.image")
    frame, picture = written.with_name("frame.html"), written.with_name("picture.png")
    frame.write_text(PHONE)
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files",
               "--enable-logging=stderr", "--virtual-time-budget=5000"]  # fmt: skip
    shown = subprocess.run([*command, "--dump-dom", frame.as_uri()], capture_output=True, text=True, timeout=120)
    assert "CONSOLE" not in shown.stderr
    dots = written.read_text().count('<i class="dot')
    assert f"<title>too wide by 0, {dots} dots</title>" in shown.stdout
    subprocess.run([*command, "--window-size=1200,2400", f"--screenshot={picture}", written.as_uri()],
                   capture_output=True, timeout=120, check=True)  # fmt: skip
    colours = np.unique((pixels.imread(picture)[..., :3] * 255).astype(np.uint8).reshape(-1, 3), axis=0)
    assert len(colours) > 100
