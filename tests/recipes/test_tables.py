from collections import Counter

from moca.recipes.cells import exhibits
from moca.recipes.selection import in_exhibits
from moca.recipes.tables import columns


def test_a_table_shows_what_tells_its_cells_apart():
    assert columns(in_exhibits(["table7"])) == ["method", "memory"]
    assert columns(in_exhibits(["table8"])) == ["method", "zeta", "steps"]
    assert columns(in_exhibits(["table4"])) == ["data", "method", "phases"]
    for name in exhibits():
        shown = in_exhibits([name])
        rows = Counter(tuple(cell.tags.get(kind) for kind in columns(shown)) for cell in shown)
        assert not rows or max(rows.values()) == 1, (name, rows.most_common(1))
