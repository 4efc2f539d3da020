"""Show classes that are default values by their names, such as `TabularMLP`, in signatures."""

import re

CLASS = re.compile(r"<class '(?:\w+\.)*(\w+)'>")


def name_classes(app, what, name, value, options, signature, return_annotation):
    """Replace the representation of classes in a signature by their names."""
    return signature and CLASS.sub(r"\1", signature), return_annotation


def setup(app):
    # For dataclasses, autodoc shows the repr of default values, because it finds no source code.
    app.connect("autodoc-process-signature", name_classes)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
