"""Change a program in one place, as a slip of the hand would."""

import ast
import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass

AXES = {"model": "data", "data": "model"}
OPPOSITE = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
}
EQUAL = (ast.Eq, ast.Is, ast.In, ast.NotIn, ast.IsNot)
# What only shows something, or says it in words.
SHOWS = ("print", "draw", "layout", "show")
# Makes an example: what is true is true of others, of another size too.
EXAMPLES = (
    *("arange", "array", "default_rng", "full", "key", "normal", "ones"),
    *("seed", "uniform", "zeros"),
    *("BatchStat", "Conv", "Dense", "Dropout", "Embed", "LayerNorm"),
    *("Linear", "Param", "Rngs"),
)
# How exact an assertion is, is no part of what it says.
EXACTNESS = ("atol", "rel_tol", "rtol")
WORDS = (ast.JoinedStr, ast.Raise, ast.Assert)


@dataclass(frozen=True)
class Mutant:
    """A program that was changed.

    Attributes:
        line: Where, counted from the program's first line.
        change: What, in words.
        source: The program.
    """

    line: int
    change: str
    source: str


def mutants(source: str) -> Iterator[Mutant]:
    """Make all mutants of a program."""
    tree = ast.parse(source)
    _note_parents(tree)
    for number, node in enumerate(ast.walk(tree)):
        for change, new in _changes(node):
            mutated = copy.deepcopy(tree)
            _replace(mutated, number, new)
            yield Mutant(
                getattr(node, "lineno", 0),
                change,
                ast.unparse(ast.fix_missing_locations(mutated)),
            )


def some(source: str, share: float) -> list[Mutant]:
    """Make a share of the mutants, the same ones each time."""
    found = list(mutants(source))
    count = min(len(found), max(1, round(len(found) * share)))
    return random.Random(source).sample(found, count)


def _note_parents(tree: ast.AST) -> None:
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            child.parent = node


def _inside(node: ast.AST, kinds: tuple[type, ...]) -> bool:
    while node := getattr(node, "parent", None):
        if isinstance(node, kinds):
            return True
    return False


def _name(node: ast.AST) -> str:
    called = node.func if isinstance(node, ast.Call) else node
    return getattr(called, "attr", getattr(called, "id", ""))


def _may_differ(node: ast.AST) -> bool:
    """Tell whether a number is one of many that would do."""
    while node := getattr(node, "parent", None):
        match node:
            case ast.keyword(arg=name) if name in EXACTNESS:
                return True
            case ast.Call():
                return _name(node) in EXAMPLES
            case ast.Compare(ops=operators):
                # The bound of an assertion.
                equal = any(isinstance(op, EQUAL) for op in operators)
                return not equal and _inside(node, (ast.Assert,))
    return False


def _replace(tree: ast.AST, number: int, new: ast.AST) -> None:
    """Put a node in the place of the one of that number."""
    for count, node in enumerate(ast.walk(tree)):
        if count == number:
            for name, value in ast.iter_fields(node.parent):
                if value is node:
                    setattr(node.parent, name, new)
                elif isinstance(value, list) and node in value:
                    value[value.index(node)] = new
            return


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Give each other node that may stand in the place of one."""
    match node:
        case ast.Constant(value=str(value)) if value in AXES:
            yield f"{value!r} -> {AXES[value]!r}", ast.Constant(AXES[value])
        case ast.Constant(value=bool(value)) if not _inside(node, WORDS):
            yield f"{value} -> {not value}", ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)) if (
            not isinstance(value, bool)
            and not _inside(node, (ast.JoinedStr, ast.Raise))
            and not _may_differ(node)
        ):
            yield f"{value} -> {value + 1}", ast.Constant(value + 1)
        case ast.Call(args=[*args]) if _name(node) in (
            "P",
            "PartitionSpec",
        ):
            turned = args[::-1]
            if [*map(ast.dump, turned)] == [*map(ast.dump, args)]:
                turned = turned[1:]
            if len(args) > 0:
                new = ast.Call(node.func, turned, node.keywords)
                yield f"{ast.unparse(node)} -> {ast.unparse(new)}", new
        case ast.Compare(ops=[operator]) if type(operator) in OPPOSITE:
            if not _inside(node, (ast.Assert,)):
                other = OPPOSITE[type(operator)]()
                new = ast.Compare(node.left, [other], node.comparators)
                yield f"{ast.unparse(node)} -> {ast.unparse(new)}", new
        case ast.BoolOp(op=operator, values=values) if not _inside(
            node, (ast.Assert,)
        ):
            new = ast.BoolOp(OPPOSITE[type(operator)](), values)
            yield f"{ast.unparse(node)} -> {ast.unparse(new)}", new
        case ast.BinOp(op=operator) if type(operator) in OPPOSITE:
            new = ast.BinOp(
                node.left, OPPOSITE[type(operator)](), node.right
            )
            yield f"{ast.unparse(node)} -> {ast.unparse(new)}", new
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            if not isinstance(node.parent, ast.Assert):
                yield f"{ast.unparse(node)} -> without not", operand
        case ast.Assert(test=test):
            new = ast.Assert(ast.UnaryOp(ast.Not(), test), None)
            yield f"not: {ast.unparse(test)}", new
        case ast.Call(args=[got, _, *more]) if "assert_" in _name(node):
            call = [got, ast.Constant(None), *more]
            new = ast.Call(node.func, call, node.keywords)
            yield f"without the right side: {ast.unparse(node)}", new
        case ast.Assign() | ast.AugAssign() | ast.Return() | ast.Expr():
            if not _only_shows(node):
                first = ast.unparse(node).splitlines()[0]
                yield f"without: {first}", ast.Pass()


def _only_shows(node: ast.stmt) -> bool:
    if not isinstance(node, ast.Expr):
        return False
    if isinstance(node.value, ast.Call):
        # An assertion is what catches, and not what is caught.
        return _name(node.value) in SHOWS or "assert_" in ast.unparse(node)
    return True
