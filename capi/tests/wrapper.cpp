// The C++ face: plans move and free themselves, failures are exceptions, and those of a pool pass through.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
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

// A device that ends what it was given last first, and only when somebody waits.
struct device {
    std::vector<unsigned char> &memory;
    std::size_t submissions = 0;
    std::size_t fails_at = SIZE_MAX;
    std::vector<std::pair<std::uint64_t, std::vector<tw_piece>>> flight = {};

    void submit(std::uint64_t ticket, tilewright::view<const tw_piece> pieces) {
        if (submissions++ == fails_at) {
            throw std::out_of_range("broken device");
        }
        flight.emplace_back(ticket, std::vector<tw_piece>(pieces.data(), pieces.data() + pieces.size()));
    }

    std::optional<std::uint64_t> wait(std::chrono::milliseconds limit) {
        if (flight.empty() || limit.count() == 0) {
            return std::nullopt;
        }
        const auto [ticket, pieces] = std::move(flight.back());
        flight.pop_back();
        for (const auto &piece : pieces) {
            std::memcpy(memory.data() + piece.destination, piece.data, piece.length);
        }
        return ticket;
    }
};

std::int32_t read_at(void *ctx, std::uint64_t at, void *into, std::size_t length) {
    std::memcpy(into, static_cast<const char *>(ctx) + at, length);
    return 0;
}

void stages(const tilewright::plan &plan, std::vector<float> &weight, const std::vector<unsigned char> &expected) {
    tilewright::stager first(2, 65536);
    const tilewright::stager stager = std::move(first);
    EXPECT(first.get() == nullptr);
    std::vector<unsigned char> arrived(2 * expected.size());
    const auto both = [&] {
        const auto middle = arrived.begin() + static_cast<std::ptrdiff_t>(expected.size());
        const bool same = std::equal(expected.begin(), expected.end(), arrived.begin()) &&
                          std::equal(expected.begin(), expected.end(), middle);
        arrived.assign(arrived.size(), 0);
        return same;
    };
    auto reader = tilewright::make<tw_reader>();
    reader.size = weight.size() * sizeof(float);
    reader.ctx = weight.data();
    reader.read_at = read_at;
    const std::array transfers{tilewright::transfer(plan, weight), tilewright::transfer(plan, reader)};
    const auto place = [&](const tw_piece &piece) {
        std::memcpy(arrived.data() + piece.transfer * expected.size() + piece.destination, piece.data, piece.length);
    };
    const auto report = stager.run(transfers, place);
    EXPECT(both() && report.bytes == 2 * expected.size() && report.bytes_read == reader.size);
    pool workers;
    auto options = tilewright::make<tw_stage_options>();
    options.read_bytes = 100'000;
    stager.run(transfers, place, workers, options);
    EXPECT(both());

    std::vector<unsigned char> memory(expected.size());
    device later{memory};
    stager.run(tilewright::view<const tw_transfer>(transfers.data(), 1), later);
    EXPECT(memory == expected && later.flight.empty());
    device failing{memory};
    failing.fails_at = 3;
    try {
        stager.run(transfers, failing);
        EXPECT(false);
    } catch (const std::out_of_range &error) {
        EXPECT(std::string(error.what()) == "broken device" && failing.flight.empty());
    }
    std::vector<std::array<unsigned char, 65536>> slots(2);
    const std::array<void *, 2> addresses{slots[0].data(), slots[1].data()};
    const tilewright::stager lent(addresses, 65536);
    lent.run(transfers, [&](const tw_piece &piece) {
        const auto *data = static_cast<const unsigned char *>(piece.data);
        EXPECT(data >= slots[0].data() && data + piece.length <= slots[1].data() + 65536);
        place(piece);
    });
    EXPECT(both());
    EXPECT(status_of([] { tilewright::stager(65, 65536); }) == TW_VALUE);
    EXPECT(status_of([&] { first.run(transfers, place); }) == TW_NULL);
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

    std::vector<std::vector<unsigned char>> many(5, std::vector<unsigned char>(alone.size()));
    std::vector<tw_conversion> conversions;
    for (auto &one : many) {
        conversions.push_back(tilewright::conversion(plan, weight, one));
    }
    tilewright::execute_batch(conversions, workers);
    EXPECT(std::count(many.begin(), many.end(), alone) == 5);
    conversions[3].destination_length = 1;
    EXPECT(status_of([&] { tilewright::execute_batch(conversions); }) == TW_LENGTH);
    conversions[3].destination_length = alone.size();
    try {
        tilewright::execute_batch(conversions, pool);
        EXPECT(false);
    } catch (const std::out_of_range &error) {
        EXPECT(std::string(error.what()) == "broken pool");
    }

    // In a thread that ends: Rust's library keeps 48 bytes with each that starts another.
    std::thread([&] { stages(plan, weight, alone); }).join();

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

    const tilewright::plan said(tilewright::layout("memref<500x400xf32>"),
                                tilewright::layout("ttnn(dtype=bfloat16, layout=TILE)"));
    said.execute(weight, threads);
    EXPECT(threads == alone);

    EXPECT(status_of([&] { plan.execute(weight, {alone.data(), 1}); }) == TW_LENGTH);
    EXPECT(status_of([&] { tilewright::plan(shape, TW_F32, "ttn("); }) == TW_TEXT);
    EXPECT(status_of([&] { plan.locate(TW_DESTINATION, {index.data(), 1}); }) == TW_VALUE);
    std::puts("ok");
}
