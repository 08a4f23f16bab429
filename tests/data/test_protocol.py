import pytest

from moca.data.protocol import Protocol, deal


@pytest.mark.parametrize(
    ("classes", "sizes"),
    [
        (1, (1,)),
        (2, (2,)),
        (3, (3,)),
        (4, (2, 2)),
        (5, (3, 2)),
        (9, (3, 2, 2, 2)),
        (10, (2,) * 5),
        (12, (3, 3, 2, 2, 2)),
        (100, (20,) * 5),
    ],
)
def test_no_task_has_a_single_class_unless_asked(classes, sizes):
    tasks = Protocol((0.5,), (0.5,)).tasks_for(classes)
    assert tuple(len(group) for group in deal(range(classes), tasks, "mine")) == sizes


def test_a_customary_split_and_what_is_asked_for_stay():
    assert Protocol((0.5,), (0.5,), tasks=(1, 1, 1)).tasks_for(3) == (1, 1, 1)
    assert deal(range(3), 3, "mine") == ((0,), (1,), (2,))
