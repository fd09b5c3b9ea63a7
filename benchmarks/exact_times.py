"""Blow-up times to twenty digits in double-double arithmetic: references for the benchmarks.

Taylor series of the Garnier system (theory.md, section 4) until ‖q‖ is FAR, in NumPy, with nothing
of flowsim's own arithmetic. Weights that are multiples of GRID have an exact reduction in
float64, and the product of A with a vector is a sum of exact products of short numbers.
"""

import numpy as np

GRID = 2.0**-18
ORDER = 40
#: A step is this share of the radius of convergence: the remainder is 1e-30.
REACH = 1e-30 ** (1 / ORDER)
LIMB = 18
#: At this ‖q‖ the largest coefficient still is a number.
FAR = 3e6


def short_gaussians(seed: int, h: int, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gaussian W_v, W_1, W_2, rounded to multiples of GRID."""
    rng = np.random.default_rng(seed)
    sizes = (h,), (h, m), (m,)
    return tuple(np.round(rng.normal(size=size) / GRID) * GRID for size in sizes)


def reduction(W_v, W_1, W_2):
    """q, q̇, A, D of the system with D ≤ 0: exact in float64 for short weights."""
    if W_v @ W_v > W_2 @ W_2:
        W_v, W_1, W_2 = W_2, W_1.T, W_v
    return W_v, W_1 @ W_2, np.outer(W_v, W_v) - W_1 @ W_1.T, W_v @ W_v - W_2 @ W_2


def exact_blow_up_time(W_v, W_1, W_2) -> tuple[float, float]:
    """T* of short weights in two parts."""
    return exact_reduced_time(*reduction(W_v, W_1, W_2))


def exact_reduced_time(q, p, A, D) -> tuple[float, float]:
    """T* of q̈ = (2‖q‖² − D) q − A q in two parts, A dense or its eigenvalues."""
    apply = _diagonal(A) if A.ndim == 1 else _dense(A)
    q, p, time = (q, 0 * q), (p, 0 * p), (0.0, 0.0)
    while q[0] @ q[0] < FAR**2:
        a = _coefficients(q, p, apply, D)
        step = _step(a)
        q, p = _moved(a, step)
        time = add(time, (step, 0.0))
    return add(time, (_rest(q[0], apply, D), 0.0))


def _rest(q, apply, D) -> float:
    """T* − t, to O(‖q‖⁻⁵): ‖q‖² = τ⁻² + (D + nᵀAn)/3 + O(τ²) along q = n/τ (theory.md, 5)."""
    u = float(q @ q)
    bent = float(q @ apply((q, 0 * q))[0]) / u
    return 1 / np.sqrt(u - (D + bent) / 3)


def two_sum(a, b):
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def add(x, y):
    """x + y of unevaluated sums."""
    high, low = two_sum(x[0], y[0])
    rest, less = two_sum(x[1], y[1])
    high, low = two_sum(high, low + rest)
    return two_sum(high, low + less)


def multiply(x, y):
    """x · y of unevaluated sums (Dekker)."""
    (a, b), (c, d) = _halves(x[0]), _halves(y[0])
    product = x[0] * y[0]
    error = ((a * c - product) + a * d + b * c) + b * d
    return two_sum(product, error + (x[0] * y[1] + x[1] * y[0]))


def _halves(value):
    shifted = value * (2.0**27 + 1)
    high = shifted - (shifted - value)
    return high, value - high


def total(x):
    """The sum over the first axis, in pairs."""
    high, low = x
    while len(high) > 1:
        if len(high) % 2:
            pad = np.zeros_like(high[:1])
            high, low = np.concatenate([high, pad]), np.concatenate([low, pad])
        high, low = add((high[::2], low[::2]), (high[1::2], low[1::2]))
    return high[0], low[0]


def _diagonal(alpha):
    return lambda v: multiply((alpha, 0 * alpha), v)


def _dense(A):
    """v → A v: both cut into limbs of LIMB bits, whose products BLAS adds without error."""
    stacked, scales = zip(*_limbs((A, 0 * A), 3), strict=True)
    stacked = np.concatenate(stacked)

    def apply(v):
        vectors, sizes = zip(*_limbs(v, 6), strict=True)
        products = (stacked @ np.stack(vectors, axis=1)).reshape(len(scales), len(A), -1)
        terms = [
            products[i, :, j] * (scale * size)
            for i, scale in enumerate(scales)
            for j, size in enumerate(sizes)
        ]
        return total((np.stack(terms), np.zeros((len(terms), len(A)))))

    return apply


def _limbs(x, count):
    """Integers of LIMB bits times scales whose sum is x."""
    largest = np.max(np.abs(x[0]))
    scale = 2.0 ** (np.ceil(np.log2(largest)) - LIMB + 1) if largest > 0 else 1.0
    for _ in range(count):
        limb = np.round(x[0] / scale)
        yield limb, scale
        x = add(x, (-limb * scale, 0 * limb))
        scale *= 2.0**-LIMB


def _coefficients(q, p, apply, D):
    """a_0 … a_ORDER by (k+1)(k+2) a_{k+2} = 2 Σ_j s_j a_{k−j} − D a_k − A a_k."""
    a = np.zeros((2, ORDER + 1, q[0].size))
    s = np.zeros((2, ORDER - 1))
    a[:, 0], a[:, 1] = q, p
    for k in range(ORDER - 1):
        found, back = a[:, : k + 1], a[:, k::-1] if k else a[:, :1]
        products = multiply(found, back).__iter__()
        s[:, k] = total(tuple(part.reshape(-1) for part in products))
        convolved = total(multiply(s[:, : k + 1, None], back))
        bent = add(apply(a[:, k]), multiply((D, 0.0), a[:, k]))
        right = add((2 * convolved[0], 2 * convolved[1]), (-bent[0], -bent[1]))
        a[:, k + 2] = _divided(right, float((k + 1) * (k + 2)))
    return a


def _divided(x, number):
    high = x[0] / number
    product = multiply((high, 0 * high), (number, 0.0))
    rest = add(x, (-product[0], -product[1]))
    return two_sum(high, (rest[0] + rest[1]) / number)


def _step(a) -> float:
    sizes = np.max(np.abs(a[0]), axis=1)
    orders = np.array([ORDER - 1, ORDER])
    ratios = (max(sizes[0], sizes[1] / 1000) / sizes[ORDER - 1 :]) ** (1 / orders)
    return float(REACH * ratios.min())


def _moved(a, step):
    """q and q̇ at the end of a step, by Horner's scheme."""
    q = p = (0 * a[0, 0], 0 * a[0, 0])
    for k in range(ORDER, -1, -1):
        p = add(multiply(p, (step, 0.0)), q)
        q = add(multiply(q, (step, 0.0)), a[:, k])
    return q, p
