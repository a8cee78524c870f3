"""Kernels that take the tensors of a framework which the launch itself knows nothing of."""

from __future__ import annotations

from itertools import chain, repeat
from typing import Any, cast

import numpy as np

from tilewright.errors.nki_tensors import OPERAND_DTYPE, UNEXPECTED_OPERAND
from tilewright.frontend.trace.ambient import nki_ctx_or_none
from tilewright.frontend.trace.function import is_spec
from tilewright.frontend.trace.grid import GridDim, as_grid
from tilewright.frontend.trace.kernel import Call, Specialization, is_array
from tilewright.frontend.trace.options import CompileOpts
from tilewright.frontend.trace.sequences import holds, rebuilt
from tilewright.hashes import blake
from tilewright.ir.core import Value
from tilewright.ir.types import ShapedType
from tilewright.nki._entry import preparing, require_function
from tilewright.nki._kernel import TraceKernel
from tilewright.nki._options import with_keywords
from tilewright.ops.nki_dtypes import NAMES, dtype_name, find_dtype

Array = np.ndarray[Any, np.dtype[Any]]


class FrameworkKernel(TraceKernel):
    """A traced kernel for the tensors of a framework; a subclass says what they are.

    `FrameworkKernel(function, grid=(2,), enable_cache=False)` is the kernel that
    `nki.jit(function)[2]` is, and keywords are those of `nki.jit`. `enable_cache` decides whether
    machine code is kept on disk; None leaves that to `configure_cache`. A subclass overrides

    - `is_framework_tensor(t)`: whether an argument is a tensor, and no constant;
    - `map_framework_tensor(t)`: its shape and the framework's element type;
    - `translate_to_neuron_dtype(dtype)`: the element type of `nl` that this is;
    - `share_framework_tensor(t)`: an array over its memory; needed where the tensor does not
      export that itself, by DLPack, `__array_interface__` or the buffer protocol;
    - `make_framework_tensor(array)`: a tensor around an array that the kernel returns.

    As it stands, the class takes the tensors of every framework that exports their memory.
    """

    def __init__(
        self,
        func: Any,
        grid: Any = (),
        enable_cache: bool | None = None,
        **options: Any,
    ) -> None:
        opts = with_keywords(CompileOpts(), {"enable_cache": enable_cache, **options})
        super().__init__(require_function(func), opts, prepare=preparing(opts), grid=as_grid(grid))

    def remade(self, opts: CompileOpts, grid: tuple[GridDim, ...]) -> Any:
        """The same kernel, with what a subclass keeps, under other options or on another grid."""
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        TraceKernel.__init__(made, self.function, opts, prepare=preparing(opts), grid=grid)
        return made

    # ------------------------------------------------------------------ what a subclass says

    def is_framework_tensor(self, t: Any) -> bool:
        """True for a tensor, False for a constant."""
        return is_array(t)

    def map_framework_tensor(self, t: Any) -> tuple[tuple[int, ...], Any]:
        """The shape of a tensor, and its element type as the framework names it."""
        return tuple(t.shape), t.dtype

    def translate_to_neuron_dtype(self, _dtype: Any) -> Any:
        """The element type of `nl` for one of the framework; raises TypeError if there is none."""
        found = find_dtype(_dtype) or find_dtype(str(_dtype).rpartition(".")[2])
        if found is None:
            raise TypeError(f"{_dtype!r} is none of {', '.join(NAMES.values())}")
        return found.numpy

    def share_framework_tensor(self, t: Any) -> Array:
        """An array over the memory of a tensor."""
        return self.as_array("tensor", t)

    def make_framework_tensor(self, array: Array) -> Any:
        """What the caller gets for an array that the kernel returns."""
        return array

    # ------------------------------------------------------------------ launching

    def call_slowly(self, *args: Any, **kwargs: Any) -> Any:
        """A call that is not of arrays alone: its tensors are shared, and the arrays launched."""
        if nki_ctx_or_none() is not None:
            return super().call_slowly(*args, **kwargs)
        shared, owners = self._shared(args, kwargs)
        if not owners:
            return super().call_slowly(*args, **kwargs)
        result = self(*shared[0], **shared[1])
        if isinstance(result, tuple):
            return tuple([self._given_back(each, owners) for each in cast("tuple[Any]", result)])
        return None if result is None else self._given_back(result, owners)

    def _given_back(self, array: Array, owners: dict[int, tuple[Array, Any]]) -> Any:
        owner = owners.get(id(array))
        return self.make_framework_tensor(array) if owner is None else owner[1]

    def _prepare(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        (args, kwargs), _ = self._shared(args, kwargs)
        return super()._prepare(args, kwargs)

    def _shared(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[tuple[Any, ...], dict[str, Any]], dict[int, tuple[Array, Any]]]:
        """Arguments with arrays for tensors, and whose array is whose, by identity."""
        owners: dict[int, tuple[Array, Any]] = {}
        names = chain(self.signature.parameters, repeat("argument"))
        positional = tuple([self._share(name, each, owners) for name, each in zip(names, args)])
        named = {name: self._share(name, each, owners) for name, each in kwargs.items()}
        return (positional, named), owners

    def _share(self, name: str, given: Any, owners: dict[int, tuple[Array, Any]]) -> Any:
        if isinstance(given, tuple):
            items = cast("tuple[Any, ...]", given)
            return rebuilt(items, [self._share(name, each, owners) for each in items])
        if not self.is_framework_tensor(given):
            return given
        shape, framework_dtype = self.map_framework_tensor(given)
        dtype = find_dtype(self.translate_to_neuron_dtype(framework_dtype))
        if dtype is None:
            supported = ", ".join(NAMES.values())
            found: dict[str, Any] = {"given": framework_dtype, "supported": supported}
            raise OPERAND_DTYPE(op=self.__name__, name=name, **found)
        if type(given) is np.ndarray and given.dtype == dtype.numpy:
            return given
        array = self.share_framework_tensor(given)
        if is_array(given) and (array.shape, array.dtype) == (tuple(shape), dtype.numpy):
            return given
        array = self._seen_as(name, array, tuple(shape), dtype.numpy)
        owners[id(array)] = array, given
        return array

    def _seen_as(self, name: str, array: Array, shape: tuple[int, ...], dtype: Any) -> Array:
        """The same memory under the shape and element type that the framework says."""
        seen = cast(Any, array.view())
        try:
            seen.dtype = dtype
            seen.shape = shape
        except (ValueError, TypeError, AttributeError):
            found = f"memory of {array.dtype}{list(array.shape)}"
            wanted = f"{np.dtype(dtype)}{list(shape)}, which its framework says it is"
            named: dict[str, Any] = {"name": name, "given": found, "wanted": wanted}
            raise UNEXPECTED_OPERAND(op=self.__name__, **named) from None
        return cast(Array, seen)

    # ------------------------------------------------------------------ describing

    def dump_config(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """What the kernel is for these arguments, of strings, numbers, lists and dicts alone.

        `inputs` and `outputs` are the shapes and element types of arrays in order, `constants` the
        other arguments, `program` the text of the program and `digest` what tells it from others.
        """
        call = self._prepare(args, kwargs)
        made = self._specialize(call)
        text = made.program.as_python()
        constants = {
            name: given if isinstance(given, (bool, int, float, str)) else repr(given)
            for name, given in call.bound.arguments.items()
            if not holds(is_spec, given)
        }
        return {
            "kernel": self.__name__,
            "grid": [dim.size for dim in self.grid],
            "platform_target": self.opts.platform_target,
            "enable_cache": self.opts.enable_cache,
            "inputs": [_described(each) for each in _params(made)[: len(call.arrays)]],
            "constants": constants,
            "outputs": [_described(_params(made)[place]) for place in made.results],
            "program": text,
            "digest": blake(text.encode()).hexdigest(),
        }


def _params(made: Specialization) -> list[Value]:
    return list(made.program[made.entry].params)


def _described(param: Value) -> dict[str, Any]:
    assert isinstance(param.type, ShapedType)
    shape = [int(extent) for extent in param.type.shape]
    return {"name": param.name, "shape": shape, "dtype": dtype_name(param.type.dtype)}
