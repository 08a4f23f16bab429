"""Cells of the paper are found by what they are."""

import pytest

from moca.errors import MocaError
from moca.recipes.cells import cells
from moca.recipes.selection import _plain, in_exhibits, with_tags


def test_cells_are_chosen_by_what_they_are():
    table2 = in_exhibits(["table2"])
    chosen = with_tags(table2, "cifar100,m500,er,derpp,wap")
    assert [cell.id for cell in chosen] == ["t2-cifar100-er-wap-m500", "t2-cifar100-derpp-wap-m500"]
    assert {cell.learner for cell in with_tags(table2, "er")} == {"er"}
    assert {cell.perturb for cell in with_tags(table2, "er")} == {"none", "gaussian", "wap"}
    assert with_tags(table2, "") == table2
    assert [cell.id for cell in with_tags(in_exhibits(["table8"]), "zeta=5")] == ["t8-zeta5"]
    assert len(in_exhibits(["table2", "fig10"])) == 105 + 140
    assert in_exhibits(["all"]) == list(cells())


@pytest.mark.parametrize(
    ("papers", "ours"),
    [
        ("DER++,WAP", "derpp,wap"),
        ("ER-ACE+WAP", "er_ace+wap"),
        ("CIFAR100, Gaussian", "cifar100,gaussian"),
        ("Tiny-ImageNet,M=200,CIFAR-10", "tinyimagenet,m200,cifar10"),
        ("lambda=2", "lambda=2.0"),
    ],
)
def test_the_papers_spellings_choose_the_same_cells(papers, ours):
    table2 = in_exhibits(["table2"])
    assert with_tags(table2, papers) == with_tags(table2, ours)
    assert in_exhibits(["Table2"]) == in_exhibits(["2"]) == table2
    assert in_exhibits(["Figure 10"]) == in_exhibits(["Fig.10"]) == in_exhibits(["fig10"])


def test_no_two_tags_are_taken_for_one():
    tags = {(kind, tag) for cell in cells() for kind, tag in cell.tags.items() if tag}
    assert len({(kind, _plain(tag)) for kind, tag in tags}) == len(tags)


@pytest.mark.parametrize(
    ("names", "words", "said"),
    [
        (["tabel2"], "", "the paper has no 'tabel2'; did you mean 'table2'?"),
        (["table2"], "cifar1000", "no cell is 'cifar1000'; did you mean 'cifar100'?"),
        (["table8"], "cifar10", "no cell of table8 is 'cifar10'; they are cifar100"),
        (["table10"], "lambda=2", "no cell of table10 is 'lambda=2'"),
        (["table1"], "*", "no cell is '*'; known: "),
        (["table2"], "tinyimagenet,gem", "no cell is all of 'tinyimagenet,gem'; without 'gem' there are derpp, er,"),
    ],
)
def test_a_name_that_nothing_has_is_told_with_the_nearest(names, words, said):
    with pytest.raises(MocaError) as error:
        with_tags(in_exhibits(names), words)
    assert str(error.value).startswith(said)
