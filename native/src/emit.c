/* Emitting: a program runs on the fields of an entity. */
#include "core.h"

#include <string.h>

enum { KEY_BYTES = 200, HASHED_BYTES = 10, DIGEST = 16, INSTANT_BYTES = 16 };

/* What an operation made: bytes of a key, and of an extremum or amounts what rows and records have of it. */
typedef struct {
    int is_made;
    Span bytes, shown, kept;
} Register;

typedef struct {
    Work *work;
    const Program *program;
    const Entity *entity;
    Record *record;
    Register registers[MOST_REGISTERS];
} Run;

static const uint8_t ZERO = 0;
static const Span SAID_BY_KEY = {&ZERO, 1}; /* in place of a digest: the key says all */

/* Whether a condition holds; 0 is none. */
static int holds(const Run *run, unsigned condition) {
    return !condition || (run->entity->holds >> (condition - 1) & 1);
}

/* An entity that has no value there has this in the key; no value: it is not in the view. */
static Span absent(Run *run, const Operation *operation) {
    if (!operation->none) return (Span){NULL, 0};
    uint8_t *bytes = take_memory(run->work, operation->nones);
    memset(bytes, operation->none, operation->nones);
    return (Span){bytes, operation->nones};
}

/* The start of the bucket that an instant is in. */
static Span bucketed(Run *run, Span value, enum Bucket bucket) {
    int64_t seconds;
    uint64_t nanoseconds;
    if (!instant_of(value, &seconds, &nanoseconds)) stop(run->work, OTHER_VALUE);
    Writer start = take_memory(run->work, INSTANT_BYTES);
    Writer end = write_seconds(start, bucket_start(seconds, bucket));
    return (Span){start, (size_t)(end - start)};
}

/* The element of a digest of a value's element. */
static Span hashed(Run *run, Span element) {
    uint8_t found[DIGEST];
    digest(element, found, DIGEST);
    Writer value = take_memory(run->work, DIGEST + 2), end = write_binary(value, (Span){found, DIGEST});
    const Span bytes = {value, (size_t)(end - value)};
    Writer start = take_memory(run->work, most_of_element(bytes));
    return (Span){start, (size_t)(write_element(start, bytes, BYTES, 0) - start)};
}

static Span encoded(Run *run, Span value, const Operation *operation) {
    if (operation->bucket) value = bucketed(run, value, operation->bucket);
    Writer start = take_memory(run->work, most_of_element(value));
    Writer end = write_element(start, value, operation->type, operation->flag & DESCENDING);
    if (!end) stop(run->work, OTHER_VALUE);
    const Span element = {start, (size_t)(end - start)};
    if (operation->flag & HASHED) return hashed(run, element);
    if (element.size > KEY_BYTES) stop(run->work, TOO_LONG);
    return element;
}

/* The key behind a reference, as rows of views have it; no value where there is none. */
static Span referred(Run *run, const Operation *operation) {
    const Reference *reference = &run->program->references[operation->place];
    const Span source = run->entity->sources[operation->place];
    if (!source.data) return (Span){NULL, 0};
    Span key = {source.data + reference->start, source.size - reference->start};
    if (!(operation->flag & DESCENDING)) return key;
    uint8_t *turned = take_memory(run->work, key.size);
    for (size_t i = 0; i < key.size; i++) turned[i] = (uint8_t)~key.data[i];
    return (Span){turned, key.size};
}

/* Makes the register of an element or of a reference. Returns whether the entity may be in the view. */
static int make_key_part(Run *run, const Operation *operation) {
    Register *made = &run->registers[operation->made];
    if (made->is_made) return made->bytes.data != NULL;
    made->is_made = 1;
    if (operation->code == REFERENCE) {
        made->bytes = referred(run, operation);
        if (!made->bytes.data) made->bytes = absent(run, operation);
        return made->bytes.data != NULL;
    }
    Span value = value_at(run->work, run->entity->fields, run->program->fields, operation->path);
    made->bytes = is_nil(value) ? absent(run, operation) : encoded(run, value, operation);
    return made->bytes.data != NULL;
}

/* The byte of the range that the entity's rows are in. */
static void make_spread(Run *run, const Operation *operation) {
    uint8_t *range = take_memory(run->work, 1);
    *range = spread_part(run->entity->suffix, operation->most);
    run->registers[operation->made].bytes = (Span){range, 1};
}

static void make_place(Run *run, const Operation *operation) {
    size_t size = 0;
    for (int i = 0; i < operation->count; i++) size += run->registers[operation->registers[i]].bytes.size;
    if (operation->most && size > operation->most) stop(run->work, TOO_LONG);
    Writer start = take_memory(run->work, size + 1), to = start;
    for (int i = 0; i < operation->count; i++) to = write_span(to, run->registers[operation->registers[i]].bytes);
    run->registers[operation->made].bytes = (Span){start, size};
}

/* What the record keeps of bytes. */
static Span short_hash(Run *run, Span bytes) {
    Writer start = take_memory(run->work, HASHED_BYTES), end = write_short_hash(start, bytes);
    return (Span){start, (size_t)(end - start)};
}

/* ---- rows ---- */

/* A copy, or a reference, in a row: without the values that would have to follow their source. */
static Writer write_referring(Run *run, Writer to, Span value, const Item *item) {
    if (is_nil(value)) return write_span(to, NIL);
    if (item->kind == COPY_REFERRING) value = element_at(value, 0);
    if (!value.data) stop(run->work, OTHER_VALUE);
    to = write_span(write_array_header(to, 2 + (size_t)item->fields), value);
    *to++ = 0xc2; /* not deleted */
    memset(to, 0xc0, item->fields);
    return to + item->fields;
}

static Writer write_own_key(Run *run, Writer to) {
    const Program *program = run->program;
    *to++ = 0x91;
    to = write_array_header(to, program->own_count);
    for (int i = 0; i < program->own_count; i++)
        to = write_span(to, value_at(run->work, run->entity->fields, program->fields, program->own[i]));
    return to;
}

/* How many bytes a row's document has at most. */
static size_t most_of_row(Run *run, const Operation *operation) {
    const Entity *entity = run->entity;
    size_t own = 8, size = 8;
    for (int i = 0; i < run->program->own_count; i++)
        own += value_at(run->work, entity->fields, run->program->fields, run->program->own[i]).size;
    for (int i = 0; i < operation->count; i++) {
        const Item *item = &operation->items[i];
        size += item->kind == OWN_KEY
                    ? own
                    : INSTANT_BYTES + (size_t)item->fields +
                          value_at(run->work, entity->fields, run->program->fields, item->path).size;
    }
    return size;
}

static Writer write_item(Run *run, Writer to, const Item *item) {
    if (item->kind == OWN_KEY) return write_own_key(run, to);
    const Span value = value_at(run->work, run->entity->fields, run->program->fields, item->path);
    if (item->kind != VALUE) return write_referring(run, to, value, item);
    return write_span(to, item->fields && !is_nil(value) ? bucketed(run, value, item->fields) : value);
}

static void put_row(Run *run, const Operation *operation) {
    enum { LENGTH_BYTES = 2, MOST_LENGTH = 0xffff };
    Contribution *made = &run->record->of[operation->place];
    const int is_framed = operation->flag & FRAMED;
    Writer start = take_memory(run->work, most_of_row(run, operation));
    Writer to = is_framed ? start + FRAMED_ITEMS * LENGTH_BYTES : write_array_header(start, operation->count);
    for (int i = 0; i < operation->count; i++) {
        const Writer item = to;
        to = write_item(run, to, &operation->items[i]);
        if (!is_framed || i >= FRAMED_ITEMS) continue;
        if (to - item > MOST_LENGTH) stop(run->work, TOO_LONG);
        write_number(start + i * LENGTH_BYTES, (uint64_t)(to - item), LENGTH_BYTES);
    }
    made->found = run->registers[operation->used].bytes;
    made->shown = (Span){start, (size_t)(to - start)};
    made->kept = short_hash(run, made->shown);
}

/* ---- groups ---- */

/* The amounts as the record has them: an int as it is in the document, a decimal as its text. */
static void make_amounts(Run *run, const Operation *operation) {
    Register *made = &run->registers[operation->made];
    Number number;
    size_t size = 8;
    if (made->is_made) return;
    for (int i = 0; i < operation->count; i++)
        size += 1 + value_at(run->work, run->entity->fields, run->program->fields, operation->items[i].path).size;
    Writer start = take_memory(run->work, size), to = write_array_header(start, operation->count);
    for (int i = 0; i < operation->count; i++) {
        const Item *item = &operation->items[i];
        Span value = value_at(run->work, run->entity->fields, run->program->fields, item->path);
        if (!holds(run, item->fields))
            *to++ = 0xc0;
        else if (item->kind == ONE)
            *to++ = 1;
        else if (is_nil(value))
            *to++ = 0xc0;
        else if (item->kind == PRESENT)
            *to++ = 1;
        else if (!number_of(value, &number))
            stop(run->work, OTHER_VALUE);
        else
            to = write_span(to, value);
    }
    *made = (Register){1, {NULL, 0}, {NULL, 0}, {start, (size_t)(to - start)}};
}

static void add_to_group(Run *run, const Operation *operation) {
    run->record->of[operation->place] =
        (Contribution){run->registers[operation->used].bytes, run->registers[operation->second].kept, {NULL, 0}};
}

/* Whether a value is in the form that most equal values have: a decimal without zeros at the end of a fraction, a
 * float that is not zero. */
static int is_usual(Work *work, Span value, enum Type type) {
    Span text;
    Number number;
    if (type == FLOAT) return value.size == 9 && (number_at(value.data + 1, 8) & ~((uint64_t)1 << 63)) != 0;
    if (!text_of(value, &text) || !number_of(value, &number)) stop(work, OTHER_VALUE);
    return !memchr(text.data, '.', text.size) || text.data[text.size - 1] != '0';
}

static void make_extreme(Run *run, const Operation *operation) {
    Register *made = &run->registers[operation->made];
    if (made->is_made) return;
    made->is_made = 1;
    if (!holds(run, operation->second)) return;
    Span value = value_at(run->work, run->entity->fields, run->program->fields, operation->path);
    Span order = value_at(run->work, run->entity->fields, run->program->fields, operation->order);
    if (is_nil(value) || is_nil(order)) return;
    made->bytes = encoded(run, order, operation);
    made->shown = value;
    made->kept = SAID_BY_KEY;
    if (operation->flag & IN_DIGITS && !is_usual(run->work, value, operation->type))
        made->kept = short_hash(run, value);
}

static void put_extreme(Run *run, const Operation *operation) {
    const Register *made = &run->registers[operation->second];
    const Span found = run->registers[operation->used].bytes;
    if (!made->bytes.data) return;
    if (operation->most && found.size + made->bytes.size > operation->most) stop(run->work, TOO_LONG);
    run->record->of[operation->place] =
        (Contribution){joined(run->work, found, made->bytes, NOTHING), made->kept, made->shown};
}

/* ---- what else a record has ---- */

static void add_once(Span *found, int *count, Span added) {
    for (int i = 0; i < *count; i++)
        if (is_same(found[i], added)) return;
    found[(*count)++] = added;
}

static void take_sources(Run *run) {
    const Program *program = run->program;
    for (int i = 0; i < program->reference_count; i++) {
        const Reference *reference = &program->references[i];
        const Span source = run->entity->sources[i];
        if (!source.data) continue;
        if (reference->is_held) add_once(run->record->held, &run->record->held_count, source);
        if (!reference->is_tracked) continue;
        add_once(run->record->taken, &run->record->taken_count,
                 joined(run->work, source, reference->selection, NOTHING));
    }
}

/* The digest of what one selection takes, as bytes of the record. */
static Writer write_selection(Run *run, Writer to, const Selection *selection) {
    size_t size = 8;
    for (int i = 0; i < selection->count; i++)
        size += value_at(run->work, run->entity->fields, run->program->fields, selection->paths[i]).size;
    Writer start = take_memory(run->work, size), end = write_array_header(start, selection->count);
    for (int i = 0; i < selection->count; i++)
        end = write_span(end, value_at(run->work, run->entity->fields, run->program->fields, selection->paths[i]));
    return write_short_hash(write_binary(to, selection->name), (Span){start, (size_t)(end - start)});
}

static void digest_copied(Run *run) {
    const Program *program = run->program;
    enum { NAME = 20 };
    Writer start = take_memory(run->work, 8 + (size_t)program->selection_count * (NAME + HASHED_BYTES));
    Writer to = write_map_header(start, (size_t)program->selection_count);
    for (int i = 0; i < program->selection_count; i++) to = write_selection(run, to, &program->selections[i]);
    run->record->copied = (Span){start, (size_t)(to - start)};
}

/* ---- the program ---- */

/* Runs one operation. Returns whether the entity may be in the view. */
static int perform(Run *run, const Operation *operation) {
    switch ((enum Code)operation->code) {
    case ELEMENT:
    case REFERENCE: return make_key_part(run, operation);
    case SKIP: return holds(run, operation->second);
    case SPREAD: make_spread(run, operation); break;
    case PLACE: make_place(run, operation); break;
    case ROW: put_row(run, operation); break;
    case AMOUNTS: make_amounts(run, operation); break;
    case SUM: add_to_group(run, operation); break;
    case EXTREME: make_extreme(run, operation); break;
    case EXTREMUM: put_extreme(run, operation); break;
    case END: break;
    }
    return 1;
}

void emit(Work *work, const Program *program, const Entity *entity, Record *record) {
    Run all = {work, program, entity, record, {{0, {NULL, 0}, {NULL, 0}, {NULL, 0}}}}, *run = &all;
    clear_record(program, record);
    const Operation *operation = program->operations, *end = operation + program->operation_count;
    for (; operation < end; operation++)
        if (!perform(run, operation))
            while (operation < end && operation->code != END) operation++;
    take_sources(run);
    if (program->is_copied) digest_copied(run);
}
