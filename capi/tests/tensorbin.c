// TTNN's tensor files through the C face.

#include "test.h"

#define ROWS "ttnn(dtype=float32, layout=ROW_MAJOR)"
#define MESH "ShardTensor2dMesh(mesh_shape=(2, 2), dims=(None, 1))"

static const char name[] = SCRATCH "/c.tensorbin";
static const uint64_t shape[] = {8, 6};
static float values[48];

static tw_string string(const char *s) {
    const tw_string result = {s, strlen(s)};
    return result;
}

static tw_status save(const char *layout, const char *mesh, size_t length) {
    tw_layout to = layout_text(layout);
    to.mesh = string(mesh);
    const tw_request request = {
        .struct_size = sizeof request, .dtype = TW_F32, .shape = shape, .rank = 2, .destination = &to};
    return tw_tensorbin_save(string(name), &request, values, length, NULL, &message);
}

static tw_tensorbin *opened(void) {
    tw_tensorbin *file = NULL;
    STATUS(TW_OK, tw_tensorbin_open(string(name), &file, &message));
    if (file == NULL) {
        exit(1);
    }
    return file;
}

static void whole(void) {
    STATUS(TW_OK, save(ROWS, MESH, sizeof values));
    tw_tensorbin *file = opened();
    tw_tensorbin_info info = {.struct_size = sizeof info};
    STATUS(TW_OK, tw_tensorbin_query(file, &info, &message));
    EXPECT(info.dtype == TW_F32 && info.format == TW_F32 && info.complete == 1);
    EXPECT(info.rank == 2 && info.mesh_rank == 2 && info.shards == 4 && info.payload == 4096);
    uint64_t numbers[2] = {0};
    STATUS(TW_SHORT, tw_tensorbin_shape(file, NULL, 0, numbers, 1, &message));
    STATUS(TW_OK, tw_tensorbin_shape(file, NULL, 0, numbers, 2, &message));
    EXPECT(numbers[0] == 8 && numbers[1] == 6);

    float read[48] = {0};
    STATUS(TW_OK, tw_tensorbin_read(file, NULL, 0, NULL, read, sizeof read, NULL, &message));
    EXPECT(memcmp(read, values, sizeof values) == 0);
    STATUS(TW_LENGTH, tw_tensorbin_read(file, NULL, 0, NULL, read, sizeof read - 1, NULL, &message));
    STATUS(TW_NULL, tw_tensorbin_read(file, NULL, 0, NULL, NULL, sizeof read, NULL, &message));
    const tw_layout tiles = layout_text("ttnn(dtype=float32, layout=TILE)");
    float tile[1024];
    STATUS(TW_OK, tw_tensorbin_read(file, NULL, 0, &tiles, tile, sizeof tile, NULL, &message));
    EXPECT(tile[16] == values[6]);
    EXPECT(tw_tensorbin_free(file) == TW_OK);
}

static void one_device(void) {
    STATUS(TW_OK, save(ROWS, MESH, sizeof values));
    tw_tensorbin *file = opened();
    uint64_t device[2] = {0}, other[2] = {0}, begin = 0, length = 0, numbers[2];
    STATUS(TW_OK, tw_tensorbin_shard(file, 3, device, 2, &begin, &length, &message));
    EXPECT(device[0] == 1 && device[1] == 1 && begin == 8192 && length == 96);
    STATUS(TW_OK, tw_tensorbin_shard(file, 1, other, 2, &begin, &length, &message));
    EXPECT(other[0] == 0 && other[1] == 1 && begin == 8192);
    STATUS(TW_VALUE, tw_tensorbin_shard(file, 4, device, 2, &begin, &length, &message));
    STATUS(TW_SHORT, tw_tensorbin_shard(file, 3, device, 1, &begin, &length, &message));
    STATUS(TW_NULL, tw_tensorbin_shard(file, 3, device, 2, NULL, &length, &message));
    // Results that lie on each other, and on what is read.
    STATUS(TW_OVERLAP, tw_tensorbin_shard(file, 3, device, 2, &length, &length, &message));
    STATUS(TW_OVERLAP, tw_tensorbin_shard(file, 3, device, 2, device + 1, &length, &message));
    STATUS(TW_OVERLAP, tw_tensorbin_shape(file, device, 2, device, 2, &message));
    STATUS(TW_OVERLAP, tw_tensorbin_read(file, device, 2, NULL, device + 1, 96, NULL, &message));
    STATUS(TW_OK, tw_tensorbin_shape(file, device, 2, numbers, 2, &message));
    EXPECT(numbers[0] == 8 && numbers[1] == 3);
    float part[24];
    STATUS(TW_OK, tw_tensorbin_read(file, device, 2, NULL, part, sizeof part, NULL, &message));
    EXPECT(part[0] == values[3] && part[23] == values[47]);
    const uint64_t nowhere[] = {2, 0};
    STATUS(TW_VALUE, tw_tensorbin_read(file, nowhere, 2, NULL, part, sizeof part, NULL, &message));
    EXPECT(tw_tensorbin_free(file) == TW_OK);
}

static void refusals(void) {
    tw_tensorbin *file = (tw_tensorbin *)&message;
    STATUS(TW_IO, tw_tensorbin_open(string(SCRATCH "/absent.tensorbin"), &file, &message));
    EXPECT(file == NULL);
    STATUS(TW_VALUE, tw_tensorbin_open(string(""), &file, &message));
    STATUS(TW_NULL, tw_tensorbin_open(string(name), NULL, &message));
    EXPECT(tw_tensorbin_free(NULL) == TW_OK);
    uint64_t other = 0;
    EXPECT(tw_tensorbin_free((tw_tensorbin *)&other) == TW_HANDLE);
    tw_tensorbin_info info = {.struct_size = sizeof info};
    STATUS(TW_NULL, tw_tensorbin_query(NULL, &info, &message));
    STATUS(TW_VALUE, save("memref<8x6xf32>", "", sizeof values));
    STATUS(TW_VALUE, save("ttnn(dtype=bfloat2_b, layout=TILE)", "", sizeof values));
    STATUS(TW_LENGTH, save(ROWS, "", sizeof values - 1));
    FILE *damaged = fopen(name, "wb");
    EXPECT(damaged != NULL && fwrite("\x10\0\0\0\0\0\0\0?", 9, 1, damaged) == 1 && fclose(damaged) == 0);
    STATUS(TW_IO, tw_tensorbin_open(string(name), &file, &message));
}

int main(void) {
    for (int i = 0; i < 48; ++i) {
        values[i] = (float)i;
    }
    whole();
    one_device();
    refusals();
    remove(name);
    return failures != 0;
}
