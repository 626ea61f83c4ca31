"""Load a reader's attempt and call it, and report its errors."""

import ast
import contextlib
import inspect
import os
import pickle
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass, field
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

import jax

from shardbook import inputs
from shardgrade.grading.progress import Called, tell
from shardscope.tables import shortened

# What the arguments of calls are made by.
INPUTS = {name: getattr(inputs, name) for name in inputs.__all__}
# What is called before code of an attempt or of the solution runs. One of
# several processes waits for the others there: its collectives would mix
# with those of what they do still.
BEFORE: ContextVar[Callable[[], None]] = ContextVar(
    "before", default=lambda: None
)
LARGEST_FILE = 2**20
# How many columns of a line with a syntax error are shown.
SHOWN = 60


@dataclass(eq=False)
class Wrong(Exception):  # noqa: N818
    """An attempt failed a check."""

    why: str
    _: KW_ONLY
    got: str = ""
    expected: str = ""
    read: str = ""


class Crashed(Exception):  # noqa: N818
    """An attempt raised an error of its own."""

    def __init__(
        self, words: str, error: BaseException | None = None
    ) -> None:
        super().__init__(words)
        self.error = error
        self.read = ""


class NotWritten(Exception):  # noqa: N818
    """An attempt raises NotImplementedError, as the starter does."""


class TimeIsUp(BaseException):
    """An attempt has exceeded a limit.

    It is a BaseException, so that ``except Exception`` does not take it.
    """


@dataclass(eq=False)
class Attempt:
    """A reader's function, to be called as often as a check needs.

    Attributes:
        problem: The name of the function.
        function: The function, or None until :meth:`find` found it.
        filename: The file that its code is in.
        module: What is defined there, by name.
        call: The last call, as code that runs when pasted.
        given: What is altered around that call, in words.
        arguments: The positional arguments of that call.
        deprecations: The deprecation warnings of all calls.
        settings: What it has set in jax, in force while its code runs.
        seen: What came of its calls, to be made once.
    """

    problem: str
    function: Callable[..., Any] | None
    filename: str
    module: dict[str, Any]
    call: str = ""
    given: str = ""
    arguments: list[Any] = field(default_factory=list)
    deprecations: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    seen: dict[Any, Any] = field(default_factory=dict)

    def __call__(
        self,
        call: str,
        given: str = "",
        watched: contextlib.AbstractContextManager[Any] | None = None,
    ) -> Any:
        """Make a call.

        Args:
            call: The call as code, with the names of
                :mod:`shardbook.inputs` in its arguments:
                ``"double(normal(8))"``. It may call one of these inputs,
                which then calls the attempt:
                ``"in_shard_map(double, P())(normal(8))"``.
            given: What is altered around it, in words: "where Linear has
                no bias".
            watched: A context for the call alone, without what makes its
                arguments.

        Returns:
            What the call returns.

        Raises:
            Crashed: If the attempt raises.
            NotWritten: If it raises NotImplementedError.
        """
        self.name_call(call, given)
        # A call may begin with an input that is given the function.
        result: Any = INPUTS.get(call.partition("(")[0], self.function)
        # Made first, so that nothing but the attempt is watched.
        calls = arguments(call, **{self.problem: self.function})
        self.arguments, _ = calls[0]
        with watched or contextlib.nullcontext(), self.running():
            for positional, named in calls:
                result = result(*positional, **named)
            jax.block_until_ready(result)
        return result

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Run its code: with its settings, and its errors are its own."""
        BEFORE.get()()
        with (
            keep_settings(self.settings),
            guarded(self.filename, self.deprecations),
        ):
            yield

    def name_call(self, call: str, given: str = "") -> None:
        """Note which call the next verdict is about."""
        self.call, self.given = pasteable(call), given
        tell(self.call, Called)

    def find(self) -> None:
        """Find the function in the module.

        Raises:
            Wrong: If there is none of that name.
        """
        if self.function is None:
            function = self.module.get(self.problem)
            if not callable(function):
                defined = sorted(
                    name
                    for name, value in self.module.items()
                    if callable(value)
                    and not name.startswith("_")
                    and getattr(value, "__module__", "") == "attempt"
                )
                ours = solution(self.problem).module[self.problem]
                names = ", ".join(inspect.signature(ours).parameters)
                raise Wrong(
                    f"there is no function {self.problem}",
                    got=f"defined: {', '.join(defined) or 'nothing'}",
                    expected=f"def {self.problem}({names})",
                    read="Problem",
                )
            self.function = function


@cache
def solution(problem: str) -> Attempt:
    """Give the solution of a problem, to be called like an attempt."""
    module = import_module(f"shardbook.problems.{problem}")
    function = getattr(module, problem)
    return Attempt(problem, function, str(module.__file__), vars(module))


def arguments(
    call: str, **more: Any
) -> list[tuple[list[Any], dict[str, Any]]]:
    """Make the arguments of a call, and of calls of what it returns.

    Args:
        call: Such as ``"f(normal(8))"``, or ``"make_step(2)(normal(8))"``.
        **more: What else can be an argument, by name.

    Returns:
        For each call, from the first, its positional and named arguments.
    """

    def value(node: ast.expr) -> Any:
        return eval(
            compile(ast.Expression(node), call, "eval"),
            {**INPUTS, **more},
        )

    found = []
    node: ast.expr = ast.parse(call, mode="eval").body
    while isinstance(node, ast.Call):
        named = {str(each.arg): value(each.value) for each in node.keywords}
        found.append(([value(each) for each in node.args], named))
        node = node.func
    return found[::-1]


def pasteable(call: str) -> str:
    """Add the import of the inputs that a call uses."""
    words = {
        node.id
        for node in ast.walk(ast.parse(call))
        if isinstance(node, ast.Name)
    }
    used = sorted(words & INPUTS.keys())
    if not used:
        return call
    return f"from shardbook.inputs import {', '.join(used)}\n{call}"


@contextlib.contextmanager
def keep_settings(settings: dict[str, Any]) -> Iterator[None]:
    """Run code of an attempt with its settings of jax, and note them.

    Afterwards jax is set as before: an attempt may leave a mesh, a guard
    against transfers or a search for NaN behind, and none of it is meant
    for the code of the grader.
    """
    ours = _settings()
    _set(settings)
    try:
        yield
    finally:
        settings.clear()
        settings.update(
            (name, value)
            for name, value in _settings().items()
            if value != ours[name]
        )
        _set({name: ours[name] for name in settings})


def _settings() -> dict[str, Any]:
    return {**jax.config.values, "mesh": jax.sharding.get_mesh()}


def _set(settings: dict[str, Any]) -> None:
    for name, value in settings.items():
        if name == "mesh":
            jax.set_mesh(value)
        else:
            jax.config.update(name, value)


@contextlib.contextmanager
def guarded(filename: str, deprecations: list[str]) -> Iterator[None]:
    """Run code of an attempt, and raise its errors as :class:`Crashed`.

    Deprecation warnings are noted if it is jax or flax that warns.
    """
    warn = warnings.warn

    def note(
        message: Any, category: Any = None, *rest: Any, **more: Any
    ) -> None:
        kind = type(message) if isinstance(message, Warning) else category
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if (
            kind
            and issubclass(kind, DeprecationWarning)
            and caller.partition(".")[0] in ("flax", "jax")
        ):
            deprecations.append(str(message))
        warn(message, category, *rest, **more)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # An attempt can change the filters; this it can't.
            warnings.warn = note
            yield
    except (Wrong, Crashed, NotWritten, TimeIsUp):
        raise
    except NotImplementedError as error:
        if line_of(error, filename) and not str(error):
            raise NotWritten from None
        raise Crashed(_words(error, filename), error) from None
    except SystemExit as error:
        raise Crashed(f"it called sys.exit({error.code!r})") from None
    except BaseException as error:
        raise Crashed(_words(error, filename), error) from None
    finally:
        warnings.warn = warn


def line_of(error: BaseException, filename: str) -> int | None:
    """Find the last line of the attempt that an error went through."""
    line, step = None, error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == filename:
            line = step.tb_lineno
        step = step.tb_next
    return line


def _words(error: BaseException, filename: str) -> str:
    if isinstance(error, SyntaxError):
        return _syntax(error, filename)
    # Without what jax adds about its own frames.
    with contextlib.suppress(AttributeError):
        del error.__notes__
    words = "".join(traceback.format_exception_only(error)).strip()
    message = shortened(words)
    line = line_of(error, filename)
    return f"{message}\n(line {line})" if line else message


def _syntax(error: SyntaxError, filename: str) -> str:
    """Describe a syntax error, with its line and a mark below the line."""
    words = f"{type(error).__name__}: {error.msg}"
    if not error.lineno:
        return words
    # What an attempt imports can be what is broken.
    other = error.filename != filename
    of = f" of {os.path.basename(str(error.filename))}" if other else ""
    lines = "".join(traceback.format_exception_only(error)).split("\n")
    shown = [line[4:] for line in lines if line.startswith(" " * 4)]
    if shown:
        # Python marks no column of a TabError: it is the first one then.
        code, mark, *_ = *shown, "^"
        start = max(0, mark.find("^") - SHOWN // 2)
        shown = [f"  {each[start:][:SHOWN]}" for each in (code, mark)]
    return "\n".join([words, f"(line {error.lineno}{of})", *shown])


def load_file(problem: str, path: str) -> Attempt:
    """Read an attempt from a file, and run the file."""
    # From now on, jax refuses to change their number.
    jax.devices()
    try:
        with open(path, "rb") as file:
            source = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise Crashed(f"the file can't be read: {error.strerror}") from None
    if len(source) > LARGEST_FILE:
        raise Crashed(f"the file is larger than {LARGEST_FILE:,} bytes")
    if b"\0" in source:
        raise Crashed(
            "the file has null bytes, as UTF-16 does: save it as UTF-8"
        )
    module = ModuleType("attempt")
    module.__file__ = path
    # jax notes which file a call is in, and takes no name but text.
    name = path.encode("utf-8", "replace").decode("utf-8")
    attempt = Attempt(problem, None, name, module.__dict__)
    sys.modules["attempt"] = module
    with attempt.running():
        exec(compile(source, name, "exec"), module.__dict__)
    return attempt


def load_pickle(problem: str, data: bytes) -> Attempt:
    """Take over a notebook's function, and what its decorators wrap."""
    # From now on, jax refuses to change their number.
    jax.devices()
    attempt = Attempt(problem, None, "", {})
    with attempt.running():
        function, plain = pickle.loads(data)
    attempt.function = function
    attempt.filename = plain.__code__.co_filename
    attempt.module = plain.__globals__
    return attempt
