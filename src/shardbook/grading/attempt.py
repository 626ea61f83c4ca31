"""Load a reader's attempt and call it, and report its errors."""

import ast
import base64
import contextlib
import inspect
import os
import pickle
import stat
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

import jax

from shardbook import inputs
from shardbook.grading.spies import replaced

LARGEST_FILE = 2**20
# What an attempt must leave as it is: these modules, and their classes.
MODULES = (
    "builtins",
    "flax.linen",
    "flax.nnx",
    "jax",
    "jax.lax",
    "jax.nn",
    "jax.numpy",
    "jax.random",
    "jax.sharding",
    "jax.tree",
    "jax.tree_util",
    "numpy",
    "numpy.testing",
    "shardbook.grading.agreement",
    "shardbook.grading.cases",
    "shardbook.grading.measures",
    "shardbook.grading.run",
    "shardbook.grading.spies",
    "shardbook.grading.verdict",
)


class Wrong(Exception):  # noqa: N818
    """An attempt failed a check."""

    def __init__(
        self, why: str, *, got: str = "", expected: str = "", read: str = ""
    ) -> None:
        super().__init__(why)
        self.why = why
        self.got = got
        self.expected = expected
        self.read = read


class Crashed(Exception):  # noqa: N818
    """An attempt raised an error of its own."""


class NotWritten(Exception):  # noqa: N818
    """An attempt raises NotImplementedError, as the starter does."""


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
        deprecations: The deprecation warnings of all calls.
    """

    problem: str
    function: Callable[..., Any] | None
    filename: str
    module: dict[str, Any]
    call: str = ""
    given: str = ""
    deprecations: list[str] = field(default_factory=list)

    def __call__(self, call: str, given: str = "") -> Any:
        """Make a call.

        Args:
            call: The call as code, with the names of
                :mod:`shardbook.inputs` in its arguments:
                ``"double(normal(8))"``.
            given: What is altered around it, in words: "where Linear has
                no bias".

        Returns:
            What the call returns.

        Raises:
            Crashed: If the attempt raises.
            NotWritten: If it raises NotImplementedError.
            Wrong: If it changed jax, flax or the grader.
        """
        self.name_call(call, given)
        # Made first, so that nothing but the attempt is watched.
        calls = arguments(call)
        result: Any = self.function
        with guarded(self.filename, self.deprecations):
            for positional, named in calls:
                result = result(*positional, **named)
            jax.block_until_ready(result)
        return result

    def name_call(self, call: str, given: str = "") -> None:
        """Note which call the next verdict is about."""
        self.call, self.given = pasteable(call), given

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


def arguments(call: str) -> list[tuple[list[Any], dict[str, Any]]]:
    """Make the arguments of a call, and of calls of what it returns.

    Args:
        call: Such as ``"f(normal(8))"``, or ``"make_step(2)(normal(8))"``.

    Returns:
        For each call, from the first, its positional and named arguments.
    """

    def value(node: ast.expr) -> Any:
        return eval(
            compile(ast.Expression(node), call, "eval"), dict(vars(inputs))
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
    used = sorted(words & set(inputs.__all__))
    if not used:
        return call
    return f"from shardbook.inputs import {', '.join(used)}\n{call}"


def _untouchable() -> dict[tuple[Any, str], Any]:
    """Note what the modules and classes hold that are not the attempt's."""
    modules = [sys.modules[name] for name in MODULES if name in sys.modules]
    classes = {
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type)
    }
    return {
        (owner, name): value
        for owner in (*modules, *classes)
        for name, value in vars(owner).items()
        # Flax writes this anew for each subclass of a Linen module.
        if name != "__dataclass_fields__"
    }


def _require_untouched(before: dict[tuple[Any, str], Any]) -> None:
    missing = object()
    for (owner, name), value in before.items():
        if vars(owner).get(name, missing) is not value:
            where = f"{getattr(owner, '__name__', owner)}.{name}"
            raise Wrong(
                f"it replaced {where}, which is not its own",
                got=f"another {where}",
                expected=f"{where} as it was",
                read="Problem",
            )


@contextlib.contextmanager
def guarded(filename: str, deprecations: list[str]) -> Iterator[None]:
    """Run code of an attempt, and raise its errors as :class:`Crashed`."""
    before = _untouchable()
    warn = warnings.warn

    def note(
        message: Any, category: Any = None, *rest: Any, **more: Any
    ) -> None:
        kind = type(message) if isinstance(message, Warning) else category
        if kind and issubclass(kind, DeprecationWarning):
            deprecations.append(str(message))
        warn(message, category, *rest, **more)

    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            # An attempt can change the filters; this it can't.
            with replaced(warnings, "warn", note):
                yield
        deprecations += [
            str(each.message)
            for each in caught
            if issubclass(each.category, DeprecationWarning)
            and str(each.message) not in deprecations
        ]
    except (Wrong, Crashed, NotWritten):
        raise
    except NotImplementedError as error:
        if _line(error, filename) and not str(error):
            raise NotWritten from None
        raise Crashed(_words(error, filename)) from None
    except SystemExit as error:
        raise Crashed(f"it called sys.exit({error.code!r})") from None
    except BaseException as error:
        raise Crashed(_words(error, filename)) from None
    _require_untouched(before)


def _line(error: BaseException, filename: str) -> int | None:
    """Find the last line of the attempt that an error went through."""
    line, step = None, error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == filename:
            line = step.tb_lineno
        step = step.tb_next
    return line


def _words(error: BaseException, filename: str) -> str:
    if isinstance(error, SyntaxError):
        place = f", line {error.lineno}" if error.lineno else ""
        return f"{type(error).__name__}: {error.msg}{place}"
    # Without what jax adds about its own frames.
    with contextlib.suppress(AttributeError):
        del error.__notes__
    message = "".join(traceback.format_exception_only(error)).strip()
    if len(message) > 600:
        message = f"{message[:600]} ..."
    line = _line(error, filename)
    return f"{message}\n(line {line})" if line else message


def load_file(problem: str, path: str) -> Attempt:
    """Read an attempt from a file, and run the file."""
    try:
        # Opening a pipe would wait for someone to write to it.
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise OSError(0, "it is not a regular file")
        with open(path, "rb") as file:
            source = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise Crashed(f"the file can't be read: {error.strerror}") from None
    if len(source) > LARGEST_FILE:
        raise Crashed(f"the file is larger than {LARGEST_FILE:,} bytes")
    module = ModuleType("attempt")
    module.__file__ = path
    # jax notes which file a call is in, and takes no name but text.
    name = path.encode("utf-8", "replace").decode("utf-8")
    attempt = Attempt(problem, None, name, module.__dict__)
    sys.modules["attempt"] = module
    with guarded(name, attempt.deprecations):
        try:
            code = compile(source, name, "exec")
        except ValueError as error:
            raise Crashed(f"the file is not Python: {error}") from None
        exec(code, module.__dict__)
    return attempt


def load_pickle(problem: str, data: str) -> Attempt:
    """Take over a notebook's function, and what its decorators wrap."""
    deprecations: list[str] = []
    with guarded("", deprecations):
        function, plain = pickle.loads(base64.b64decode(data))
    return Attempt(
        problem,
        function,
        plain.__code__.co_filename,
        plain.__globals__,
        deprecations=deprecations,
    )
