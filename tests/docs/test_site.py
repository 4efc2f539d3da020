"""The built site: links without a browser, pages and search in one."""

import os
import re
import time
from html.parser import HTMLParser
from urllib.parse import unquote, urldefrag, urlparse

import pytest

import sktopk

pytestmark = pytest.mark.docs

PHONE = (390, 844)


def pages(site):
    return sorted(path for path in site.rglob("*.html") if "_static" not in path.parts)


class Links(HTMLParser):
    """The addresses that a page refers to, and the anchors that it has."""

    def __init__(self, text):
        super().__init__()
        self.addresses, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if attributes.get("id"):
            self.anchors.add(attributes["id"])
        if tag == "a" and attributes.get("name"):
            self.anchors.add(attributes["name"])
        for name in ("href", "src"):
            if attributes.get(name):
                self.addresses.append(attributes[name])


def test_no_internal_link_is_broken(site):
    links = {path: Links(path.read_text()) for path in pages(site)}
    assert len(links) > 100
    broken = []
    for page, found in links.items():
        for address in found.addresses:
            if urlparse(address).scheme or address.startswith("//"):
                continue
            path, anchor = urldefrag(address)
            path = unquote(path.partition("?")[0])
            target = (page.parent / path).resolve() if path else page
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                broken.append((page.name, address))
            elif anchor and target in links and unquote(anchor) not in links[target].anchors:
                broken.append((page.name, address))
    assert broken == []


def test_no_page_loads_from_elsewhere(site):
    for path in pages(site):
        for tag in re.findall(r"<(?:script|link|img)\b[^>]*>", path.read_text()):
            source = re.search(r'(?:src|href)="(https?:)?//', tag)
            assert source is None or 'rel="canonical"' in tag, (path.name, tag)


def examples(site):
    return [path for path in (site / "gallery").rglob("*.html") if path.name != "index.html"]


def test_every_example_has_a_picture_and_is_quick(site):
    found = examples(site)
    assert len(found) >= 14
    for path in found:
        text = path.read_text()
        assert "sphx-glr-single-img" in text or "sphx-glr-horizontal" in text, path.name
        minutes, seconds = re.search(r"\((\d+) minutes (\d+)\.\d+ seconds\)", text).groups()
        # Half a minute on an idle core, four times of that on a busy one.
        assert 60 * int(minutes) + int(seconds) < 120, path.name


def errors(browser):
    return [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def test_every_page_loads_without_errors(site, address, browser):
    errors(browser)  # those of pages before
    found = {}
    for path in pages(site):
        browser.get(f"{address}/{path.relative_to(site)}")
        if complaints := errors(browser):
            found[path.name] = complaints
    assert found == {}


def test_equations_are_set(address, browser):
    from selenium.webdriver.support.ui import WebDriverWait

    browser.get(f"{address}/guide/equations_labels.html")
    WebDriverWait(browser, 30).until(
        lambda b: len(b.find_elements("css selector", "mjx-container[display=true]")) >= 12
    )
    assert browser.find_elements("css selector", "mjx-merror") == []


@pytest.mark.parametrize("name", sktopk.__all__)
def test_search_finds_each_estimator(address, browser, name):
    from selenium.webdriver.support.ui import WebDriverWait

    browser.get(f"{address}/search.html?q={name}")
    link = f"#search-results a[href*='generated/sktopk.{name}.html']"
    WebDriverWait(browser, 20).until(lambda b: b.find_elements("css selector", link))


def of_width(browser, width, height):
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500},
    )


def in_theme(browser, theme):
    browser.execute_script(
        "localStorage.setItem('theme', arguments[0]); localStorage.setItem('mode', arguments[0]);"
        "document.documentElement.dataset.theme = arguments[0];"
        "document.documentElement.dataset.mode = arguments[0];",
        theme,
    )


PICTURED = [
    "index.html",
    "guide/estimator.html",
    "guide/equations_labels.html",
    "guide/tuning.html",
    "api/generated/sktopk.DeepTopPushClassifier.html",
    "gallery/index.html",
    "gallery/fraud_desk.html",
    "gallery/labels/circle_modes.html",
    "gallery/loops/own_linear_program.html",
]


@pytest.mark.parametrize("page", PICTURED)
def test_readable_on_a_phone_and_in_the_dark(address, browser, screenshots, page):
    name = page.replace("/", "-").removesuffix(".html")
    try:
        of_width(browser, 1280, 1800)
        browser.get(f"{address}/{page}")
        for theme in ("light", "dark"):
            in_theme(browser, theme)
            time.sleep(0.5)  # colours fade
            browser.save_screenshot(str(screenshots / f"{name}-{theme}.png"))
            text, ground = (
                browser.execute_script(
                    f"return getComputedStyle(document.querySelector('{where}')).{what}"
                )
                for where, what in (("article p", "color"), ("body", "backgroundColor"))
            )
            assert contrast(text, ground) > 4.5
        in_theme(browser, "light")
        of_width(browser, *PHONE)
        browser.get(f"{address}/{page}")
        browser.save_screenshot(str(screenshots / f"{name}-phone.png"))
        wide = browser.execute_script("return document.documentElement.scrollWidth")
        assert wide <= PHONE[0]
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def contrast(*colors):
    """Return the contrast ratio of two CSS colours (WCAG 2)."""
    luminance = []
    for color in colors:
        rgb = [int(number) / 255 for number in re.findall(r"\d+", color)[:3]]
        rgb = [x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in rgb]
        luminance.append(0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2])
    return (max(luminance) + 0.05) / (min(luminance) + 0.05)


def test_pages_have_cards_and_a_list_for_machines(site):
    text = (site / "top.html").read_text()
    for name in ("title", "description", "site_name"):
        assert re.search(f'<meta property="og:{name}" content=".+" />', text)
    listed = (site / "llms.txt").read_text()
    assert listed.startswith("# sktopk\n\n> scikit-learn estimators")
    base = os.environ.get("SKTOPK_DOCS", "").rstrip("/")
    for page in re.findall(r"\]\((.*?)\)", listed):
        assert (site / page.removeprefix(base).lstrip("/")).is_file()
    assert "api/generated/sktopk.TopKClassifier.html" in listed
