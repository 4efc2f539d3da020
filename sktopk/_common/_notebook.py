"""How estimators show themselves in a notebook."""

import os
from html import escape
from numbers import Integral, Real

from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

# Where the site of this documentation is served; without it there is no link.
SITE = os.environ.get("SKTOPK_DOCS", "").rstrip("/")


class ShownInNotebooks:
    """A line below scikit-learn's diagram, and a link to the page of the class.

    A subclass may override `_purpose`.
    """

    # Hooks that scikit-learn's guide for developers names, "HTML representation".
    _doc_link_module = "sktopk" if SITE else "sklearn"
    _doc_link_template = f"{SITE}/api/generated/{{estimator_module}}.{{estimator_name}}.html"

    def _purpose(self):
        """What the estimator is for: the first line of its docstring."""
        return (type(self).__doc__ or type(self).__name__).strip().splitlines()[0]

    def _in_one_line(self):
        """The purpose and, when fitted, what was found."""
        try:
            check_is_fitted(self)
        except NotFittedError:
            return self._purpose()
        found = []
        if hasattr(self, "classes_"):
            found.append(f"{len(self.classes_)} classes")
        if hasattr(self, "n_features_in_"):
            found.append(f"{self.n_features_in_} columns")
        if isinstance(getattr(self, "n_iter_", None), Integral):
            found.append(f"{self.n_iter_} epochs")
        if isinstance(getattr(self, "threshold_", None), Real):
            found.append(f"threshold {self.threshold_:.4g}")
        if hasattr(self, "oob_score_"):
            found.append(f"score {self.oob_score_:.4g} on rows left out")
        return f"{self._purpose()} Fitted: {', '.join(found)}."

    def _with_line(self, diagram):
        return f"{diagram}<p><small>{escape(self._in_one_line())}</small></p>"

    @property
    def _repr_html_(self):
        shown = super()._repr_html_  # none where scikit-learn is told to show text
        return lambda: self._with_line(shown())

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] = self._with_line(bundle["text/html"])
        return bundle
