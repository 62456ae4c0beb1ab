// Every function with arguments that are NULL, zero, short, overlapping, huge and garbage: always a status.

#include <stdalign.h>
#include "test.h"

static const uint64_t SHAPE[] = {40, 50};
enum { SOURCE = 40 * 50 * 4, TILES = 4 * 1088 };
static const char *const BFP8 = "ttnn(dtype=bfloat8_b, layout=TILE)";

// Not a multiple of anything, whatever the pointer was.
#define ODD(type, pointer) ((type *)(void *)((char *)(pointer) + 1))

static tw_request request_of(const tw_layout *destination) {
    const tw_request request = {
        .struct_size = sizeof request, .dtype = TW_F32, .shape = SHAPE, .rank = 2, .destination = destination};
    return request;
}

static void names(void) {
    EXPECT(strcmp(tw_version(), VERSION) == 0);
    EXPECT(tw_abi_version() == TW_ABI_VERSION);
    EXPECT(strcmp(tw_status_name(TW_OK), "TW_OK") == 0);
    for (tw_status status = TW_INTERNAL; status <= TW_IO; ++status) {
        EXPECT(strcmp(tw_status_name(status), "TW_?") != 0);
    }
    EXPECT(strcmp(tw_status_name(INT32_MIN), "TW_?") == 0);
    EXPECT(strcmp(tw_status_name(INT32_MAX), "TW_?") == 0);
}

static void requests(void) {
    const tw_layout tiles = layout_text(BFP8);
    const tw_request good = request_of(&tiles);
    tw_plan *plan = (tw_plan *)&plan;

    STATUS(TW_NULL, tw_plan_compile(NULL, &plan, &message));
    EXPECT(plan == NULL);
    STATUS(TW_NULL, tw_plan_compile(&good, NULL, &message));
    STATUS(TW_MISALIGNED, tw_plan_compile(ODD(const tw_request, &good), &plan, &message));
    alignas(16) char room[32] = {0};
    STATUS(TW_MISALIGNED, tw_plan_compile(&good, ODD(tw_plan *, room), &message));

    // A struct_size that is zero, short, garbage; a longer struct with a tail that is zero or not.
    const uint32_t sizes[] = {0, 1, sizeof good - 1, 1025, UINT32_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        tw_request request = good;
        request.struct_size = sizes[i];
        STATUS(TW_STRUCT_SIZE, tw_plan_compile(&request, &plan, &message));
        tw_layout layout = tiles;
        layout.struct_size = sizes[i];
        request = request_of(&layout);
        STATUS(TW_STRUCT_SIZE, tw_plan_compile(&request, &plan, &message));
    }
    struct {
        tw_request request;
        uint64_t tail;
    } longer = {good, 0};
    longer.request.struct_size = sizeof longer;
    STATUS(TW_OK, tw_plan_compile(&longer.request, &plan, &message));
    STATUS(TW_OK, (text[0] = '\0', tw_plan_free(plan)));
    longer.tail = 1;
    STATUS(TW_STRUCT_SIZE, tw_plan_compile(&longer.request, &plan, &message));

#define FIELD(expected, field, value)                                                                                 \
    do {                                                                                                              \
        tw_request request = good;                                                                                    \
        request.field = (value);                                                                                      \
        STATUS(expected, tw_plan_compile(&request, &plan, &message));                                                 \
    } while (0)
    FIELD(TW_VALUE, dtype, 0);
    FIELD(TW_VALUE, dtype, TW_BFP8_B);
    FIELD(TW_VALUE, dtype, UINT32_MAX);
    FIELD(TW_CONVERSION, dtype, TW_I32);
    FIELD(TW_NULL, shape, NULL);
    FIELD(TW_MISALIGNED, shape, ODD(const uint64_t, SHAPE));
    FIELD(TW_VALUE, rank, 65);
    FIELD(TW_VALUE, rank, SIZE_MAX);
    FIELD(TW_MISALIGNED, source, ODD(const tw_layout, &tiles));
    FIELD(TW_VALUE, rounding, 4);
    FIELD(TW_VALUE, rounding, UINT32_MAX);
    FIELD(TW_VALUE, flags, 32);
    FIELD(TW_VALUE, isa, 5);
    FIELD(TW_VALUE, store, 3);
    const uint64_t huge[] = {UINT64_MAX, UINT64_MAX};
    FIELD(TW_VALUE, shape, huge);
    const uint64_t large[] = {UINT64_C(1) << 40, UINT64_C(1) << 40};
    FIELD(TW_OVERFLOW, shape, large);
#undef FIELD
    // A scalar and an empty tensor are tensors.
    tw_request request = request_of(NULL);
    request.rank = 0;
    request.shape = NULL;
    STATUS(TW_OK, tw_plan_compile(&request, &plan, &message));
    float from = 1, to = 0;
    STATUS(TW_OK, tw_plan_execute(plan, &from, 4, &to, 4, NULL, &message));
    EXPECT(to == 1);
    tw_plan_free(plan);
    const uint64_t empty[] = {3, 0};
    request = request_of(NULL);
    request.shape = empty;
    STATUS(TW_OK, tw_plan_compile(&request, &plan, &message));
    STATUS(TW_OK, tw_plan_execute(plan, NULL, 0, NULL, 0, NULL, &message));
    STATUS(TW_OK, tw_plan_execute_chunk(plan, NULL, 0, 0, NULL, 0, &message));
    tw_plan_free(plan);
}

// One layout, which must be refused.
static void refused(tw_status expected, tw_layout layout) {
    const tw_request request = request_of(&layout);
    tw_plan *plan = NULL;
    STATUS(expected, tw_plan_compile(&request, &plan, &message));
    EXPECT(plan == NULL);
}

static void layouts(void) {
    tw_layout layout = layout_text("ttnn(dtype=bfloat8_c, layout=TILE)");
    refused(TW_TEXT, layout);
    EXPECT(strstr(text, "bfloat8_c") != NULL);
    refused(TW_TEXT, layout_text("\xff\xfe"));
    layout.text.data = NULL;
    refused(TW_NULL, layout);
    layout = layout_text(BFP8);
    layout.text.length = SIZE_MAX;
    refused(TW_VALUE, layout);
    layout = layout_text(BFP8);
    layout.text.length -= 1;
    refused(TW_TEXT, layout);
    layout = layout_text(BFP8);
    layout.reserved = 1;
    refused(TW_VALUE, layout);
    layout = layout_text(BFP8);
    layout.device = (tw_string){"#tt.device<", 11};
    refused(TW_TEXT, layout);
    layout = layout_text(BFP8);
    layout.mesh = (tw_string){"Shard", 5};
    refused(TW_TEXT, layout);
    layout = layout_text(BFP8);
    alignas(16) const double pad[2] = {0};
    layout.pad_value = ODD(const double, pad);
    refused(TW_MISALIGNED, layout);
    // Deep nesting is an error, not the end of the stack.
    static char deep[20000];
    memset(deep, '(', sizeof deep - 1);
    refused(TW_TEXT, layout_text(deep));

    const tw_layout none = {.struct_size = sizeof none};
    const tw_strided strided = {.struct_size = sizeof strided};
    const tw_ttnn ttnn = {.struct_size = sizeof ttnn, .format = TW_BFP8_B, .page_layout = TW_TILE};
    const tw_metal metal = {.struct_size = sizeof metal, .format = TW_F32};
    const tw_spyre spyre = {.struct_size = sizeof spyre};
    layout = none;
    layout.strided = &strided;
    layout.ttnn = &ttnn;
    refused(TW_VALUE, layout);

#define FIELD(expected, form, field, value)                                                                           \
    do {                                                                                                              \
        tw_##form changed = form;                                                                                     \
        changed.field = (value);                                                                                      \
        layout = none;                                                                                                \
        layout.form = &changed;                                                                                       \
        refused(expected, layout);                                                                                    \
    } while (0)
    FIELD(TW_STRUCT_SIZE, strided, struct_size, 0);
    FIELD(TW_STRUCT_SIZE, ttnn, struct_size, 4);
    FIELD(TW_STRUCT_SIZE, metal, struct_size, 0);
    FIELD(TW_STRUCT_SIZE, spyre, struct_size, UINT32_MAX);
    FIELD(TW_VALUE, strided, dtype, 63);
    FIELD(TW_NULL, strided, rank, 2);
    FIELD(TW_VALUE, strided, rank, SIZE_MAX);
    FIELD(TW_VALUE, strided, offset, -1);
    const int64_t same[] = {0, 0}, one[] = {1}, least[] = {INT64_MIN, INT64_MIN};
    tw_strided changed = strided;
    changed.strides = one;
    changed.rank = 1;
    layout = none;
    layout.strided = &changed;
    refused(TW_VALUE, layout);
    changed.strides = same;
    changed.rank = 2;
    tw_plan *plan = NULL;
    const tw_request request = request_of(&layout);
    EXPECT(tw_plan_compile(&request, &plan, &message) > 0);
    changed.strides = least;
    EXPECT(tw_plan_compile(&request, &plan, &message) > 0);

    FIELD(TW_VALUE, ttnn, format, 0);
    FIELD(TW_VALUE, ttnn, page_layout, TW_ROW_MAJOR);
    FIELD(TW_VALUE, ttnn, page_layout, 2);
    FIELD(TW_VALUE, ttnn, tile_rows, 7);
    FIELD(TW_VALUE, ttnn, tile_columns, UINT32_MAX);
    FIELD(TW_VALUE, ttnn, transpose_tile, 2);
    FIELD(TW_VALUE, ttnn, column_major, 2);
    FIELD(TW_VALUE, ttnn, memory, 6);
    FIELD(TW_VALUE, ttnn, memory, TW_INTERLEAVED);
    FIELD(TW_VALUE, ttnn, memory, TW_HEIGHT_SHARDED);
    FIELD(TW_NULL, ttnn, shard_rank, 2);
    FIELD(TW_VALUE, ttnn, shard_rank, SIZE_MAX);
    FIELD(TW_VALUE, metal, format, TW_BFP8_B);
    FIELD(TW_VALUE, metal, tile_rows, 32);
    FIELD(TW_VALUE, metal, fill, 5);
    FIELD(TW_VALUE, metal, reserved, 1);
    FIELD(TW_NULL, metal, grid_rank, 2);
    FIELD(TW_VALUE, metal, grid_rank, SIZE_MAX);
    FIELD(TW_NULL, metal, collapse_count, 1);
    FIELD(TW_NULL, spyre, rank, 3);
    FIELD(TW_VALUE, spyre, rank, SIZE_MAX);
#undef FIELD
}

// A layout built by struct gives the plan that its text gives.
static void same_as_text(tw_layout layout, const char *name) {
    const tw_request request = request_of(&layout);
    tw_plan *built = NULL, *parsed = compile(SHAPE, 2, TW_F32, name);
    STATUS(TW_OK, tw_plan_compile(&request, &built, &message));
    char a[8192] = {0}, b[8192] = {0};
    tw_text first = {a, sizeof a, 0}, second = {b, sizeof b, 0};
    STATUS(TW_OK, tw_plan_explain(built, &first, &message));
    STATUS(TW_OK, tw_plan_explain(parsed, &second, &message));
    EXPECT(strcmp(a, b) == 0);
    tw_plan_free(built);
    tw_plan_free(parsed);
}

static void structs(void) {
    const tw_layout none = {.struct_size = sizeof none};
    tw_layout layout = none;
    same_as_text(none, "memref<40x50xf32>");
    const int64_t strides[] = {1, 64};
    const tw_strided strided = {
        .struct_size = sizeof strided, .dtype = TW_BF16, .strides = strides, .rank = 2, .offset = 3};
    layout.strided = &strided;
    same_as_text(layout, "memref<40x50xbf16, strided<[1, 64], offset: 3>>");
    const uint64_t shard[] = {32, 32}, grid[] = {2, 2};
    tw_ttnn ttnn = {.struct_size = sizeof ttnn, .format = TW_BFP8_B, .page_layout = TW_TILE};
    layout = none;
    layout.ttnn = &ttnn;
    same_as_text(layout, BFP8);
    ttnn.memory = TW_BLOCK_SHARDED;
    ttnn.grid[0] = ttnn.grid[1] = 2;
    ttnn.shard = shard;
    ttnn.shard_rank = 2;
    same_as_text(layout, "ttnn(dtype=bfloat8_b, layout=TILE, memory=BLOCK_SHARDED, grid=(2, 2), shard=(32, 32))");
    const tw_metal metal = {.struct_size = sizeof metal,
                            .format = TW_BFP8_B,
                            .tile_rows = 32,
                            .tile_columns = 32,
                            .fill = TW_FILL_ONE,
                            .grid = grid,
                            .grid_rank = 2};
    layout = none;
    layout.metal = &metal;
    same_as_text(layout, "metal(shape=(40, 50), collapse=[], grid=(2, 2), tile=(32, 32), dtype=bfp_bf8, oob=one, "
                         "memory=l1)");
    const tw_spyre spyre = {.struct_size = sizeof spyre};
    layout = none;
    layout.spyre = &spyre;
    same_as_text(layout, "SpyreTensorLayout((40, 50), torch.float32)");
}

static void messages(void) {
    // No message, no room, little room, and what is not a place for a message.
    EXPECT(tw_plan_compile(NULL, NULL, NULL) == TW_NULL);
    tw_text none = {NULL, 0, 0};
    EXPECT(tw_plan_compile(NULL, NULL, &none) == TW_NULL && none.length > 0);
    for (size_t capacity = 1; capacity < 12; ++capacity) {
        char room[12];
        memset(room, 'x', sizeof room);
        tw_text little = {room, capacity, 0};
        EXPECT(tw_plan_compile(NULL, NULL, &little) == TW_NULL);
        EXPECT(memchr(room, '\0', capacity) == room + (little.length < capacity ? little.length : capacity - 1));
        EXPECT(room[11] == 'x');
    }
    tw_text bad = {NULL, 10, 0};
    EXPECT(tw_plan_compile(NULL, NULL, &bad) == TW_NULL && bad.length == 0);
    EXPECT(tw_plan_compile(NULL, NULL, ODD(tw_text, &bad)) == TW_MISALIGNED);
}

static void queries(tw_plan *plan) {
    alignas(16) char garbage[4096];
    memset(garbage, 0x5a, sizeof garbage);
    const tw_plan *const handles[] = {NULL, ODD(const tw_plan, garbage), (const tw_plan *)(const void *)garbage};
    const tw_status statuses[] = {TW_NULL, TW_MISALIGNED, TW_HANDLE};
    tw_plan_info info = {.struct_size = sizeof info};
    tw_place place;
    tw_owner owner;
    tw_text out = {garbage, sizeof garbage, 0};
    uint64_t count, indices[64];
    size_t a, b;
    for (size_t i = 0; i < 3; ++i) {
        const tw_plan *handle = handles[i];
        STATUS(statuses[i], tw_plan_query(handle, &info, &message));
        STATUS(statuses[i], tw_plan_chunks(handle, 1, &a, &b, &message));
        STATUS(statuses[i], tw_plan_source_window(handle, 0, 0, &a, &b, &message));
        STATUS(statuses[i], tw_plan_execute(handle, NULL, 0, NULL, 0, NULL, &message));
        STATUS(statuses[i], tw_plan_execute_chunk(handle, NULL, 0, 0, NULL, 0, &message));
        STATUS(statuses[i], tw_plan_locate(handle, 0, NULL, 0, NULL, 0, &count, &message));
        STATUS(statuses[i], tw_plan_owner(handle, 0, 0, 0, &owner, NULL, 0, &message));
        STATUS(statuses[i], tw_plan_explain(handle, &out, &message));
        STATUS(statuses[i], tw_plan_dci(handle, &out, &message));
        EXPECT(tw_plan_free((tw_plan *)handle) == (i == 0 ? TW_OK : statuses[i]));
    }
    STATUS(TW_NULL, tw_plan_query(plan, NULL, &message));
    STATUS(TW_MISALIGNED, tw_plan_query(plan, ODD(tw_plan_info, &info), &message));
    info.struct_size = 8;
    STATUS(TW_STRUCT_SIZE, tw_plan_query(plan, &info, &message));
    info.struct_size = UINT32_MAX;
    STATUS(TW_STRUCT_SIZE, tw_plan_query(plan, &info, &message));
    info.struct_size = sizeof info;
    STATUS(TW_OK, tw_plan_query(plan, &info, &message));
    EXPECT(info.source_bytes == SOURCE && info.destination_bytes == TILES && info.chunk_alignment == 1088);
    EXPECT(info.source_buffers == 1 && info.destination_buffer_bytes == TILES && info.destination_copies == 1);
    EXPECT(info.rank == 2 && info.nests > 0 && info.isa >= TW_ISA_SCALAR && info.isa <= TW_ISA_V4);

    STATUS(TW_NULL, tw_plan_chunks(plan, 4096, NULL, &b, &message));
    STATUS(TW_NULL, tw_plan_chunks(plan, 4096, &a, NULL, &message));
    STATUS(TW_VALUE, tw_plan_chunks(plan, 0, &a, &b, &message));
    STATUS(TW_VALUE, tw_plan_chunks(plan, 1087, &a, &b, &message));
    STATUS(TW_OK, tw_plan_chunks(plan, 4000, &a, &b, &message));
    EXPECT(a == 3 * 1088 && b == 2);
    STATUS(TW_OK, tw_plan_chunks(plan, SIZE_MAX, &a, &b, &message));
    EXPECT(a == TILES && b == 1);
    STATUS(TW_OVERLAP, tw_plan_chunks(plan, SIZE_MAX, &a, &a, &message));

    STATUS(TW_NULL, tw_plan_source_window(plan, 0, 1088, NULL, &b, &message));
    STATUS(TW_NULL, tw_plan_source_window(plan, 0, 1088, &a, NULL, &message));
    STATUS(TW_VALUE, tw_plan_source_window(plan, 1, 1088, &a, &b, &message));
    STATUS(TW_VALUE, tw_plan_source_window(plan, 0, TILES + 1088, &a, &b, &message));
    STATUS(TW_VALUE, tw_plan_source_window(plan, SIZE_MAX, 1088, &a, &b, &message));
    STATUS(TW_VALUE, tw_plan_source_window(plan, SIZE_MAX - 5, SIZE_MAX, &a, &b, &message));
    STATUS(TW_OK, tw_plan_source_window(plan, 0, 1088, &a, &b, &message));
    EXPECT(a == 0 && b == (31 * 50 + 32) * 4);
    STATUS(TW_OVERLAP, tw_plan_source_window(plan, 0, 1088, &b, &b, &message));

    const uint64_t index[] = {33, 2}, outside[] = {40, 0}, huge[] = {UINT64_MAX, UINT64_MAX};
    STATUS(TW_VALUE, tw_plan_locate(plan, 2, index, 2, &place, 1, &count, &message));
    STATUS(TW_NULL, tw_plan_locate(plan, TW_DESTINATION, NULL, 2, &place, 1, &count, &message));
    STATUS(TW_NULL, tw_plan_locate(plan, TW_DESTINATION, index, 2, NULL, 1, &count, &message));
    STATUS(TW_NULL, tw_plan_locate(plan, TW_DESTINATION, index, 2, &place, 1, NULL, &message));
    STATUS(TW_MISALIGNED, tw_plan_locate(plan, 1, ODD(const uint64_t, index), 2, &place, 1, &count, &message));
    STATUS(TW_VALUE, tw_plan_locate(plan, TW_DESTINATION, index, 1, &place, 1, &count, &message));
    STATUS(TW_VALUE, tw_plan_locate(plan, TW_DESTINATION, index, SIZE_MAX, &place, 1, &count, &message));
    STATUS(TW_VALUE, tw_plan_locate(plan, TW_DESTINATION, outside, 2, &place, 1, &count, &message));
    STATUS(TW_VALUE, tw_plan_locate(plan, TW_SOURCE, huge, 2, &place, 1, &count, &message));
    STATUS(TW_LENGTH, tw_plan_locate(plan, TW_SOURCE, index, 2, &place, SIZE_MAX, &count, &message));
    STATUS(TW_SHORT, tw_plan_locate(plan, TW_SOURCE, index, 2, NULL, 0, &count, &message));
    EXPECT(count == 1);
    STATUS(TW_OK, tw_plan_locate(plan, TW_SOURCE, index, 2, &place, 1, &count, &message));
    EXPECT(place.buffer == 0 && place.byte == (33 * 50 + 2) * 4 && place.shared == TW_NONE);
    // Row 33 is row 1 of the third tile: 64 exponents, two of them for each of its rows in a pair of faces.
    STATUS(TW_OK, tw_plan_locate(plan, TW_DESTINATION, index, 2, &place, 1, &count, &message));
    EXPECT(place.byte == 2 * 1088 + 64 + 16 + 2 && place.shared == 2 * 1088 + 1);
    // Results in each other, and in what is read.
    STATUS(TW_OVERLAP, tw_plan_locate(plan, TW_SOURCE, index, 2, &place, 1, &place.byte, &message));
    uint64_t shared[2] = {33, 2};
    STATUS(TW_OVERLAP, tw_plan_locate(plan, TW_SOURCE, shared, 2, &place, 1, shared + 1, &message));
    STATUS(TW_OVERLAP, tw_plan_locate(plan, TW_SOURCE, &place.buffer, 2, &place, 1, &count, &message));

    STATUS(TW_VALUE, tw_plan_owner(plan, UINT32_MAX, 0, 0, &owner, indices, 64, &message));
    STATUS(TW_VALUE, tw_plan_owner(plan, TW_SOURCE, 1, 0, &owner, indices, 64, &message));
    STATUS(TW_VALUE, tw_plan_owner(plan, TW_SOURCE, UINT64_MAX, UINT64_MAX, &owner, indices, 64, &message));
    STATUS(TW_NULL, tw_plan_owner(plan, TW_SOURCE, 0, 0, NULL, indices, 64, &message));
    STATUS(TW_NULL, tw_plan_owner(plan, TW_SOURCE, 0, 0, &owner, NULL, 64, &message));
    STATUS(TW_LENGTH, tw_plan_owner(plan, TW_SOURCE, 0, 0, &owner, indices, SIZE_MAX, &message));
    STATUS(TW_SHORT, tw_plan_owner(plan, TW_SOURCE, 0, 0, &owner, indices, 1, &message));
    EXPECT(owner.kind == TW_OWNER_ELEMENTS && owner.elements == 1);
    STATUS(TW_OK, tw_plan_owner(plan, TW_DESTINATION, 0, place.byte, &owner, indices, 64, &message));
    EXPECT(owner.kind == TW_OWNER_ELEMENTS && owner.elements == 1 && indices[0] == 33 && indices[1] == 2);
    STATUS(TW_OK, tw_plan_owner(plan, TW_DESTINATION, 0, place.shared, &owner, indices, 64, &message));
    EXPECT(owner.kind == TW_OWNER_SHARED && owner.elements == 16 && indices[31] == 15);
    STATUS(TW_OVERLAP, tw_plan_owner(plan, TW_SOURCE, 0, 0, &owner, &owner.elements, 1, &message));

    STATUS(TW_NULL, tw_plan_explain(plan, NULL, &message));
    STATUS(TW_MISALIGNED, tw_plan_explain(plan, ODD(tw_text, &out), &message));
    out = (tw_text){NULL, 7, 0};
    STATUS(TW_NULL, tw_plan_explain(plan, &out, &message));
    out = (tw_text){NULL, 0, 0};
    STATUS(TW_SHORT, tw_plan_explain(plan, &out, &message));
    const size_t length = out.length;
    out = (tw_text){garbage, length, 0};
    STATUS(TW_SHORT, tw_plan_explain(plan, &out, &message));
    EXPECT(strlen(garbage) == length - 1);
    out = (tw_text){garbage, length + 1, 0};
    STATUS(TW_OK, tw_plan_explain(plan, &out, &message));
    EXPECT(strlen(garbage) == length && strstr(garbage, "f32 -> bfloat8_b") != NULL);
    out = (tw_text){garbage, SIZE_MAX, 0};
    STATUS(TW_LENGTH, tw_plan_explain(plan, &out, &message));
    out = (tw_text){(char *)&out.length, sizeof out.length, 0};
    STATUS(TW_OVERLAP, tw_plan_explain(plan, &out, &message));
}

// Shape and element type where the text of a layout says them.
static void said_by_a_text(void) {
    tw_layout array = layout_text("memref<40x50xf32>"), tiles = layout_text(BFP8);
    const uint64_t other[] = {50, 40};
    const struct {
        tw_format dtype;
        const uint64_t *shape;
        size_t rank;
        const tw_layout *source, *destination;
        const char *mesh;
        tw_status status;
    } cases[] = {
        {0, NULL, 0, &array, &tiles, "", TW_OK},
        {0, SHAPE, 2, &array, &tiles, "", TW_OK},
        {0, NULL, 0, NULL, &array, "", TW_OK},
        {0, NULL, 0, &tiles, &array, "", TW_OK},
        {0, NULL, 0, NULL, &tiles, "", TW_VALUE},
        {0, other, 2, &array, &tiles, "", TW_VALUE},
        // With a mesh it is a part.
        {0, NULL, 0, NULL, &array, "ReplicateTensorToMesh(mesh_shape=(2, 4))", TW_VALUE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        array.mesh = (tw_string){cases[i].mesh, strlen(cases[i].mesh)};
        const tw_request request = {
            .struct_size = sizeof request, .dtype = cases[i].dtype, .shape = cases[i].shape, .rank = cases[i].rank,
            .source = cases[i].source, .destination = cases[i].destination};
        printf("case %zu\n", i);
        tw_plan *plan = NULL;
        STATUS(cases[i].status, tw_plan_compile(&request, &plan, &message));
        if (plan != NULL) {
            tw_plan_info info = {.struct_size = sizeof info};
            STATUS(TW_OK, tw_plan_query(plan, &info, &message));
            EXPECT(info.rank == 2 && (info.source_bytes == SOURCE || info.destination_bytes == SOURCE));
        }
        tw_plan_free(plan);
    }
}

// A tensor that lies on many devices has as many places.
static void replicas(const char *mesh, uint64_t devices) {
    tw_layout layout = layout_text("memref<40x50xf32>");
    layout.mesh = (tw_string){mesh, strlen(mesh)};
    const tw_request request = request_of(&layout);
    tw_plan *plan = NULL;
    STATUS(TW_OK, tw_plan_compile(&request, &plan, &message));
    tw_plan_info info = {.struct_size = sizeof info};
    STATUS(TW_OK, tw_plan_query(plan, &info, &message));
    EXPECT(info.destination_copies == devices && info.destination_bytes == devices * SOURCE);
    const uint64_t index[] = {0, 1};
    tw_place places[3];
    uint64_t count = 0;
    STATUS(TW_SHORT, tw_plan_locate(plan, TW_DESTINATION, index, 2, places, 3, &count, &message));
    EXPECT(count == devices && places[2].buffer == 2 && places[2].byte == 4);
    tw_plan_free(plan);
}

static void execution(const tw_plan *plan) {
    unsigned char *memory = malloc(SOURCE + TILES + 1);
    if (memory == NULL) {
        exit(1);
    }
    unsigned char *from = memory, *to = memory + SOURCE;
    memset(memory, 0, SOURCE + TILES + 1);
    STATUS(TW_NULL, tw_plan_execute(plan, NULL, SOURCE, to, TILES, NULL, &message));
    STATUS(TW_NULL, tw_plan_execute(plan, from, SOURCE, NULL, TILES, NULL, &message));
    STATUS(TW_LENGTH, tw_plan_execute(plan, from, 0, to, TILES, NULL, &message));
    STATUS(TW_LENGTH, tw_plan_execute(plan, from, SOURCE - 1, to, TILES, NULL, &message));
    STATUS(TW_LENGTH, tw_plan_execute(plan, from, SOURCE, to, TILES - 1, NULL, &message));
    STATUS(TW_LENGTH, tw_plan_execute(plan, from, SIZE_MAX, to, SIZE_MAX, NULL, &message));
    STATUS(TW_OVERLAP, tw_plan_execute(plan, from, SOURCE, from, TILES, NULL, &message));
    STATUS(TW_OVERLAP, tw_plan_execute(plan, from, SOURCE, to - 1, TILES, NULL, &message));
    STATUS(TW_OVERLAP, tw_plan_execute(plan, from + TILES - 1, SOURCE, from, TILES, NULL, &message));
    // Memory at the very end of the address space is no memory.
    void *const last = (void *)(UINTPTR_MAX - 15);
    STATUS(TW_LENGTH, tw_plan_execute(plan, last, SOURCE, to, TILES, NULL, &message));
    STATUS(TW_OK, tw_plan_execute(plan, from, SOURCE, to, TILES, NULL, &message));
    // Elements need no alignment.
    STATUS(TW_OK, tw_plan_execute(plan, from + 1, SOURCE, to + 1, TILES, NULL, &message));

    STATUS(TW_NULL, tw_plan_execute_chunk(plan, NULL, SOURCE, 0, to, 1088, &message));
    STATUS(TW_NULL, tw_plan_execute_chunk(plan, from, SOURCE, 0, NULL, 1088, &message));
    STATUS(TW_LENGTH, tw_plan_execute_chunk(plan, from, 1, 0, to, 1088, &message));
    STATUS(TW_VALUE, tw_plan_execute_chunk(plan, from, SOURCE, 0, to, 1, &message));
    STATUS(TW_VALUE, tw_plan_execute_chunk(plan, from, SOURCE, 1, to, 1088, &message));
    STATUS(TW_VALUE, tw_plan_execute_chunk(plan, from, SOURCE, TILES, to, 1088, &message));
    STATUS(TW_VALUE, tw_plan_execute_chunk(plan, from, SOURCE, SIZE_MAX, to, 1088, &message));
    STATUS(TW_OVERLAP, tw_plan_execute_chunk(plan, from, SOURCE, 0, to - 1, 1088, &message));
    STATUS(TW_OK, tw_plan_execute_chunk(plan, from, SOURCE, TILES, to, 0, &message));
    STATUS(TW_OK, tw_plan_execute_chunk(plan, from, SOURCE, 1088, to, 1088, &message));

    tw_executor executor = {.struct_size = sizeof executor, .threads = 4};
    STATUS(TW_NULL, tw_plan_execute(plan, from, SOURCE, to, TILES, &executor, &message));
    STATUS(TW_MISALIGNED, tw_plan_execute(plan, from, SOURCE, to, TILES, ODD(tw_executor, &executor), &message));
    executor.struct_size = 0;
    STATUS(TW_STRUCT_SIZE, tw_plan_execute(plan, from, SOURCE, to, TILES, &executor, &message));
    free(memory);
}

int main(void) {
    names();
    requests();
    layouts();
    structs();
    messages();
    said_by_a_text();
    replicas("ReplicateTensorToMesh(mesh_shape=(2, 4))", 8);
    replicas("ReplicateTensorToMesh(mesh_shape=(256, 256))", 65536);
    tw_plan *plan = compile(SHAPE, 2, TW_F32, BFP8);
    queries(plan);
    execution(plan);
    EXPECT(tw_plan_free(plan) == TW_OK);
    return failures != 0;
}
