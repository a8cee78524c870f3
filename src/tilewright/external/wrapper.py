"""The C++ text that is compiled around a kernel: its entry, which reads the arguments."""

from __future__ import annotations

from tilewright.abi import ExternalKernel

ENTRY = "tw_entry"


def wrap(kernel: ExternalKernel) -> str:
    """The text that includes the source of a kernel and gives it an entry."""
    name = kernel.function
    params = "".join(f", {param}" for param in kernel.params)
    wanted = f"{name}({', '.join(kernel.params)}), as the kernel is declared in Python"
    return f"""\
#include "tilewright.h"
#include "{_quoted(kernel.source)}"
namespace {{
struct TwKernel_ {{
    template <class... A> auto operator()(A... a) const -> decltype({name}(a...)) {{
        return {name}(a...);
    }}
}};
}} // namespace
static_assert(tw::takes<TwKernel_{params}> || tw::is_plain<TwKernel_>,
              "there must be a function {wanted}");
extern "C" TW_EXPORT int32_t {ENTRY}(const uint64_t *args, tw_ctx *ctx) {{
    return tw::call<TwKernel_{params}>(args, ctx, std::make_index_sequence<{len(kernel.params)}>());
}}
"""


def _quoted(path: str) -> str:
    return path.replace("\\", "\\\\").replace('"', '\\"')
