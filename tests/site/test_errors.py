"""The guide to errors explains what people meet, in their words."""

import re
from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest
from flax import nnx
from jax.sharding import PartitionSpec as P

from shardbook import book
from shardbook_site.cells import CELL

# What versions before the tested ones said, or what only a cluster says,
# and what the heading of the section has.
QUOTED = {
    "Received incompatible devices for jitted computation. Got argument "
    "args[0] of broadcast_in_dim with shape float32[1] and device ids [0] "
    "on platform GPU and jit's context mesh with device ids [0, 1, 2, ..., "
    "31] on platform GPU": "Received incompatible devices",
    "One of pjit outputs was given the sharding of NamedSharding(mesh=Mesh("
    "'dp': 1, 'fsdp': 32, 'tp': 1, 'sp': 1), spec=PartitionSpec(('dp', "
    "'fsdp'), 'sp'), memory_kind=device), which implies that the global "
    "size of its dimension 0 should be divisible by 32, but it is equal to "
    "1 (full shape: (1, 130048))": "implies that array axis",
    "Primitive reduce requires varying manual axes to match, but got "
    "[frozenset({'model', 'data'}), frozenset()]. Please open an issue": (
        "so the manual axis types do not match"
    ),
    "_psum_invariant_abstract_eval() got an unexpected keyword argument "
    "'axis_index_groups'": "Fixed in the tested versions",
    "Expected tuple, got JitTracer(float32[2]).": "pytree structure error",
    "Custom node type mismatch: expected type: <class 'flax.nnx.variablelib"
    ".Param'>, value: JitTracer(float32[2,1]).": "pytree structure error",
    "cannot reshape array of size 2 into shape (1,64)": (
        "must be >= the product of mesh_shape"
    ),
    "with_sharding_constraint requires a non-empty mesh if you are passing "
    "`PartitionSpec`s or `None` to shardings! Is a mesh defined at the "
    "call site?": "requires a non-empty mesh in context",
    "UNIMPLEMENTED: HLO opcode `ragged-all-to-all` is not supported by "
    "XLA:CPU ThunkEmitter": "is not supported by XLA:CPU",
    "Unable to initialize backend 'cuda': INTERNAL: no supported devices "
    "found for platform CUDA": "Unable to initialize backend",
    "This thread has been waiting for `initialize clique for rank 6; "
    "clique=devices=[0,1,2]` for 10 seconds and may be stuck. Expected 8 "
    "threads to join the rendezvous, but not all of them arrived.": (
        "and may be stuck"
    ),
    "Found unexpected data on value of type <class 'list'> in static "
    "attribute 'rope_generators' of Pytree type": "Found data on value",
    "Fetching value for `jax.Array` that spans non-addressable (non "
    "process local) devices is not possible.": "spans non-addressable",
    "Unable to compute global_shape due to non-uniform sharding. Specify "
    "global shape directly.": "non-uniform sharding",
    "UNAVAILABLE: The following tasks are unhealthy (stopped sending "
    "heartbeats):\n1\nThe tasks have crashed.": "tasks are unhealthy",
    "Terminating process because the JAX distributed service detected "
    "fatal errors. absl::Status: DEADLINE_EXCEEDED: Deadline "
    "Exceeded\n\nRPC: /xla.coordination.CoordinationService/RegisterTask": (
        "RegisterTask"
    ),
    "Make sure that the axis_name passed to jax.lax.ppermute is in the "
    "same order as the axis_names declared on the mesh.": (
        "in the same order"
    ),
    "User-provided restore item and on-disk value metadata tree structures "
    "do not match: bias:": "tree structures do not match",
    "Requested shape: (16, 12) is not compatible with the stored shape: "
    "(16, 8).": "Requested shape",
    "INVALID_ARGUMENT: Non-replicated subgroup (e.g., manual or unreduced "
    "subgroup) sharding does not support UniqueIndexDomains": (
        "sharding does not support UniqueIndexDomains"
    ),
    "INVALID_ARGUMENT: Disallowed host-to-device transfer: aval="
    "ShapedArray(float32[16,8]), dst_sharding=": (
        "Disallowed device-to-device transfer"
    ),
    "INVALID_ARGUMENT: Buffer passed to Execute() as argument 0 to replica "
    "0 is on device cpu:2, but replica is assigned to device cpu:0.": (
        "but replica is assigned to device"
    ),
    "[spmd] Involuntary full rematerialization. The compiler was not able "
    "to go from sharding {maximal device=0} to {devices=[4,1]<=[4]} "
    "without doing a full rematerialization of the tensor.": (
        "Involuntary full rematerialization"
    ),
}


def filled_later() -> object:
    """Make a Module that fills a list after it assigned it."""

    class Stack(nnx.Module):
        def __init__(self) -> None:
            self.layers: list[nnx.Module] = []
            self.layers.append(nnx.Linear(2, 2, rngs=nnx.Rngs(0)))

    return Stack()


def forbidden() -> object:
    """Sum over an axis over which nothing may be summed."""

    def total(x: jax.Array) -> jax.Array:
        with jax.sharding.no_collectives({"data"}):
            return jax.lax.psum(x, "data")

    mesh = jax.make_mesh((1,), ("data",))
    return jax.shard_map(total, mesh=mesh, in_specs=P(), out_specs=P())(
        jnp.ones(2)
    )


def deleted() -> object:
    """Read an array that was donated."""
    x = jnp.ones(2)
    jax.jit(jnp.sin, donate_argnums=0)(x)
    return x + 1


def wants_a_tuple() -> object:
    """Give the shardings of one output as if there were several."""
    return nnx.jit(jnp.sin, out_shardings=(None,))(jnp.ones(2))


def of_a_method() -> object:
    """Map a method that is bound to its Module."""
    mesh = jax.make_mesh((1,), ("data",))
    layer = nnx.Linear(2, 2, rngs=nnx.Rngs(0))
    call: Callable[[jax.Array], jax.Array] = layer.__call__
    return nnx.shard_map(call, mesh=mesh, in_specs=P(), out_specs=P())


RAISED: dict[Callable[[], object], str] = {
    filled_later: "Found data on value",
    deleted: "Array has been deleted",
    wants_a_tuple: "pytree structure error",
    lambda: jnp.zeros((2**20, 2**30)): "Out of memory",
    lambda: jax.lax.psum(1.0, "data"): "Found an unbound axis name",
    of_a_method: "does not support bound methods",
}
if jax.__version_info__ >= (0, 12):
    RAISED[forbidden] = "is forbidden by `no_collectives`"


@pytest.mark.parametrize("message", QUOTED)
def test_a_quoted_message_is_explained(message: str) -> None:
    """The words of other versions, and of clusters, have a section."""
    assert QUOTED[message] in book.explained(f"ValueError: {message}")


@pytest.mark.parametrize("mistake", RAISED, ids=RAISED.values())
def test_an_error_is_explained(mistake: Callable[[], object]) -> None:
    """What the installed versions raise has a section."""
    with pytest.raises(Exception) as raised:  # noqa: PT011 - of each kind
        mistake()

    assert RAISED[mistake] in book.explained(str(raised.value))


def test_the_guide_requires_the_errors_that_it_explains() -> None:
    """A cell has the words of each heading, and what "Also:" adds."""
    sections = re.split("^### ", book._page("errors"), flags=re.M)[1:]
    for section in sections:
        code = "".join(CELL.findall(section))
        lines = re.findall(r"\A.*|^Also: .*", section, re.M)
        for _, words in book.CODE.findall("\n".join(lines)):
            assert words in code, f"no cell raises {words!r}"
    assert len(sections) > 20


def test_a_message_is_in_the_guide_once() -> None:
    """Each has one section, and code in code keeps its backticks."""
    found = book.messages()
    page = book._page("errors")

    for words, title in found.items():
        assert title in found or title == "Fixed in the tested versions"
        assert page.count(f"`{words}`") <= 1, words
    assert "is forbidden by `no_collectives`" in found
    assert book.explained("nothing that anyone ever raised") == ""
