"""The built site: links and summaries without a browser, pages in one."""

import re
from urllib.parse import unquote, urldefrag, urlparse

import pytest

pytestmark = pytest.mark.docs

SCREENS = ((1280, 1800), (390, 844))
WIDE_PAGES = (
    "index.html",
    "guide/estimator.html",
    "api/generated/sktopk.DeepTopPushClassifier.html",
    "gallery/index.html",
)


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


def test_no_page_loads_from_elsewhere(site):
    for path, text in pages(site).items():
        for tag in re.findall(r"<(?:script|link|img)\b[^>]*>", text):
            outside = re.search(r'(?:src|href)="(https?:)?//', tag)
            assert outside is None or 'rel="canonical"' in tag, (path.name, tag)


def test_tables_of_the_reference_have_summaries(site):
    for page in (site / "api").glob("*.html"):
        for row in re.findall(r'<tr class="row-.*?</tr>', page.read_text(), re.DOTALL):
            if "generated/" in row:
                assert re.sub(r"<[^>]+>", "", row.split("</td>")[1]).strip(), (page.name, row)


def test_every_page_loads_without_errors(site, address, browser):
    found = {}
    for path in pages(site):
        browser.get(f"{address}/{path.relative_to(site)}")
        entries = browser.get_log("browser")
        if complaints := [entry for entry in entries if entry["level"] == "SEVERE"]:
            found[path.name] = complaints
    assert found == {}


def test_no_paragraph_is_long(site):
    long = []
    for path, text in pages(site).items():
        text = re.sub(r"<pre.*?</pre>|<script.*?</script>", "", text, flags=re.DOTALL)
        inner = r"<(p|li|td|dd)\b[^>]*>((?:(?!<(?:p|li|td|dd|ul|ol|dl|table)\b).)*?)</\1>"
        for _, block in re.findall(inner, text, re.DOTALL):
            words = re.sub(r"<[^>]+>", "", block).split()
            if len(words) > 90:
                long.append((path.name, len(words), " ".join(words[:9])))
    assert long == []


def test_summaries_of_the_reference_are_on_a_phone_screen(address, browser):
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


def test_signatures_show_classes_by_their_names(site):
    pages = [path.read_text() for path in (site / "api" / "generated").glob("sktopk.*.html")]
    assert len(pages) > 50
    assert not [text for text in pages if "&lt;class" in text]
    assert "TabularMLP" in (site / "api/generated/sktopk.PatMatClassifier.html").read_text()


@pytest.mark.parametrize(
    ("page", "file"), [("tables.html", "top_of_the_table.md"), ("boosting.html", "top_boost.md")]
)
def test_files_of_the_repository_are_links(site, page, file):
    (address,) = re.findall(rf'href="([^"]+/{file})"', (site / page).read_text())
    assert urlparse(address).scheme or (site / page).parent.joinpath(address).is_file()


def test_the_example_of_an_estimator_is_before_its_parameters(site):
    text = (site / "api/generated/sktopk.TopKClassifier.html").read_text()
    assert text.index('class="rubric">Examples') < text.index("Parameters<span")


@pytest.mark.parametrize("page", WIDE_PAGES)
def test_pages_fit_the_screen(address, browser, page):
    try:
        for width, height in SCREENS:
            size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            browser.get(f"{address}/{page}")
            assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
