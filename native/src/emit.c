/* Emitting: a program runs on the fields of an entity. */
#include "core.h"

#include <string.h>

enum { KEY_BYTES = 200, HASHED_BYTES = 10, DIGEST = 16, INSTANT_BYTES = 16, NEWEST_BYTES = 1000, EXPIRY_BYTES = 8 };

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
    uint64_t until; /* when the rows of the view end that was looked at last */
    Span *several;  /* the elements of the list that was looked at last, and their bytes in keys */
    Span *keys;
    int count;
    Span element; /* that rows are made for */
    Register registers[MOST_REGISTERS];
} Run;

static const uint8_t ZERO = 0;
static const Span SAID_BY_KEY = {&ZERO, 1}; /* in place of a digest: the key says all */

static int holds(const Run *run, unsigned condition) {
    return condition_holds(run->work, run->program, run->entity, condition);
}

static Span value_of(const Run *run, Path path) {
    if (!path.count || path.steps[0] != THE_ELEMENT)
        return value_at(run->work, run->entity->fields, run->program->values, path);
    if (!run->element.data) stop(run->work, OTHER_VALUE);
    return run->element;
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

/* The key of what a value refers to, as rows of views have it. */
static Span key_of(Run *run, Span value, const Operation *operation) {
    Span parts[MOST_ITEMS];
    size_t size = 1;
    const Span key = element_at(value, 0);
    if (!key.data || elements_of(key, parts, MOST_ITEMS) != operation->count) stop(run->work, OTHER_VALUE);
    for (int i = 0; i < operation->count; i++) size += most_of_element(parts[i]);
    Writer start = take_memory(run->work, size), to = start;
    for (int i = 0; to && i < operation->count; i++)
        to = write_element(to, parts[i], operation->registers[i], operation->flag & DESCENDING);
    if (!to) stop(run->work, OTHER_VALUE);
    return (Span){start, (size_t)(to - start)};
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
    Span value = value_of(run, operation->path);
    if (is_nil(value))
        made->bytes = absent(run, operation);
    else
        made->bytes = operation->code == KEY_OF ? key_of(run, value, operation) : encoded(run, value, operation);
    return made->bytes.data != NULL;
}

/* Finds the first of the instants. Returns whether it is still to come. */
static int find_expiry(Run *run, const Operation *operation) {
    run->until = NEVER;
    for (int i = 0; i < operation->count; i++) {
        const uint64_t end = expiry_of(run->work, run->entity->fields, run->program->values, &operation->ends[i]);
        if (end < run->until) run->until = end;
    }
    return run->until > run->entity->now;
}

static int contains(const Span *found, int count, Span wanted) {
    for (int i = 0; i < count; i++)
        if (is_same(found[i], wanted)) return 1;
    return 0;
}

static void sort_elements(Run *run) {
    for (int i = 1; i < run->count; i++) {
        const Span key = run->keys[i], value = run->several[i];
        int at = i;
        for (; at && is_below(key, run->keys[at - 1]); at--) {
            run->keys[at] = run->keys[at - 1];
            run->several[at] = run->several[at - 1];
        }
        run->keys[at] = key;
        run->several[at] = value;
    }
}

/* Takes the elements of a list that are something, each once. Returns whether there is one. */
static int take_elements(Run *run, const Operation *operation) {
    const Span list = value_of(run, operation->path);
    run->count = 0;
    if (is_nil(list)) return 0;
    int count;
    const Span *found = all_elements(run->work, list, &count);
    run->several = take_memory(run->work, ((size_t)count + 1) * sizeof *found);
    run->keys = take_memory(run->work, ((size_t)count + 1) * sizeof *found);
    for (int i = 0; i < count; i++) {
        if (is_nil(found[i])) continue;
        const Span key = operation->count ? key_of(run, found[i], operation) : encoded(run, found[i], operation);
        if (contains(run->keys, run->count, key)) continue;
        run->several[run->count] = operation->bucket ? bucketed(run, found[i], operation->bucket) : found[i];
        run->keys[run->count++] = key;
    }
    if (operation->second) sort_elements(run);
    return run->count > 0;
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
        to = write_span(to, value_of(run, program->own[i]));
    return to;
}

/* How many bytes a row's document has at most. */
static size_t most_of_row(Run *run, const Operation *operation) {
    size_t own = 8, size = 8 + EXPIRY_BYTES;
    for (int i = 0; i < run->program->own_count; i++)
        own += value_of(run, run->program->own[i]).size;
    for (int i = 0; i < operation->count; i++) {
        const Item *item = &operation->items[i];
        size += item->kind == OWN_KEY
                    ? own
                    : INSTANT_BYTES + (size_t)item->fields +
                          value_of(run, item->path).size;
    }
    return size;
}

static Writer write_item(Run *run, Writer to, const Item *item) {
    if (item->kind == OWN_KEY) return write_own_key(run, to);
    const Span value = value_of(run, item->path);
    if (item->kind != VALUE) return write_referring(run, to, value, item);
    return write_span(to, item->fields && !is_nil(value) ? bucketed(run, value, item->fields) : value);
}

static void put_row(Run *run, const Operation *operation) {
    enum { LENGTH_BYTES = 2, MOST_LENGTH = 0xffff };
    Contribution made;
    const int is_framed = operation->flag & FRAMED;
    made.found = run->registers[operation->used].bytes;
    if (operation->most && made.found.size + run->entity->suffix.size > operation->most) stop(run->work, TOO_LONG);
    Writer start = take_memory(run->work, most_of_row(run, operation));
    Writer to = is_framed ? start + FRAMED_ITEMS * LENGTH_BYTES : write_array_header(start, operation->count);
    for (int i = 0; i < operation->count; i++) {
        const Writer item = to;
        to = write_item(run, to, &operation->items[i]);
        if (!is_framed || i >= FRAMED_ITEMS) continue;
        if (to - item > MOST_LENGTH) stop(run->work, TOO_LONG);
        write_number(start + i * LENGTH_BYTES, (uint64_t)(to - item), LENGTH_BYTES);
    }
    if (operation->flag & WITH_EXPIRY) {
        write_number(to, run->until, EXPIRY_BYTES);
        to += EXPIRY_BYTES;
    }
    made.shown = (Span){start, (size_t)(to - start)};
    made.kept = short_hash(run, made.shown);
    add_contribution(run->work, &run->record->of[operation->place], made);
}

static void claim(Run *run, const Operation *operation) {
    for (int i = 0; i < operation->count; i++)
        if (is_nil(value_of(run, operation->items[i].path))) return;
    const Contribution made = {run->registers[operation->used].bytes, {NULL, 0}, {NULL, 0}, NULL, NULL};
    add_contribution(run->work, &run->record->of[operation->place], made);
}

/* ---- groups ---- */

/* The amounts as the record has them: an int as it is in the document, a decimal as its text. */
static void make_amounts(Run *run, const Operation *operation) {
    Register *made = &run->registers[operation->made];
    Number number;
    size_t size = 8;
    if (made->is_made) return;
    for (int i = 0; i < operation->count; i++)
        size += 1 + value_of(run, operation->items[i].path).size;
    Writer start = take_memory(run->work, size), to = write_array_header(start, operation->count);
    for (int i = 0; i < operation->count; i++) {
        const Item *item = &operation->items[i];
        Span value = value_of(run, item->path);
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
    const Contribution made = {run->registers[operation->used].bytes, run->registers[operation->second].kept,
                               {NULL, 0}, NULL, NULL};
    add_contribution(run->work, &run->record->of[operation->place], made);
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

/* A document of one value, as rows of newest values have it. */
static Span document_of_value(Run *run, Span value) {
    Writer start = take_memory(run->work, 1 + value.size);
    const Writer end = write_span(write_array_header(start, 1), value);
    if (end - start > NEWEST_BYTES) stop(run->work, TOO_LONG);
    return (Span){start, (size_t)(end - start)};
}

static void make_extreme(Run *run, const Operation *operation) {
    Register *made = &run->registers[operation->made];
    if (made->is_made) return;
    made->is_made = 1;
    if (!holds(run, operation->second)) return;
    Span value = value_of(run, operation->path);
    Span order = value_of(run, operation->order);
    if (is_nil(value) || is_nil(order)) return;
    made->bytes = encoded(run, order, operation);
    made->shown = operation->flag & IN_DOCUMENT ? document_of_value(run, value) : value;
    made->kept = operation->flag & IN_DOCUMENT ? short_hash(run, made->shown) : SAID_BY_KEY;
    if (operation->flag & IN_DIGITS && !is_usual(run->work, value, operation->type))
        made->kept = short_hash(run, value);
}

static void put_extreme(Run *run, const Operation *operation) {
    const Register *made = &run->registers[operation->second];
    const Span found = run->registers[operation->used].bytes;
    if (!made->bytes.data) return;
    if (operation->most && found.size + made->bytes.size > operation->most) stop(run->work, TOO_LONG);
    const Contribution put = {joined(run->work, found, made->bytes, NOTHING), made->kept, made->shown, NULL, NULL};
    add_contribution(run->work, &run->record->of[operation->place], put);
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
        size += value_of(run, selection->paths[i]).size;
    Writer start = take_memory(run->work, size), end = write_array_header(start, selection->count);
    for (int i = 0; i < selection->count; i++)
        end = write_span(end, value_of(run, selection->paths[i]));
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
    case KEY_OF:
    case REFERENCE: return make_key_part(run, operation);
    case SKIP: return holds(run, operation->second);
    case EACH: return take_elements(run, operation);
    case FIRST_EXPIRY: return find_expiry(run, operation);
    case SPREAD: make_spread(run, operation); break;
    case PLACE: make_place(run, operation); break;
    case ROW: put_row(run, operation); break;
    case CLAIM: claim(run, operation); break;
    case AMOUNTS: make_amounts(run, operation); break;
    case SUM: add_to_group(run, operation); break;
    case EXTREME: make_extreme(run, operation); break;
    case EXTREMUM: put_extreme(run, operation); break;
    case REPEAT:
    case END: break;
    }
    return 1;
}

/* Performs the operations behind REPEAT for each element of the list. Returns the END of them. */
static const Operation *repeat(Run *run, const Operation *first, const Operation *end) {
    const Operation *operation = first;
    for (int i = 0; i < run->count; i++) {
        run->element = run->several[i];
        run->registers[first->made].bytes = run->keys[i];
        for (operation = first + 1; operation < end && operation->code != END; operation++) perform(run, operation);
    }
    return operation;
}

void emit(Work *work, const Program *program, const Entity *entity, Record *record) {
    Run all = {.work = work, .program = program, .entity = entity, .record = record, .until = NEVER}, *run = &all;
    clear_record(program, record);
    const Operation *operation = program->operations, *end = operation + program->operation_count;
    for (; operation < end; operation++) {
        if (operation->code == REPEAT)
            operation = repeat(run, operation, end);
        else if (!perform(run, operation))
            while (operation < end && operation->code != END) operation++;
    }
    take_sources(run);
    for (int i = 0; i < program->hidden_count; i++) record->hidden[i] = entity->fields[program->fields + i];
    if (program->is_copied) digest_copied(run);
}
