// Staging: what arrives is what the plan makes, from memory and from a reader, whatever the order; wrong arguments and
// sinks that fail are statuses.

#include <pthread.h>
#include "test.h"

enum { ROWS = 320, COLUMNS = 96, SLOT = 8192, SLOTS = 3 };

static const uint64_t shape[2] = {ROWS, COLUMNS};
static uint16_t source[ROWS * COLUMNS];
static unsigned char expected[2 * ROWS * COLUMNS], arrived[2 * ROWS * COLUMNS];

// A device that keeps the pieces of the tickets on their way, and ends them the latest first.
struct device {
    uint64_t tickets[SLOTS];
    tw_piece pieces[SLOTS][16];
    size_t counts[SLOTS], flight, submitted;
    size_t fail_at;
    int hangs;
};

static int32_t submit(void *ctx, uint64_t ticket, const tw_piece *pieces, size_t count) {
    struct device *device = ctx;
    if (device->submitted++ == device->fail_at) {
        return 77;
    }
    EXPECT(device->flight < SLOTS && count <= 16);
    device->tickets[device->flight] = ticket;
    memcpy(device->pieces[device->flight], pieces, count * sizeof *pieces);
    device->counts[device->flight++] = count;
    return 0;
}

static int32_t wait_(void *ctx, uint64_t limit_ms, uint64_t *ticket) {
    struct device *device = ctx;
    // Nothing arrives until somebody waits.
    if (device->flight == 0 || device->hangs || limit_ms == 0) {
        return TW_PENDING;
    }
    const size_t last = --device->flight;
    for (size_t i = 0; i < device->counts[last]; ++i) {
        const tw_piece *piece = &device->pieces[last][i];
        EXPECT(piece->buffer == 0 && piece->buffer_offset == piece->destination);
        memcpy(arrived + piece->destination, piece->data, piece->length);
    }
    *ticket = device->tickets[last];
    return 0;
}

static int32_t at_once(void *ctx, uint64_t ticket, const tw_piece *pieces, size_t count) {
    (void)ctx, (void)ticket;
    for (size_t i = 0; i < count; ++i) {
        memcpy(arrived + pieces[i].destination, pieces[i].data, pieces[i].length);
    }
    return 0;
}

static int32_t read_at(void *ctx, uint64_t at, void *into, size_t length) {
    if (*(int *)ctx != 0) {
        return 5;
    }
    memcpy(into, (const char *)source + at, length);
    return 0;
}

static int same(void) {
    const int equal = memcmp(arrived, expected, sizeof expected) == 0;
    memset(arrived, 0, sizeof arrived);
    return equal;
}

static void arrives(const tw_plan *plan, tw_stager *stager) {
    int fails = 0;
    const tw_reader reader = {.struct_size = sizeof reader, .size = sizeof source, .ctx = &fails, .read_at = read_at};
    const tw_transfer from_memory = {.plan = plan, .source = source, .source_length = sizeof source};
    const tw_transfer from_reader = {.plan = plan, .reader = &reader};
    const tw_stage_options options = {.struct_size = sizeof options, .read_bytes = 10000};
    struct device device = {.fail_at = SIZE_MAX};
    const tw_sink later = {.struct_size = sizeof later, .ctx = &device, .submit = submit, .wait = wait_};
    const tw_sink now = {.struct_size = sizeof now, .submit = at_once};
    tw_stage_report report = {.struct_size = sizeof report};

    STATUS(TW_OK, tw_stager_run(stager, &from_memory, 1, &later, NULL, NULL, &report, &message));
    EXPECT(same() && report.bytes == sizeof expected && report.bytes_read == 0 && report.slots == 8);
    STATUS(TW_OK, tw_stager_run(stager, &from_reader, 1, &now, NULL, &options, &report, &message));
    EXPECT(same() && report.bytes_read == sizeof source && report.window_bytes > 0);
    EXPECT(report.wall_ns >= report.converting_ns && report.slowest <= TW_SIDE_SINK);
    STATUS(TW_OK, tw_stager_run(stager, NULL, 0, &now, NULL, NULL, NULL, &message));

    fails = 1;
    STATUS(TW_VALUE, tw_stager_run(stager, &from_reader, 1, &later, NULL, &options, NULL, &message));
    EXPECT(strstr(text, "5 from read_at") != NULL);
    const tw_transfer both = {.plan = plan, .source = source, .source_length = sizeof source, .reader = &reader};
    STATUS(TW_VALUE, tw_stager_run(stager, &both, 1, &now, NULL, NULL, NULL, &message));
    const tw_transfer beyond = {.plan = plan, .reader = &reader, .begin = 1};
    STATUS(TW_LENGTH, tw_stager_run(stager, &beyond, 1, &now, NULL, NULL, NULL, &message));
    const tw_transfer none = {.plan = plan};
    STATUS(TW_LENGTH, tw_stager_run(stager, &none, 1, &now, NULL, NULL, NULL, &message));
    const tw_stage_options narrow = {.struct_size = sizeof narrow, .window_limit = 100};
    STATUS(TW_VALUE, tw_stager_run(stager, &from_reader, 1, &now, NULL, &narrow, NULL, &message));

    device.fail_at = device.submitted + 2;
    STATUS(TW_VALUE, tw_stager_run(stager, &from_memory, 1, &later, NULL, NULL, &report, &message));
    EXPECT(strstr(text, "77 from submit") != NULL && device.flight == 0 && report.slots == 2);
    device.fail_at = SIZE_MAX;
    memset(arrived, 0, sizeof arrived);
    STATUS(TW_OK, tw_stager_run(stager, &from_memory, 1, &later, NULL, NULL, NULL, &message));
    EXPECT(same());
}

static void wrong(const tw_plan *plan, tw_stager *stager) {
    const tw_sink sink = {.struct_size = sizeof sink, .submit = at_once};
    const tw_sink empty = {.struct_size = sizeof empty};
    const tw_transfer transfer = {.plan = plan, .source = source, .source_length = sizeof source};
    STATUS(TW_NULL, tw_stager_run(NULL, &transfer, 1, &sink, NULL, NULL, NULL, &message));
    STATUS(TW_HANDLE, tw_stager_run((tw_stager *)plan, &transfer, 1, &sink, NULL, NULL, NULL, &message));
    STATUS(TW_NULL, tw_stager_run(stager, NULL, 1, &sink, NULL, NULL, NULL, &message));
    STATUS(TW_NULL, tw_stager_run(stager, &transfer, 1, NULL, NULL, NULL, NULL, &message));
    STATUS(TW_NULL, tw_stager_run(stager, &transfer, 1, &empty, NULL, NULL, NULL, &message));
    tw_stager *made = stager;
    STATUS(TW_VALUE, tw_stager_create(65, SLOT, NULL, &made, &message));
    EXPECT(made == NULL);
    STATUS(TW_VALUE, tw_stager_create(2, 4095, NULL, &made, &message));
    void *const holes[2] = {source, NULL};
    STATUS(TW_NULL, tw_stager_create(2, SLOT, holes, &made, &message));
    static unsigned char shared[SLOT + 64];
    void *const twice[] = {shared, shared + 64};
    STATUS(TW_OVERLAP, tw_stager_create(2, SLOT, twice, &made, &message));
    EXPECT(tw_stager_free((tw_stager *)plan) == TW_HANDLE && tw_stager_free(NULL) == TW_OK);
}

// A device that hangs keeps the memory, which is the caller's here.
static void hangs(const tw_plan *plan) {
    static unsigned char memory[2][SLOT];
    void *const slots[2] = {memory[0], memory[1]};
    tw_stager *stager = NULL;
    STATUS(TW_OK, tw_stager_create(2, SLOT, slots, &stager, &message));
    struct device device = {.fail_at = SIZE_MAX, .hangs = 0};
    const tw_sink sink = {.struct_size = sizeof sink, .ctx = &device, .submit = submit, .wait = wait_};
    const tw_transfer transfer = {.plan = plan, .source = source, .source_length = sizeof source};
    STATUS(TW_OK, tw_stager_run(stager, &transfer, 1, &sink, NULL, NULL, NULL, &message));
    EXPECT(same());
    device.hangs = 1;
    const tw_stage_options options = {.struct_size = sizeof options, .wait_limit_ms = 1};
    STATUS(TW_STAGING, tw_stager_run(stager, &transfer, 1, &sink, NULL, &options, NULL, &message));
    EXPECT(strstr(text, "2 still in flight") != NULL);
    EXPECT(tw_stager_free(stager) == TW_OK);
}

static void *all(void *unused) {
    for (size_t i = 0; i < ROWS * COLUMNS; ++i) {
        source[i] = (uint16_t)(i * 2654435761u >> 8);
    }
    tw_plan *plan = compile(shape, 2, TW_BF16, "ttnn(dtype=bfloat16, layout=TILE)");
    STATUS(TW_OK, tw_plan_execute(plan, source, sizeof source, expected, sizeof expected, NULL, &message));
    tw_stager *stager = NULL;
    STATUS(TW_OK, tw_stager_create(SLOTS, SLOT, NULL, &stager, &message));
    arrives(plan, stager);
    wrong(plan, stager);
    hangs(plan);
    EXPECT(tw_stager_free(stager) == TW_OK);
    EXPECT(tw_plan_free(plan) == TW_OK);
    return unused;
}

int main(void) {
    // Reading starts a thread, for which Rust's library keeps 48 bytes with the one that starts it: until that ends.
    pthread_t thread;
    if (pthread_create(&thread, NULL, all, NULL) != 0) {
        return 1;
    }
    pthread_join(thread, NULL);
    return failures != 0;
}
