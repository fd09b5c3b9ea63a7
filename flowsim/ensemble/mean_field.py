"""T̄* √h of unit Gaussian starts as h = m → ∞ (theory.md, section 4)."""

import numpy as np

from flowsim.blow_up import reduced_blow_up_time


def mean_field_limit(nodes: int = 20) -> float:
    """The limit of T̄* √h, 1.16797…: blow-up time of the mean-field equations.

    f'' = (2a + λ) f − b, g'' = (2a + λ) g, a = ∫(f² + λ g²) dμ, b = ∫ f dμ, from f = 1, f' = 0,
    g = 0, g' = 1, μ the Marchenko–Pastur law on [0, 4]. With λ = x², x semicircular on [−2, 2] and
    Gauss–Chebyshev nodes of the second kind, q = (√μ f, √(μλ) g) obeys the Garnier system with
    D = 0 and A = u uᵀ − diag(λ, λ), u = (√μ, 0).

    Args:
        nodes: of x, even; those of one sign serve for both. Ten give 14 digits.
    """
    angle = np.pi * np.arange(1, nodes // 2 + 1) / (nodes + 1)
    level = (2 * np.cos(angle)) ** 2
    mass = 4 / (nodes + 1) * np.sin(angle) ** 2
    zero = np.zeros_like(mass)
    u = np.append(np.sqrt(mass), zero)
    velocity = np.append(zero, np.sqrt(mass * level))
    A = np.outer(u, u) - np.diag(np.append(level, level))
    return float(reduced_blow_up_time(u, velocity, A, np.float64(0.0)).time)
