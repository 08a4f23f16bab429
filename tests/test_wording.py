"""Numbers and lists as a reader would write them."""

from moca.cli.show import in_bytes
from moca.wording import counted, some


def test_a_number_and_its_noun():
    assert [counted(n, "class", "classes") for n in range(3)] == ["0 classes", "1 class", "2 classes"]
    assert [counted(n, "run") for n in (1, 12)] == ["1 run", "12 runs"]


def test_the_first_of_several_things():
    assert [some("abc"[:n], 2) for n in range(4)] == ["", "a", "a, b", "a, b and 1 more"]
    assert some([1, 2, 3, 4], 2) == "1, 2 and 2 more"


def test_a_size_in_a_unit_that_fits():
    assert in_bytes(3 * 10**12) == "3.0 TB"
