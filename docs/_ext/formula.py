"""The directive `formula` shows the equations and references of a docstring on a page.

Each equation is written only once, in the docstring of a public name. Pages of the guide show it
with this directive.
"""

import inspect
import re
from importlib import import_module

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

EQUATION = re.compile(r"^\.\. math::\n(?:(?:[ ]+.*)?\n)+", re.MULTILINE)
REFERENCES = re.compile(r"^References\n-+\n(.*?)(?=\n\n[A-Z][\w ]+\n-+\n|\Z)", re.M | re.S)


def parts(docstring):
    """Return the equations above the section Parameters, and the references without [1], [2]."""
    text = re.split(r"^Parameters\n-+\n", docstring, flags=re.MULTILINE)[0]
    equations = [match.group() for match in EQUATION.finditer(text + "\n")]
    references = REFERENCES.search(docstring)
    items = re.split(r"^\.\. \[\d+\] ", references.group(1), flags=re.M) if references else []
    return equations, [" ".join(item.split()) for item in items if item.strip()]


class Formula(SphinxDirective):
    """Show the equations in the docstring of a name, a link to the name, and the cited papers."""

    required_arguments = 1

    def run(self):
        name = self.arguments[0]
        module, _, attribute = name.rpartition(".")
        value = getattr(import_module(module), attribute)
        # Rebuild the page if the docstring changes.
        self.env.note_dependency(inspect.getsourcefile(value))
        equations, references = parts(inspect.getdoc(value))
        if not equations:
            raise self.error(f"the docstring of {name} has no equation")
        role = "class" if inspect.isclass(value) else "func"
        lines = "\n".join(equations).splitlines()
        # Without the backslash, "D. Hand" would become item D of a list.
        for text in (f":{role}:`{name}`", *(rf"\{each}" for each in references)):
            lines += ["", ".. rst-class:: source", "", text]
        node = nodes.container()
        self.state.nested_parse(StringList(lines, source=f"docstring of {name}"), 0, node)
        return node.children


def setup(app):
    app.add_directive("formula", Formula)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
