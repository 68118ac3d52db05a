import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from cmdpax import InputError
from cmdpax.cli.main import main
from cmdpax.report import write_report

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
