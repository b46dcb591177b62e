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

/* The numbers of a group's row. */
static Span numbers_of(Span row) {
    return row.data ? (Span){row.data + ONE_HEAD, row.size - ONE_HEAD} : row;
}

/* The rows that follow from the numbers of the group, none of a group that is empty. */
static void emit_rows(Listing *made, Span numbers, Record *rows) {
    const Listed *of = made->of;
    int64_t number;
    clear_record(of->program, rows);
    if (!numbers.data) return;
    for (int i = 0; i < of->number_count; i++) {
        const Span found = element_at(numbers, of->numbers[i]);
        if (!found.data || !int_of(found, &number)) stop(made->unit->work, OTHER_SUM);
        made->group.fields[of->part_count + i] = found;
    }
    emit(made->unit->work, of->program, &made->group, rows);
}

static void differ_in_index(const Listing *made, Span prefix, const Contribution *old, const Contribution *new,
                            uint64_t stamp) {
    Unit *unit = made->unit;
    const Span suffix = made->group.suffix;
    for (const Contribution *each = new; each; each = each->next) {
        const Contribution *before = at_place(old, each->found);
        if (!before || !is_same(before->shown, each->shown))
            write_row(unit, VIEWS, joined(unit->work, prefix, each->found, suffix), stamped(unit, stamp, each->shown));
    }
    for (const Contribution *each = old; each; each = each->next)
        if (!at_place(new, each->found)) remove_row(unit, VIEWS, joined(unit->work, prefix, each->found, suffix));
}

void list_group(Unit *unit, const Sum *sum) {
    const Span before = numbers_of(sum->row_before), after = numbers_of(sum->row);
    if (is_same(before, after)) return;
    Listing *made = take_memory(unit->work, sizeof *made);
    memset(made, 0, sizeof *made);
    made->unit = unit;
    made->of = sum->listed;
    read_key(made, sum->suffix);
    emit_rows(made, before, &made->before);
    emit_rows(made, after, &made->after);
    const uint64_t stamp = after.data ? number_at(sum->row.data, ONE_HEAD) & (STAMPS - 1) : 0;
    for (int i = 0; i < made->of->program->token_count; i++)
        differ_in_index(made, made->of->program->tokens[i].prefix, first_of(&made->before.of[i]),
                        first_of(&made->after.of[i]), stamp);
}
