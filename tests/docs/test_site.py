"""The built site: links and summaries without a browser, pages with a browser."""

import re
from urllib.parse import unquote, urldefrag, urlparse

import pytest

pytestmark = pytest.mark.docs

WIDE_PAGES = "guide/estimator", "api/generated/sktopk.DeepTopPushClassifier", "gallery/index"


def pages(site):
    return {path: path.read_text() for path in site.rglob("*.html") if "_static" not in path.parts}


def test_no_internal_link_is_broken(site):
    texts = pages(site)
    assert len(texts) > 100
    anchors = {path: set(re.findall(r'(?:id|name)="([^"]+)"', t)) for path, t in texts.items()}
    broken = []
    for page, text in texts.items():
        for address in re.findall(r'(?:href|src)="([^"]+)"', text):
            if urlparse(address).scheme or address.startswith("//"):
                continue
            path, anchor = urldefrag(address)
            path = unquote(path.partition("?")[0])
            target = (page.parent / path).resolve() if path else page
            target = target / "index.html" if target.is_dir() else target
            known = anchors.get(target, {unquote(anchor)})
            if not target.exists() or (anchor and unquote(anchor) not in known):
                broken.append((page.name, address))
    assert broken == []


def test_no_page_loads_files_from_other_sites(site):
    for path, text in pages(site).items():
        for tag in re.findall(r"<(?:script|link|img)\b[^>]*>", text):
            outside = re.search(r'(?:src|href)="(https?:)?//', tag)
            assert outside is None or 'rel="canonical"' in tag, (path.name, tag)


def test_every_page_loads_without_errors(site, address, browser):
    found = {}
    for path in pages(site):
        browser.get(f"{address}/{path.relative_to(site)}")
        entries = browser.get_log("browser")
        if complaints := [entry for entry in entries if entry["level"] == "SEVERE"]:
            found[path.name] = complaints
    assert found == {}


def test_summaries_of_the_reference_fit_on_a_phone_screen(address, browser):
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    script = """return [...document.querySelectorAll("table.autosummary td:last-child p")]
        .map(cell => cell.getBoundingClientRect().right)"""
    try:
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get(f"{address}/api/estimators.html")
        rights = browser.execute_script(script)
        assert len(rights) > 10
        assert max(rights) <= 390
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("page", ["index", *WIDE_PAGES])
def test_pages_are_not_wider_than_the_screen(address, browser, page):
    try:
        for width, height in ((1280, 1800), (390, 844)):
            size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            browser.get(f"{address}/{page}.html")
            assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
