// Batches: the bytes of each conversion alone, wrong ones refused by their number before anything is written.

#include "test.h"

enum { COUNT = 300, BYTES = 2048, LARGE_ROWS = 640, LARGE_COLUMNS = 480 };

static int32_t backwards(void *ctx, uint32_t tasks, tw_task task, void *arg) {
    *(uint32_t *)ctx += tasks;
    for (uint32_t i = tasks; i-- > 0;) {
        task(arg, i);
    }
    return 0;
}

static int32_t only_half(void *ctx, uint32_t tasks, tw_task task, void *arg) {
    return backwards(ctx, tasks / 2, task, arg);
}

static unsigned char sources[COUNT * BYTES], expected[COUNT * BYTES], tiles[COUNT * BYTES];
static uint16_t large[LARGE_ROWS * LARGE_COLUMNS], large_expected[LARGE_ROWS * LARGE_COLUMNS],
    large_tiles[LARGE_ROWS * LARGE_COLUMNS];

static int untouched(void) {
    for (size_t i = 0; i < sizeof tiles; ++i) {
        if (tiles[i] != 0xee) {
            return 0;
        }
    }
    return 1;
}

int main(void) {
    const uint64_t small_shape[] = {32, 32}, large_shape[] = {LARGE_ROWS, LARGE_COLUMNS};
    tw_plan *small = compile(small_shape, 2, TW_BF16, "ttnn(dtype=bfloat16, layout=TILE)");
    tw_plan *big = compile(large_shape, 2, TW_BF16, "ttnn(dtype=bfloat16, layout=TILE)");
    for (size_t i = 0; i < sizeof sources; ++i) {
        sources[i] = (unsigned char)(i * 7 + i / 2048);
    }
    for (size_t i = 0; i < LARGE_ROWS * LARGE_COLUMNS; ++i) {
        large[i] = (uint16_t)i;
    }
    tw_conversion items[COUNT + 1];
    for (size_t i = 0; i < COUNT; ++i) {
        const size_t at = i * BYTES;
        items[i] = (tw_conversion){small, sources + at, BYTES, tiles + at, BYTES};
        STATUS(TW_OK, tw_plan_execute(small, sources + at, BYTES, expected + at, BYTES, NULL, &message));
    }
    items[COUNT] = (tw_conversion){big, large, sizeof large, large_tiles, sizeof large_tiles};
    STATUS(TW_OK, tw_plan_execute(big, large, sizeof large, large_expected, sizeof large_expected, NULL, &message));

    uint32_t tasks = 0;
    const tw_executor executor = {.struct_size = sizeof executor, .threads = 3, .ctx = &tasks, .run = backwards};
    const tw_executor *executors[] = {NULL, &executor};
    for (int i = 0; i < 2; ++i) {
        memset(tiles, 0xee, sizeof tiles);
        memset(large_tiles, 0xee, sizeof large_tiles);
        STATUS(TW_OK, tw_execute_batch(items, COUNT + 1, executors[i], NULL, &message));
        EXPECT(memcmp(tiles, expected, sizeof tiles) == 0);
        EXPECT(memcmp(large_tiles, large_expected, sizeof large_tiles) == 0);
    }
    EXPECT(tasks > 1 && tasks < COUNT);
    STATUS(TW_OK, tw_execute_batch(NULL, 0, NULL, NULL, &message));

    // What is wrong is refused by its number, and nothing is written.
    memset(tiles, 0xee, sizeof tiles);
    const tw_conversion right = items[7];
    const struct {
        tw_conversion item;
        tw_status status;
        uint64_t failed;
    } wrong[] = {
        {{small, right.source, BYTES - 1, right.destination, BYTES}, TW_LENGTH, 7},
        {{small, right.source, BYTES, right.destination, BYTES - 1}, TW_LENGTH, 7},
        {{small, NULL, BYTES, right.destination, BYTES}, TW_NULL, 7},
        {{small, right.source, BYTES, NULL, BYTES}, TW_NULL, 7},
        {{small, NULL, BYTES, NULL, BYTES}, TW_NULL, 7},
        {{NULL, right.source, BYTES, right.destination, BYTES}, TW_NULL, 7},
        {{small, right.source, BYTES, tiles + 6 * BYTES + 1, BYTES}, TW_OVERLAP, UINT64_MAX},
        {{small, tiles + 100 * BYTES - 1, BYTES, right.destination, BYTES}, TW_OVERLAP, UINT64_MAX},
        {{small, right.source, BYTES, items, BYTES}, TW_OVERLAP, UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
        uint64_t failed = UINT64_MAX;
        items[7] = wrong[i].item;
        STATUS(wrong[i].status, tw_execute_batch(items, COUNT, &executor, &failed, &message));
        EXPECT(failed == wrong[i].failed);
        EXPECT((failed == 7) == (strncmp(text, "conversion 7: ", 14) == 0));
        EXPECT(untouched());
    }
    items[7] = right;
    STATUS(TW_OVERLAP, tw_execute_batch(items, COUNT, NULL, (uint64_t *)tiles, &message));
    STATUS(TW_NULL, tw_execute_batch(NULL, 1, NULL, NULL, &message));
    STATUS(TW_LENGTH, tw_execute_batch(items, SIZE_MAX, NULL, NULL, &message));
    EXPECT(untouched());

    // An executor that leaves tasks out: its own status, and not that of some conversion.
    const tw_executor lazy = {.struct_size = sizeof lazy, .threads = 3, .ctx = &tasks, .run = only_half};
    uint64_t failed = UINT64_MAX;
    STATUS(TW_EXECUTOR, tw_execute_batch(items, COUNT, &lazy, &failed, &message));
    EXPECT(failed == UINT64_MAX);

    // Of values that do not fit the first is named, and everything is written.
    const uint64_t numbers_shape[] = {2};
    tw_plan *narrow = compile(numbers_shape, 1, TW_I32, "memref<2xui8>");
    const int32_t numbers[] = {1, 2, 300, 3, 4, 400};
    unsigned char bytes[6] = {0};
    const tw_conversion narrowed[] = {{narrow, numbers, 8, bytes, 2},
                                      {narrow, numbers + 2, 8, bytes + 2, 2},
                                      {narrow, numbers + 4, 8, bytes + 4, 2}};
    STATUS(TW_OUT_OF_RANGE, tw_execute_batch(narrowed, 3, NULL, &failed, &message));
    const unsigned char nearest[] = {1, 2, 255, 3, 4, 255};
    EXPECT(failed == 1 && memcmp(bytes, nearest, 6) == 0);

    tw_plan_free(narrow);
    tw_plan_free(big);
    tw_plan_free(small);
    return failures != 0;
}
