// Fills a ring of buffers chunk by chunk with a thread pool of its own, as a runtime does that sends weights to a device
// through a few pinned buffers.
//
//     c++ -std=c++17 -pthread ring.cpp $(pkg-config --cflags --libs tilewright) -o ring

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

#include <tilewright.hpp>

// Slots that threads fill in any order and that one consumer empties in order.
class ring {
public:
    ring(std::size_t slots, std::size_t bytes) : slots_(slots, slot{std::vector<unsigned char>(bytes), false}) {}

    // The buffer of a chunk, as soon as the chunk that was there before has been sent.
    std::vector<unsigned char> &reserve(std::size_t chunk) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return chunk < sent_ + slots_.size(); });
        return slots_[chunk % slots_.size()].buffer;
    }

    void filled(std::size_t chunk) {
        const std::lock_guard lock(mutex_);
        slots_[chunk % slots_.size()].full = true;
        changed_.notify_all();
    }

    // Calls `send` with the next chunk when it is there.
    template <class F>
    void send_next(F &&send) {
        std::unique_lock lock(mutex_);
        auto &next = slots_[sent_ % slots_.size()];
        changed_.wait(lock, [&] { return next.full; });
        lock.unlock();
        send(sent_, next.buffer);
        lock.lock();
        next.full = false;
        ++sent_;
        changed_.notify_all();
    }

private:
    struct slot {
        std::vector<unsigned char> buffer;
        bool full;
    };

    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<slot> slots_;
    std::size_t sent_ = 0;
};

int main() {
    const std::vector<std::uint64_t> shape{512, 768};
    std::vector<float> weight(512 * 768);
    for (std::size_t i = 0; i < weight.size(); ++i) {
        weight[i] = static_cast<float>(i % 1021) / 512 - 1;
    }
    const tilewright::plan plan(shape, TW_F32, "ttnn(dtype=bfloat8_b, layout=TILE)");
    const auto total = plan.info().destination_bytes;
    const auto cut = plan.chunks(16 << 10);

    ring ring(3, cut.bytes);
    const auto length = [&](std::size_t chunk) { return std::min(cut.bytes, total - chunk * cut.bytes); };
    std::vector<std::thread> pool;
    for (std::size_t worker = 0; worker < 3; ++worker) {
        pool.emplace_back([&, worker] {
            for (std::size_t chunk = worker; chunk < cut.count; chunk += 3) {
                auto &buffer = ring.reserve(chunk);
                plan.execute_chunk(weight, chunk * cut.bytes, {buffer.data(), length(chunk)});
                ring.filled(chunk);
            }
        });
    }
    // Stands for the device.
    std::vector<unsigned char> device(total);
    for (std::size_t i = 0; i < cut.count; ++i) {
        ring.send_next([&](std::size_t chunk, const std::vector<unsigned char> &buffer) {
            std::copy_n(buffer.begin(), length(chunk), device.begin() + chunk * cut.bytes);
        });
    }
    for (auto &thread : pool) {
        thread.join();
    }

    std::vector<unsigned char> at_once(total);
    plan.execute(weight, at_once);
    std::printf("%zu chunks of %zu bytes through 3 buffers: %s\n", cut.count, cut.bytes,
                device == at_once ? "the same as at once" : "different");
    return device == at_once ? 0 : 1;
}
