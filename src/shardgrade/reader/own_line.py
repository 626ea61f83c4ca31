"""The line of a reader's own code in a traceback that was pasted."""

import re

# A frame as Python shows it, below a prefix that a launcher may have
# written, and as IPython does. A terminal may have wrapped the first line.
FRAMES = (
    r'(?m)^(.*)  File "(?P<file>[^"]+)", line (?P<line>\d+)'
    r"(?:.*\n(?:\S.*\n)?\1 {4,}(?P<source>\S.*))?",
    r'(?:File|Cell) (?P<file>[^\s"]+?)(?:, line |:)(?P<line>\d+)\b'
    r"(?s:.*?)-> (?P=line) +(?P<source>.*)",
    # As pytest does.
    r"(?m)^(?P<file>\S+\.py):(?P<line>\d+): in \w+\n +(?P<source>.*)",
)
FOREIGN = r"(site|dist)-packages|[\\/]lib(64)?[\\/]python3|^<frozen "


def own_line(text: str) -> str:
    """Return the innermost line of one's own code, and what called it.

    These are the last frames that are in no package and not in the
    standard library; ``""`` if there is none.
    """
    frames = [frame for each in FRAMES for frame in re.finditer(each, text)]
    found: list[str] = []
    last = len(text)
    for frame in sorted(frames, key=re.Match.start, reverse=True):
        if found and "Traceback (most" in text[frame.end() : last]:
            break
        last = frame.start()
        file = frame["file"].replace("\n", "")
        if not re.search(FOREIGN, file):
            place = f"{file}:{frame['line']}"
            found.append(": ".join(filter(None, (place, frame["source"]))))
    return "\n  from ".join(found[:2])
