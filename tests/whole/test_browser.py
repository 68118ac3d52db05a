"""The report in a real Chromium, opened from disk: the slider moves, policies and curves follow,
nothing complains.
"""

import json
import shutil
from pathlib import Path

import pytest

from cmdpax.report import write_report

webdriver = pytest.importorskip(
    "selenium.webdriver", reason="selenium is not installed (it is in the extra 'dev')"
)
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import Select, WebDriverWait  # noqa: E402

RESULTS = Path(__file__).parents[2] / "results"
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "headless",
    "no-sandbox",
    "disable-gpu",
    "disable-quic",
    "no-first-run",
    "disable-background-networking",
    "disable-component-update",
    "disable-sync",
    "disable-dev-shm-usage",
    "force-prefers-reduced-motion",  # scrolls at once, so that a click finds what it aims at
    "window-size=1280,1000",
)
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="Chromium and its driver are not installed (make browser)"
)
SHOWN = ("PQA-ALM", "NPG-PD", "OPG-PD")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A report on a mixture: some recorded exact runs, two training runs, a table, a figure."""
    folder = tmp_path_factory.mktemp("browser") / "results"
    for problem in ("cliff-world", "deep-sea"):
        rows = [
            json.loads(line)
            for line in (
                (RESULTS / "tabular" / "records" / f"{problem}.jsonl").read_text().splitlines()
            )
        ]
        kept = [
            row
            for row in rows
            if row["kind"] in ("header", "configuration")
            or (row["kind"] == "curve" and row["label"] in SHOWN)
        ]
        path = folder / "records" / f"{problem}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(map(json.dumps, kept)))
    for run in ("Hopper-cpo", "Hopper-spma-alm"):
        shutil.copytree(RESULTS / "deep-short" / run, folder / run)
    for name in ("selected.csv", "first.png"):
        shutil.copy(RESULTS / "tabular" / name, folder)
    config = json.loads((folder / "Hopper-cpo" / "config.json").read_text())
    evil = {
        **config,
        "method": "<img src=x onerror=window.hacked=1>",
        "</script><script>window.hacked=1</script>": 1,
    }
    (folder / "Hopper-cpo" / "config.json").write_text(json.dumps(evil))
    return write_report(folder).path


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def browser(chromium, page):
    chromium.get(page.as_uri())
    yield chromium
    assert chromium.get_log("browser") == []  # no error, no warning, nothing blocked
    assert chromium.execute_script("return window.hacked") is None
    assert chromium.execute_script("return performance.getEntriesByType('resource').length") == 0


def find(browser, selector):
    return browser.find_element("css selector", selector)


def seen(browser):
    """What a reader sees of the exact runs: evaluation, readouts, where the marks stand, the
    arrows.
    """
    return browser.execute_script("""
        const number = (element, name) => Number(element.getAttribute(name));
        const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
        const charts = all('#viewer .chart'), boards = all('.panel .board');
        const evaluation = document.querySelector('.transport b').textContent;
        return {
          evaluation: Number(evaluation.replaceAll(',', '')),
          spoken: document.querySelector('.transport input').getAttribute('aria-valuetext'),
          panels: all('.panel .readout').map((list) => list.textContent),
          now: charts.map((chart) => number(chart.querySelector('.now'), 'x1')),
          dots: charts.map((chart) => number(chart.querySelector('circle.dot'), 'cy')),
          lines: charts.map((chart) => all('.line', chart).map((e) => e.getAttribute('d').length)),
          arrows: boards.map((board) =>
            all('.arrow', board).map((arrow) => arrow.getAttribute('d')).join('')),
          labels: boards.map((board) => board.getAttribute('aria-label')),
        };
    """)


def drag(browser, share):
    """Move the slider with the pointer, as a hand would."""
    from selenium.webdriver.common.action_chains import ActionChains

    slider = find(browser, ".transport input")
    width = slider.size["width"]
    ActionChains(browser).move_to_element_with_offset(
        slider, int((share - 0.5) * (width - 18)), 0
    ).click().perform()


def test_the_slider_moves_and_everything_follows(browser):
    drag(browser, 0.1)
    early = seen(browser)
    drag(browser, 0.9)
    late = seen(browser)
    assert early["evaluation"] < 60 < 500 < late["evaluation"]
    assert late["spoken"] == f"evaluation {late['evaluation']} of 1000"
    for before, after in zip(early["now"], late["now"], strict=True):
        assert after > before + 100  # the line crosses the chart
    for part in ("panels", "dots", "arrows", "labels"):
        assert all(a != b for a, b in zip(early[part], late[part], strict=True)), part
    assert all(length > 1000 for chart in late["lines"] for length in chart)


def test_the_curves_are_the_recorded_ones(browser):
    find(browser, ".transport input").send_keys(Keys.END)
    rows = [
        json.loads(line)
        for line in (RESULTS / "tabular" / "records" / "cliff-world.jsonl").read_text().splitlines()
    ]
    record = next(
        row
        for row in rows
        if row["kind"] == "curve" and row["label"] == "NPG-PD" and 0.001 in row["limits"]
    )
    shown = browser.execute_script(
        "return document.querySelectorAll('.panel.b .readout dd')[2].firstChild.textContent"
    )
    assert float(shown.replace("−", "-")) == pytest.approx(
        record["gap"][-1], rel=0.06
    )  # two digits are shown


def test_the_keyboard_is_enough(browser):
    slider = find(browser, ".transport input")
    slider.send_keys(Keys.HOME)
    assert seen(browser)["evaluation"] == 0
    slider.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_LEFT)
    assert seen(browser)["evaluation"] == 2
    slider.send_keys(Keys.END)
    assert seen(browser)["evaluation"] == 1000
    slider.send_keys(Keys.SPACE)  # plays from the start again
    play = find(browser, ".buttons .play")
    assert play.get_attribute("aria-label") == "Pause"
    WebDriverWait(browser, 60).until(lambda _: 3 < seen(browser)["evaluation"] < 1000)
    slider.send_keys(Keys.SPACE)
    assert play.get_attribute("aria-label") == "Play"
    stopped = seen(browser)["evaluation"]
    find(browser, "body").send_keys(Keys.ARROW_RIGHT)  # also with nothing in focus
    assert seen(browser)["evaluation"] > stopped
    focusable = browser.execute_script(
        "return [...document.querySelectorAll('button, select, input')].every((e) => e.tabIndex"
        " >= 0)"
    )
    assert focusable


def test_a_curve_can_be_dragged(browser):
    from selenium.webdriver.common.action_chains import ActionChains

    chart = find(browser, "#viewer .chart")
    browser.execute_script(
        "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", chart
    )
    ActionChains(browser).move_to_element(chart).click_and_hold().move_by_offset(
        80, 0
    ).release().perform()
    assert 500 < seen(browser)["evaluation"] < 900


def test_other_methods_and_problems_can_be_chosen(browser):
    before = seen(browser)
    Select(find(browser, ".panel.b select")).select_by_visible_text("OPG-PD")
    after = seen(browser)
    assert after["arrows"][0] == before["arrows"][0] and after["arrows"][1] != before["arrows"][1]
    assert "OPG-PD" in after["labels"][1] and "dual step" in find(browser, ".panel.b .with").text
    browser.find_elements("css selector", ".problems input")[1].send_keys(Keys.SPACE)
    assert "Deep Sea" in seen(browser)["labels"][0]
    find(browser, "#viewer details summary").click()
    table = "#viewer details tbody tr"  # filled once the browser says that it is open
    WebDriverWait(browser, 60).until(lambda _: browser.find_elements("css selector", table))
    assert len(browser.find_elements("css selector", table)) == 25


def test_learning_curves_show_the_limit_and_answer_the_pointer(browser):
    from selenium.webdriver.common.action_chains import ActionChains

    charts = browser.find_elements("css selector", ".world .chart")
    assert len(charts) == 2 and len(charts[0].find_elements("css selector", ".line")) == 2
    assert charts[1].find_elements("css selector", ".limit") and not charts[0].find_elements(
        "css selector", ".limit"
    )
    browser.execute_script(
        "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", charts[0]
    )
    ActionChains(browser).move_to_element(charts[0]).perform()
    assert (
        "steps" in find(browser, ".readings").text
        and "spma-alm: return" in find(browser, ".readings").text
    )


def test_tables_can_be_sorted(browser):
    button = find(browser, "#tables th:nth-child(5) button")
    browser.execute_script(
        "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", button
    )
    for order in ("ascending", "descending"):
        button.click()
        cells = [
            cell.get_attribute("textContent")
            for cell in browser.find_elements("css selector", "#tables td:nth-child(5)")
        ]
        numbers = [float(cell) for cell in cells if cell not in ("-", "–")]
        assert find(browser, "#tables th:nth-child(5)").get_attribute("aria-sort") == order
        assert numbers == sorted(numbers, reverse=order == "descending")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(browser, scheme):
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
    )
    colours = browser.execute_script("""
        const style = (selector) => getComputedStyle(document.querySelector(selector));
        const colour = (selector, name) => style(selector)[name].match(/[\\d.]+/g).map(Number);
        return [colour('body', 'color'), colour('body', 'backgroundColor'),
          colour('.lead', 'color'), colour('.board .arrow', 'fill')];
    """)
    text, ground, lead, arrows = (sum(colour[:3]) / 3 for colour in colours)
    assert (ground > 200) == (scheme == "light")
    assert min(abs(text - ground), abs(arrows - ground)) > 180 and abs(lead - ground) > 120


def test_everything_has_a_name(browser):
    """What can be operated or stands for a picture is labelled for those who do not see it."""
    nameless = browser.execute_script("""
        const labelled = (e) => e.id && document.querySelector(`label[for="${e.id}"]`);
        const named = (e) => e.getAttribute('aria-label') || e.textContent.trim()
          || e.getAttribute('alt') || e.querySelector('img[alt]') || labelled(e)
          || e.closest('label');
        const all = [...document.querySelectorAll('button, select, input, svg[role=img], img')];
        return all.filter((e) => !named(e)).map((e) => e.outerHTML);
    """)
    assert nameless == []


def test_a_narrow_screen_needs_no_sideways_scrolling(browser):
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True},
    )
    try:
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
