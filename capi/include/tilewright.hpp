// tilewright for C++17: plans that free themselves, views with lengths, exceptions with status and message.
//
// Everything is inline; what the functions do is said in tilewright.h.

#ifndef TILEWRIGHT_HPP
#define TILEWRIGHT_HPP

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
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
};

} // namespace detail

// A struct of tilewright.h with its size filled in and everything else zero.
template <class T>
T make() noexcept {
    T value{};
    value.struct_size = sizeof(T);
    return value;
}

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
        auto executor = make<tw_executor>();
        executor.threads = pool.threads();
        executor.ctx = &bridge;
        executor.run = &detail::executor<Pool>::run;
        try {
            execute_with(source, destination, &executor);
        } catch (const error &) {
            if (bridge.thrown) {
                std::rethrow_exception(bridge.thrown);
            }
            throw;
        }
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

} // namespace tilewright

#endif
