"""What a notebook shows of an estimator: what it is for, what was found, where it is documented."""

import html
import importlib.util
import re

import pytest
import sklearn
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler

import sktopk
from sktopk import BudgetClassifier, DeepTopPushClassifier, TopKClassifier, make_pipeline
from sktopk._common import _notebook


def line(estimator):
    """The text below the diagram."""
    of_bundle = estimator._repr_mimebundle_()["text/html"]
    (found,) = {
        re.search("<small>(.*)</small>", s)[1] for s in (estimator._repr_html_(), of_bundle)
    }
    return html.unescape(found)


@pytest.fixture(scope="module")
def fitted():
    X, y = load_iris(return_X_y=True)
    params = {"hidden_layer_sizes": (), "max_epochs": 3, "early_stopping": False}
    return TopKClassifier("topk_hinge", k=2, random_state=0, **params).fit(X, y)


def test_says_the_loss_before_and_after_fit(fitted):
    assert line(TopKClassifier("focal", k=3)) == "Loss: focal, k = 3."
    assert line(fitted) == "Loss: topk_hinge, k = 2. Fitted: 3 classes, 4 columns, 3 epochs."
    assert "Loss: &lt;b&gt;, k = 5." in TopKClassifier("<b>")._repr_html_()


def test_a_ranker_says_for_which_list_it_is():
    assert line(DeepTopPushClassifier()).startswith("For a list that is read until")


def test_a_decision_says_its_threshold():
    X, y = load_breast_cancer(return_X_y=True)
    desk = BudgetClassifier(GaussianNB(), random_state=0).fit(X, y)
    said = line(desk)
    assert said.startswith(desk.__doc__.splitlines()[0])
    assert said.endswith(f"Fitted: 2 classes, 30 columns, threshold {desk.threshold_:.4g}.")


def test_a_pipeline_says_what_its_last_step_says(fitted):
    assert line(make_pipeline(StandardScaler(), fitted)) == line(fitted)
    assert line(make_pipeline(LogisticRegression())).startswith("scikit-learn's Pipeline")


@pytest.mark.parametrize("name", sktopk.__all__)
def test_every_estimator_has_a_line(name):
    value = getattr(sktopk, name)
    if isinstance(value, type) and hasattr(value, "get_params") and name != "Pipeline":
        takes = value.__init__.__code__.co_varnames
        assert len(line(value(GaussianNB()) if "estimator" in takes else value())) > 10


def test_parameters_that_differ_from_the_default_stand_out():
    shown = TopKClassifier(k=3, tau=0.5)._repr_html_()
    rows = re.findall(r'<tr class="(.*?)">.*?<td class="param">(.*?)</td>', shown, re.DOTALL)
    rows = [(kind, html.unescape(re.sub(r"<.*?>", "", name)).split()[0]) for kind, name in rows]
    names = {name for kind, name in rows if kind == "user-set"}
    assert len(rows) == len(TopKClassifier().get_params())
    assert names == {"k", "tau"}


def test_as_text_where_scikit_learn_is_told_so():
    with sklearn.config_context(display="text"):
        assert not hasattr(TopKClassifier(), "_repr_html_")
        assert set(TopKClassifier()._repr_mimebundle_()) == {"text/plain"}


def test_the_question_mark_leads_to_our_page_where_there_is_a_site(monkeypatch):
    assert 'href="/' not in TopKClassifier()._repr_html_()
    monkeypatch.setenv("SKTOPK_DOCS", "https://docs.example/sktopk/")
    spec = importlib.util.spec_from_file_location("with_a_site", _notebook.__file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in ("_doc_link_module", "_doc_link_template"):
        monkeypatch.setattr(
            _notebook.ShownInNotebooks, name, getattr(module.ShownInNotebooks, name)
        )
    page = "https://docs.example/sktopk/api/generated/sktopk.TopKClassifier.html"
    assert f'href="{page}' in TopKClassifier()._repr_html_()
