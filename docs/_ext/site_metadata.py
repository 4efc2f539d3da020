"""Metadata of the site: OpenGraph cards, llms.txt, versions.json, parameters in the search.

Cards and files contain complete addresses only if `html_baseurl` is set.
"""

import inspect
import json
import re
from html import escape
from pathlib import Path

from docutils import nodes


def first_paragraph(doctree):
    """Return the text of the first paragraph of a page, in one line."""
    for paragraph in doctree.findall(nodes.paragraph):
        if text := " ".join(paragraph.astext().split()):
            return text
    return ""


def add_card(app, pagename, templatename, context, doctree):
    """Add the OpenGraph tags of a page."""
    if doctree is None:
        return
    title = re.sub("<.*?>", "", context.get("title", ""))
    tags = {
        "og:type": "website",
        "og:site_name": app.config.project,
        "og:title": title,
        "og:description": first_paragraph(doctree)[:200],
    }
    app.env.site_pages = getattr(app.env, "site_pages", {})
    app.env.site_pages[pagename] = title, tags["og:description"]
    if base := app.config.html_baseurl:
        tags["og:url"] = f"{base}{pagename}.html"
        tags["og:image"] = f"{base}_static/{Path(app.config.site_card).name}"
    metatags = context.get("metatags", "")
    for name, content in tags.items():
        metatags += f'<meta property="{name}" content="{escape(content)}" />\n'
    context["metatags"] = metatags


def write_texts(app, exception):
    """Write llms.txt, which lists all pages, and versions.json for the version switcher."""
    if exception is not None or app.builder.format != "html":
        return
    if not app.env.found_docs <= getattr(app.env, "site_pages", {}).keys():
        # This build did not write all pages: keep the files of the last full build.
        return
    base = app.config.html_baseurl
    first, *others = [app.config.root_doc, *sorted(app.env.site_pages)]
    title, about = app.env.site_pages[first]
    lines = [f"# {title}", "", f"> {about}", "", "## Pages", ""]
    for page in others:
        if page != first and not page.startswith("gallery/sg_"):
            title, about = app.env.site_pages[page]
            lines.append(f"- [{title}]({base}{page}.html): {about}")
    (app.outdir / "llms.txt").write_text("\n".join(lines) + "\n")
    if base:
        root = base.rstrip("/").rpartition("/")[0]
        versions = [
            {"name": name, "version": name, "url": f"{root}/{name}/"}
            for name in app.config.site_versions
        ]
        (app.outdir / "versions.json").write_text(json.dumps(versions))


def index_parameters(app, what, name, value, options, lines):
    """Make each parameter a main entry of the index. The search ranks entries above other words."""
    if what not in ("class", "function"):
        return
    try:
        parameters = inspect.signature(value).parameters
    except (TypeError, ValueError):
        return
    # The search finds an entry only by at least half of its characters. Use the name without more.
    if parameters:
        # Append the entries, because autosummary uses the first paragraph as the summary.
        lines += ["", ".. index::", *(f"   ! single: {each}" for each in parameters), ""]


def setup(app):
    app.add_config_value("site_card", "", "html")
    app.add_config_value("site_versions", [], "html")
    app.connect("html-page-context", add_card)
    app.connect("build-finished", write_texts)
    # Run after numpydoc, whose priority is 500.
    app.connect("autodoc-process-docstring", index_parameters, priority=600)
    # Write all pages in one process, because `site_pages` collects them for llms.txt.
    return {"parallel_read_safe": True, "parallel_write_safe": False}
