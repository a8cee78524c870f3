/* What a kernel in C++ includes. C ABI, version 1.
 *
 * The function has the name of the declared one and takes its parameters in order: a tensor (or
 * tile) of rank R as tw::Tensor<T, R>, an input as tw::Tensor<const T, R>, a scalar by value:
 *
 *     #include "tilewright.h"
 *
 *     int32_t scale(tw::Tensor<const float, 2> x, tw::Tensor<float, 2> out, float factor) {
 *         for (int64_t i = 0; i < x.shape(0); ++i)
 *             for (int64_t j = 0; j < x.shape(1); ++j) out(i, j) = factor * x(i, j);
 *         return TW_OK;
 *     }
 *
 * It may take a tw::Context after them, and may return nothing. T by element type:
 *
 *     FP32 float            INT8 .. INT64    int8_t .. int64_t      INDEX  int64_t
 *     FP64 double           UINT8 .. UINT64  uint8_t .. uint64_t    BOOL   bool
 *     FP16 tw::float16      BF16 tw::bfloat16                       others uint8_t, an element a byte
 *
 * Strides count elements and may be anything, zero and negative included; memory is aligned to the
 * element. What is written may not be read elsewhere; inputs may share memory with each other.
 * A status other than TW_OK is raised in Python at the line of the call, and so is an exception.
 *
 * Without templates, a kernel is `int32_t name(const uint64_t *args, tw_ctx *ctx)`. There is one
 * word in `args` for each parameter: the address of a tw_tensor, or a scalar: integers
 * sign-extended, floats as their own bits in the low bytes; then come those of `tw_word`. The same
 * kernel may run on several threads at once, with other arguments.
 *
 * The sides of a mixed kernel, its cube core and its vector lanes, take turns: one runs until it
 * ends, or waits for another one; the cube core is the first. They talk through their tw::Context.
 * A call of a cube and one of a vector kernel, next to each other in a group or cluster, are such
 * sides, too; the one that is called first begins.
 */
#ifndef TILEWRIGHT_H
#define TILEWRIGHT_H

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#define TW_ABI_VERSION 1

#if defined(_WIN32)
#define TW_EXPORT __declspec(dllexport)
#else
#define TW_EXPORT __attribute__((visibility("default")))
#endif

extern "C" {

typedef struct tw_tensor {
    void *data;             /* of element [0, 0, ...] */
    const int64_t *shape;   /* `rank` extents */
    const int64_t *strides; /* `rank` strides, in elements */
    int64_t rank;
} tw_tensor;

typedef struct tw_ctx {
    int64_t grid_begin, grid_end;
    void *arena;
    int64_t arena_bytes;
    int32_t fault_code, fault_op;
    int64_t fault_values[4];
    const int32_t *cancel; /* not null and not zero: ask `attend`; not 0: return TW_CANCELLED */
    void *reserved[6];
    int32_t (*attend)(struct tw_ctx *);
} tw_ctx;

enum tw_status {
    TW_OK = 0,
    TW_CANCELLED = 2,
    TW_INDEX_OUT_OF_BOUNDS = 16, /* values: index, lower bound, upper bound, axis */
    TW_DIVISION_BY_ZERO = 17,
    TW_SHAPE_MISMATCH = 18, /* values: given, expected */
    TW_ASSERTION = 19,
    TW_EXTERNAL_STATUS = 22, /* values: what the kernel returned */
    TW_EXTERNAL_EXCEPTION = 23,
    TW_NO_OTHER_SIDE = 27,
    TW_SIDES_PUSH = 28, /* values: a side that waits, for which pipe, its slots */
    TW_SIDES_POP = 29,  /* values: a side that waits, for which pipe */
    TW_SIDES_EVENT = 30, /* values: a side that waits, for which event */
    TW_SIDES_MEET = 31,  /* values: a side that waits */
    TW_TILE_MISMATCH = 32 /* values: bytes that were pushed, bytes to pop */
};

/* The words after those of the parameters. */
enum tw_word { TW_LANE, TW_LANES, TW_SIDE, TW_SIDES, TW_WORDS };

typedef int32_t tw_side_entry(const uint64_t *args, tw_ctx *ctx);

/* What one side of a mixed kernel does with the others; each gives a status. */
typedef struct tw_sides {
    int32_t (*push)(struct tw_sides *, int64_t side, int64_t pipe, const void *, int64_t bytes);
    int32_t (*pop)(struct tw_sides *, int64_t side, int64_t pipe, int64_t lane, void *,
                   int64_t bytes);
    int32_t (*set_slots)(struct tw_sides *, int64_t pipe, int64_t slots);
    int32_t (*set_event)(struct tw_sides *, int64_t side, int64_t event);
    int32_t (*wait_event)(struct tw_sides *, int64_t side, int64_t event);
    int32_t (*meet)(struct tw_sides *, int64_t side);
} tw_sides;

/* Reports a fault; `return tw_fault(...)` ends the kernel with it. */
static inline int32_t tw_fault(tw_ctx *ctx, int32_t code, int64_t v0 = 0, int64_t v1 = 0,
                               int64_t v2 = 0, int64_t v3 = 0) {
    ctx->fault_code = code;
    ctx->fault_values[0] = v0;
    ctx->fault_values[1] = v1;
    ctx->fault_values[2] = v2;
    ctx->fault_values[3] = v3;
    return code;
}

} /* extern "C" */

namespace tw {

/* An element of FP16: its bits, read and written as float, rounded to nearest even. */
struct float16 {
    uint16_t bits;
    float16() = default;
    float16(float value) {
        uint32_t u;
        std::memcpy(&u, &value, 4);
        uint32_t sign = u >> 16 & 0x8000u, rest = u & 0x7fffffffu;
        if (rest > 0x7f800000u) {
            bits = uint16_t(sign | 0x7e00u);
        } else if (rest >= 0x477ff000u) {
            bits = uint16_t(sign | 0x7c00u);
        } else if (rest < 0x38800000u) { /* subnormal: the sum rounds at the last place */
            float magnitude, half = 0.5f;
            std::memcpy(&magnitude, &rest, 4);
            magnitude += half;
            uint32_t sum;
            std::memcpy(&sum, &magnitude, 4);
            bits = uint16_t(sign | (sum - 0x3f000000u));
        } else {
            rest += 0xc8000fffu + (rest >> 13 & 1u);
            bits = uint16_t(sign | rest >> 13);
        }
    }
    operator float() const {
        uint32_t sign = uint32_t(bits & 0x8000u) << 16, rest = bits & 0x7fffu, u;
        float value;
        if (rest >= 0x7c00u) {
            u = sign | 0x7f800000u | (rest & 0x3ffu) << 13;
        } else if (rest >= 0x400u) {
            u = sign | ((rest << 13) + 0x38000000u);
        } else {
            value = float(rest) * 5.9604644775390625e-8f;
            std::memcpy(&u, &value, 4);
            u |= sign;
        }
        std::memcpy(&value, &u, 4);
        return value;
    }
};

/* An element of BF16: its bits, read and written as float, rounded to nearest even. */
struct bfloat16 {
    uint16_t bits;
    bfloat16() = default;
    bfloat16(float value) {
        uint32_t u;
        std::memcpy(&u, &value, 4);
        if ((u & 0x7fffffffu) > 0x7f800000u)
            bits = uint16_t(u >> 16 | 0x40u);
        else
            bits = uint16_t((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
    }
    operator float() const {
        uint32_t u = uint32_t(bits) << 16;
        float value;
        std::memcpy(&value, &u, 4);
        return value;
    }
};

/* Memory of rank R: x(i, j), x.shape(0), x.stride(1), x.data(), x.size(). */
template <class T, int R> class Tensor {
  public:
    explicit Tensor(const tw_tensor *t)
        : data_(static_cast<T *>(t->data)), shape_(t->shape), strides_(t->strides) {}
    Tensor(T *data, const int64_t *shape, const int64_t *strides)
        : data_(data), shape_(shape), strides_(strides) {}
    operator Tensor<const T, R>() const { return {data_, shape_, strides_}; }

    static constexpr int rank = R;
    T *data() const { return data_; }
    int64_t shape(int axis) const { return shape_[axis]; }
    int64_t stride(int axis) const { return strides_[axis]; }
    int64_t size() const {
        int64_t count = 1;
        for (int axis = 0; axis < R; ++axis) count *= shape_[axis];
        return count;
    }
    bool is_contiguous() const {
        int64_t wanted = 1;
        for (int axis = R - 1; axis >= 0; --axis) {
            if (shape_[axis] != 1 && strides_[axis] != wanted) return false;
            wanted *= shape_[axis];
        }
        return true;
    }
    template <class... I> T &operator()(I... indices) const {
        static_assert(sizeof...(I) == R, "one index for each axis");
        const int64_t given[R ? R : 1] = {int64_t(indices)...};
        int64_t at = 0;
        for (int axis = 0; axis < R; ++axis) at += given[axis] * strides_[axis];
        return data_[at];
    }

  private:
    T *data_;
    const int64_t *shape_, *strides_;
};

/* Ends a side whose wait will never be over. */
struct Stopped {
    int32_t status;
};

/* Where the kernel runs: lane `lane` of `lanes`. Side 0 of a mixed kernel is the cube core, and
 * lane n is side 1 + n.
 *
 * A pipe is a ring of tiles in each direction for each lane, of 8 slots or as many as `set_slots`
 * says. `push` copies `count` elements into it and waits while it is full: on the cube core into
 * that of every lane. `pop` copies the oldest tile out, which must be as long, and gives its slot
 * back: on the cube core that of lane `from`. `wait_event` takes what `set_event` of the other side
 * has set, the cube core what every lane has. `meet` waits until all sides are there. What nobody
 * will ever do any more is waited for in vain: a Deadlock. */
struct Context {
    tw_ctx *raw;
    int64_t lane, lanes, side;
    tw_sides *sides;

    template <class T> void push(const T *tile, int64_t count, int64_t pipe = 0) const {
        go_on(all()->push(sides, side, pipe, tile, count * int64_t(sizeof(T))));
    }
    template <class T> void pop(T *tile, int64_t count, int64_t pipe = 0, int64_t from = 0) const {
        go_on(all()->pop(sides, side, pipe, from, tile, count * int64_t(sizeof(T))));
    }
    void set_slots(int64_t pipe, int64_t slots) const { go_on(all()->set_slots(sides, pipe, slots)); }
    void set_event(int64_t event) const { go_on(all()->set_event(sides, side, event)); }
    void wait_event(int64_t event) const { go_on(all()->wait_event(sides, side, event)); }
    void meet() const { go_on(all()->meet(sides, side)); }

    bool is_cancelled() const {
        return raw->cancel && *static_cast<const volatile int32_t *>(raw->cancel) &&
               raw->attend(raw);
    }
    int32_t fault(int32_t code, int64_t v0 = 0, int64_t v1 = 0, int64_t v2 = 0,
                  int64_t v3 = 0) const {
        return tw_fault(raw, code, v0, v1, v2, v3);
    }

  private:
    tw_sides *all() const {
        if (!sides) go_on(fault(TW_NO_OTHER_SIDE));
        return sides;
    }
    static void go_on(int32_t status) {
        if (status != TW_OK) throw Stopped{status};
    }
};

/* ---- what the generated entry of a kernel uses ---- */

template <class P> struct Argument {
    static P read(uint64_t word) {
        P value;
        std::memcpy(&value, &word, sizeof value);
        return value;
    }
};
template <> struct Argument<bool> {
    static bool read(uint64_t word) { return word & 1; }
};
template <class T, int R> struct Argument<Tensor<T, R>> {
    static Tensor<T, R> read(uint64_t word) {
        return Tensor<T, R>(reinterpret_cast<const tw_tensor *>(word));
    }
};

template <class K, class... P>
inline constexpr bool takes = std::is_invocable_v<K, P...> || std::is_invocable_v<K, P..., Context>;
template <class K>
inline constexpr bool is_plain = std::is_invocable_v<K, const uint64_t *, tw_ctx *>;

template <class F> int32_t run(tw_ctx *ctx, F body) {
    ctx->fault_code = TW_OK;
    try {
        if constexpr (std::is_void_v<decltype(body())>) {
            body();
            return TW_OK;
        } else {
            const int32_t status = body();
            const bool is_known = status == TW_OK || status == TW_CANCELLED;
            if (is_known || status == ctx->fault_code) return status;
            return tw_fault(ctx, TW_EXTERNAL_STATUS, status);
        }
    } catch (const Stopped &stopped) {
        return stopped.status;
    } catch (...) {
        return tw_fault(ctx, TW_EXTERNAL_EXCEPTION);
    }
}

template <class K, class... P, std::size_t... I>
int32_t call(const uint64_t *args, tw_ctx *ctx, std::index_sequence<I...>) {
    if constexpr (std::is_invocable_v<K, P...>) {
        return run(ctx, [&] { return K()(Argument<P>::read(args[I])...); });
    } else if constexpr (std::is_invocable_v<K, P..., Context>) {
        const uint64_t *words = args + sizeof...(P);
        const Context context{ctx, int64_t(words[TW_LANE]), int64_t(words[TW_LANES]),
                              int64_t(words[TW_SIDE]),
                              reinterpret_cast<tw_sides *>(words[TW_SIDES])};
        return run(ctx, [&] { return K()(Argument<P>::read(args[I])..., context); });
    } else if constexpr (is_plain<K>) {
        return run(ctx, [&] { return K()(args, ctx); });
    } else {
        return TW_ASSERTION;
    }
}

/* The entry of a kernel of N parameters: as one side of a mixed kernel, or for every lane. */
template <std::size_t N, class F> int32_t enter(const uint64_t *args, tw_ctx *ctx, F body) {
    if (args[N + TW_SIDES]) return body(args, ctx);
    uint64_t words[N + TW_WORDS];
    std::memcpy(words, args, sizeof words);
    int32_t status = TW_OK;
    for (uint64_t lane = 0; lane < args[N + TW_LANES] && status == TW_OK; ++lane) {
        words[N + TW_LANE] = lane;
        status = body(words, ctx);
    }
    return status;
}

} /* namespace tw */

#endif
