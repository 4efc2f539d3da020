"""Functions that complete docstrings with texts that several losses or estimators share."""

import ast
import inspect
import re
from collections.abc import Callable
from typing import TypeVar

Function = TypeVar("Function")


def sections(doc):
    """Return the text before the first section of a docstring, and a dict {title: section}."""
    lead, *rest = re.split(r"^(\w[\w ]*)\n-+\n", inspect.cleandoc(doc), flags=re.MULTILINE)
    return lead, {title: text.strip() for title, text in zip(rest[::2], rest[1::2], strict=True)}


def entries(section):
    """Return a dict {name: text} of the parameters or attributes in a section."""
    parts = re.split(r"^(?=\w+ : )", section, flags=re.MULTILINE)
    return {part.split(" : ")[0]: part.strip() for part in parts if part}


def joined(lead, of_title):
    parts = [f"{title}\n{'-' * len(title)}\n{text}" for title, text in of_title.items()]
    return "\n\n".join([lead.strip(), *parts])


def documented_like(*others: Callable) -> Callable[[Function], Function]:
    """Return a decorator that adds missing parameters and sections from docstrings of `others`."""

    def complete(function):
        if function.__doc__:  # None under python -OO
            lead, own = sections(function.__doc__)
            of_others = [sections(other.__doc__)[1] for other in others]
            texts = {}
            for each in (*reversed(of_others), own):
                texts |= entries(each.get("Parameters", ""))
            names = inspect.signature(function).parameters
            own["Parameters"] = "\n".join(texts[name] for name in names)
            if "import torch" not in own["Examples"]:
                imports = f">>> import torch\n>>> from sktopk.losses import {function.__name__}\n"
                before, _, example = own["Examples"].partition(">>> ")
                own["Examples"] = f"{before}{imports}>>> {example}"
            function.__doc__ = joined(lead, of_others[0] | own)
        return function

    return complete


def of_module(function, name):
    """Return a docstring for the module `name`, with the example of `function` rewritten for it."""
    lines = sections(function.__doc__)[1]["Examples"].splitlines()
    for i, line in enumerate(lines):
        if line.startswith(">>> from "):
            lines[i] = line.replace(function.__name__, name)
        elif line.startswith(">>> ") and f"{function.__name__}(" in line:
            tree = ast.parse(line.removeprefix(">>> "))
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and ast.unparse(node.func) == function.__name__:
                    # Move the keyword arguments of the function to the constructor of the module.
                    node.func = ast.Call(ast.Name(name), [], node.keywords)
                    node.keywords = []
            lines[i] = f">>> {ast.unparse(tree)}"
    lead = f"Module that calls :func:`{function.__name__}` with the parameters of its constructor."
    return joined(lead, {"Examples": "\n".join(lines)})
