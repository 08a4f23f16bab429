"""What is said of a lesson, and when it is."""

import pytest

from moca.classifier.record import Lesson
from moca.classifier.summary import (
    basis_told,
    cost_told,
    emptied_told,
    otherwise_told,
    passed_over_told,
    what_it_was,
)


@pytest.mark.parametrize(
    ("lesson", "what"),
    [
        ({"new_classes": ["ring", "square"], "came_again": ["bar"]}, "+ ring, square; more of bar"),
        ({"new_classes": [], "came_again": ["bar"]}, "more of bar"),
        ({"new_classes": ["ring", "gone"]}, "+ ring"),
        ({"came_again": ["bar"], "otherwise": {"ring": 2, "square": 1}}, "more of bar; 3 labels corrected"),
        ({"forgot": 0}, "forgot 0"),
        ({}, ""),
        ({"new_classes": [0, 1, 2, 3, 4, 5, 6]}, "+ 0, 1, 2, 3, 4 and 2 more"),
    ],
)
def test_what_a_version_was(lesson, what):
    about = {"version": 2, "parent": 1, "classes": ["bar", "ring", "square", *range(7)]}
    assert what_it_was(about | {"lesson": lesson}) == what


def test_what_a_version_comes_from_is_told_where_it_is_not_the_one_before():
    about = {"version": 4, "parent": 3, "lesson": {"new_classes": ["ring"]}, "classes": ["ring"]}
    assert what_it_was(about) == "+ ring"
    assert what_it_was(about | {"parent": 1}) == "+ ring; from version 1"
    lesson = {"new_classes": ["ring"], "used": False}
    assert what_it_was(about | {"lesson": lesson}) == "+ ring; forgot too much"


def test_what_a_lesson_cost_is_told_where_it_is_much():
    def told(before, after, used=True):
        return cost_told(Lesson(9, 0, 1, old_before=before, old_after=after, used=used), "so")

    assert told(0.95, 0.76) == "The old classes lost 19 points; to go back: so"
    assert told(0.15, 0.07) == "The old classes lost 8 points; to go back: so"
    assert (
        told(0.95, 0.86) == told(0.15, 0.08) == told(0.95, 0.5, used=False) == told(None, None) == told(0.5, 0.9) == ""
    )


def test_on_how_little_it_rests():
    def told(**facts):
        return basis_told(Lesson(**{"images": 50, "known": 0, "held": 10, "held_out": 0.1, "old_held": 10} | facts))

    assert told() == told(images=0, held=0) == told(held=0, held_out=0.0) == ""
    assert told(held=9) == "The accuracies rest on few held-out images: 9 of this lesson."
    assert told(held=1, old_held=4).endswith("held-out images: 4 of the old classes and 1 of this lesson.")
    assert told(held=0).startswith("There were too few images to hold any out")
    assert told(held=0).endswith("; a larger share (--held-out) may hold some out.")
    one_each = told(held=0, images=3, new_classes=["bar", "ring"], came_again=["cube"])
    assert one_each.endswith("; two or more images of a class are needed.")
    assert told(unjudged=["ring", 7]) == "No image of 'ring', '7' is held out, so their accuracy is not known."
    assert told(unjudged=["ring"]) == "No image of 'ring' is held out, so its accuracy is not known."
    assert told(correct=[("bar", 0, 3), ("ring", 1, 3)]) == "No held-out image of 'bar' is classified correctly."
    assert told(held=0, held_out=0.0, unjudged=["ring"]) == ""
    assert "whether any were forgotten is not known" in told(version=2, old_held=0)


def test_classes_without_images_are_told_with_how_to_remove_them():
    def told(*emptied, used=True):
        return emptied_told(Lesson(9, 0, 1, emptied=[*emptied], used=used), lambda name: f"forget {name}")

    assert told("ring") == "No images of 'ring' are left; to remove the class: forget ring"
    assert told("ring", 7) == "No images of 'ring', '7' are left; to remove the first: forget ring"
    assert told() == told("ring", used=False) == ""


def test_versions_that_are_no_part_of_a_lesson_are_told_with_their_classes():
    def told(*passed_over):
        return passed_over_told(Lesson(9, passed_over=[*passed_over]), lambda number: f"use {number}")

    assert told() == ""
    assert told((2, ["cat", "deer"])) == (
        "Version 2 (cat, deer) was not put to use and is not part of this one; teach its images again, or use it "
        "instead: use 2"
    )
    assert told((2, ["cat"]), (3, [7])).startswith("Versions 2 (cat), 3 (7) were not put to use and are not part of ")
    assert told((2, ["cat"]), (3, [7])).endswith("; teach their images again, or use the last instead: use 3")


def test_images_of_another_class_are_told_with_their_class():
    lesson = Lesson(3, 0, 0, otherwise={"ring": 1}, first_otherwise="a.png")
    told = "1 image was learnt before as another class, now corrected: 1 as 'ring' (the first: a.png)."
    assert otherwise_told(lesson) == told
    assert otherwise_told(Lesson(1, 0, 0)) == ""
