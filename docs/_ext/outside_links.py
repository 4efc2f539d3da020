"""Links of hand-written pages to files outside of the site become plain text.

Those pages are read in the checkout, too, where `../benchmarks/results/x.md` is a file.
"""

from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform


class OutsideLinks(SphinxTransform):
    """Replace references to files of the checkout that are no pages."""

    # Before references are resolved, after myst has made them.
    default_priority = 5

    def apply(self):
        source = Path(self.env.srcdir)
        page = Path(self.env.doc2path(self.env.docname))
        for node in list(self.document.findall(addnodes.pending_xref)):
            if node.get("reftype") != "myst":
                continue
            target = (page.parent / node["reftarget"].partition("#")[0]).resolve()
            if not target.is_file():  # pages go without their suffix
                target = target.with_name(f"{target.name}.md")
            if target.is_file() and not target.is_relative_to(source):
                name = str(target.relative_to(source.parent))
                node.replace_self(nodes.literal(name, name))


def setup(app):
    app.add_transform(OutsideLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
