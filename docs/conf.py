"""How Sphinx builds the site: `make docs`."""

import os
import sys
from pathlib import Path

# Examples use one thread, and data that everyone has: generated or scikit-learn's.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["SKTOPK_DATA"] = "nowhere"

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_ext"), str(HERE / "plots")]

from inventories import write_inventories  # noqa: E402

import sktopk  # noqa: E402

project = "sktopk"
copyright = "the sktopk developers, BSD-3-Clause"
release = version = sktopk.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "matplotlib.sphinxext.plot_directive",
    "sphinx-mathjax-offline",  # readers may be offline, too
    "class_names",
    "examples_first",
    "formula",
    "outside_links",
    "recommendations",
    "site_metadata",
    "trailing_underscores",
]
exclude_patterns = ["_build", "plots"]
templates_path = ["_templates"]
default_role = "literal"
nitpicky = True
nitpick_ignore_regex = [
    # Base classes that the reference names and does not document.
    ("py:.*", r"(NetClassifier|BinaryNetClassifier|LossModule|object)"),
    ("py:.*", r"sktopk\.[\w.]*_.*"),
    # A property of scikit-learn's Pipeline, which its subclass here does not document again.
    ("py:obj", r"classes_"),
]

autosummary_generate = True
autodoc_typehints = "none"
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False

# Links to other projects work in a build without internet as well: where an inventory
# cannot be fetched, the names that these pages use come from inventories.txt.
intersphinx_mapping = write_inventories(HERE / "inventories.txt", HERE / "_build" / "inventories")
intersphinx_timeout = 5

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3

plot_include_source = False
plot_html_show_source_link = False
plot_html_show_formats = False
plot_formats = [("png", 110)]
plot_working_directory = str(HERE / "plots")
plot_rcparams = {"savefig.bbox": "tight", "figure.dpi": 110}
plot_apply_rcparams = True

sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"\.py$",
    "ignore_pattern": r"demo\.py$|notebooks|scale",
    "subsection_order": [f"../examples/{s}" for s in ("labels", "ranking", "decisions", "loops")],
    "within_subsection_order": "FileNameSortKey",
    "doc_module": ("sktopk",),
    "reference_url": {"sktopk": None},
    "backreferences_dir": "gallery/backreferences",
    "show_signature": False,
    "download_all_examples": False,
    # Its page loads style sheets from elsewhere; each example has its own time.
    "write_computation_times": False,
    "show_memory": False,
    # Which picture is on the card is no matter for readers.
    "remove_config_comments": True,
    # Figures are shrunk to the column, not cut.
    "thumbnail_size": (400, 280),
}

LOGO = "_static/sktopk.svg"
html_theme = "pydata_sphinx_theme"
html_title = "sktopk"
html_static_path = ["_static", "../benchmarks/results/evidence.png"]
html_css_files = ["sktopk.css"]
html_favicon = LOGO
html_show_sourcelink = False
html_context = {"default_mode": "auto"}
html_copy_source = False
html_theme_options = {
    "logo": {"text": "sktopk", "image_light": LOGO, "image_dark": LOGO},
    "navigation_with_keys": False,
    "header_links_before_dropdown": 5,
    "show_toc_level": 2,
    "show_prev_next": True,
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
# The address of this version, such as https://.../dev. The folder above has all versions, and the
# newest versions.json. Without an address there is nothing to switch to.
site_versions = ["dev"]
site_card = "../benchmarks/results/evidence.png"
html_baseurl = os.environ.get("SKTOPK_DOCS", "")
if html_baseurl:
    html_baseurl = html_baseurl.rstrip("/") + "/"
    root, _, folder = html_baseurl.rstrip("/").rpartition("/")
    html_theme_options["switcher"] = {
        "json_url": f"{root}/versions.json",
        "version_match": folder,
    }
    html_theme_options["check_switcher"] = False  # not there yet
    html_theme_options["navbar_end"] = ["version-switcher", "theme-switcher"]
# The address of the repository, once it is hosted.
site_repository = os.environ.get("SKTOPK_REPOSITORY", "")
if site_repository:
    html_theme_options["icon_links"] = [
        {"name": "Repository", "url": site_repository, "icon": "fa-solid fa-code-branch"}
    ]
html_sidebars = {"index": [], "research": []}
