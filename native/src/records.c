/* Records: what a root row remembers of its contributions. */
#include "core.h"

#include <string.h>

enum { REFERENCES = -1, HELD = -2, COPIED_VALUES = -4, MOST_ENTRIES = 2 * (MOST_TOKENS + 3) };

static int parts_of(const Program *program) {
    return program->token_count + program->is_tracked + program->is_holding + program->is_copied;
}

static size_t most_of_record(const Program *program, const Record *record) {
    size_t size = 32 + record->copied.size;
    for (int i = 0; i < program->token_count; i++) size += 16 + record->of[i].found.size + record->of[i].kept.size;
    for (int i = 0; i < record->taken_count; i++) size += 8 + record->taken[i].size;
    for (int i = 0; i < record->held_count; i++) size += 8 + record->held[i].size;
    return size;
}

static Writer write_keys(Writer to, int token, const Span *keys, int count) {
    to = write_array_header(write_int(to, token), (size_t)count);
    for (int i = 0; i < count; i++) to = write_binary(to, keys[i]);
    return to;
}

Span encode_record(Work *work, const Program *program, const Record *record) {
    Writer start = take_memory(work, most_of_record(program, record));
    Writer to = write_map_header(start, (size_t)parts_of(program));
    for (int i = 0; i < program->token_count; i++) {
        const Contribution *each = &record->of[i];
        to = write_array_header(write_int(to, program->tokens[i].token), each->found.data ? 2 : 0);
        if (each->found.data) to = write_span(write_binary(to, each->found), each->kept);
    }
    if (program->is_tracked) to = write_keys(to, REFERENCES, record->taken, record->taken_count);
    if (program->is_holding) to = write_keys(to, HELD, record->held, record->held_count);
    if (program->is_copied) to = write_span(write_int(to, COPIED_VALUES), record->copied);
    return (Span){start, (size_t)(to - start)};
}

static void expect_token(Work *work, Span given, int64_t expected) {
    int64_t token;
    if (!int_of(given, &token) || token != expected) stop(work, OTHER_RECORD);
}

static void decode_contribution(Work *work, Span value, Contribution *made) {
    Span parts[2];
    const int count = elements_of(value, parts, 2);
    if (count == 0) return;
    if (count != 2 || !binary_of(parts[0], &made->found)) stop(work, OTHER_RECORD);
    made->kept = parts[1];
}

static int decode_keys(Work *work, Span value, Span *keys) {
    Span parts[MOST_REFERENCES];
    const int count = elements_of(value, parts, MOST_REFERENCES);
    for (int i = 0; i < count; i++)
        if (!binary_of(parts[i], &keys[i])) stop(work, OTHER_RECORD);
    if (count < 0) stop(work, OTHER_RECORD);
    return count;
}

void clear_record(const Program *program, Record *record) {
    memset(record->of, 0, (size_t)program->token_count * sizeof *record->of);
    record->taken_count = record->held_count = 0;
    record->copied = (Span){NULL, 0};
}

void decode_record(Work *work, const Program *program, Span bytes, Record *record) {
    Span entries[MOST_ENTRIES];
    const int count = parts_of(program);
    clear_record(program, record);
    if (entries_of(bytes, entries, MOST_ENTRIES) != 2 * count) stop(work, OTHER_RECORD);
    const Span *entry = entries;
    for (int i = 0; i < program->token_count; i++, entry += 2) {
        expect_token(work, entry[0], program->tokens[i].token);
        decode_contribution(work, entry[1], &record->of[i]);
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
    if (program->is_copied) {
        expect_token(work, entry[0], COPIED_VALUES);
        record->copied = entry[1];
    }
}
