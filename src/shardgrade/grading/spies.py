"""Watch what an attempt does, however it imported what it uses.

A spy in the place of ``nnx.merge`` would miss ``from flax.nnx import
merge``. So these look where every route must pass: at methods of classes,
and at the code that is called.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from shardgrade.grading.attempt import Wrong

Event = Callable[[FrameType, str, Any], None]


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Put a value in the place of an attribute, and take it back."""
    before = vars(owner)[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextmanager
def forbidden(owner: Any, name: str, why: str) -> Iterator[None]:
    """Refuse an attempt that calls a function.

    Raises:
        Wrong: If it is called, with the reason.
    """

    def called(*_: Any, **__: Any) -> None:
        raise Wrong(why, read="Problem")

    with replaced(owner, name, called):
        yield


@contextmanager
def profiled(note: Event) -> Iterator[None]:
    """Call ``note`` for each call and return."""
    before: Any = sys.getprofile()

    def both(frame: FrameType, event: str, argument: Any) -> None:
        note(frame, event, argument)
        before(frame, event, argument)

    sys.setprofile(both if before else note)
    try:
        yield
    finally:
        sys.setprofile(before)


@contextmanager
def returned(
    note: Callable[[Callable[..., Any], CodeType, Any], None],
    *functions: Callable[..., Any],
) -> Iterator[None]:
    """Call ``note`` for what some functions return.

    Args:
        note: Called with the function, the code of its caller, and what
            it returns, which may be changed in place.
        *functions: Functions written in Python.
    """
    watched = {each.__code__: each for each in functions}

    def look(frame: FrameType, event: str, result: Any) -> None:
        if event == "return" and frame.f_code in watched and frame.f_back:
            note(watched[frame.f_code], frame.f_back.f_code, result)

    with profiled(look):
        yield


@contextmanager
def values_in(filename: str, seen: list[Any]) -> Iterator[None]:
    """Note what the functions of a file hold and return, as they return."""

    def look(frame: FrameType, event: str, result: Any) -> None:
        if event == "return" and frame.f_code.co_filename == filename:
            seen.extend(frame.f_locals.values())
            seen.append(result)

    with profiled(look):
        yield
