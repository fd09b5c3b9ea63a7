"""Matrix products in their cheaper order and their faster form."""

import jax
from jaxtyping import Array, Float

#: Multiplications from which on a transposed copy costs less than it saves.
LARGE = 2**24


def chain(
    rows: Float[Array, "n a"], A: Float[Array, "a b"], B: Float[Array, "b c"]
) -> Float[Array, "n c"]:
    """rows A B, as (rows A) B or rows (A B), whichever multiplies less."""
    (n, a), (b, c) = rows.shape, B.shape
    if factors_first(n, a, b, c):
        return product(rows, product(A, B))
    return product(product(rows, A), B)


def factors_first(n: int, a: int, b: int, c: int) -> bool:
    """Whether rows (A B) multiplies less than (rows A) B, for shapes (n, a), (a, b), (b, c).

    It does with many more samples than width, and then saves up to half of the products of a
    forward and backward pass.
    """
    return a * b * c + n * a * c < n * b * (a + c)


def product(A: Float[Array, "n k"], B: Float[Array, "k m"]) -> Float[Array, "n m"]:
    """A B; the gradient of a large B is a product with a copy of Aᵀ, since XLA's products that
    contract the rows of both factors take twice as long on CPU."""
    n, k = A.shape
    return _product(A, B) if n * k * B.shape[1] >= LARGE else A @ B


@jax.custom_jvp
def _product(A, B):
    return A @ B


@_product.defjvp
def _product_jvp(primals, tangents):
    (A, B), (dA, dB) = primals, tangents
    columns = jax.lax.optimization_barrier(A.T)
    # reverse mode transposes this one into columns @ (gradient)
    moved = jax.lax.dot_general(columns, dB, (((0,), (0,)), ((), ())))
    return _product(A, B), dA @ B + moved
