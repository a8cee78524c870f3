"""`nki.FrameworkKernel`: kernels for tensors of a class that the launch knows nothing of."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright.nki as nki
import tilewright.nki.language as nl
from tilewright.cache import CacheConfig, cache_stats, configure_cache
from tilewright.errors import TilewrightError
from tilewright.jit.kernels import NativeKernel
from tilewright.nki import _entry, _launch


@dataclass(eq=False)
class Mine:
    """A tensor of a framework: raw memory, a shape, and an element type by a name of its own."""

    memory: Any
    shape: tuple[int, ...]
    dtype: str


def mine(array: Any, dtype: str = "f32") -> Mine:
    return Mine(array.view(np.uint8).reshape(-1), array.shape, dtype)


class MyKernel(nki.FrameworkKernel):
    """What a framework says of its tensors."""

    types = {"f32": nl.float32, "bf16": nl.bfloat16, "i32": nl.int32}

    def is_framework_tensor(self, t: Any) -> bool:
        return isinstance(t, Mine)

    def map_framework_tensor(self, t: Any) -> tuple[tuple[int, ...], Any]:
        return t.shape, t.dtype

    def translate_to_neuron_dtype(self, _dtype: Any) -> Any:
        return self.types[_dtype]

    def share_framework_tensor(self, t: Any) -> Any:
        return t.memory

    def make_framework_tensor(self, array: Any) -> Any:
        names = {np.dtype(dtype): name for name, dtype in self.types.items()}
        return mine(array, names[array.dtype])


def values(tensor: Mine) -> Any:
    return tensor.memory.view(MyKernel.types[tensor.dtype]).reshape(tensor.shape)


def scaled(x, factor=2.0):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = nl.ds(nl.program_id(0) * 4, 4)
    nl.store(out[rows], nl.load(x[rows]) * factor)
    return out


def grown(x: nki.typing.mutable_tensor, pair):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.load(pair[0]), nl.load(pair[1])))
    nl.store(x, nl.load(x) + 1)
    return x, out


def look_ups() -> int:
    stats = cache_stats()
    return stats.misses + stats.ready_hits + stats.object_hits


X = np.arange(64, dtype=np.float32).reshape(8, 8)


def test_a_kernel_takes_and_gives_tensors_of_a_users_class() -> None:
    kernel = MyKernel(scaled, grid=(2,))
    for given in (X, X + 1):
        result = kernel(mine(given))
        assert isinstance(result, Mine) and result.dtype == "f32"
        np.testing.assert_array_equal(values(result), given * 2)
    np.testing.assert_array_equal(values(kernel(mine(X), factor=3.0)), X * 3)
    np.testing.assert_array_equal(kernel(X), X * 2)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_entry, "prepare", _launch.prepare)


@pytest.mark.usefixtures("compiled")
def test_its_launches_are_native() -> None:
    kernel = MyKernel(scaled, grid=(2,))
    kernel(mine(X))
    (made,) = kernel.specializations.values()
    launch: Any = made.launch
    assert isinstance(launch.kernel, NativeKernel)


def test_memory_is_shared_and_a_parameter_that_is_returned_is_the_callers_tensor() -> None:
    kernel, ones = MyKernel(grown), np.ones((4, 8), np.float32)
    counter = mine(np.zeros((4, 8), np.int32), "i32")
    for count in (1, 2, 3):
        same, total = kernel(counter, (mine(ones), mine(ones * 2)))
        assert same is counter and (values(counter) == count).all()
        assert (values(total) == 3).all()


def test_element_types_are_what_the_framework_says() -> None:
    given = X.astype(MyKernel.types["bf16"])
    result = MyKernel(scaled)[2](mine(given, "bf16"))
    assert result.dtype == "bf16"
    np.testing.assert_array_equal(values(result), given * 2)


def test_what_a_subclass_keeps_is_there_on_a_grid() -> None:
    class Counting(MyKernel):
        def __init__(self, func: Any, made: list[Any]) -> None:
            super().__init__(func)
            self.made = made

        def make_framework_tensor(self, array: Any) -> Any:
            self.made.append(array)
            return super().make_framework_tensor(array)

    made: list[Any] = []
    kernel = Counting(scaled, made)
    kernel[2](mine(X))
    kernel[2](mine(X))
    assert len(made) == 2 and kernel[2] is kernel[2]


@pytest.mark.usefixtures("compiled")
def test_the_class_itself_takes_every_array_that_exports_its_memory() -> None:
    kernel = nki.FrameworkKernel(scaled, (2,))
    np.testing.assert_array_equal(kernel(X), X * 2)
    torch = pytest.importorskip("torch")
    given = torch.from_numpy(X.copy()).to(torch.bfloat16)
    result = kernel(given)
    assert isinstance(result, torch.Tensor) and torch.equal(result, given * 2)


def test_a_kernel_calls_one_as_part_of_its_trace() -> None:
    inner = MyKernel(scaled)

    @nki.jit
    def outer(x):
        return inner(x, 5.0)

    np.testing.assert_array_equal(outer(X[:4]), X[:4] * 5)


def test_memory_that_is_too_small_is_refused_at_the_parameter() -> None:
    short = Mine(np.zeros(7, np.uint8), (8, 8), "f32")
    with pytest.raises(TilewrightError, match=r"'x' is memory of uint8\[7\], not float32\[8, 8\]"):
        MyKernel(scaled)(short)


def test_an_element_type_that_is_none_is_refused() -> None:
    class Odd(MyKernel):
        def translate_to_neuron_dtype(self, _dtype: Any) -> Any:
            return np.complex64

    with pytest.raises(TilewrightError, match=r"'x' .*f32"):
        Odd(scaled)(mine(X))
    with pytest.raises(TypeError, match="'f32' is none of int8"):
        nki.FrameworkKernel(scaled).translate_to_neuron_dtype("f32")


def test_the_configuration_of_a_specialization_is_plain_data() -> None:
    kernel = MyKernel(scaled, grid=(2,), platform_target="trn1")
    config = kernel.dump_config(mine(X), factor=3.0)
    assert json.loads(json.dumps(config)) == config
    assert config["kernel"] == "scaled" and config["grid"] == [2]
    assert config["platform_target"] == "trn1" and config["enable_cache"] is None
    assert config["inputs"] == [{"name": "x", "shape": [8, 8], "dtype": "float32"}]
    assert config["constants"] == {"factor": 3.0}
    assert config["outputs"] == [{"name": "out", "shape": [8, 8], "dtype": "float32"}]
    assert config["program"] == kernel.lower(mine(X), factor=3.0).as_python()
    assert config["digest"] == kernel.dump_config(X, 3.0)["digest"]
    assert config["digest"] != kernel.dump_config(X, 4.0)["digest"]


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("policy", [False, True])
def test_enable_cache_decides_what_is_kept_on_disk(policy: bool, tmp_path: Path) -> None:
    configure_cache(CacheConfig(enabled=policy, root=tmp_path))
    try:
        for kept in (True, False, None):
            for make in (nki.FrameworkKernel, nki.jit):
                before = look_ups()
                kernel = make(scaled, enable_cache=kept)
                np.testing.assert_array_equal(kernel[2](X), X * 2)
                wanted = policy if kept is None else kept
                assert (look_ups() > before) is wanted
    finally:
        configure_cache(None)
