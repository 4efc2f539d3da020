"""The desk in the browser says what the package says, without a network."""

import json

import numpy as np
import pytest
from scipy.stats import binom

from sktopk import BudgetClassifier
from sktopk._estimators.decisions._guarantees import (
    calibration_rates,
    fpr_threshold,
    n_errors_allowed,
    precision_threshold,
    recall_threshold,
)
from sktopk.metrics import budget_table

pytestmark = pytest.mark.docs

DELTA = 0.05


def rows(n=3000, decimals=2, share=0.05, seed=0):
    """Scores, many of them tied, and labels."""
    rng = np.random.default_rng(seed)
    positive = rng.random(n) < share
    return np.round(rng.normal(size=n) + 2 * positive, decimals), positive


@pytest.fixture
def desk(address, browser):
    """The page, and its functions: ``desk("area", x)`` calls one by name."""
    browser.get(f"{address}/desk.html")

    def call(expression, **values):
        script = f"const given = JSON.parse(arguments[0]); return JSON.stringify({expression});"
        return json.loads(browser.execute_script(script, json.dumps(values)))

    return call


def test_binomial_tails_are_those_of_scipy(desk):
    cases = [
        (int(x), n, p)
        for n in (5, 40, 1000, 100_000, 1_000_000)
        for p in (0.001, 0.05, 0.5, 0.97)
        for x in {0, 1, n // 2, n - 1, n, *binom.ppf([0.001, 0.05, 0.5, 0.99], n, p)}
    ]
    x, n, p = np.array(cases).T
    for name, expected in (("binomialCdf", binom.cdf(x, n, p)), ("binomialSf", binom.sf(x, n, p))):
        found = desk(f"given.cases.map((each) => sktopkDesk.{name}(...each))", cases=cases)
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-250)


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5])
def test_errors_allowed_are_those_of_the_package(desk, rate):
    sizes = [1, 5, 28, 29, 58, 59, 300, 5000]
    found = desk(
        "given.sizes.map((n) => sktopkDesk.nErrorsAllowed(n, given.rate, given.delta))",
        sizes=sizes,
        rate=rate,
        delta=DELTA,
    )
    assert found == [n_errors_allowed(n, rate, DELTA) for n in sizes]


@pytest.mark.parametrize("decimals", [0, 2, 12])
@pytest.mark.parametrize("rate", [0.02, 0.5, 0.9])
def test_thresholds_are_those_of_the_package(desk, decimals, rate):
    scores, positive = rows(decimals=decimals)
    order = np.random.RandomState(3).permutation(len(scores))
    expected = {
        "fpr": fpr_threshold(scores, positive, rate, DELTA),
        "recall": recall_threshold(scores, positive, rate, DELTA),
        "precision": precision_threshold(scores, positive, rate, DELTA, np.random.RandomState(3)),
    }
    for name, (threshold, problem) in expected.items():
        last = ", Float64Array.from(given.order)" if name == "precision" else ""
        found = desk(
            f"sktopkDesk.{name}Threshold(Float64Array.from(given.scores), "
            f"Uint8Array.from(given.positive), given.rate, given.delta{last})",
            scores=scores.tolist(),
            positive=positive.astype(int).tolist(),
            order=order.tolist(),
            rate=rate,
            delta=DELTA,
        )
        assert found.get("threshold") == (threshold if problem is None else None), name


def test_too_few_rows_promise_nothing_and_say_how_many_it_takes(desk):
    scores, positive = rows(n=60)
    for name, rate in (("fpr", 0.01), ("recall", 0.9)):
        clf = BudgetClassifier.from_scores
        with pytest.warns(UserWarning, match=r"needs at least (\d+)") as caught:
            clf(scores, positive.astype(int), budget=rate, constraint=name)
        found = desk(
            f"sktopkDesk.{name}Threshold(Float64Array.from(given.scores), "
            "Uint8Array.from(given.positive), given.rate, 0.05)",
            scores=scores.tolist(),
            positive=positive.astype(int).tolist(),
            rate=rate,
        )
        assert f"needs at least {found['missing']} {found['rows']}" in str(caught[0].message)


def test_rates_have_the_intervals_of_the_package(desk):
    scores, positive = rows()
    found = desk(
        "sktopkDesk.calibrationRates(Float64Array.from(given.scores), "
        "Uint8Array.from(given.positive), 1.5, 0.95)",
        scores=scores.tolist(),
        positive=positive.astype(int).tolist(),
    )
    for name, rate in calibration_rates(scores > 1.5, positive, 0.95).items():
        assert found[name] == pytest.approx(rate._asdict(), rel=1e-9), name


@pytest.mark.parametrize("decimals", [0, 3])
def test_the_table_is_that_of_the_package(desk, decimals):
    scores, positive = rows(n=5000, decimals=decimals)
    budgets = [1, 20, 50, 500]
    found = desk(
        "sktopkDesk.budgetTable(sktopkDesk.ranking(Float64Array.from(given.scores), "
        "Uint8Array.from(given.positive)), given.budgets, 1000)",
        scores=scores.tolist(),
        positive=positive.astype(int).tolist(),
        budgets=budgets,
    )
    table = budget_table(positive, scores, budgets=budgets, n_rows=1000, n_bootstraps=2000)
    for name in ("hits", "precision", "recall"):
        value = [row[name]["value"] for row in found]
        np.testing.assert_allclose(value, table[name], rtol=1e-12)
        low, high = np.array([row[name]["ends"] for row in found]).T
        # Of 500 samples an end is known to about a tenth of the interval.
        width = table[f"{name}_high"] - table[f"{name}_low"]
        np.testing.assert_array_less(np.abs(low - table[f"{name}_low"]), 0.2 * width + 1e-12)
        np.testing.assert_array_less(np.abs(high - table[f"{name}_high"]), 0.2 * width + 1e-12)


def texts(browser, selector):
    return [each.text for each in browser.find_elements("css selector", selector)]


def message(browser):
    return browser.find_element("css selector", "#desk-message").text


def choose(browser, path):
    browser.find_element("css selector", "#desk-file").send_keys(str(path))


def wait_for(browser, condition):
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, 20).until(lambda _: condition())


@pytest.fixture
def offline(browser):
    """Cuts the network off, until the test is done."""

    def cut(conditions):
        browser.execute_cdp_cmd("Network.enable", {})
        browser.execute_cdp_cmd("Network.emulateNetworkConditions", conditions)

    still = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    yield lambda: cut({"offline": True} | still)
    cut({"offline": False} | still)


def test_a_file_is_answered_without_a_network(desk, browser, offline, tmp_path, screenshots):
    offline()
    scores, positive = rows(n=4000)
    path = tmp_path / "day.csv"
    lines = [
        f'"{i}","{s}",{"fraud" if p else "ok"}'
        for i, (s, p) in enumerate(zip(scores.tolist(), positive, strict=True))
    ]
    path.write_text("\n".join(["id,y_score,label", *lines]))
    choose(browser, path)
    wait_for(browser, lambda: texts(browser, "#desk-table tbody tr"))
    assert message(browser) == ""
    table = budget_table(positive, scores)
    shown = [row.split()[1] for row in texts(browser, "#desk-table tbody tr")]
    assert shown == [f"{hits:.1f}" for hits in table["hits"]]
    desk_of = BudgetClassifier.from_scores(scores, positive, budget=0.01, constraint="fpr")
    cells = texts(browser, "#desk-promises tbody tr:first-child td")
    assert float(cells[1]) == pytest.approx(desk_of.threshold_, rel=1e-5)
    assert f"recall {100 * desk_of.rates_['recall'].value:.1f} %" in cells[2]
    assert browser.find_element("css selector", "#desk-chart .curve").get_attribute("d")
    resources = browser.execute_script(
        "return performance.getEntriesByType('resource').map((each) => each.name)"
    )
    assert all("127.0.0.1" in name for name in resources)
    browser.set_window_size(1100, 1500)
    browser.save_screenshot(str(screenshots / "desk.png"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("score,label\n0.5,1\nhigh,0\n0.1,0\n0.3,1", "row 2 of “score” has “high”"),
        ("score,label\n0.5,1\n0.2,0\n0.1,2", "Labels must be two; “label” has 3"),
        ("score,label\n0.5,1\n0.2\n0.1,0", "Row 2 has 1 cells, the line of names 2"),
        ("score,label\n0.5,1\n0.2,\n0.1,0", "row 2 of “label” has none"),
        ("score,label", "a line of names and rows below it"),
    ],
)
def test_bad_files_get_a_sentence(desk, browser, tmp_path, text, said):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    choose(browser, path)
    wait_for(browser, lambda: said in message(browser))
    assert not browser.find_element("css selector", "#desk-answer").is_displayed()


def test_semicolons_with_decimal_commas_and_upside_down_scores(desk, browser, tmp_path):
    scores, positive = rows(n=500, share=0.3)
    path = tmp_path / "semicolons.csv"
    lines = [f"{-s};{int(p)}".replace(".", ",") for s, p in zip(scores, positive, strict=True)]
    path.write_bytes("\r\n".join(["score;target", *lines, ""]).encode("utf-8-sig"))
    choose(browser, path)
    wait_for(browser, lambda: texts(browser, "#desk-table tbody tr"))
    assert "rank “1” below the other label" in message(browser)
    hits = texts(browser, "#desk-table tbody tr:first-child td")[1]
    expected = budget_table(positive, -scores, budgets=[50])["hits"][0]
    assert hits.startswith(f"{expected:.1f} ")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("budgets", "50, 20000", "at most the 10000 rows of a day; got “20000”"),
        ("confidence", "100", "The confidence must lie between 0 and 100; got “100”"),
        ("fpr", "none", "False alarms must lie between 0 and 100; got “none”"),
    ],
)
def test_wrong_settings_are_named(desk, browser, name, value, said):
    browser.find_element("css selector", "#desk-example").click()
    wait_for(browser, lambda: texts(browser, "#desk-table tbody tr"))
    field = browser.find_element("css selector", f"#desk-{name}")
    allowed = field.get_attribute("value")
    field.clear()
    field.send_keys(value + "\n")
    wait_for(browser, lambda: said in message(browser))
    field.clear()
    field.send_keys(allowed + "\n")
    wait_for(browser, lambda: message(browser) == "")
