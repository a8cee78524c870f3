"""The C++ text that is compiled around a kernel: its entry, which reads the arguments."""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.abi import ExternalKernel

ENTRY = "tw_entry"
CUBE = "tw_cube"
"""Where the vector side of a mixed kernel is told the entry of the other one."""


def wrap(kernel: ExternalKernel) -> str:
    """The text that includes the source of a kernel and gives it an entry."""
    name = kernel.function
    count = len(kernel.params)
    own = [kernel.params[k] for k in kernel.shares[1]] if kernel.shares else kernel.params
    params = "".join(f", {param}" for param in own)
    sides = '#include "tilewright_sides.h"\n' if kernel.cube else ""
    cube = f'extern "C" TW_EXPORT tw_side_entry *{CUBE} = nullptr;\n' if kernel.cube else ""
    enter = f"enter<{count}>(args, ctx, "
    if kernel.cube:
        of_cube, of_vector = map(_sequence, kernel.shares or (range(count), range(count)))
        enter = f"enter_sides<{count}>(args, ctx, {CUBE}, {of_cube}, {of_vector}, "
    wanted = f"{name}({', '.join(own)}), as the kernel is declared in Python"
    return f"""\
#include "tilewright.h"
{sides}#include "{_quoted(kernel.source)}"
namespace {{
struct TwKernel_ {{
    template <class... A> auto operator()(A... a) const -> decltype({name}(a...)) {{
        return {name}(a...);
    }}
}};
}} // namespace
static_assert(tw::takes<TwKernel_{params}> || tw::is_plain<TwKernel_>,
              "there must be a function {wanted}");
{cube}extern "C" TW_EXPORT int32_t {ENTRY}(const uint64_t *args, tw_ctx *ctx) {{
    return tw::{enter}[](const uint64_t *words, tw_ctx *own) {{
        return tw::call<TwKernel_{params}>(words, own, std::make_index_sequence<{len(own)}>());
    }});
}}
"""


def _sequence(numbers: Iterable[int]) -> str:
    return f"std::index_sequence<{', '.join(map(str, numbers))}>()"


def _quoted(path: str) -> str:
    return path.replace("\\", "\\\\").replace('"', '\\"')
