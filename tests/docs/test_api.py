"""Every public name promises: shapes, units, errors, sources with numbers, a doctest."""

import importlib
import inspect
import re
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

import sktopk

ROOT = Path(sktopk.__file__).parents[1]
MODULES = [
    "sktopk",
    "sktopk.boosting",
    "sktopk.callbacks",
    "sktopk.losses",
    "sktopk.metrics",
    "sktopk.modules",
    "sktopk.samplers",
    "sktopk.datasets",
    "sktopk.io",
    "sktopk.model_selection",
]
PUBLIC = {
    f"{module}.{name}": getattr(importlib.import_module(module), name)
    for module in MODULES
    for name in importlib.import_module(module).__all__
}
every_name = pytest.mark.parametrize("name", PUBLIC)

SECTION = re.compile(r"^([A-Z][A-Za-z ]+)\n-{3,}\n", re.MULTILINE)
# A source says where to look in it: an equation, or what else is numbered.
NUMBERED = re.compile(
    r"\b(eq\.|equations?|tables?|algorithm|sections?|appendix|figure)\s+[A-Z\d]", re.IGNORECASE
)
# Numbers say what they count or between what they lie.
UNIT = re.compile(
    r"\bin \(|\bin \[|positive|nonnegative|at least|at most|number|share|fraction|rows|epochs|"
    r"seconds|degrees|bytes|pixels|probability|weight|times|factor|level|rate|rank|exponent|"
    r"temperature|deviation|step size|cost|distance|of the optimizer|width|unit|"
    r"parameters? of|patience|gain|passes|over|largest|least|budget|of \"|bound|"
    r"seed|draws|channels|labels|zeros|the k|as in|how often",
    re.IGNORECASE,
)
ARRAY = re.compile(r"\b(Tensor|ndarray|array-like|array|CSR|frame)\b")


def sections(doc):
    """Return the text of each section; that before the first under "Summary"."""
    pieces = SECTION.split(inspect.cleandoc(doc))
    return {"Summary": pieces[0]} | dict(zip(pieces[1::2], pieces[2::2], strict=True))


def entries(section):
    """Yield (names, type, description) of each parameter, return value or attribute."""
    pieces = re.split(r"^(\S.*?) : (.*)$", section, flags=re.MULTILINE)
    for names, kind, text in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        yield names, kind, " ".join(text.split())


def documentation(name):
    """Return the sections of a name; the module of a loss has those of its function."""
    value = PUBLIC[name]
    own = sections(value.__doc__ or "")
    function = getattr(value, "function", None)
    if ":func:`" in own["Summary"] and function is not None:
        return sections(function.__doc__) | own
    return own


def is_exception(value):
    return inspect.isclass(value) and issubclass(value, Exception)


def is_result(value):
    return inspect.isclass(value) and issubclass(value, tuple)


@every_name
def test_has_an_example_that_doctest_runs(name):
    examples = sections(PUBLIC[name].__doc__ or "").get("Examples", "")
    assert ">>> " in examples
    # No internet, and a package that may be missing.
    needs_onnx = name == "sktopk.io.to_onnx"
    may_skip = name.startswith("sktopk.datasets.fetch_") or needs_onnx
    assert may_skip or "doctest: +SKIP" not in examples


def signature_parameters(value):
    function = value.__init__ if inspect.isclass(value) else value
    skipped = {"self", "args", "kwargs"}
    return [each for each in inspect.signature(function).parameters if each not in skipped]


@every_name
def test_documents_every_parameter(name):
    value = PUBLIC[name]
    if is_exception(value) or is_result(value):
        return
    parameters = documentation(name).get("Parameters", "")
    documented = re.findall(r"^(\S[^:\n]*?)(?: :|$)", parameters, re.MULTILINE)
    documented = {each.strip(" *") for names in documented for each in names.split(",")}
    assert set(signature_parameters(value)) - documented == set()


def public_functions(value):
    """The functions that one may call of a public name, by their own name."""
    if not inspect.isclass(value):
        return {value.__name__: value}
    own = [base for base in value.__mro__ if base.__module__.startswith("sktopk")]
    found = {}
    for name in {name for base in own for name in vars(base)}:
        member = inspect.getattr_static(value, name)
        member = getattr(member, "fget", None) or getattr(member, "__wrapped__", member)
        member = getattr(member, "__func__", member)
        if (name[0] != "_" or name in ("__init__", "__call__")) and inspect.isfunction(member):
            found[name] = member
    return found


@every_name
def test_annotates_every_parameter_and_what_it_returns(name):
    for called, function in public_functions(PUBLIC[name]).items():
        signature = inspect.signature(function)
        empty = inspect.Parameter.empty
        bare = {each.name for each in signature.parameters.values() if each.annotation is empty}
        assert not bare - {"self", "cls"}, called
        # The constructors of estimators and losses are made, and say nothing of None.
        assert called == "__init__" or signature.return_annotation is not empty, called


@every_name
def test_arrays_have_shapes(name):
    found = documentation(name)
    for section in ("Parameters", "Returns", "Attributes"):
        for names, kind, text in entries(found.get(section, "")):
            if ARRAY.search(kind) and "tuple" not in kind and "dict" not in kind:
                described = f"{kind} {text}"
                assert re.search(r"shape|of the types? of|row numbers", described), (names, kind)


@every_name
def test_numbers_have_a_unit_or_a_range(name):
    for names, kind, text in entries(documentation(name).get("Parameters", "")):
        if re.match(r"(float|int)\b", kind):
            assert UNIT.search(text) or re.search(r"\d", text), (names, kind, text)


@every_name
def test_functions_say_what_they_return_and_raise(name):
    value = PUBLIC[name]
    if inspect.isfunction(value):
        found = documentation(name)
        assert {"Returns", "Raises"} <= set(found)
        assert re.search(r"^\w*(Error|Warning)", found["Raises"], re.MULTILINE)


@every_name
def test_methods_say_what_they_take_and_return(name):
    value = PUBLIC[name]
    if not inspect.isclass(value) or is_exception(value) or is_result(value):
        return
    for method in (
        "fit",
        "partial_fit",
        "predict",
        "decision_function",
        "predict_topk",
        "predict_topk_proba",
        "predict_top",
        "predict_set",
        "predict_proba",
        "score",
        "from_estimator",
        "from_predictions",
        "plot",
    ):
        if method not in dir(value) and method not in vars(value):
            continue
        doc = inspect.getattr_static(value, method).__doc__
        if doc is None:  # a descriptor that hides the method until it is available
            doc = inspect.getattr_static(value, method).fn.__doc__
        found = sections(doc)
        assert {"Parameters", "Returns"} <= set(found), method


@every_name
def test_sources_are_listed_and_cited(name):
    doc = inspect.cleandoc(PUBLIC[name].__doc__ or "")
    cited = set(re.findall(r"\[(\d+)\]_", doc))
    listed = set(re.findall(r"^\.\. \[(\d+)\]", doc, re.MULTILINE))
    assert cited <= listed
    assert listed <= cited or name.endswith("cross_entropy_loss")


# The papers that the losses come from. Where one is cited, so is what in it.
PAPERS = re.compile(
    "DeepTopPush|Smooth Loss Functions for Deep|Trade-offs in|Stochastic smoothing|"
    "Non-?decomposable",
    re.IGNORECASE,
)


def references(name):
    """Return the entries of the references, each on a line."""
    text = sections(PUBLIC[name].__doc__ or "").get("References", "")
    entries = re.split(r"^\.\. \[\d+\]", text, flags=re.MULTILINE)
    return [" ".join(entry.split()) for entry in entries]


@every_name
def test_papers_are_cited_with_numbers(name):
    for entry in references(name):
        assert NUMBERED.search(entry) or not PAPERS.search(entry), entry


@every_name
def test_classes_say_what_they_raise(name):
    value = PUBLIC[name]
    # Networks check nothing of their own, a LossComparison is made by compare_losses.
    if name.startswith("sktopk.modules.") or name.endswith(".LossComparison"):
        return
    if not inspect.isclass(value) or is_exception(value) or is_result(value):
        return
    methods = (inspect.getattr_static(value, each) for each in dir(value) if each[0] != "_")
    docs = [getattr(each, "__doc__", None) or "" for each in methods]
    assert "Raises" in documentation(name) or any("Raises\n" in doc for doc in docs)


TRAINED_FOR = [
    name for name, value in PUBLIC.items() if name.endswith("_loss") and inspect.isfunction(value)
]


@pytest.mark.parametrize("name", TRAINED_FOR)
def test_losses_have_a_formula_and_a_source(name):
    found = documentation(name)
    assert ".. math::" in found["Summary"]
    # One is ours, and one has its origin in papers that number nothing of the kind.
    if not name.endswith((".topk_distribution_loss", ".precision_at_k_loss")):
        assert any(NUMBERED.search(entry) for entry in references(name))


ESTIMATORS = [
    name
    for name, value in PUBLIC.items()
    if inspect.isclass(value) and issubclass(value, BaseEstimator)
]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_have_a_formula_attributes_and_no_gaps(name):
    doc = PUBLIC[name].__doc__
    assert ".. math::" in sections(doc)["Summary"]
    assert "Attributes" in sections(doc)
    # What __init_subclass__ fills in.
    assert "<" not in re.sub(
        r"</?\w[\w.]*>`|``.*?``|:math:`.*?`|>>>.*|[<>]=? ", "", doc.split("Examples")[0]
    )
    assert "@@" not in doc


def test_the_reference_lists_every_public_name():
    pages = ROOT / "docs" / "api"
    if not pages.is_dir():
        pytest.skip("runs from a checkout")
    listed = set()
    for page in pages.glob("*.rst"):
        module = ""
        for line in page.read_text().splitlines():
            if line.startswith(".. module:: "):
                module = line.split()[-1]
            elif re.fullmatch(r"   \w+", line):
                listed.add(f"{module}.{line.strip()}")
    assert set(PUBLIC) - listed == set()
    assert {name for name in listed if name.startswith("sktopk")} - set(PUBLIC) == set()
