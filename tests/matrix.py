"""Note in docs/versions.json what a run on some versions showed.

"nox -s matrix" calls this in the environment of each run: at its start,
which deletes what an earlier run showed, and at its end.
"""

import datetime
import json
import platform
import sys
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOTES = ROOT / "docs" / "versions.json"
PACKAGES = ("jax", "flax", "numpy", "sphinx")
# The two whose outputs are compared.
PAIRS = ("locked 3.11", "locked 3.13")


def outputs(html: Path) -> dict[str, list[list[str]]]:
    """Read what each cell of each page printed, but for its first."""
    found = {}
    for path in sorted((html / "_sources").rglob("*.ipynb")):
        cells = json.loads(path.read_text("utf-8"))["cells"]
        found[path.relative_to(html / "_sources").stem] = [
            [
                "".join(cell["source"]),
                "\n".join(map(words, cell["outputs"])),
            ]
            for cell in cells
            if cell["cell_type"] == "code"
        ][1:]
    return found


def words(output: dict) -> str:
    """Give an output as text."""
    text = output.get("text") or output["data"]["text/plain"]
    return "".join(text).rstrip()


def differences(runs: dict[str, dict]) -> list[dict]:
    """Find the cells that print different things on the two pairs."""
    one, other = (runs[name] for name in PAIRS)
    return [
        {"page": page, "cell": mine[0], "prints": [mine[1], yours[1]]}
        for page in sorted(one.keys() & other.keys())
        for mine, yours in zip(one[page], other[page], strict=True)
        if mine[1] != yours[1] and page != NOTES.stem
    ]


def main(name: str, folder: str, html: str = "", passed: str = "") -> None:
    """Note a run; without a book, that there is none."""
    notes = json.loads(NOTES.read_text("utf-8"))
    notes["runs"].pop(name, None)
    if html:
        found = outputs(Path(html))
        Path(folder, f"{name}.json").write_text(json.dumps(found), "utf-8")
        notes["runs"][name] = {
            "python": platform.python_version(),
            **{package: version(package) for package in PACKAGES},
            "date": datetime.date.today().isoformat(),
            "tests": passed,
        }
    saved = {
        pair: json.loads(path.read_text("utf-8"))
        for pair in PAIRS
        if (path := Path(folder, f"{pair}.json")).exists()
    }
    if len(saved) == len(PAIRS):
        notes["differences"] = differences(saved)
    text = json.dumps(notes, indent=1, ensure_ascii=False)
    NOTES.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
