/* The sides of a mixed kernel: a thread for each, of which one runs at a time. */
#ifndef TILEWRIGHT_SIDES_H
#define TILEWRIGHT_SIDES_H

#include "tilewright.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

namespace tw {

class Sides : public tw_sides {
  public:
    using Body = std::function<int32_t(int64_t side, tw_ctx *ctx)>;

    /* For the cube core and `lanes` lanes; side `first` is the one that begins. */
    Sides(int64_t lanes, int64_t first, tw_ctx *ctx)
        : tw_sides(functions()), ctx_(ctx), sides_(1 + lanes), turn_(first) {
        for (Side &side : sides_) {
            side.ctx = *ctx;
            side.ctx.cancel = &stop_;
            side.ctx.attend = [](tw_ctx *) -> int32_t { return TW_CANCELLED; };
        }
    }

    /* Runs `body` for every side, the cube core in this thread; the status of the first that did
     * not end well. */
    int32_t run(const Body &body) {
        std::vector<std::thread> threads;
        try {
            for (int64_t side = 1; side < count(); ++side)
                threads.emplace_back([this, &body, side] { run_side(side, &sides_[side].ctx, body); });
        } catch (...) {
            const std::lock_guard<std::mutex> held(lock_);
            for (int64_t side = 1 + int64_t(threads.size()); side < count(); ++side)
                sides_[side].is_ended = true;
            fail(tw_fault(ctx_, TW_EXTERNAL_EXCEPTION), *ctx_);
        }
        run_side(0, ctx_, body);
        {
            std::unique_lock<std::mutex> held(lock_);
            while (turn_ != count()) look(held);
        }
        for (std::thread &thread : threads) thread.join();
        if (status_ != TW_OK && status_ != TW_CANCELLED) {
            ctx_->fault_code = failed_.fault_code;
            std::memcpy(ctx_->fault_values, failed_.fault_values, sizeof failed_.fault_values);
        }
        return status_;
    }

  private:
    using Ready = std::function<bool()>;
    struct Side {
        tw_ctx ctx;
        bool is_ended = false;
        const Ready *ready = nullptr; /* null: nothing keeps it from running */
        int32_t waits = TW_OK;        /* the fault that it is never to be ready */
        int64_t number = 0, slots = 0;
    };
    using Ring = std::deque<std::vector<char>>;

    tw_ctx *ctx_;
    std::vector<Side> sides_;
    std::mutex lock_;
    std::condition_variable passed_;
    int64_t turn_; /* who runs; the number of sides when all have ended */
    int32_t stop_ = 0, status_ = TW_OK;
    tw_ctx failed_;
    std::map<std::tuple<bool, int64_t, int64_t>, Ring> rings_; /* to a lane?, pipe, lane */
    std::map<std::tuple<bool, int64_t, int64_t>, int64_t> events_; /* of the cube?, event, lane */
    std::map<int64_t, int64_t> slots_;
    int64_t here_ = 0, round_ = 0;

    int64_t count() const { return int64_t(sides_.size()); }
    int64_t lanes() const { return count() - 1; }

    void run_side(int64_t side, tw_ctx *ctx, const Body &body) {
        std::unique_lock<std::mutex> held(lock_);
        await_turn(side, held);
        if (!stop_) {
            held.unlock();
            const int32_t status = body(side, ctx);
            held.lock();
            if (status != TW_OK) fail(status, *ctx);
        }
        sides_[side].is_ended = true;
        pass_on();
    }

    void fail(int32_t status, const tw_ctx &ctx) {
        if (stop_) return;
        stop_ = 1;
        status_ = status;
        failed_ = ctx;
    }

    void await_turn(int64_t side, std::unique_lock<std::mutex> &held) {
        while (turn_ != side) {
            if (side == 0)
                look(held);
            else
                passed_.wait(held);
        }
    }

    /* The caller's thread waits: it asks from time to time whether the call is cancelled. */
    void look(std::unique_lock<std::mutex> &held) {
        const int64_t before = turn_;
        passed_.wait_for(held, std::chrono::milliseconds(20), [&] { return turn_ != before; });
        if (stop_ || !ctx_->cancel || !*static_cast<const volatile int32_t *>(ctx_->cancel)) return;
        held.unlock();
        const int32_t status = ctx_->attend(ctx_);
        held.lock();
        if (status != TW_OK) fail(status, *ctx_);
    }

    bool can_go_on(const Side &side) const {
        return !side.is_ended && (stop_ || !side.ready || (*side.ready)());
    }

    /* Gives the turn to the next side that can go on. When there is none, nobody ever will. */
    void pass_on() {
        for (int64_t step = 1; step <= count(); ++step) {
            const int64_t next = (turn_ + step) % count();
            if (can_go_on(sides_[next])) return give(next);
        }
        for (int64_t side = 0; side < count(); ++side) {
            Side &waiting = sides_[side];
            if (waiting.is_ended) continue;
            fail(tw_fault(&waiting.ctx, waiting.waits, side, waiting.number, waiting.slots),
                 waiting.ctx);
            return give(side);
        }
        give(count());
    }

    void give(int64_t side) {
        turn_ = side;
        passed_.notify_all();
    }

    int32_t wait(int64_t side, int32_t waits, int64_t number, int64_t slots, const Ready &ready) {
        std::unique_lock<std::mutex> held(lock_);
        Side &me = sides_[side];
        if (!stop_ && !ready()) {
            me.ready = &ready;
            me.waits = waits;
            me.number = number;
            me.slots = slots;
            pass_on();
            await_turn(side, held);
            me.ready = nullptr;
        }
        return stop_ ? TW_CANCELLED : TW_OK;
    }

    std::vector<Ring *> rings(bool to_lane, int64_t side, int64_t pipe, bool every) {
        std::vector<Ring *> found;
        const int64_t first = side ? side - 1 : 0, last = every ? lanes() : first + 1;
        for (int64_t lane = first; lane < last; ++lane)
            found.push_back(&rings_[{to_lane, pipe, lane}]);
        return found;
    }

    int32_t do_push(int64_t side, int64_t pipe, const void *data, int64_t bytes) {
        const auto found = rings(side == 0, side, pipe, side == 0);
        const int64_t slots = slots_.count(pipe) ? slots_[pipe] : 8;
        const int32_t status = wait(side, TW_SIDES_PUSH, pipe, slots, [&] {
            for (const Ring *ring : found)
                if (int64_t(ring->size()) >= slots) return false;
            return true;
        });
        const char *first = static_cast<const char *>(data);
        if (status == TW_OK)
            for (Ring *ring : found) ring->emplace_back(first, first + bytes);
        return status;
    }

    int32_t do_pop(int64_t side, int64_t pipe, int64_t lane, void *data, int64_t bytes) {
        Ring *ring = &rings_[{side != 0, pipe, side ? side - 1 : lane}];
        const int32_t status = wait(side, TW_SIDES_POP, pipe, 0, [&] { return !ring->empty(); });
        if (status != TW_OK) return status;
        const std::vector<char> tile = std::move(ring->front());
        ring->pop_front();
        if (int64_t(tile.size()) != bytes) {
            tw_ctx *ctx = side ? &sides_[side].ctx : ctx_;
            return tw_fault(ctx, TW_TILE_MISMATCH, int64_t(tile.size()), bytes);
        }
        std::memcpy(data, tile.data(), tile.size());
        return TW_OK;
    }

    int32_t do_set(int64_t side, int64_t event) {
        for (int64_t lane = 0; lane < lanes(); ++lane)
            if (side == 0 || side == 1 + lane) ++events_[{side == 0, event, lane}];
        return TW_OK;
    }

    int32_t do_wait(int64_t side, int64_t event) {
        std::vector<int64_t *> found;
        for (int64_t lane = 0; lane < lanes(); ++lane)
            if (side == 0 || side == 1 + lane) found.push_back(&events_[{side != 0, event, lane}]);
        const int32_t status = wait(side, TW_SIDES_EVENT, event, 0, [&] {
            for (const int64_t *set : found)
                if (!*set) return false;
            return true;
        });
        if (status == TW_OK)
            for (int64_t *set : found) --*set;
        return status;
    }

    int32_t do_meet(int64_t side) {
        const int64_t mine = round_;
        if (++here_ == count()) {
            here_ = 0;
            ++round_;
        }
        return wait(side, TW_SIDES_MEET, 0, 0, [&] { return round_ != mine; });
    }

    static Sides *own(tw_sides *sides) { return static_cast<Sides *>(sides); }

    static tw_sides functions() {
        tw_sides made;
        made.push = [](tw_sides *s, int64_t side, int64_t pipe, const void *data, int64_t bytes) {
            return own(s)->do_push(side, pipe, data, bytes);
        };
        made.pop = [](tw_sides *s, int64_t side, int64_t pipe, int64_t lane, void *data,
                      int64_t bytes) { return own(s)->do_pop(side, pipe, lane, data, bytes); };
        made.set_slots = [](tw_sides *s, int64_t pipe, int64_t slots) -> int32_t {
            own(s)->slots_[pipe] = slots;
            return TW_OK;
        };
        made.set_event = [](tw_sides *s, int64_t side, int64_t event) {
            return own(s)->do_set(side, event);
        };
        made.wait_event = [](tw_sides *s, int64_t side, int64_t event) {
            return own(s)->do_wait(side, event);
        };
        made.meet = [](tw_sides *s, int64_t side) { return own(s)->do_meet(side); };
        return made;
    }
};

/* The arguments I of N with the words for one side, in `words`. */
template <std::size_t N, std::size_t... I>
const uint64_t *share(const uint64_t *args, std::index_sequence<I...>, int64_t side,
                      tw_sides *sides, uint64_t *words) {
    const uint64_t given[] = {args[I]..., 0};
    uint64_t *around = words + sizeof...(I);
    std::memcpy(words, given, sizeof given);
    std::memcpy(around, args + N, TW_WORDS * sizeof *words);
    around[TW_LANE] = side ? uint64_t(side - 1) : 0;
    around[TW_SIDE] = uint64_t(side);
    around[TW_SIDES] = reinterpret_cast<uint64_t>(sides);
    return words;
}

/* The entry of a mixed kernel: `vector` is its vector side, `cube` the entry of the other one; they
 * take the arguments C and V. The word of the side says which one begins. */
template <std::size_t N, class C, class V, class F>
int32_t enter_sides(const uint64_t *args, tw_ctx *ctx, tw_side_entry *cube, C of_cube, V of_vector,
                    F vector) {
    const int64_t lanes = int64_t(args[N + TW_LANES]), first = int64_t(args[N + TW_SIDE]);
    Sides sides(lanes, first, ctx);
    return sides.run([&](int64_t side, tw_ctx *own) {
        uint64_t words[N + TW_WORDS];
        return side ? vector(share<N>(args, of_vector, side, &sides, words), own)
                    : cube(share<N>(args, of_cube, side, &sides, words), own);
    });
}

} /* namespace tw */

#endif
