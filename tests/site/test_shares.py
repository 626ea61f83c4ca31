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


def test_what_is_left_is_shared_out_too() -> None:
    """The shares for processes that end early cost about the same."""
    costs = {f"{number:02}": 100 - number for number in range(79)}
    shares = make_chunks(shared_out(costs, 2), 2)
    whole = [share for share in shares if len(share) == len(shares[0])]
    sums = [sum(costs[name] for name in share) for share in whole]

    assert len(sums) == 4
    assert abs(sums[0] - sums[1]) < 10
    assert abs(sums[2] - sums[3]) < 10
    assert sums[1] > sums[2]


def test_one_process_and_many() -> None:
    """No page is lost, however many processes there are."""
    for processes in (0, 1, 3, 7, 50):
        assert sorted(shared_out(COSTS, processes)) == sorted(COSTS)
