"""Show names such as `k_` in the types and shapes of docstrings as code, not as links."""

import re

# numpydoc writes types as reStructuredText, in which a trailing underscore makes a link.
TYPE = re.compile(r"^[\w, *]+ : ")
NAME = re.compile(r"(?<![\w`.])([A-Za-z]\w*_)(?![\w`])")


def quote_names(app, what, name, value, options, lines):
    """Put names that end in an underscore into backticks, on lines that give a type."""
    for i, line in enumerate(lines):
        if match := TYPE.match(line.lstrip()):
            start = len(line) - len(line.lstrip()) + match.end()
            lines[i] = line[:start] + NAME.sub(r"`\1`", line[start:])


def setup(app):
    # Run before numpydoc, whose priority is 500.
    app.connect("autodoc-process-docstring", quote_names, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
