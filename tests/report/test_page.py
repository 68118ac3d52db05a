import json
import os
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from random import Random

import pytest

from cmdpax import InputError
from cmdpax.cli.main import main
from cmdpax.files.reading import parse_json
from cmdpax.report import write_report
from cmdpax.report.contents import gather
from cmdpax.report.page import compose
from damage import measured, row_files

RESULTS = Path(__file__).parents[2] / "results"
EVIL = "<img src=x onerror='window.hacked=1'></script><script>window.hacked=1</script>\"'&"


class Reader(HTMLParser):
    """Tags with their attributes, and all text that is shown."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.shown = [], ""
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, text):
        self.shown += text


def evil_folder(tmp_path):
    folder = tmp_path / "a 'quoted' & <b>bold<b> folder"
    run = folder / "<i>run<i>"
    shutil.copytree(RESULTS / "deep-short" / "Hopper-cpo", run)
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(
        json.dumps({**config, "method": EVIL, "environment": EVIL, EVIL: EVIL, "limits": [EVIL]})
    )
    (folder / "table.csv").write_text(
        'method,"' + EVIL.replace('"', '""') + '"\n"' + EVIL.replace('"', '""') + '",1\n'
    )
    (folder / "notes.md").write_text(
        f"# {EVIL}\n\n[a](javascript:alert(1)) [b](../there.md) [c](https://example.org) ![d](http://e.org/x.png)\n"
    )
    (folder / "spec.toml").write_text(EVIL)
    (folder / "figure <b>.svg").write_text(f"<svg xmlns='http://www.w3.org/2000/svg'>{EVIL}</svg>")
    return folder


def test_what_files_say_stays_text(tmp_path):
    page = write_report(evil_folder(tmp_path)).path.read_text()
    reader = Reader(page)
    names = [tag for tag, _ in reader.tags]
    assert names.count("script") == 2 and names.count("img") == 1  # data, our script; the figure
    assert not {"i", "iframe", "object", "link", "base", "form"} & set(names)
    for tag, attributes in reader.tags:
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
        source = attributes.get("src", attributes.get("href", "#"))
        is_link = (tag, source[:4]) == ("a", "http")
        assert is_link or source.startswith(("#", "data:image/"))  # nothing loads by itself
    assert "window.hacked=1" in reader.shown
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, flags=re.S)[
        1
    ]
    assert "<" not in data and json.loads(data)["environments"][0]["title"] == EVIL


def test_nothing_may_run_or_load_but_what_is_inside(tmp_path):
    page = write_report(RESULTS / "deep-short", tmp_path / "page.html").path.read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert (
        "default-src &#x27;none&#x27;" in policy
        and "sha256-" in policy
        and "unsafe-eval" not in policy
    )
    assert not re.findall(r"""(?:src|href)=["']?(?!#|data:)[a-z./]""", page)


def test_the_page_holds_tables_figures_settings_and_notes(tmp_path):
    (tmp_path / "results").mkdir()
    for name in ("selected.csv", "first.png"):
        shutil.copy(RESULTS / "tabular" / name, tmp_path / "results")
    shutil.copytree(RESULTS / "deep-short", tmp_path / "results" / "deep")
    reader = Reader(write_report(tmp_path / "results").path.read_text())
    for text in (
        "PQA-ALM",
        "first.png",
        "final policies, evaluated",
        "settings that differ between training runs",
        "Short learning runs",
    ):
        assert text in reader.shown
    sections = [attributes["id"] for tag, attributes in reader.tags if tag == "section"]
    assert sections == ["learning", "tables", "figures", "settings", "notes"]
    labelled = {attributes.get("id") for _, attributes in reader.tags}
    assert all(f"{section}-title" in labelled for section in sections)


def test_figures_that_do_not_fit_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr("cmdpax.report.page.FIGURE_BYTES", 40_000)
    for name in ("first.png", "sensitivity.png"):
        shutil.copy(RESULTS / "tabular" / name, tmp_path)
    reader = Reader(write_report(tmp_path).path.read_text())
    assert [tag for tag, _ in reader.tags].count(
        "img"
    ) == 1 and "Too large for this page: sensitivity.png" in reader.shown


def test_long_tables_are_cut_and_counted(tmp_path):
    (tmp_path / "long.csv").write_text("n\n" + "\n".join(map(str, range(1234))) + "\n")
    reader = Reader(write_report(tmp_path).path.read_text())
    assert "The first 500 of 1234 rows." in reader.shown


def test_the_command(tmp_path, capsys):
    (tmp_path / "table.csv").write_text("a\n1\n")
    with pytest.raises(SystemExit) as done:
        main(["report", str(tmp_path)])
    assert done.value.code == 0 and "report.html" in capsys.readouterr().out
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    assert not list(tmp_path.glob(".*"))
    with pytest.raises(SystemExit) as done:
        main(["report", str(tmp_path / "nowhere")])
    assert done.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_bad_names_are_refused_before_the_work(tmp_path):
    with pytest.raises(InputError, match=r"\.html"):
        write_report(RESULTS / "tabular", tmp_path / "page.pdf")
    with pytest.raises(InputError, match="there is no folder"):
        write_report(RESULTS / "tabular", tmp_path / "nowhere" / "page.html")


@pytest.mark.slow
def test_whole_studies_stay_small(tmp_path):
    assert write_report(RESULTS / "tabular", tmp_path / "tabular.html").path.stat().st_size < 3e6


def strict(page):
    """The data of a page, as a browser reads them: NaN is no JSON."""
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    return parse_json(text)


def study(folder):
    """A folder with a little of everything that is read from JSON."""
    config = {"model": "cliff-world", "method": "npg-pd", "settings": {"steps": 3}}
    run = {"kind": "exact", "config": {**config, "features": None}, "seed": 0}
    header = {"kind": "header", "problem": "deep-sea", "limits": [0.5], "entries": [{"label": "a"}]}
    curve = {"kind": "curve", "label": "a", "settings": {"steps": 3}, "limits": [0.5]}
    records = [header, {"kind": "configuration", "label": "a", "method": "npg-pd"}, curve]
    trained = json.loads((RESULTS / "deep-short" / "Hopper-cpo" / "config.json").read_text())
    row = {"samples": 1, "return": 1.0, "cost": {"cost": 2.0}}
    part = {"mean": 1.0, "std": 0.1, "worst": 0.5}
    seen = {"episodes": 3, "reward": part, "costs": {"cost": part}}
    files = {
        "result.json": [{"run": run, "versions": {}, "outcome": {"reward": 1.0}}],
        "record.jsonl": records,
        "rows.jsonl": [{"a": 1, "b": {"c": 2.5}}, {"a": 3}],
        "run/config.json": [trained],
        "run/metrics.jsonl": [row, row],
        "run/evaluation.json": [{"stochastic": seen, "deterministic": seen}],
    }
    (folder / "run").mkdir()
    for name, rows in files.items():
        (folder / name).write_text("".join(json.dumps(one) + "\n" for one in rows))
    (folder / "good.csv").write_text("a\n1\n")
    return files


def test_one_bad_record_never_stops_a_report(tmp_path):
    files, random = study(tmp_path), Random(7)
    assert not write_report(tmp_path).passed_over
    named = 0
    for _ in range(20):
        for name in files:
            whole = (tmp_path / name).read_bytes()
            (tmp_path / name).write_bytes(row_files(whole, random))
            with measured(traced=False):
                report = write_report(tmp_path)
            strict(report.path.read_text())
            named += any(name.split("/")[0] in file for file, _ in report.passed_over)
            (tmp_path / name).write_bytes(whole)
    assert named > 20


@pytest.mark.parametrize("value", ["NaN", "1e999", "1" + "0" * 30, '"\\ud800"', "[]", "null"])
def test_values_that_used_to_stop_it(tmp_path, value):
    study(tmp_path)
    places = {("run/config.json", "seed"), ("result.json", "seed"), ("result.json", "steps")}
    for name, key in places:
        text = (tmp_path / name).read_text()
        (tmp_path / name).write_text(re.sub(rf'(?<="{key}": )\d+', lambda _: value, text))
        page = write_report(tmp_path).path.read_text()
        strict(page)
        assert "good" in Reader(page).shown
        (tmp_path / name).write_text(text)


def test_what_was_passed_over_is_named_on_the_page_and_by_the_command(tmp_path, capsys):
    (tmp_path / "good.csv").write_text("a\n1\n")
    (tmp_path / "result.json").write_text("{")
    os.mkfifo(tmp_path / "pipe\x1b[31m.csv")
    (tmp_path / os.fsdecode(b"odd\xff.csv")).write_bytes(b"\xff")
    (tmp_path / "link.png").symlink_to("/etc/hostname")
    with pytest.raises(SystemExit) as done:
        main(["report", str(tmp_path)])
    output = capsys.readouterr().out
    assert done.value.code == 0
    assert "result.json: it is not valid JSON" in output and "link.png: it is a link" in output
    assert r"pipe\x1b[31m.csv: it is not a regular file" in output.replace("\n", "")
    shown = Reader((tmp_path / "report.html").read_text()).shown
    assert shown.index("Passed over") > shown.index("good")
    assert "it is not valid JSON" in shown and "it is a link, and not followed" in shown


def test_files_that_go_away_while_the_page_is_made(tmp_path):
    shutil.copy(RESULTS / "tabular" / "first.png", tmp_path / "a.png")
    for name in ("b.png", "c.md", "d.toml"):
        (tmp_path / name).write_text("x")
    contents = gather(tmp_path)
    for name in ("b.png", "c.md", "d.toml"):
        (tmp_path / name).unlink()
    assert "a.png" in compose(contents, []) and len(contents.passed_over) == 3
