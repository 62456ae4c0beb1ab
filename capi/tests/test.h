// What the C tests share: expectations that name their line.

#ifndef TEST_H
#define TEST_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tilewright.h>

static int failures;
static char text[1024];
static tw_text message = {text, sizeof text, 0};

#define EXPECT(condition)                                                                                             \
    do {                                                                                                              \
        if (!(condition)) {                                                                                           \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                                    \
            ++failures;                                                                                               \
        }                                                                                                             \
    } while (0)

// The call returns the status, and an error comes with a message.
#define STATUS(expected, call)                                                                                        \
    do {                                                                                                              \
        text[0] = '\0';                                                                                               \
        message.length = 0;                                                                                           \
        const tw_status status_ = (call);                                                                             \
        if (status_ != (expected)) {                                                                                  \
            printf("%s:%d: %s: %s is not %s: %s\n", __FILE__, __LINE__, #call, tw_status_name(status_), #expected,    \
                   text);                                                                                             \
            ++failures;                                                                                               \
        } else if ((status_ != TW_OK) != (text[0] != '\0') || strlen(text) != message.length) {                       \
            printf("%s:%d: %s: message of %zu bytes: %s\n", __FILE__, __LINE__, #call, message.length, text);         \
            ++failures;                                                                                               \
        }                                                                                                             \
    } while (0)

static inline tw_layout layout_text(const char *name) {
    const tw_layout layout = {.struct_size = sizeof layout, .text = {name, strlen(name)}};
    return layout;
}

// A plan from a row-major tensor to a layout text.
static inline tw_plan *compile(const uint64_t *shape, size_t rank, tw_format dtype, const char *name) {
    const tw_layout layout = layout_text(name);
    const tw_request request = {
        .struct_size = sizeof request, .dtype = dtype, .shape = shape, .rank = rank, .destination = &layout};
    tw_plan *plan = NULL;
    STATUS(TW_OK, tw_plan_compile(&request, &plan, &message));
    if (plan == NULL) {
        exit(1);
    }
    return plan;
}

#endif
