// Packs a weight into Tenstorrent's bfloat8_b tiles, in memory of its own, and unpacks it again.
//
//     cc -std=c11 pack_weight.c $(pkg-config --cflags --libs tilewright) -o pack_weight

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tilewright.h>

enum { ROWS = 100, COLUMNS = 200 };

static char text[4096];
static tw_text message = {text, sizeof text, 0};

static void check(tw_status status) {
    if (status != TW_OK) {
        fprintf(stderr, "%s: %s\n", tw_status_name(status), text);
        exit(1);
    }
}

// A plan from one layout to another; NULL is a row-major array.
static tw_plan *compile(const tw_layout *source, const tw_layout *destination) {
    const uint64_t shape[] = {ROWS, COLUMNS};
    const tw_request request = {
        .struct_size = sizeof request,
        .dtype = TW_F32,
        .shape = shape,
        .rank = 2,
        .source = source,
        .destination = destination,
    };
    tw_plan *plan = NULL;
    check(tw_plan_compile(&request, &plan, &message));
    return plan;
}

int main(void) {
    static float weight[ROWS][COLUMNS], unpacked[ROWS][COLUMNS];
    for (int row = 0; row < ROWS; ++row) {
        for (int column = 0; column < COLUMNS; ++column) {
            // Seven bits: bfloat8_b holds them without loss.
            weight[row][column] = (float)((row * 7 + column * 3) % 127 - 63) / 64;
        }
    }
    const char *name = "ttnn(dtype=bfloat8_b, layout=TILE)";
    const tw_layout tiles = {.struct_size = sizeof tiles, .text = {name, strlen(name)}};
    tw_plan *pack = compile(NULL, &tiles), *unpack = compile(&tiles, NULL);

    tw_plan_info info = {.struct_size = sizeof info};
    check(tw_plan_query(pack, &info, &message));
    unsigned char *packed = malloc(info.destination_bytes);
    if (packed == NULL) {
        return 1;
    }
    check(tw_plan_execute(pack, weight, sizeof weight, packed, info.destination_bytes, NULL, &message));
    printf("%zu bytes packed into %" PRIu64 "\n", sizeof weight, info.destination_bytes);

    const uint64_t index[] = {99, 40};
    tw_place place;
    uint64_t count;
    check(tw_plan_locate(pack, TW_DESTINATION, index, 2, &place, 1, &count, &message));
    printf("element (99, 40): byte %" PRIu64 ", exponent at byte %" PRIu64 "\n", place.byte, place.shared);

    check(tw_plan_execute(unpack, packed, info.destination_bytes, unpacked, sizeof unpacked, NULL, &message));
    const int same = memcmp(weight, unpacked, sizeof weight) == 0;
    printf("unpacked: %s\n", same ? "the same" : "different");
    free(packed);
    tw_plan_free(unpack);
    tw_plan_free(pack);
    return same ? 0 : 1;
}
