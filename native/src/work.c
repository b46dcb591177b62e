/* The memory of one call of the core, and its way out. */
#include "core.h"

#include <stdlib.h>

enum { USUAL = 16384, ALIGNED = 16 };

struct Chunk {
    Chunk *next;
    size_t size, used;
    _Alignas(ALIGNED) uint8_t data[];
};

_Noreturn void stop(Work *work, enum Why why) {
    longjmp(work->out, why);
}

void *take_memory(Work *work, size_t size) {
    if (size > SIZE_MAX / 2) stop(work, NO_MEMORY);
    size = (size + ALIGNED - 1) & ~(size_t)(ALIGNED - 1);
    Chunk *chunk = work->chunks;
    if (!chunk || chunk->size - chunk->used < size) {
        size_t whole = size > USUAL ? size : USUAL;
        chunk = malloc(sizeof(Chunk) + whole);
        if (!chunk) stop(work, NO_MEMORY);
        *chunk = (Chunk){work->chunks, whole, 0};
        work->chunks = chunk;
    }
    void *found = chunk->data + chunk->used;
    chunk->used += size;
    return found;
}

void end_work(Work *work) {
    for (Chunk *chunk = work->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    work->chunks = NULL;
}

const char *reason_of(enum Why why) {
    switch (why) {
    case DECIDED: return "decided";
    case NO_MEMORY: return "no memory";
    case NOT_READ: return "a row could not be read";
    case BAD_PROGRAM: return "not a program";
    case OTHER_LAYOUT: return "another layout";
    case OTHER_RECORD: return "another record";
    case OTHER_ROW: return "an unusual row";
    case OTHER_VALUE: return "an unusual value";
    case OTHER_VERSION: return "another version";
    case NO_SOURCE: return "a source is absent";
    case COPIED: return "holders follow";
    case SHOWN: return "groups are shown";
    case VANISHES: return "what is stored counts as absent";
    case NUMBERED: return "a number is taken";
    case TOO_LONG: return "too long";
    case OTHER_SUM: return "an unusual group";
    case TAKEN: return "a unique value is taken";
    case OTHER_ROWS: return "other rows";
    }
    return "unknown";
}
