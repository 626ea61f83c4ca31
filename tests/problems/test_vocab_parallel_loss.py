"""The loss and its gradients, on meshes of all the devices there are."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from shardbook import inputs
from shardbook.problems.vocab_parallel_loss import vocab_parallel_loss
from shardscope import program

TOKENS, DIM, WORDS = 32, 48, 256
SPECS = P("data"), P("model"), P("data")


def arrays(left_out: int = 7, scale: float = 1.0) -> list[Any]:
    """Give hidden, embedding and labels, in NumPy."""
    hidden = scale * inputs.normal(TOKENS, DIM)
    embedding = inputs.normal(WORDS, DIM, seed=1) / 4
    labels = inputs.labels(TOKENS, WORDS, left_out=left_out)
    return [np.asarray(each) for each in (hidden, embedding, labels)]


def on(mesh: Mesh, given: list[Any]) -> list[jax.Array]:
    """Place hidden, embedding and labels."""
    pairs = zip(given, SPECS, strict=True)
    return [inputs.laid_out(each, spec, mesh) for each, spec in pairs]


def step_on(mesh: Mesh) -> Any:
    """Give the loss and its gradients, compiled."""

    def loss(hidden: Any, embedding: Any, labels: Any) -> jax.Array:
        return vocab_parallel_loss(hidden, embedding, labels, mesh)

    return jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))


def numpy_loss(given: list[Any]) -> tuple[float, Any, Any]:
    """Compute the loss and its gradients in NumPy, in float64."""
    hidden, embedding, labels = given
    hidden, embedding = hidden.astype("d"), embedding.astype("d")
    logits = hidden @ embedding.T
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities = powers / powers.sum(axis=1, keepdims=True)
    one_hot = labels[:, None] == np.arange(len(embedding))
    counts = (labels != -1)[:, None]
    number = max(counts.sum(), 1)
    logs = logits - logits.max(axis=1, keepdims=True)
    logs -= np.log(powers.sum(axis=1, keepdims=True))
    slopes = np.where(counts, probabilities - one_hot, 0) / number
    loss = -(one_hot * logs).sum() / number
    return loss, slopes @ embedding, slopes.T @ hidden


@pytest.mark.parametrize("left_out", [0, 7, 16, TOKENS])
def test_values_and_shardings(mesh: Mesh, left_out: int) -> None:
    """Loss and gradients are NumPy's, sharded like the arguments."""
    given = arrays(left_out)
    expected = numpy_loss(given)

    loss, gradients = step_on(mesh)(*on(mesh, given))

    assert loss.dtype == np.float32
    assert loss.sharding.is_equivalent_to(NamedSharding(mesh, P()), 0)
    for got, want in zip((loss, *gradients), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)
    for got, spec in zip(gradients, SPECS, strict=False):
        sharding = NamedSharding(mesh, spec)
        assert got.sharding.is_equivalent_to(sharding, 2)


def test_labels_as_in_data_for_pytorch(mesh: Mesh) -> None:
    """A token with -100 is left out like one with -1."""
    hidden, embedding, labels = arrays(7)
    marked = np.where(labels == -1, -100, labels).astype(labels.dtype)
    expected = numpy_loss([hidden, embedding, labels])

    loss, gradients = step_on(mesh)(*on(mesh, [hidden, embedding, marked]))

    for got, want in zip((loss, *gradients), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


def test_no_label_at_all(mesh: Mesh) -> None:
    """If no token has a label, the loss and the gradients are 0."""
    loss, gradients = step_on(mesh)(*on(mesh, arrays(TOKENS)))

    assert loss == 0
    assert all((each == 0).all() for each in gradients)


def test_large_logits(mesh: Mesh) -> None:
    """Logits of thousands overflow nothing."""
    given = arrays(scale=400)
    assert np.abs(given[0] @ given[1].T).max() > 2000
    expected = numpy_loss(given)

    loss, gradients = step_on(mesh)(*on(mesh, given))

    for got, want in zip((loss, *gradients), expected, strict=True):
        atol = 1e-3 * np.abs(want).max()
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=atol)


def test_small_loss_of_large_logits(mesh: Mesh) -> None:
    """The loss keeps its digits where logits are near 2,000."""
    given = [np.zeros_like(each) for each in arrays()]
    hidden, embedding, _ = given
    hidden[:, :2], embedding[:, 0], embedding[0, 1] = (1980, 12), 1, 1

    loss, _ = step_on(mesh)(*on(mesh, given))

    np.testing.assert_allclose(loss, numpy_loss(given)[0], rtol=5e-3)


def test_bfloat16(mesh: Mesh) -> None:
    """Of bfloat16 arrays, only the gradients are rounded."""
    hidden, embedding, labels = arrays()
    narrow = [jnp.asarray(x, jnp.bfloat16) for x in (hidden, embedding)]
    wide = [np.float32(x) for x in narrow]
    expected = numpy_loss([*wide, labels])

    loss, gradients = step_on(mesh)(*on(mesh, [*narrow, labels]))

    assert loss.dtype == np.float32
    np.testing.assert_allclose(loss, expected[0], rtol=1e-5)
    for got, want in zip(gradients, expected[1:], strict=True):
        assert got.dtype == jnp.bfloat16
        limit = 0.02 * np.abs(want).max()
        np.testing.assert_allclose(np.float32(got), want, atol=limit)


def test_what_the_devices_send(mesh: Mesh) -> None:
    """Three numbers a token, and two gradients, are all-reduced."""
    data, model = mesh.shape["data"], mesh.shape["model"]
    placed = on(mesh, arrays())
    forward = program(vocab_parallel_loss, *placed, mesh)
    both = program(step_on(mesh), *placed)
    # A ring sends so many times the bytes of what it adds up.
    times = {n: 2 * (n - 1) / n for n in (data, model)}
    numbers = times[model] * 4 * 3 * TOKENS // data
    hidden = times[model] * 4 * TOKENS // data * DIM
    embedding = times[data] * 4 * WORDS // model * DIM

    assert forward.sent("model") == numbers
    assert forward.sent("data") == int(times[data] * 8)
    assert both.sent("model") == numbers + hidden
    assert both.sent("data") == int(embedding + times[data] * 8)
    for each in (forward, both):
        assert each.sent() == each.sent("model") + each.sent("data")
        assert set(each.collectives) <= {"all-reduce"}


def test_no_whole_row_of_logits() -> None:
    """With all devices along "model", a row is on none of them."""
    count = jax.device_count()
    if count < 8:
        pytest.skip("a block of logits is most of a row")
    mesh = inputs.mesh_of(1, count)

    report = program(step_on(mesh), *on(mesh, arrays()))

    assert report.memory.temporaries < 4 * TOKENS * WORDS / 2


def test_sizes_that_do_not_divide() -> None:
    """Words or tokens that leave a remainder are refused by jax."""
    count = jax.device_count()
    if count == 1:
        pytest.skip("one device divides every size")
    hidden, embedding, labels = arrays()

    with pytest.raises(ValueError, match="evenly divi"):
        vocab_parallel_loss(
            hidden, embedding[:-1], labels, inputs.mesh_of(1, count)
        )
    with pytest.raises(ValueError, match="evenly divi"):
        vocab_parallel_loss(
            hidden[:-1], embedding, labels[:-1], inputs.mesh_of(count, 1)
        )
