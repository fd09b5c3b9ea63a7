"""Matrix products in their cheaper order."""

from jaxtyping import Array, Float


def chain(
    rows: Float[Array, "n a"], A: Float[Array, "a b"], B: Float[Array, "b c"]
) -> Float[Array, "n c"]:
    """rows A B, as (rows A) B or rows (A B), whichever multiplies less."""
    (n, a), (b, c) = rows.shape, B.shape
    if factors_first(n, a, b, c):
        return rows @ (A @ B)
    return (rows @ A) @ B


def factors_first(n: int, a: int, b: int, c: int) -> bool:
    """Whether rows (A B) multiplies less than (rows A) B, for shapes (n, a), (a, b), (b, c).

    It does with many more samples than width, and then saves up to half of the products of a
    forward and backward pass.
    """
    return a * b * c + n * a * c < n * b * (a + c)
