"""Change a program in one place, as a slip of the hand would."""

import ast
import random
from collections.abc import Iterator

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
SPECS = ("P", "PartitionSpec")
WORDS = (ast.JoinedStr, ast.Raise, ast.Assert)


def mutants(source: str) -> Iterator[tuple[str, str]]:
    """Give each mutant of a program: what was changed, and the program."""
    lines = source.splitlines()
    tree = ast.parse(source)
    nodes = [*ast.walk(tree)]
    for node in nodes:
        for child in ast.iter_child_nodes(node):
            child.parent = node
    for node in nodes:
        for new in _changes(node):
            first = ast.unparse(node).splitlines()[0]
            change = f"{first} -> {ast.unparse(new)}"
            if isinstance(new, ast.Pass):
                change = f"without: {first}"
            new.parent = node.parent
            _put(new, node)
            text = ast.unparse(ast.fix_missing_locations(tree))
            _put(node, new)
            line = lines[getattr(node, "lineno", 1) - 1].strip()
            yield f"{line}: {change}", text


def some(source: str, share: float) -> list[tuple[str, str]]:
    """Give a share of the mutants, the same ones each time."""
    found = list(mutants(source))
    count = min(len(found), max(1, round(len(found) * share)))
    return random.Random(source).sample(found, count)


def _put(new: ast.AST, old: ast.AST) -> None:
    """Put a node in the place of another."""
    for name, value in ast.iter_fields(old.parent):
        if value is old:
            setattr(old.parent, name, new)
        elif isinstance(value, list):
            value[:] = [new if each is old else each for each in value]


def _around(node: ast.AST) -> Iterator[ast.AST]:
    """Give what a node is in, from the inside out."""
    while node := getattr(node, "parent", None):
        yield node


def _inside(node: ast.AST, kinds: tuple[type, ...]) -> bool:
    return any(isinstance(each, kinds) for each in _around(node))


def _name(node: ast.AST) -> str:
    called = node.func if isinstance(node, ast.Call) else node
    return getattr(called, "attr", getattr(called, "id", ""))


def _is_refused(node: ast.AST) -> bool:
    """Tell whether an error is required, which other values raise too."""
    return any(
        _name(item.context_expr) == "raises"
        for each in _around(node)
        if isinstance(each, ast.With)
        for item in each.items
    )


def _may_differ(node: ast.AST) -> bool:
    """Tell whether a number is one of many that would do."""
    for each in _around(node):
        match each:
            case ast.keyword(arg=name) if name in EXACTNESS:
                return True
            case ast.Call():
                return _name(each) in EXAMPLES
            case ast.Compare(ops=operators):
                # The bound of an assertion.
                equal = any(isinstance(op, EQUAL) for op in operators)
                return not equal and _inside(each, (ast.Assert,))
    return False


def _changes(node: ast.AST) -> Iterator[ast.AST]:
    """Give each other node that may stand in the place of one."""
    asserted = _inside(node, (ast.Assert,))
    if _is_refused(node) and isinstance(node, ast.expr):
        return
    match node:
        case ast.Constant(value=str(value)) if value in AXES:
            yield ast.Constant(AXES[value])
        case ast.Constant(value=bool(value)) if not _inside(node, WORDS):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)) if (
            not isinstance(value, bool)
            and not _inside(node, (ast.JoinedStr, ast.Raise))
            and not _may_differ(node)
        ):
            yield ast.Constant(value + 1)
        case ast.Call(args=[_, *_]) if _name(node) in SPECS:
            turned = node.args[::-1]
            if [*map(ast.dump, turned)] == [*map(ast.dump, node.args)]:
                turned = turned[1:]
            yield ast.Call(node.func, turned, node.keywords)
        case ast.Compare(ops=[operator]) if not asserted:
            other = OPPOSITE[type(operator)]()
            yield ast.Compare(node.left, [other], node.comparators)
        case ast.BoolOp(op=operator) if not asserted:
            yield ast.BoolOp(OPPOSITE[type(operator)](), node.values)
        case ast.BinOp(op=operator) if not _may_differ(node):
            if other := OPPOSITE.get(type(operator)):
                yield ast.BinOp(node.left, other(), node.right)
        case ast.UnaryOp(op=ast.Not()):
            if not isinstance(node.parent, ast.Assert):
                yield node.operand
        case ast.Assert():
            yield ast.Assert(ast.UnaryOp(ast.Not(), node.test), None)
        case ast.Call(args=[got, _, *more]) if "assert_" in _name(node):
            call = [got, ast.Constant(None), *more]
            yield ast.Call(node.func, call, node.keywords)
        case ast.Assign() | ast.AugAssign() | ast.Return() | ast.Expr():
            if not _only_shows(node):
                yield ast.Pass()


def _only_shows(node: ast.stmt) -> bool:
    if not isinstance(node, ast.Expr):
        return False
    # What a cell ends with is shown.
    if isinstance(node.parent, ast.Module) and node is node.parent.body[-1]:
        return True
    if isinstance(node.value, ast.Call):
        # An assertion is what catches, and not what is caught.
        return _name(node.value) in SHOWS or "assert_" in ast.unparse(node)
    return True
