// Executors of the caller: three threads, the calling thread, and four that do it wrong.

#include <pthread.h>
#include "test.h"

enum { ROWS = 640, COLUMNS = 480, THREADS = 3 };

// What the threads of one run share.
struct work {
    tw_task task;
    void *arg;
    uint32_t tasks, first;
};

static void *every_third(void *at) {
    const struct work *work = at;
    for (uint32_t i = work->first; i < work->tasks; i += THREADS) {
        work->task(work->arg, i);
    }
    return NULL;
}

static int32_t pool(void *ctx, uint32_t tasks, tw_task task, void *arg) {
    ++*(int *)ctx;
    pthread_t threads[THREADS];
    struct work work[THREADS];
    for (uint32_t i = 0; i < THREADS; ++i) {
        work[i] = (struct work){task, arg, tasks, i};
        if (pthread_create(&threads[i], NULL, every_third, &work[i]) != 0) {
            exit(1);
        }
    }
    for (uint32_t i = 0; i < THREADS; ++i) {
        pthread_join(threads[i], NULL);
    }
    return 0;
}

static int32_t inline_(void *ctx, uint32_t tasks, tw_task task, void *arg) {
    ++*(int *)ctx;
    for (uint32_t i = tasks; i-- > 0;) {
        task(arg, i);
    }
    return 0;
}

static int32_t only_half(void *ctx, uint32_t tasks, tw_task task, void *arg) {
    return inline_(ctx, tasks / 2, task, arg);
}

static int32_t none(void *ctx, uint32_t tasks, tw_task task, void *arg) {
    return inline_(ctx, 0 * tasks, task, arg);
}

static int32_t one_twice(void *ctx, uint32_t tasks, tw_task task, void *arg) {
    task(arg, 1);
    return inline_(ctx, tasks, task, arg);
}

static int32_t one_twice_one_never(void *ctx, uint32_t tasks, tw_task task, void *arg) {
    task(arg, 0);
    return inline_(ctx, tasks - 1, task, arg);
}

static int32_t one_that_there_is_not(void *ctx, uint32_t tasks, tw_task task, void *arg) {
    task(arg, UINT32_MAX);
    return inline_(ctx, tasks, task, arg);
}

static int32_t fails_in_the_middle(void *ctx, uint32_t tasks, tw_task task, void *arg) {
    inline_(ctx, tasks / 2, task, arg);
    return 42;
}

static int32_t fails_at_the_end(void *ctx, uint32_t tasks, tw_task task, void *arg) {
    inline_(ctx, tasks, task, arg);
    return INT32_MIN;
}

int main(void) {
    const uint64_t shape[] = {ROWS, COLUMNS};
    tw_plan *plan = compile(shape, 2, TW_F32, "ttnn(dtype=bfloat8_b, layout=TILE)");
    tw_plan_info info = {.struct_size = sizeof info};
    STATUS(TW_OK, tw_plan_query(plan, &info, &message));
    const size_t from_bytes = info.source_bytes, to_bytes = info.destination_bytes;
    float *from = malloc(from_bytes);
    unsigned char *expected = malloc(to_bytes), *to = malloc(to_bytes);
    if (from == NULL || expected == NULL || to == NULL) {
        return 1;
    }
    for (int i = 0; i < ROWS * COLUMNS; ++i) {
        from[i] = (float)(i % 8191) / 1024 - 3;
    }
    STATUS(TW_OK, tw_plan_execute(plan, from, from_bytes, expected, to_bytes, NULL, &message));

    const struct {
        int32_t (*run)(void *, uint32_t, tw_task, void *);
        uint32_t threads;
        tw_status status;
        int calls;
    } cases[] = {
        {pool, THREADS, TW_OK, 1},
        {pool, UINT32_MAX, TW_OK, 1},
        {inline_, 2, TW_OK, 1},
        {inline_, 1, TW_OK, 0},
        {inline_, 0, TW_OK, 0},
        {only_half, THREADS, TW_EXECUTOR, 1},
        {none, THREADS, TW_EXECUTOR, 1},
        {one_twice, THREADS, TW_EXECUTOR, 1},
        {one_twice_one_never, THREADS, TW_EXECUTOR, 1},
        {one_that_there_is_not, THREADS, TW_EXECUTOR, 1},
        {fails_in_the_middle, THREADS, TW_EXECUTOR, 1},
        {fails_at_the_end, THREADS, TW_EXECUTOR, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        int calls = 0;
        const tw_executor executor = {
            .struct_size = sizeof executor, .threads = cases[i].threads, .ctx = &calls, .run = cases[i].run};
        memset(to, 0xee, to_bytes);
        printf("case %zu\n", i);
        STATUS(cases[i].status, tw_plan_execute(plan, from, from_bytes, to, to_bytes, &executor, &message));
        EXPECT(calls == cases[i].calls);
        EXPECT(cases[i].status != TW_OK || memcmp(to, expected, to_bytes) == 0);
    }
    // An element that does not fit is no fault of the executor's.
    tw_plan *narrow = compile(shape, 2, TW_I32, "memref<640x480xui8>");
    int32_t *numbers = calloc(ROWS * COLUMNS, sizeof *numbers);
    if (numbers == NULL) {
        return 1;
    }
    numbers[ROWS * COLUMNS / 2] = 256;
    int calls = 0;
    const tw_executor executor = {.struct_size = sizeof executor, .threads = THREADS, .ctx = &calls, .run = pool};
    const size_t narrow_bytes = ROWS * COLUMNS;
    STATUS(TW_OUT_OF_RANGE,
           tw_plan_execute(narrow, numbers, ROWS * COLUMNS * sizeof *numbers, to, narrow_bytes, &executor, &message));
    EXPECT(calls == 1);
    free(numbers);
    tw_plan_free(narrow);
    free(from);
    free(expected);
    free(to);
    tw_plan_free(plan);
    return failures != 0;
}
