"""Grade one attempt, in a process of its own."""

import base64
import contextlib
import importlib
import os
import pickle
import re
import stat
import statistics
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import numpy.testing
import optax  # noqa: F401 - an attempt may want it, and it takes long.
from flax import nnx
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from shardbook import observing
from shardbook.drawing import draw
from shardbook.verdicts import Verdict

LARGEST_FILE = 2**20
# What an attempt must leave as it is.
MODULES = (
    *("builtins", "jax", "jax.lax", "jax.numpy", "jax.random"),
    *("jax.sharding", "jax.tree", "jax.tree_util"),
    *("flax.nnx", "flax.linen", "numpy", "numpy.testing"),
    *("shardbook.grading", "shardbook.observing", "shardbook.verdicts"),
)
CLASSES = (
    *(nnx.Linear, nnx.Module, nnx.Variable, nnx.Param, nnx.BatchStat),
    *(nn.Dense, nn.Module, nn.Partitioned),
    *(Mesh, NamedSharding, PartitionSpec, jax.Array),
)


class Wrong(Exception):  # noqa: N818
    """An attempt failed a check."""

    def __init__(
        self, why: str, *, got: str = "", expected: str = "", read: str = ""
    ) -> None:
        super().__init__(why)
        self.why, self.got, self.expected, self.read = (
            *(why, got, expected, read),
        )


class Crashed(Exception):  # noqa: N818
    """An attempt raised an error of its own."""


class NotWritten(Exception):  # noqa: N818
    """An attempt raises NotImplementedError, as the starter does."""


def show(value: Any) -> str:
    """Write a value so that it can be compared with another by eye."""
    if isinstance(value, jax.Array | np.ndarray):
        kind = f"{value.dtype}[{','.join(map(str, value.shape))}]"
        if value.size > 16:
            return f"{kind} {np.asarray(value).ravel()[:8]} ..."
        with np.printoptions(precision=6, suppress=True, linewidth=70):
            return f"{kind} {np.asarray(value)}"
    text = repr(value)
    return text if len(text) < 400 else f"{text[:400]} ..."


def who_holds(array: Any) -> str:
    """Say which device holds which slice of an array."""
    if isinstance(array, jax.Array | jax.ShapeDtypeStruct):
        return repr(draw(array))
    kind = f"{array.dtype}[{','.join(map(str, array.shape))}]"
    return f"{kind} in NumPy, on no device"


def would_hold(shape: tuple[int, ...], sharding: Any) -> str:
    """Say which device would hold which slice of a float32 array."""
    dtype = jnp.float32
    return who_holds(jax.ShapeDtypeStruct(shape, dtype, sharding=sharding))


def sample(*shape: int, seed: int = 0) -> jax.Array:
    """Give float32 numbers of which no attempt knows beforehand."""
    values = np.random.default_rng(seed).normal(size=shape)
    return jnp.asarray(values, jnp.float32)


@dataclass(eq=False)
class Attempt:
    """A reader's function, to be called as often as a check needs.

    Attributes:
        problem: The name of the function.
        function: The function.
        filename: The file that its code is in.
        module: What else is defined there, by name.
        call: The last call, in words.
        deprecations: What was said to be deprecated in all calls.
    """

    problem: str
    function: Callable[..., Any] | None
    filename: str
    module: dict[str, Any]
    call: str = ""
    deprecations: list[str] = field(default_factory=list)

    def __call__(
        self, seed: float, x: Any, features: float, given: str = ""
    ) -> Any:
        """Call the function.

        Args:
            seed: Its first argument.
            x: Its second argument.
            features: Its third argument.
            given: What is unusual about the call, in words: "with a
                Linear that has no bias".

        Returns:
            What the function returns.

        Raises:
            Crashed: If it raises.
            NotWritten: If it raises NotImplementedError.
            Wrong: If it changed what is not its own.
        """
        kind = f"{x.dtype}[{','.join(map(str, x.shape))}]"
        self.call = (
            f"{self.problem}({seed!r}, x, {features!r}) with x {kind}"
        )
        if given:
            self.call += f", {given}"
        with guarded(self.filename, self.deprecations):
            result = self.function(seed, x, features)
            if isinstance(result, jax.Array):
                result.block_until_ready()
        return result

    def returns(
        self,
        expected: Any,
        *arguments: Any,
        given: str = "",
        why: str,
        read: str,
        atol: float = 1e-4,
    ) -> Any:
        """Call the function, and insist on the values that come back.

        Args:
            expected: The values, as an array or what makes one.
            *arguments: Seed, x and features.
            given: What is unusual about the call, in words.
            why: What it means if the values are others.
            read: The section of the page to read then.
            atol: How far off a value may be, beside one part in 10,000.

        Returns:
            What the function returned.

        Raises:
            Wrong: If the values are others.
        """
        got = self(*arguments, given=given)
        expected = np.asarray(expected, np.float32)
        same = getattr(
            got, "shape", None
        ) == expected.shape and np.allclose(
            got, expected, rtol=1e-4, atol=atol, equal_nan=True
        )
        if not same:
            raise Wrong(
                why, got=show(got), expected=show(expected), read=read
            )
        return got

    def returns_array(
        self, shape: tuple[int, ...], *arguments: Any, read: str = "Problem"
    ) -> None:
        """Call the function, and insist on a float32 array of a shape."""
        got = self(*arguments)
        expected = f"float32[{','.join(map(str, shape))}]"
        kind = type(got).__name__
        if isinstance(got, jax.Array | np.ndarray):
            kind = f"{got.dtype}[{','.join(map(str, got.shape))}]"
        if kind != expected:
            raise Wrong(
                "the result has another type, dtype or shape",
                got=kind if kind != "NoneType" else "None",
                expected=expected,
                read=read,
            )


def mesh_of(devices: int | None = None) -> Mesh:
    """Give a mesh of one axis, "model"."""
    count = devices or jax.device_count()
    return jax.make_mesh(
        (count,),
        ("model",),
        (AxisType.Auto,),
        devices=jax.devices()[:count],
    )


def _untouched() -> dict[tuple[Any, str], Any]:
    """Note what the modules and classes hold that are not the attempt's."""
    modules = [sys.modules[name] for name in MODULES]
    return {
        (owner, name): value
        for owner in (*modules, *CLASSES)
        for name, value in vars(owner).items()
        # Flax writes this anew for each subclass of a Linen module.
        if name != "__dataclass_fields__"
    }


def _insist_untouched(before: dict[tuple[Any, str], Any]) -> None:
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
    """Run code of the attempt: tell its errors from ours."""
    before = _untouched()
    warn = warnings.warn

    def note(message: Any, category: Any = None, *rest: Any, **more: Any):
        kind = type(message) if isinstance(message, Warning) else category
        if kind and issubclass(kind, DeprecationWarning):
            deprecations.append(str(message))
        return warn(message, category, *rest, **more)

    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            # The filters are the attempt's to change; this is not.
            with observing.replaced(warnings, "warn", note):
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
    _insist_untouched(before)


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


def _load_file(problem: str, path: str) -> Attempt:
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


def _load_pickle(problem: str, data: str) -> Attempt:
    """Take over a function that was defined in a notebook."""
    deprecations: list[str] = []
    with guarded("", deprecations):
        function = pickle.loads(base64.b64decode(data))
    filename = function.__code__.co_filename
    names = function.__globals__
    return Attempt(problem, function, filename, names, "", deprecations)


def _callable(attempt: Attempt) -> None:
    if attempt.function is None:
        function = attempt.module.get(attempt.problem)
        if not callable(function):
            defined = sorted(
                name
                for name, value in attempt.module.items()
                if callable(value)
                and not name.startswith("_")
                and getattr(value, "__module__", "") == "attempt"
            )
            raise Wrong(
                f"there is no function {attempt.problem}",
                got=f"defined: {', '.join(defined) or 'nothing'}",
                expected=f"def {attempt.problem}(seed, x, features)",
                read="Problem",
            )
        attempt.function = function


def _deprecated(attempt: Attempt) -> None:
    if attempt.deprecations:
        raise Wrong(
            "the result is right, by a route that jax or flax warns of",
            got=attempt.deprecations[0],
            expected="no DeprecationWarning",
            read="What changed since the source",
        )


def _checks(problem: str, devices: int) -> ModuleType:
    """Set up the devices, if they are not yet, and find the checks."""
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", devices)
    return importlib.import_module(f"shardbook.checks.{problem}")


@cache
def _solution(problem: str) -> Attempt:
    module = importlib.import_module(f"shardbook.problems.{problem}")
    function = getattr(module, problem)
    return Attempt(problem, function, module.__file__, vars(module))


def rehearse(problem: str, devices: int = 8) -> None:
    """Grade the solution, so that what it compiles is there for others.

    Args:
        problem: The name of the problem.
        devices: How many devices attempts will be graded on.
    """
    checks = _checks(problem, devices)
    # First, for it forgets what was compiled before.
    compiled(_solution(problem))
    for step in checks.CHECKS:
        step(_solution(problem))


def grade(
    problem: str, kind: str, source: str, name: str, devices: int = 8
) -> dict[str, Any]:
    """Grade an attempt; this process is its own, and ends with it.

    Args:
        problem: The name of the problem.
        kind: ``"file"``, or ``"pickle"`` for a function.
        source: The path of the file, or the pickled function in base 64.
        name: What to call it in the verdict.
        devices: How many devices to grade it on, 2 or more.

    Returns:
        The verdict, as :meth:`shardbook.Verdict.as_json` gives it.
    """
    checks = _checks(problem, devices)
    started = time.monotonic()
    verdict = Verdict(problem, name, "right")
    attempt, check = None, "callable"
    try:
        load = _load_file if kind == "file" else _load_pickle
        attempt = load(problem, source)
        for step in (_callable, *checks.CHECKS, _deprecated):
            check = step.__name__.strip("_")
            step(attempt)
        verdict = verdict.update(compared=_compare(attempt))
    except NotWritten:
        verdict = verdict.update(
            status="not written",
            why="write your code in the place of raise NotImplementedError",
        )
    except Crashed as error:
        call = attempt.call if attempt else ""
        verdict = verdict.update(
            status="crashed", check=check, call=call, why=str(error)
        )
        sections = (
            section
            for words, section in checks.ERRORS
            if re.search(words, str(error))
        )
        verdict = verdict.update(read=next(sections, ""))
    except Wrong as error:
        verdict = verdict.update(
            status="wrong",
            check=check,
            call=attempt.call if attempt else "",
            why=error.why,
            got=error.got,
            expected=error.expected,
            read=error.read,
        )
    seconds = time.monotonic() - started
    return verdict.update(seconds=round(seconds, 3)).as_json()


def _compare(attempt: Attempt) -> dict[str, tuple[str, str]]:
    """Measure what a right attempt does differently from the solution."""
    both = (attempt, _solution(attempt.problem))
    # Each beside the other, for the machine may be busy now and then.
    times: list[list[float]] = [[], []]
    for turn in range(4):
        for function, taken in zip(both, times, strict=True):
            start = time.perf_counter()
            function(*_example(attempt.problem))
            if turn:  # The first compiles.
                taken.append(time.perf_counter() - start)
    yours, ours = (_summary(compiled(function)) for function in both)
    rows = {name: (yours[name], ours[name]) for name in yours}
    rows["ms for a call"] = tuple(
        f"{1000 * statistics.median(taken):.1f}" for taken in times
    )
    return rows


def _example(problem: str) -> tuple[Any, ...]:
    return sys.modules[f"shardbook.checks.{problem}"].EXAMPLE


@cache
def compiled(attempt: Attempt) -> list[observing.Program]:
    """Give all programs that a call with the example compiles."""
    jax.clear_caches()
    with observing.programs() as programs:
        attempt(*_example(attempt.problem))
    return programs


def _summary(programs: list[observing.Program]) -> dict[str, str]:
    talk: Counter[str] = Counter()
    for program in programs:
        talk.update(program.collectives)
    most = max((program.bytes for program in programs), default=0)
    return {
        "collectives": " ".join(f"{n} {k}" for k, n in talk.items())
        or "none",
        "bytes on a device": f"{most:,}",
        "programs compiled": str(len(programs)),
    }
