/* Comparing: entities with what their rows say, and other rows with what entities say. */
#include "compare.h"

#include <stdlib.h>
#include <string.h>

enum { BACK_REFERENCE = 0x00, HOLD = 0xff };

/* What an entity has of a source. */
typedef struct {
    const Reference *reference;
    Span source, field;
    Looked *holder;
} Held;

/* One batch of a call, and the entity of it that is compared. */
typedef struct {
    Work *work;   /* of what is compared now: where that stops, the call goes on */
    Work *whole;  /* of the call */
    Looked *looked;
    Comparison *of;
    const Reader *reader;
    const Program *program;
    Span key;
    Root root;
    Entity entity;
    Record record;
    Held *held;
    size_t held_count;
    Counted scanned, groups;
} Batch;

/* ---- sources ---- */

static Kept **slot_of(Comparison *of, Span key) {
    for (size_t at = hash_with(&of->tally, key);; at++) {
        Kept **slot = &of->kept[at % KEPT_SLOTS];
        if (!*slot || is_same((Span){(*slot)->data, (*slot)->key}, key)) return slot;
    }
}

void forget_sources(Comparison *of) {
    for (size_t i = 0; i < KEPT_SLOTS; i++) free(of->kept[i]);
    memset(of->kept, 0, sizeof of->kept);
    of->count = 0;
}

static void keep_source(Work *work, Comparison *of, Span key, Span row) {
    Kept **slot = slot_of(of, key);
    Kept *made = malloc(sizeof *made + key.size + row.size);
    if (!made) stop(work, NO_MEMORY);
    made->key = key.size;
    made->row = row.size;
    write_span(write_span(made->data, key), row);
    *slot = made;
    of->count++;
}

static int compare_spans(const void *one, const void *other) {
    const Span *a = one, *b = other;
    return is_below(*a, *b) ? -1 : is_below(*b, *a);
}

/* Sorts keys and leaves each once. */
static size_t sorted_once(Span *keys, size_t count) {
    size_t found = 0;
    if (count) qsort(keys, count, sizeof *keys, compare_spans);
    for (size_t i = 0; i < count; i++)
        if (!found || !is_same(keys[found - 1], keys[i])) keys[found++] = keys[i];
    return found;
}

static void count_compared(Compared *made, Counted counted) {
    made->requests[made->request_count++] = counted;
}

/* Reads the sources of a batch that are not kept, as one request, as Python does. */
static void load_sources(const Batch *batch, Compared *made) {
    Work *work = batch->whole;
    Comparison *of = batch->of;
    const Reader *reader = batch->reader;
    Span *keys = take_memory(work, (batch->held_count + 1) * sizeof *keys);
    size_t missing = 0, bytes = 0;
    for (size_t i = 0; i < batch->held_count; i++) keys[i] = batch->held[i].source;
    const size_t count = sorted_once(keys, batch->held_count);
    for (size_t i = 0; i < count; i++) missing += !*slot_of(of, keys[i]);
    if (!missing) return;
    if (of->count + count > of->most) {
        forget_sources(of);
        missing = count;
    }
    if (count > of->most) stop(work, TOO_LONG);
    for (size_t i = 0; i < count; i++) {
        Span row = {NULL, 0};
        if (*slot_of(of, keys[i])) continue;
        if (!keys[i].size || keys[i].size > MOST_KEY) stop(work, TOO_LONG);
        if (reader->read(reader->of, ROOTS, keys[i], &row)) stop(work, NOT_READ);
        bytes += size_of_root(row);
        keep_source(work, of, keys[i], row);
    }
    count_compared(made, (Counted){missing, bytes});
}

/* Whether what an entity has of a source is what that has now. */
static int follows(const Batch *batch, const Held *held) {
    Span fields[MOST_FIELDS];
    Root root = {.key = held->source};
    const Kept *kept = *slot_of(batch->of, held->source);
    parse_root(batch->work, (Span){kept->data + kept->key, kept->row}, &root);
    const int count = fields_of(batch->work, root.body, held->reference->layout, fields);
    if (!held->reference->is_copy) return 1;
    return is_same(held->field, filled_copy(batch->work, held->reference, held->field, fields, count));
}

static Span own_value(const Batch *batch, int place) {
    const Program *program = batch->program;
    return value_at(batch->work, batch->entity.fields, program->fields, program->own[place]);
}

static void hold_sources(Batch *batch) {
    const Program *program = batch->program;
    for (int i = 0; i < program->reference_count; i++) {
        const Reference *reference = &program->references[i];
        Span *source = &batch->entity.sources[i];
        *source = (Span){NULL, 0};
        if (reference->is_many) continue;
        const Span field = reference->field == NO_FIELD ? NOTHING : batch->entity.fields[reference->field];
        if (reference->field == NO_FIELD)
            *source = key_of_root(batch->work, program, reference, batch->entity.fields);
        else if (!is_nil(field))
            *source = key_of_source(batch->work, reference, field);
        else
            continue;
        if (reference->is_tracked)
            batch->held[batch->held_count++] = (Held){reference, *source, field, batch->looked};
    }
}

/* ---- one entity ---- */

static const Program *program_of(const Batch *batch) {
    const Comparison *of = batch->of;
    for (int i = 0; i < of->program_count; i++)
        if (!memcmp(batch->root.body.data, of->programs[i]->layout.data, LAYOUT_BYTES)) return of->programs[i];
    stop(batch->work, OTHER_LAYOUT);
}

/* Takes the entity's own key out of the row's, which must be that of the document. */
static void take_own_key(Batch *batch) {
    const Program *program = batch->program;
    const Span key = batch->key;
    size_t size = 1;
    if (!program->own_count || key.size <= program->start || memcmp(key.data, program->kind.data, program->kind.size))
        stop(batch->work, OTHER_ROW);
    for (int i = 0; i < program->own_count; i++) size += most_of_element(own_value(batch, i));
    Writer start = take_memory(batch->work, size), to = start;
    for (int i = 0; to && i < program->own_count; i++)
        to = write_element(to, own_value(batch, i), program->own_types[i], 0);
    if (!to) stop(batch->work, OTHER_VALUE);
    const Span own = {start, (size_t)(to - start)}, found = {key.data + program->start, key.size - program->start};
    if (!is_same(own, found)) stop(batch->work, OTHER_ROW);
    if (program->ranges > 1 && key.data[program->start - 1] != spread_part(own, program->ranges))
        stop(batch->work, OTHER_ROW);
    batch->entity.suffix = found;
}

/* Compares the totals that the entity shows with its groups. */
static void compare_totals(Batch *batch) {
    const Program *program = batch->program;
    Span rows[MOST_FIELDS];
    for (int i = 0; i < program->total_count; i++) {
        const Total *total = &program->totals[i];
        int known = 0;
        if (total->place >= COUNTER_PLACE) stop(batch->work, SHOWN);
        while (known < i && !is_same(program->totals[known].prefix, total->prefix)) known++;
        rows[i] = known < i ? rows[known] : (Span){NULL, 0};
        if (known == i) {
            const Span key = joined(batch->work, total->prefix, batch->entity.suffix, NOTHING);
            if (batch->reader->read(batch->reader->of, COUNTS, key, &rows[i])) stop(batch->work, NOT_READ);
            batch->groups.rows++;
            if (rows[i].size > ONE_HEAD) batch->groups.bytes += rows[i].size - ONE_HEAD;
        }
        if (!is_same(number_in_group(batch->work, rows[i], total->place), batch->entity.fields[total->field]))
            stop(batch->work, OTHER_SUM);
    }
}

static void expect_row(Batch *batch, Span key, Span value) {
    Tally *tally = &batch->of->tally;
    tally->rows += digest_of_row(tally, key, value);
}

static void expect_pointers(Batch *batch, uint8_t under, const Span *found, int count) {
    const uint8_t prefix[2] = {under, under};
    for (int i = 0; i < count; i++)
        expect_row(batch, joined(batch->work, (Span){prefix, sizeof prefix}, found[i], batch->key), NOTHING);
}

static void expect_contribution(Batch *batch, const Token *token, const Contribution *each) {
    if (token->form == OF_CLAIMS) stop(batch->work, OTHER_ROW); /* their rows are not compared here */
    if (token->form == OF_ROWS)
        expect_row(batch, joined(batch->work, token->prefix, each->found, batch->entity.suffix), each->shown);
    else if (!tally_amounts(&batch->of->tally, joined(batch->work, token->prefix, each->found, NOTHING), each->kept, 1,
                            0))
        stop(batch->work, OTHER_VALUE);
}

/* Adds what the entity says to the tally. */
static void expect(Batch *batch) {
    const Program *program = batch->program;
    const Record *record = &batch->record;
    for (int i = 0; i < program->token_count; i++) {
        for (const Contribution *each = first_of(&record->of[i]); each; each = each->next)
            expect_contribution(batch, &program->tokens[i], each);
    }
    expect_pointers(batch, BACK_REFERENCE, record->taken, record->taken_count);
    expect_pointers(batch, HOLD, record->held, record->held_count);
}

/* Compares what an entity says with its own row. */
static void compare_entity(Batch *batch, uint64_t latest) {
    Work *work = batch->work;
    parse_root(work, batch->looked->row, &batch->root);
    if (batch->root.own > batch->root.version || batch->root.version > latest) stop(work, OTHER_VERSION);
    const Program *program = batch->program = program_of(batch);
    if (fields_of(work, batch->root.body, program->layout.data, batch->entity.fields) != program->fields)
        stop(work, OTHER_LAYOUT);
    if (program->hidden_count) stop(work, OTHER_RECORD); /* they are not compared with their sources here */
    take_own_key(batch);
    hold_sources(batch);
    compare_totals(batch);
    emit(work, program, &batch->entity, &batch->record);
    if (!is_same(encode_record(work, program, &batch->record), batch->root.record)) stop(work, OTHER_RECORD);
    expect(batch);
}

/* ---- batches ---- */

/* Ends the call for what is no matter of one entity. */
static void stop_for_all(Batch *batch, int why) {
    batch->whole->chunks = batch->work->chunks;
    if (why == NO_MEMORY || why == NOT_READ) stop(batch->whole, why);
}

/* Compares an entity; one where that stops is left to Python, and adds nothing to the tally. */
static void try_entity(Batch *batch, uint64_t latest) {
    Tally *tally = &batch->of->tally;
    const uint64_t rows = tally->rows, sums = tally->sums;
    const size_t held = batch->held_count;
    const Counted groups = batch->groups;
    batch->work->chunks = batch->whole->chunks;
    const int why = setjmp(batch->work->out);
    if (!why) compare_entity(batch, latest);
    stop_for_all(batch, why);
    if (!why) {
        batch->looked->body = batch->root.body;
        return;
    }
    tally->rows = rows;
    tally->sums = sums;
    batch->held_count = held;
    batch->groups = groups;
}

/* Compares what an entity has of a source; where they differ Python compares all that it has of sources. */
static void try_held(Batch *batch, const Held *held) {
    batch->work->chunks = batch->whole->chunks;
    const int why = setjmp(batch->work->out);
    if (!why) held->holder->is_stale |= !follows(batch, held);
    stop_for_all(batch, why);
    if (why) held->holder->is_stale = 1;
}

/* The next row of a batch; 0 behind the last one of the range. */
static int next_row(Work *work, void *reader, NextRow next, Compared *made, Span *row) {
    const int found = next(reader, &made->last, row);
    if (found < 0) stop(work, NOT_READ);
    made->is_end |= !found;
    made->count += (size_t)found;
    return found;
}

static void compare_batch(Batch *batch, NextRow next, uint64_t latest, Compared *made) {
    Span row;
    batch->held_count = 0;
    batch->scanned = batch->groups = (Counted){0, 0};
    for (int i = 0; i < batch->of->batch && next_row(batch->whole, batch->reader->of, next, made, &row); i++) {
        batch->looked = &made->looked[made->looked_count++];
        *batch->looked = (Looked){made->last, row, {NULL, 0}, 0};
        batch->scanned.rows++;
        batch->key = made->last;
        try_entity(batch, latest);
        batch->scanned.bytes += made->last.size + (batch->looked->body.data ? size_of_root(row) : 0);
    }
    count_compared(made, batch->scanned);
    if (batch->groups.rows) count_compared(made, batch->groups);
    made->groups += batch->groups.rows;
    load_sources(batch, made);
    for (size_t i = 0; i < batch->held_count; i++) try_held(batch, &batch->held[i]);
}

void compare_roots(Work *work, Comparison *of, const Reader *reader, NextRow next, uint64_t latest, int batches,
                   Compared *made) {
    Batch *batch = take_memory(work, sizeof *batch);
    memset(batch, 0, sizeof *batch);
    batch->whole = work;
    batch->work = take_memory(work, sizeof *batch->work);
    batch->of = of;
    batch->reader = reader;
    batch->held = take_memory(work, (size_t)of->batch * MOST_REFERENCES * sizeof *batch->held);
    made->looked = take_memory(work, (size_t)of->batch * (size_t)batches * sizeof *made->looked);
    for (int i = 0; i < batches && !made->is_end; i++) compare_batch(batch, next, latest, made);
}

/* Whether a back-reference or hold is of this kind's entities; stops where it is of no kind that has them there. */
static int is_of_kind(Work *work, const Pointers *pointers, Span key) {
    enum { KIND_BYTES = 2, SELECTION_BYTES = 4, FIRST_SELECTION = 0x80 };
    const uint8_t *at = key.data + pointers->start, *end = key.data + key.size;
    if (key.size < pointers->start) stop(work, OTHER_ROW);
    for (int i = 0; i < pointers->parts && at; i++) at = end_of_element(at, end);
    if (at && end - at > SELECTION_BYTES && *at & FIRST_SELECTION) at += SELECTION_BYTES;
    if (!at || end - at < KIND_BYTES) stop(work, OTHER_ROW);
    for (size_t i = 0; i + KIND_BYTES <= pointers->kinds.size; i += KIND_BYTES)
        if (!memcmp(at, pointers->kinds.data + i, KIND_BYTES)) return !i;
    stop(work, OTHER_ROW);
}

void compare_rows(Work *work, Comparison *of, void *reader, NextRow next, const Wanted *wanted, int batches,
                  Compared *made) {
    Tally *tally = &of->tally;
    const Pointers *pointers = &wanted->pointers;
    const int width = wanted->width;
    Span row;
    made->looked = take_memory(work, (size_t)of->batch * (size_t)batches * sizeof *made->looked);
    for (int i = 0; i < batches && !made->is_end; i++) {
        Counted scanned = {0, 0};
        for (int j = 0; j < of->batch && next_row(work, reader, next, made, &row); j++) {
            if (row.size < ONE_HEAD || row.data[0] >> 5 != FORM_ONE) stop(work, OTHER_ROW);
            const Span value = {row.data + ONE_HEAD, row.size - ONE_HEAD};
            scanned.rows++;
            scanned.bytes += made->last.size + value.size;
            if (pointers->kinds.size && !is_of_kind(work, pointers, made->last)) continue;
            if (!width)
                tally->rows -= digest_of_row(tally, made->last, value);
            else if (!tally_amounts(tally, made->last, value, -1, width))
                made->looked[made->looked_count++] = (Looked){made->last, row, {NULL, 0}, 0};
        }
        count_compared(made, scanned);
    }
}
