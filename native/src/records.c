/* Records: what a root row remembers of its contributions. */
#include "core.h"

#include <string.h>

enum { REFERENCES = -1, HELD = -2, HIDDEN = -3, COPIED_VALUES = -4, MOST_ENTRIES = 2 * (MOST_TOKENS + 4) };

void add_contribution(Work *work, Contribution *first, Contribution added) {
    added.next = added.last = NULL;
    if (!first->found.data) {
        *first = added;
        return;
    }
    Contribution *made = take_memory(work, sizeof *made);
    *made = added;
    (first->last ? first->last : first)->next = made;
    first->last = made;
}

const Contribution *first_of(const Contribution *first) {
    return first->found.data ? first : NULL;
}

static int parts_of(const Program *program) {
    return program->token_count + program->is_tracked + program->is_holding + !!program->hidden_count +
           program->is_copied;
}

static size_t most_of_record(const Program *program, const Record *record) {
    size_t size = 32 + record->copied.size;
    for (int i = 0; i < program->token_count; i++) {
        size += 16;
        for (const Contribution *each = first_of(&record->of[i]); each; each = each->next)
            size += 8 + each->found.size + each->kept.size;
    }
    for (int i = 0; i < program->hidden_count; i++) size += program->hidden[i].name.size + record->hidden[i].size;
    for (int i = 0; i < record->taken_count; i++) size += 8 + record->taken[i].size;
    for (int i = 0; i < record->held_count; i++) size += 8 + record->held[i].size;
    return size;
}

static Writer write_hidden(Writer to, const Program *program, const Record *record) {
    to = write_map_header(write_int(to, HIDDEN), (size_t)program->hidden_count);
    for (int i = 0; i < program->hidden_count; i++)
        to = write_span(write_span(to, program->hidden[i].name), record->hidden[i]);
    return to;
}

Span encode_record(Work *work, const Program *program, const Record *record) {
    Writer start = take_memory(work, most_of_record(program, record));
    Writer to = write_map_header(start, (size_t)parts_of(program));
    for (int i = 0; i < program->token_count; i++) {
        const size_t step = program->tokens[i].form == OF_CLAIMS ? 1 : 2;
        size_t count = 0;
        for (const Contribution *each = first_of(&record->of[i]); each; each = each->next) count++;
        to = write_array_header(write_int(to, program->tokens[i].token), step * count);
        for (const Contribution *each = first_of(&record->of[i]); each; each = each->next) {
            to = write_binary(to, each->found);
            if (step == 2) to = write_span(to, each->kept);
        }
    }
    if (program->is_tracked) to = write_keys(write_int(to, REFERENCES), record->taken, (size_t)record->taken_count);
    if (program->is_holding) to = write_keys(write_int(to, HELD), record->held, (size_t)record->held_count);
    if (program->hidden_count) to = write_hidden(to, program, record);
    if (program->is_copied) to = write_span(write_int(to, COPIED_VALUES), record->copied);
    return (Span){start, (size_t)(to - start)};
}

static void expect_token(Work *work, Span given, int64_t expected) {
    int64_t token;
    if (!int_of(given, &token) || token != expected) stop(work, OTHER_RECORD);
}

/* The contributions of a token: places, each with what is kept of it, but for unique values. */
static void decode_contributions(Work *work, Span value, enum Form form, Contribution *first) {
    int count;
    const int step = form == OF_CLAIMS ? 1 : 2;
    const Span *parts = all_elements(work, value, &count);
    if (count % step) stop(work, OTHER_RECORD);
    for (int i = 0; i < count; i += step) {
        Contribution made = {{NULL, 0}, step == 2 ? parts[i + 1] : (Span){NULL, 0}, {NULL, 0}, NULL, NULL};
        if (!binary_of(parts[i], &made.found)) stop(work, OTHER_RECORD);
        add_contribution(work, first, made);
    }
}

static int decode_keys(Work *work, Span value, Span *keys) {
    Span parts[MOST_REFERENCES];
    const int count = elements_of(value, parts, MOST_REFERENCES);
    for (int i = 0; i < count; i++)
        if (!binary_of(parts[i], &keys[i])) stop(work, OTHER_RECORD);
    if (count < 0) stop(work, OTHER_RECORD);
    return count;
}

/* The hidden copies, which are those of the program. */
static void decode_hidden(Work *work, const Program *program, Span value, Record *record) {
    Span entries[2 * MOST_HIDDEN];
    if (entries_of(value, entries, 2 * MOST_HIDDEN) != 2 * program->hidden_count) stop(work, OTHER_RECORD);
    for (int i = 0; i < program->hidden_count; i++) {
        if (!is_same(entries[2 * i], program->hidden[i].name)) stop(work, OTHER_RECORD);
        record->hidden[i] = entries[2 * i + 1];
    }
}

void clear_record(const Program *program, Record *record) {
    memset(record->of, 0, (size_t)program->token_count * sizeof *record->of);
    record->taken_count = record->held_count = 0;
    record->copied = (Span){NULL, 0};
    for (int i = 0; i < program->hidden_count; i++) record->hidden[i] = NIL;
}

void decode_record(Work *work, const Program *program, Span bytes, Record *record) {
    Span entries[MOST_ENTRIES];
    const int count = parts_of(program);
    clear_record(program, record);
    if (entries_of(bytes, entries, MOST_ENTRIES) != 2 * count) stop(work, OTHER_RECORD);
    const Span *entry = entries;
    for (int i = 0; i < program->token_count; i++, entry += 2) {
        expect_token(work, entry[0], program->tokens[i].token);
        decode_contributions(work, entry[1], program->tokens[i].form, &record->of[i]);
    }
    if (program->is_tracked) {
        expect_token(work, entry[0], REFERENCES);
        record->taken_count = decode_keys(work, entry[1], record->taken);
        entry += 2;
    }
    if (program->is_holding) {
        expect_token(work, entry[0], HELD);
        record->held_count = decode_keys(work, entry[1], record->held);
        entry += 2;
    }
    if (program->hidden_count) {
        expect_token(work, entry[0], HIDDEN);
        decode_hidden(work, program, entry[1], record);
        entry += 2;
    }
    if (program->is_copied) {
        expect_token(work, entry[0], COPIED_VALUES);
        record->copied = entry[1];
    }
}
