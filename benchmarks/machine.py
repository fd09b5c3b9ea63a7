"""Where figures were taken: processor, threads, load, versions, memory."""

import importlib.metadata
import os
import platform
import resource
from pathlib import Path
from typing import Any

import jax

PACKAGES = (
    "flowsim", "jax", "jaxlib", "diffrax", "numpy", "scipy", "heyoka", "scikit-sundae",
    "torchdiffeq",
)  # fmt: skip
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "XLA_FLAGS")


def machine() -> dict[str, Any]:
    """Processor, threads, how busy it is, and versions."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)),
        "thread_settings": {name: os.environ.get(name) for name in THREADS},
        "blas": _blas(),
        "load_average": os.getloadavg()[0],
        "device": jax.devices()[0].platform,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": {package: _version(package) for package in PACKAGES},
    }


def peak_memory() -> float:
    """The largest resident size of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _blas() -> list[dict[str, Any]]:
    """Thread pools of the linear algebra that NumPy and SciPy call."""
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return []
    return [
        {name: pool.get(name) for name in ("internal_api", "version", "num_threads")}
        for pool in threadpool_info()
    ]
