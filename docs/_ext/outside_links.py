"""Links of hand-written pages to files of the checkout that are no pages.

Those pages are read in the checkout, too, where `../benchmarks/results/x.md` is a file. The site
links to the file in the repository if `site_repository` has its address, or else to a copy.
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
                node.replace_self(self.link(node, target, source))

    def link(self, node, target, source):
        """Return a link to the file, with the text of the reference."""
        if base := self.config.site_repository:
            address = f"{base.rstrip('/')}/blob/main/{target.relative_to(source.parent)}"
            return nodes.reference("", "", *node.children, refuri=address)
        where = target.relative_to(source.parent)
        return addnodes.download_reference(
            "", "", *node.children, refdoc=self.env.docname, reftarget=f"/../{where}"
        )


def setup(app):
    app.add_config_value("site_repository", "", "env")
    app.add_transform(OutsideLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
