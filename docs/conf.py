"""Configuration of Sphinx, which builds the site with `make docs`."""

import os
import sys
from pathlib import Path

# Examples use one thread, and only generated data or data of scikit-learn.
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
    "sphinx-mathjax-offline",  # shows equations without internet
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
    # Base classes that the API reference names but does not document.
    ("py:.*", r"(NetClassifier|BinaryNetClassifier|LossModule|object)"),
    ("py:.*", r"sktopk\.[\w.]*_.*"),
    # A property of scikit-learn's Pipeline that our subclass does not document again.
    ("py:obj", r"classes_"),
]

autosummary_generate = True
autodoc_typehints = "none"
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False

# Links to other projects also work in a build without internet: inventories.txt has the names that
# the pages use, in case the inventory of a project cannot be fetched.
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
    # The page of computation times would load style sheets from the internet.
    "write_computation_times": False,
    "show_memory": False,
    # Hide comments that configure sphinx-gallery, such as the number of the thumbnail.
    "remove_config_comments": True,
    # Thumbnails of this size are scaled down to the column, not cut.
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
# The address of this version, such as https://.../dev. Its parent folder has all versions and the
# newest versions.json. Without an address, the site has no version switcher.
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
    html_theme_options["check_switcher"] = False  # versions.json may not exist yet
    html_theme_options["navbar_end"] = ["version-switcher", "theme-switcher"]
# The address of the repository, once it is hosted.
site_repository = os.environ.get("SKTOPK_REPOSITORY", "")
if site_repository:
    html_theme_options["icon_links"] = [
        {"name": "Repository", "url": site_repository, "icon": "fa-solid fa-code-branch"}
    ]
html_sidebars = {"index": [], "research": []}
