// A plan that is freed twice. Reading memory that was freed is for no test under valgrind; the header promises nothing.

#include "test.h"

int main(void) {
    const uint64_t shape[] = {40, 50};
    tw_plan *plan = compile(shape, 2, TW_F32, "ttnn(dtype=bfloat8_b, layout=TILE)");
    EXPECT(tw_plan_free(plan) == TW_OK);
    EXPECT(tw_plan_free(plan) == TW_HANDLE);
    return failures != 0;
}
