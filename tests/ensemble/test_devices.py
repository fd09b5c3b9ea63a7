"""Several devices and several processes give the bits of one."""

import os
import socket
import subprocess
import sys

import numpy as np
import pytest

CENSUS = """
import sys, jax
jax.config.update("jax_enable_x64", True)
devices, out = int(sys.argv[1]), sys.argv[2]
jax.config.update("jax_num_cpu_devices", devices)
from flowsim.experiments.census import census
assert len(jax.local_devices()) == devices
found = census(2, 9000, lanes=16, shard=4096, out=out)
print("gathered" if found is not None else "waiting", flush=True)
"""


COMMAND = ["census", "--width", "2", "--count", "9000", "lanes=16", "shard=4096"]


def started(*arguments):
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": ""}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, *map(str, arguments)], env=environment, **pipes)


def start(out, devices=1):
    return started("-c", CENSUS, devices, out)


def start_one_of_two(out, port, index):
    others = f"127.0.0.1:{port},2,{index}"
    return started("-m", "flowsim", *COMMAND, "--out", out, "--distributed", others)


def ended(process):
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err[-2000:]
    return out.strip()


def contents(folder):
    found = {}
    for path in sorted((folder / "shards").glob("*.npz")):
        with np.load(path, allow_pickle=False) as archive:
            found[path.name] = {name: archive[name] for name in archive.files}
    return found


def same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        for key in one[name]:
            np.testing.assert_array_equal(one[name][key], other[name][key])


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    assert ended(start(folder)) == "gathered"
    return contents(folder)


def test_two_forced_devices_give_the_bits_of_one(alone, tmp_path):
    assert ended(start(tmp_path, devices=2)) == "gathered"
    same(alone, contents(tmp_path))


def test_two_processes_give_the_bits_of_one(alone, tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    processes = [start_one_of_two(tmp_path, port, i) for i in range(2)]
    told = [ended(process) for process in processes]
    assert any("9000 starts" in text for text in told)
    assert all("9000 starts" in text or "run again when they are done" in text for text in told)
    same(alone, contents(tmp_path))
    assert (tmp_path / "summary.json").exists()
