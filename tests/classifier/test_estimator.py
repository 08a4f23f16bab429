"""scikit-learn's own checks of an estimator, which feed it vectors; those that do not fit are in one table."""

import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from moca import ContinualClassifier, MocaError
from tests.classifier.conftest import lesson

COLUMNS = "decision_function has a column for each class, also where there are two: more will come"
DIFFERENT = {
    "check_classifiers_train": COLUMNS,
    "check_classifiers_classes": COLUMNS,
    "check_decision_proba_consistency": COLUMNS,
}
"""Checks that fail, and why; docs/daily-use.md says the same."""

QUICK = {"epochs": 3, "memory": 50, "device": "cpu"}
CHECKS = list(estimator_checks_generator(ContinualClassifier(**QUICK)))


def name_of(check):
    return check.func.__name__


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("estimator", "check"), CHECKS, ids=[name_of(check) for _, check in CHECKS])
def test_scikit_learns_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name_of(check) not in DIFFERENT:
            check(estimator)
            return
        with pytest.raises(AssertionError):
            check(estimator)


def test_every_difference_is_told():
    assert {name_of(check) for _, check in CHECKS} >= set(DIFFERENT)


def test_in_a_pipeline_and_a_search():
    random = np.random.default_rng(0)
    y = np.repeat(["a", "b", "c"], 20)
    x = np.repeat(random.normal(size=(3, 5)) * 4, 20, 0) + random.normal(size=(60, 5))
    model = make_pipeline(StandardScaler(), ContinualClassifier(**QUICK | {"epochs": 10}))
    assert clone(model).fit(x, y).score(x, y) > 0.9
    search = GridSearchCV(model, {"continualclassifier__memory": [10, "1kB"]}, cv=2).fit(x, y)
    assert search.best_score_ > 0.9


def test_a_misspelt_keyword_is_answered_with_the_nearest():
    for given, hint in {"memroy": "did you mean 'memory'", "optimizer": "it is called optimiser= here"}.items():
        with pytest.raises(MocaError, match=f"^unknown option '{given}' of ContinualClassifier; {hint}"):
            ContinualClassifier(**{given: "adam"})
    assert ContinualClassifier("er", memory=5).get_params()["learner"] == "er", "its own are what they were"


def test_file_names_in_an_array_are_cross_validated(small, folder):
    files = np.array([str(file) for file in sorted(folder("all", 0, 1).rglob("*.png"))])
    labels = np.array([Path(file).parent.name for file in files])
    assert cross_val_score(small(epochs=20), files, labels, cv=2).mean() > 0.8


def test_pickled_it_goes_on_as_if_nothing_had_happened(small):
    model = small(epochs=1).learn(*lesson(0, 1))
    again = pickle.loads(pickle.dumps(model))
    for one in (model, again):
        one.learn(*lesson(2, 3))
    x, _ = lesson(0, 1, 2, 3, seed=7)
    np.testing.assert_array_equal(again.decision_function(x), model.decision_function(x))
