"""Pages are shared out among processes by what they cost."""

from sphinx.util.parallel import make_chunks

from shardbook_site.shares import shared_out

# Two dear pages that are neighbors by name, and pages that run nothing.
COSTS = {"a": 90, "b": 80, "c": 30, "d": 20, "e": 10, "f": 0, "g": 0}


def test_processes_have_the_same_to_do() -> None:
    """The first share of each process costs about the same.

    It begins with its dearest page.
    """
    pages = shared_out(COSTS, 2)
    first, second, *rest = make_chunks(pages, 2)

    assert sorted(pages) == sorted(COSTS)
    assert first == ["a", "d", "e"]
    assert second == ["b", "c", "f"]
    assert rest == [["g"]]


def test_one_process_and_many() -> None:
    """No page is lost, however many processes there are."""
    for processes in (0, 1, 3, 7, 50):
        assert sorted(shared_out(COSTS, processes)) == sorted(COSTS)
