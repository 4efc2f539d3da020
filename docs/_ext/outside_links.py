"""Links from pages to files of the repository outside of docs/.

In the repository, a link such as `../benchmarks/results/x.md` leads to the file. On the site, it
leads to the hosted file if `site_repository` is the address of the repository, else to a copy.
"""

from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform


class OutsideLinks(SphinxTransform):
    """Replace references to files outside of docs/ by links."""

    # Run after myst has created the references, and before Sphinx resolves them.
    default_priority = 5

    def apply(self):
        source = Path(self.env.srcdir)
        page = Path(self.env.doc2path(self.env.docname))
        for node in list(self.document.findall(addnodes.pending_xref)):
            if node.get("reftype") != "myst":
                continue
            target = (page.parent / node["reftarget"].partition("#")[0]).resolve()
            if not target.is_file():  # myst removes the suffix of pages
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
