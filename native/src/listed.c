/* Groups as indexes list them: the rows that follow from the numbers of a group. */
#include "core.h"

#include <string.h>

/* A group that is listed, and the rows of indexes that follow from its numbers before and now. */
typedef struct {
    Unit *unit;
    const Listed *of;
    Entity group;
    Record before, after;
} Listing;

/* Reads a part of the group's key: its value, or the reference that it is. Returns where it ends. */
static const uint8_t *read_part(Work *work, const uint8_t *at, const uint8_t *end, const KeyPart *part, Span *value) {
    Span found[MOST_PARTS];
    size_t size = 8;
    for (int i = 0; i < part->count; i++) {
        at = read_element(work, at, end, part->types[i], &found[i]);
        if (!at) stop(work, OTHER_ROW);
        size += found[i].size;
    }
    *value = found[0];
    if (!part->is_reference || is_nil(found[0])) return at;
    Writer start = take_memory(work, size), to = start;
    to = write_array_header(write_array_header(to, 1), part->count);
    for (int i = 0; i < part->count; i++) to = write_span(to, found[i]);
    *value = (Span){start, (size_t)(to - start)};
    return at;
}

static void read_key(Listing *made, Span suffix) {
    const uint8_t *at = suffix.data, *end = suffix.data + suffix.size;
    for (int i = 0; i < made->of->part_count; i++)
        at = read_part(made->unit->work, at, end, &made->of->parts[i], &made->group.fields[i]);
    if (at != end) stop(made->unit->work, OTHER_ROW);
    made->group.suffix = suffix;
    made->group.now = made->unit->now;
}

/* The rows of indexes that follow from that of the group; none where it is empty. */
static void emit_rows(Listing *made, Span row, Record *rows) {
    const Listed *of = made->of;
    clear_record(of->program, rows);
    if (!row.data) return;
    for (int i = 0; i < of->number_count; i++)
        made->group.fields[of->part_count + i] = number_in_group(made->unit->work, row, of->numbers[i]);
    emit(made->unit->work, of->program, &made->group, rows);
}

void list_group(Unit *unit, const Sum *sum) {
    const Span before = sum->row_before, after = sum->row;
    if (is_same(before, after)) return;
    Listing *made = take_memory(unit->work, sizeof *made);
    memset(made, 0, sizeof *made);
    made->unit = unit;
    made->of = sum->listed;
    read_key(made, sum->suffix);
    emit_rows(made, before, &made->before);
    emit_rows(made, after, &made->after);
    const uint64_t stamp = after.data ? number_at(after.data, ONE_HEAD) & (STAMPS - 1) : 0;
    differ(unit, made->of->program, NOTHING, sum->suffix, stamp, &made->before, &made->after);
}
