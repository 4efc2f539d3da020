"""The docstrings of estimators are put together from those of their base classes."""

import inspect
import re
from dataclasses import KW_ONLY

import pytest

from sktopk._estimators._parameters import (
    TrainingParameters,
    assembled,
    entries,
    estimator,
    sections,
)


@estimator
class Parent(TrainingParameters):
    """A parent.

    Parameters
    ----------
    depth : int, default=1
        How deep, of the parent.
    tol : float, default=1e-4
        Another text than that of all.

    Attributes
    ----------
    depth_ : int
        The depth in use.
    """

    depth: int = 1


@estimator
class Child(Parent):
    """A child.

    Parameters
    ----------
    width : int, default=2
        How wide,

        with a second paragraph : and a colon.
    shade : int, default=3
        How dark.

    See Also
    --------
    Parent : Without a width.
    """

    width: int = 2
    _: KW_ONLY
    shade: int = 3


def test_parameters_come_in_the_order_of_the_constructor_the_own_ones_first():
    _, found = sections(Child.__doc__)
    names = list(entries(found["Parameters"]))
    assert names == list(inspect.signature(Child).parameters)
    assert names[:3] == ["depth", "width", "shade"]
    assert list(found) == ["Parameters", "Attributes", "See Also"]


def test_the_nearest_text_counts():
    _, found = sections(Child.__doc__)
    parameters, attributes = entries(found["Parameters"]), entries(found["Attributes"])
    assert "Another text than that of all." in parameters["tol"]
    assert "of the parent" in parameters["depth"]
    assert "with a second paragraph : and a colon." in parameters["width"]
    assert {"depth_", "classes_", "net_"} <= attributes.keys()
    assert "Passes over the data." in parameters["max_epochs"]


@pytest.mark.parametrize("cls", [Parent, Child])
def test_a_text_that_python_has_stripped_of_its_indentation_is_read_as_well(cls):
    # What the compiler of Python 3.13 hands over.
    assert not re.search("^    (Parameters|Attributes)", cls.__doc__, flags=re.MULTILINE)
    assert assembled(cls).strip() == cls.__doc__.strip()


@pytest.mark.parametrize(
    ("text", "annotation"),
    [
        ("", {"depth": int}),
        ("Parameters\n    ----------\n    height : int\n        How high.\n", {}),
    ],
    ids=["a parameter without a text", "a text without a parameter"],
)
def test_a_text_that_does_not_fit_is_an_error_where_the_class_is_made(text, annotation):
    body = {"__doc__": f"Wrong.\n\n    {text}", "__annotations__": annotation, "depth": 1}
    with pytest.raises(TypeError, match=r"Wrong: .* without .*\['(depth|height)'\]"):
        estimator(type("Wrong", (TrainingParameters,), body))


def test_the_constructor_stores_and_does_nothing_else():
    child = Child(width=7, tol=3)
    assert (child.width, child.tol, child.depth) == (7, 3, 1)
    assert child.get_params()["width"] == 7
