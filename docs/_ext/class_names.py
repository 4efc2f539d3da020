"""Signatures show a class as a default value by its name: `TabularMLP`."""

import re

CLASS = re.compile(r"<class '(?:\w+\.)*(\w+)'>")


def name_classes(app, what, name, value, options, signature, return_annotation):
    """Replace the representation of classes in a signature by their names."""
    return signature and CLASS.sub(r"\1", signature), return_annotation


def setup(app):
    # The parameters of a dataclass have no source, from which autodoc could take their defaults.
    app.connect("autodoc-process-signature", name_classes)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
