// tilewright for C++17: plans and stagers that free themselves, views with lengths, exceptions with status and message.
//
// Everything is inline; what the functions do is said in tilewright.h.

#ifndef TILEWRIGHT_HPP
#define TILEWRIGHT_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tilewright.h"

namespace tilewright {

// A call that did not return TW_OK.
class error : public std::runtime_error {
public:
    error(tw_status status, const std::string &message) : std::runtime_error(message), status_(status) {}

    // The status, e.g. TW_LENGTH.
    tw_status status() const noexcept { return status_; }

private:
    tw_status status_;
};

// Memory of somebody else: any container with data() and size(), or a pointer with a length.
template <class T>
class view {
public:
    view() noexcept = default;
    view(T *data, std::size_t size) noexcept : data_(data), size_(size) {}

    template <class C, class = std::enable_if_t<std::is_convertible_v<decltype(std::declval<C &>().data()), T *>>>
    view(C &&container) noexcept : data_(container.data()), size_(container.size()) {}

    T *data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

// Memory of somebody else, in bytes whatever it holds.
template <class Void>
class memory {
public:
    memory() noexcept = default;
    memory(Void *data, std::size_t bytes) noexcept : data_(data), bytes_(bytes) {}

    template <class C, class T = std::remove_pointer_t<decltype(std::declval<C &>().data())>,
              class = std::enable_if_t<std::is_object_v<T> && std::is_convertible_v<T *, Void *>>>
    memory(C &&container) noexcept
        : data_(container.data()), bytes_(container.size() * sizeof(T)) {}

    Void *data() const noexcept { return data_; }
    std::size_t size() const noexcept { return bytes_; }

private:
    Void *data_ = nullptr;
    std::size_t bytes_ = 0;
};

// A struct of tilewright.h with its size filled in and everything else zero.
template <class T>
T make() noexcept {
    T value{};
    value.struct_size = sizeof(T);
    return value;
}

using input = memory<const void>;
using output = memory<void>;

namespace detail {

// Calls `call(message)`, and throws what it returns unless that is TW_OK.
template <class F>
void check(F &&call) {
    char buffer[512];
    tw_text message{buffer, sizeof buffer, 0};
    buffer[0] = '\0';
    const tw_status status = call(&message);
    if (status != TW_OK) {
        throw error(status, std::string(tw_status_name(status)) + ": " + buffer);
    }
}

// Calls `body`; where the library reports an error that follows from something that was thrown, that is thrown again.
template <class F>
void rethrowing(F &&body, const std::exception_ptr &thrown) {
    try {
        body();
    } catch (const error &) {
        if (thrown) {
            std::rethrow_exception(thrown);
        }
        throw;
    }
}

inline tw_string string(std::string_view text) noexcept { return {text.data(), text.size()}; }

// A pool of the caller: anything with `unsigned threads()` and `run(tasks, task)`, which calls `task(0)` to
// `task(tasks - 1)`, each once, and returns when all have returned. What it throws passes through the library.
template <class Pool>
struct executor {
    Pool &pool;
    std::exception_ptr thrown = nullptr;

    static std::int32_t run(void *ctx, std::uint32_t tasks, tw_task task, void *arg) noexcept {
        auto &self = *static_cast<executor *>(ctx);
        try {
            self.pool.run(tasks, [task, arg](std::uint32_t index) { task(arg, index); });
            return 0;
        } catch (...) {
            self.thrown = std::current_exception();
            return -1;
        }
    }

    tw_executor get() noexcept {
        auto executor = make<tw_executor>();
        executor.threads = pool.threads();
        executor.ctx = this;
        executor.run = run;
        return executor;
    }
};

// Where slots go: a function of one piece at a time, or an object with `submit` and `wait`; see stager::run. What it
// throws passes through the library.
template <class Sink>
struct sink {
    static constexpr bool blocking = std::is_invocable_v<Sink &, const tw_piece &>;

    Sink &to;
    std::exception_ptr thrown = nullptr;

    static std::int32_t submit(void *ctx, std::uint64_t ticket, const tw_piece *pieces, std::size_t count) noexcept {
        auto &self = *static_cast<sink *>(ctx);
        try {
            if constexpr (blocking) {
                (void)ticket;
                for (std::size_t i = 0; i < count; ++i) {
                    self.to(pieces[i]);
                }
            } else {
                self.to.submit(ticket, view<const tw_piece>(pieces, count));
            }
            return 0;
        } catch (...) {
            self.thrown = std::current_exception();
            return -1;
        }
    }

    static std::int32_t wait(void *ctx, std::uint64_t limit_ms, std::uint64_t *ticket) noexcept {
        auto &self = *static_cast<sink *>(ctx);
        try {
            const std::optional<std::uint64_t> arrived = self.to.wait(std::chrono::milliseconds(limit_ms));
            *ticket = arrived.value_or(*ticket);
            return arrived ? 0 : TW_PENDING;
        } catch (...) {
            // Of which ticket is not known: its slot stays out, and the run ends.
            self.thrown = std::current_exception();
            return -1;
        }
    }

    tw_sink get() noexcept {
        auto sink = make<tw_sink>();
        sink.ctx = this;
        sink.submit = submit;
        if constexpr (!blocking) {
            sink.wait = wait;
        }
        return sink;
    }
};

} // namespace detail

// A layout by its text, with a device and a mesh where there are any. The texts must outlive it.
inline tw_layout layout(std::string_view text, std::string_view device = {}, std::string_view mesh = {}) noexcept {
    auto value = make<tw_layout>();
    value.text = detail::string(text);
    value.device = detail::string(device);
    value.mesh = detail::string(mesh);
    return value;
}

// What lies at a byte, with the logical indices of its elements one behind the other.
struct owner {
    std::uint32_t kind;
    std::vector<std::uint64_t> indices;
};

// A range of bytes.
struct range {
    std::size_t begin;
    std::size_t length;
};

// How a destination is cut: all chunks are `bytes` long, but the last one may be less.
struct chunks {
    std::size_t bytes;
    std::size_t count;
};

// A compiled conversion.
class plan {
public:
    // Compiles a request as it is.
    explicit plan(const tw_request &request) {
        tw_plan *made = nullptr;
        detail::check([&](tw_text *message) { return tw_plan_compile(&request, &made, message); });
        plan_.reset(made);
    }

    // Compiles the conversion of a tensor between two layouts.
    plan(view<const std::uint64_t> shape, tw_format dtype, const tw_layout &source, const tw_layout &destination)
        : plan(request(shape, dtype, &source, &destination)) {}

    // Compiles the conversion between two layouts of the tensor that the text of one of them says.
    plan(const tw_layout &source, const tw_layout &destination) : plan({}, 0, source, destination) {}

    // Compiles the conversion of a row-major host array to a layout text.
    plan(view<const std::uint64_t> shape, tw_format dtype, std::string_view destination)
        : plan(shape, dtype, make<tw_layout>(), layout(destination)) {}

    tw_plan_info info() const {
        auto info = make<tw_plan_info>();
        detail::check([&](tw_text *message) { return tw_plan_query(get(), &info, message); });
        return info;
    }

    tilewright::chunks chunks(std::size_t at_most) const {
        tilewright::chunks cut{};
        detail::check([&](tw_text *m) { return tw_plan_chunks(get(), at_most, &cut.bytes, &cut.count, m); });
        return cut;
    }

    range source_window(range chunk) const {
        range window{};
        detail::check([&](tw_text *message) {
            return tw_plan_source_window(get(), chunk.begin, chunk.length, &window.begin, &window.length, message);
        });
        return window;
    }

    // Converts on the calling thread.
    void execute(input source, output destination) const { execute_with(source, destination, nullptr); }

    // Converts on the threads of `pool`: see detail::executor.
    template <class Pool>
    void execute(input source, output destination, Pool &pool) const {
        detail::executor<Pool> bridge{pool};
        const auto executor = bridge.get();
        detail::rethrowing([&] { execute_with(source, destination, &executor); }, bridge.thrown);
    }

    // Makes the bytes of the destination from `begin` on that `chunk` has room for.
    void execute_chunk(input source, std::size_t begin, output chunk) const {
        detail::check([&](tw_text *message) {
            return tw_plan_execute_chunk(get(), source.data(), source.size(), begin, chunk.data(), chunk.size(),
                                         message);
        });
    }

    std::vector<tw_place> locate(std::uint32_t side, view<const std::uint64_t> index) const {
        const auto about = info();
        std::vector<tw_place> places(side == TW_SOURCE ? about.source_copies : about.destination_copies);
        std::uint64_t count = 0;
        detail::check([&](tw_text *message) {
            return tw_plan_locate(get(), side, index.data(), index.size(), places.data(), places.size(), &count,
                                  message);
        });
        return places;
    }

    tilewright::owner owner(std::uint32_t side, std::uint64_t buffer, std::uint64_t byte) const {
        tw_owner found{};
        const tw_status status = tw_plan_owner(get(), side, buffer, byte, &found, nullptr, 0, nullptr);
        tilewright::owner owner{found.kind, {}};
        if (status != TW_OK) {
            owner.indices.resize(status == TW_SHORT ? found.elements * info().rank : 0);
            detail::check([&](tw_text *message) {
                return tw_plan_owner(get(), side, buffer, byte, &found, owner.indices.data(), owner.indices.size(),
                                     message);
            });
        }
        return owner;
    }

    std::string explain() const {
        tw_text text{nullptr, 0, 0};
        tw_plan_explain(get(), &text, nullptr);
        std::vector<char> buffer(text.length + 1);
        text = {buffer.data(), buffer.size(), 0};
        detail::check([&](tw_text *message) { return tw_plan_explain(get(), &text, message); });
        return {buffer.data(), text.length};
    }

    std::string dci() const {
        tw_text text{nullptr, 0, 0};
        tw_plan_dci(get(), &text, nullptr);
        std::vector<char> buffer(text.length + 1);
        text = {buffer.data(), buffer.size(), 0};
        detail::check([&](tw_text *message) { return tw_plan_dci(get(), &text, message); });
        return {buffer.data(), text.length};
    }

    // The handle, for the functions of tilewright.h.
    const tw_plan *get() const noexcept { return plan_.get(); }

private:
    struct free {
        void operator()(tw_plan *plan) const noexcept { tw_plan_free(plan); }
    };

    static tw_request request(view<const std::uint64_t> shape, tw_format dtype, const tw_layout *source,
                              const tw_layout *destination) noexcept {
        auto request = make<tw_request>();
        request.shape = shape.data();
        request.rank = shape.size();
        request.dtype = dtype;
        request.source = source;
        request.destination = destination;
        return request;
    }

    void execute_with(input source, output destination, const tw_executor *executor) const {
        detail::check([&](tw_text *message) {
            return tw_plan_execute(get(), source.data(), source.size(), destination.data(), destination.size(),
                                   executor, message);
        });
    }

    std::unique_ptr<tw_plan, free> plan_;
};

// A conversion of a batch; all three must outlive the call.
inline tw_conversion conversion(const plan &plan, input source, output destination) noexcept {
    return {plan.get(), source.data(), source.size(), destination.data(), destination.size()};
}

// Runs many conversions on the calling thread; see tw_execute_batch.
inline void execute_batch(view<const tw_conversion> conversions) {
    detail::check([&](tw_text *message) {
        return tw_execute_batch(conversions.data(), conversions.size(), nullptr, nullptr, message);
    });
}

// The same on the threads of `pool`: see detail::executor.
template <class Pool>
void execute_batch(view<const tw_conversion> conversions, Pool &pool) {
    detail::executor<Pool> bridge{pool};
    const auto executor = bridge.get();
    const auto run = [&](tw_text *message) {
        return tw_execute_batch(conversions.data(), conversions.size(), &executor, nullptr, message);
    };
    detail::rethrowing([&] { detail::check(run); }, bridge.thrown);
}

// A tensor of a run of a stager, in memory; plan and source must outlive the run.
inline tw_transfer transfer(const plan &plan, input source) noexcept {
    return {plan.get(), source.data(), source.size(), nullptr, 0};
}

// A tensor of a run of a stager that is read from byte `begin` on; plan and reader must outlive the run.
inline tw_transfer transfer(const plan &plan, const tw_reader &reader, std::uint64_t begin = 0) noexcept {
    return {plan.get(), nullptr, 0, &reader, begin};
}

// A ring of slots through which any number of tensors go to a device, kept from run to run.
class stager {
public:
    // Slots of the library's own memory.
    explicit stager(std::size_t slots = 3, std::size_t slot_bytes = 32u << 20) : stager(slots, slot_bytes, nullptr) {}

    // Slots of `slot_bytes` each at these addresses, such as pinned memory. It must outlive the stager.
    stager(view<void *const> memory, std::size_t slot_bytes) : stager(memory.size(), slot_bytes, memory.data()) {}

    // Converts tensors on the calling thread, one after another, and hands each byte of their destinations to `sink` once.
    //
    // `sink` is a function of `const tw_piece &` that is done with the bytes when it returns; or an object with
    // `submit(std::uint64_t ticket, view<const tw_piece>)`, which begins to move the pieces of a slot, and
    // `wait(std::chrono::milliseconds)`, which returns the ticket of one that has arrived, as std::optional<std::uint64_t>:
    // none when so much time has passed. What either throws ends the run and comes out of it.
    template <class Sink>
    tw_stage_report run(view<const tw_transfer> transfers, Sink &&sink,
                        const tw_stage_options &options = make<tw_stage_options>()) const {
        return run_with(transfers, sink, nullptr, options);
    }

    // The same on the threads of `pool`: see detail::executor.
    template <class Sink, class Pool, class = decltype(std::declval<Pool &>().threads())>
    tw_stage_report run(view<const tw_transfer> transfers, Sink &&sink, Pool &pool,
                        const tw_stage_options &options = make<tw_stage_options>()) const {
        detail::executor<Pool> bridge{pool};
        const auto executor = bridge.get();
        tw_stage_report report;
        detail::rethrowing([&] { report = run_with(transfers, sink, &executor, options); }, bridge.thrown);
        return report;
    }

    // The handle, for the functions of tilewright.h.
    tw_stager *get() const noexcept { return stager_.get(); }

private:
    struct free {
        void operator()(tw_stager *stager) const noexcept { tw_stager_free(stager); }
    };

    stager(std::size_t slots, std::size_t slot_bytes, void *const *memory) {
        tw_stager *made = nullptr;
        detail::check([&](tw_text *message) { return tw_stager_create(slots, slot_bytes, memory, &made, message); });
        stager_.reset(made);
    }

    template <class Sink>
    tw_stage_report run_with(view<const tw_transfer> transfers, Sink &sink, const tw_executor *executor,
                             const tw_stage_options &options) const {
        detail::sink<Sink> bridge{sink};
        const auto to = bridge.get();
        auto report = make<tw_stage_report>();
        const auto run = [&](tw_text *message) {
            return tw_stager_run(get(), transfers.data(), transfers.size(), &to, executor, &options, &report, message);
        };
        detail::rethrowing([&] { detail::check(run); }, bridge.thrown);
        return report;
    }

    std::unique_ptr<tw_stager, free> stager_;
};

} // namespace tilewright

#endif
