"""Show the examples of a class before its parameters, because a class can have twenty of them."""


def examples_first(app, what, name, obj, options, lines):
    """Move the section of examples, which numpydoc puts last, before the parameters."""
    if what != "class" or ".. rubric:: Examples" not in lines:
        return
    first = next((i for i, line in enumerate(lines) if line.startswith(":Parameters:")), None)
    start = lines.index(".. rubric:: Examples")
    if first is None or start < first:
        return
    stop = next(
        (i for i in range(start + 1, len(lines)) if lines[i].startswith((".. rubric::", ":"))),
        len(lines),
    )
    block = lines[start:stop]
    del lines[start:stop]
    lines[first:first] = [*block, ""]


def setup(app):
    # Run after numpydoc, whose priority is 500.
    app.connect("autodoc-process-docstring", examples_first, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
