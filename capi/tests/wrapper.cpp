// The C++ face: plans move and free themselves, failures are exceptions, and those of a pool pass through.

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <tilewright.hpp>

#define EXPECT(condition)                                                                                             \
    do {                                                                                                              \
        if (!(condition)) {                                                                                           \
            std::printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                               \
            std::exit(1);                                                                                             \
        }                                                                                                             \
    } while (0)

namespace {

struct pool {
    unsigned threads() const { return 3; }

    template <class Task>
    void run(std::uint32_t tasks, Task task) {
        std::vector<std::thread> workers;
        for (std::uint32_t first = 0; first < 3; ++first) {
            workers.emplace_back([=] {
                for (auto i = first; i < tasks; i += 3) {
                    task(i);
                }
            });
        }
        for (auto &worker : workers) {
            worker.join();
        }
    }
};

struct broken {
    unsigned threads() const { return 2; }

    template <class Task>
    void run(std::uint32_t, Task task) {
        task(0);
        throw std::out_of_range("broken pool");
    }
};

template <class F>
tw_status status_of(F &&body) {
    try {
        body();
    } catch (const tilewright::error &error) {
        EXPECT(std::strlen(error.what()) > 10);
        return error.status();
    }
    return TW_OK;
}

} // namespace

int main() {
    const std::vector<std::uint64_t> shape{500, 400};
    std::vector<float> weight(200'000);
    for (std::size_t i = 0; i < weight.size(); ++i) {
        weight[i] = static_cast<float>(i % 251) - 100;
    }
    tilewright::plan first(shape, TW_F32, "ttnn(dtype=bfloat16, layout=TILE)");
    const tilewright::plan plan = std::move(first);
    EXPECT(first.get() == nullptr);
    EXPECT(status_of([&] { first.info(); }) == TW_NULL);

    const auto info = plan.info();
    EXPECT(info.destination_bytes == 512 * 416 * 2);
    std::vector<unsigned char> alone(info.destination_bytes), threads(info.destination_bytes);
    plan.execute(weight, alone);
    pool workers;
    plan.execute(weight, threads, workers);
    EXPECT(alone == threads);

    broken pool;
    try {
        plan.execute(weight, threads, pool);
        EXPECT(false);
    } catch (const std::out_of_range &error) {
        EXPECT(std::string(error.what()) == "broken pool");
    }

    const auto cut = plan.chunks(100'000);
    EXPECT(cut.bytes <= 100'000 && cut.bytes * cut.count >= info.destination_bytes);
    std::vector<unsigned char> chunk(cut.bytes);
    plan.execute_chunk(weight, cut.bytes, chunk);
    EXPECT(std::memcmp(chunk.data(), alone.data() + cut.bytes, cut.bytes) == 0);
    const auto window = plan.source_window({cut.bytes, cut.bytes});
    EXPECT(window.begin + window.length <= weight.size() * sizeof(float));

    const std::array<std::uint64_t, 2> index{499, 399};
    const auto places = plan.locate(TW_DESTINATION, index);
    EXPECT(places.size() == 1);
    const auto owner = plan.owner(TW_DESTINATION, places[0].buffer, places[0].byte);
    EXPECT(owner.kind == TW_OWNER_ELEMENTS && owner.indices.size() == 2 && owner.indices[0] == 499);
    EXPECT(plan.owner(TW_DESTINATION, 0, info.destination_bytes - 1).kind == TW_OWNER_PADDING);
    EXPECT(plan.explain().find("f32 -> bf16") != std::string::npos);
    EXPECT(plan.dci().find("\"dcsi_\"") != std::string::npos);

    const tilewright::plan back(shape, TW_F32, tilewright::layout("ttnn(dtype=bfloat16, layout=TILE)"),
                                tilewright::make<tw_layout>());
    std::vector<float> unpacked(weight.size());
    back.execute(alone, unpacked);
    EXPECT(unpacked == weight);

    EXPECT(status_of([&] { plan.execute(weight, {alone.data(), 1}); }) == TW_LENGTH);
    EXPECT(status_of([&] { tilewright::plan(shape, TW_F32, "ttn("); }) == TW_TEXT);
    EXPECT(status_of([&] { plan.locate(TW_DESTINATION, {index.data(), 1}); }) == TW_VALUE);
    std::puts("ok");
}
