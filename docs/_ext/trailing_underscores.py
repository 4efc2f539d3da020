"""Attributes such as `k_` in the types and shapes of docstrings are names, not links."""

import re

# numpydoc passes types on as reStructuredText, where a trailing underscore makes a link.
TYPE = re.compile(r"^[\w, *]+ : ")
NAME = re.compile(r"(?<![\w`.])([A-Za-z]\w*_)(?![\w`])")


def quote_names(app, what, name, value, options, lines):
    """Put names that end in an underscore into backticks, on lines that give a type."""
    for i, line in enumerate(lines):
        if match := TYPE.match(line.lstrip()):
            start = len(line) - len(line.lstrip()) + match.end()
            lines[i] = line[:start] + NAME.sub(r"`\1`", line[start:])


def setup(app):
    # Before numpydoc, whose priority is 500.
    app.connect("autodoc-process-docstring", quote_names, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
