/* Following: the holders of a source get its new values in the commit that changes it. */
#include "core.h"

#include <string.h>

enum { SELECTION_BYTES = 4, FIRST_SELECTION = 0x80, BACK_REFERENCE = 2 };

/* A holder that follows. */
typedef struct {
    Unit *unit;
    const Program *program;
    const Root *source;
    Span source_fields[MOST_FIELDS];
    int source_count;
    Record before, after;
    Entity entity;
} Follower;

/* The key of the root row that a reference names. */
static Span key_behind(Work *work, const Reference *reference, Span ref) {
    const Span key = element_at(ref, 0);
    Span parts[MOST_PARTS];
    if (!reference->parts || !key.data || elements_of(key, parts, MOST_PARTS) != reference->parts)
        stop(work, OTHER_VALUE);
    size_t size = reference->start;
    for (int i = 0; i < reference->parts; i++) size += most_of_element(parts[i]);
    Writer start = take_memory(work, size), to = start + reference->start;
    for (int i = 0; i < reference->parts; i++) {
        to = write_element(to, parts[i], reference->types[i], 0);
        if (!to) stop(work, OTHER_VALUE);
    }
    memcpy(start, reference->kind, sizeof reference->kind);
    const Span own = {start + reference->start, (size_t)(to - start) - reference->start};
    if (reference->ranges > 1) start[sizeof reference->kind] = spread_part(own, reference->ranges);
    return (Span){start, (size_t)(to - start)};
}

static void follow_reference(Follower *made, int place) {
    Work *work = made->unit->work;
    const Reference *reference = &made->program->references[place];
    Span *source = &made->entity.sources[place];
    *source = (Span){NULL, 0};
    if (reference->field == NO_FIELD) stop(work, OTHER_VALUE);
    Span *field = &made->entity.fields[reference->field];
    if (is_nil(*field)) return;
    *source = key_behind(work, reference, reference->is_copy ? element_at(*field, 0) : *field);
    if (!reference->is_copy || !is_same(*source, made->source->key)) return;
    if (memcmp(made->source->body.data, reference->layout, LAYOUT_BYTES)) stop(work, NO_SOURCE);
    *field = filled_copy(work, reference, *field, made->source_fields, made->source_count);
}

static const Program *program_of(Work *work, const Questions *asked, const Root *holder) {
    for (int i = 0; i < asked->holder_count; i++) {
        const Program *each = asked->holders[i];
        if (!memcmp(holder->key.data, each->kind.data, each->kind.size) &&
            !memcmp(holder->body.data, each->layout.data, LAYOUT_BYTES))
            return each;
    }
    stop(work, COPIED);
}

static void follow(Follower *made, const Questions *asked, Root *holder) {
    Unit *unit = made->unit;
    Work *work = unit->work;
    if (!holder->body.data || holder->is_decided || holder->key.size <= sizeof(uint16_t)) stop(work, OTHER_ROW);
    const Program *program = made->program = program_of(work, asked, holder);
    Entity *entity = &made->entity;
    if (fields_of(work, holder->body, program->layout.data, entity->fields) != program->fields)
        stop(work, OTHER_LAYOUT);
    if (holder->key.size < program->start) stop(work, OTHER_ROW);
    for (int i = 0; i < program->reference_count; i++) follow_reference(made, i);
    entity->suffix = (Span){holder->key.data + program->start, holder->key.size - program->start};
    decode_record(work, program, holder->record, &made->before);
    emit(work, program, entity, &made->after);
    const Span body = document_of(work, program, entity->fields);
    const Span record = encode_record(work, program, &made->after);
    const int is_same_record = is_same(record, holder->record);
    if (is_same_record && is_same(body, holder->body)) return;
    const uint64_t version = next_version(unit, holder);
    if (!is_same_record) differ(unit, program, holder->key, entity->suffix, version, &made->before, &made->after);
    write_root(unit, holder, version, holder->own, body, record);
}

/* ---- who follows ---- */

/* The holders that are found, in the order of their back-references, each once. */
typedef struct {
    Unit *unit;
    Span prefix; /* of the back-references */
    Root **first;
    int count, rows, most;
} Holders;

/* Where the keys end that begin so. */
static Span end_of(Work *work, Span prefix) {
    while (prefix.size && prefix.data[prefix.size - 1] == 0xff) prefix.size--;
    uint8_t *end = take_memory(work, prefix.size + 1);
    write_span(end, prefix);
    if (prefix.size) end[prefix.size - 1]++;
    return (Span){end, prefix.size};
}

static int is_before(Span one, Span other) {
    const size_t size = one.size < other.size ? one.size : other.size;
    const int order = memcmp(one.data, other.data, size);
    return order ? order < 0 : one.size < other.size;
}

/* Adds the holders of one range of back-references. */
static void scan(Holders *holders, Span start, Span stop_at) {
    Unit *unit = holders->unit;
    const int room = holders->most + 1 - holders->rows;
    if (!is_before(start, stop_at)) return;
    Span *found = take_memory(unit->work, (size_t)room * sizeof *found);
    const int count = unit->reader.scan(unit->reader.of, VIEWS, start, stop_at, found, room);
    if (count < 0) stop(unit->work, NOT_READ);
    if (count == room) stop(unit->work, COPIED); /* too many: a task follows */
    size_t bytes = 0;
    for (int i = 0; i < count; i++) {
        Span key = {found[i].data + holders->prefix.size, found[i].size - holders->prefix.size};
        bytes += found[i].size;
        if (key.size > SELECTION_BYTES && key.data[0] & FIRST_SELECTION)
            key = (Span){key.data + SELECTION_BYTES, key.size - SELECTION_BYTES};
        Root *holder = root_at(unit, key);
        if (!holder->is_listed) holders->first[holders->count++] = holder;
        holder->is_listed = 1;
    }
    holders->rows += count;
    count_request(unit, (size_t)count, bytes);
}

/* Finds the holders of all selections whose digests differ; both maps name the same ones, in the order of names. */
static void find_holders(Holders *holders, Span before, Span after) {
    Work *work = holders->unit->work;
    Span old[2 * MOST_SELECTIONS], new[2 * MOST_SELECTIONS], name, start = holders->prefix;
    const int count = entries_of(after, new, 2 * MOST_SELECTIONS);
    if (count < 0 || entries_of(before, old, 2 * MOST_SELECTIONS) != count) stop(work, OTHER_RECORD);
    for (int i = 0; i < count; i += 2) {
        if (!is_same(old[i], new[i]) || !binary_of(new[i], &name)) stop(work, OTHER_RECORD);
        if (!is_same(old[i + 1], new[i + 1])) continue;
        const Span unchanged = joined(work, holders->prefix, name, NOTHING);
        scan(holders, start, unchanged);
        start = end_of(work, unchanged);
    }
    scan(holders, start, end_of(work, holders->prefix));
}

void follow_holders(Unit *unit, const Questions *asked, Root *source, Span before, Span after) {
    static const uint8_t back_reference[BACK_REFERENCE] = {0, 0};
    Work *work = unit->work;
    const size_t known = unit->reads.count;
    const int most = asked->most_holders;
    Holders holders = {unit, joined(work, (Span){back_reference, BACK_REFERENCE}, source->key, NOTHING),
                       take_memory(work, ((size_t)most + 1) * sizeof(Root *)), 0, 0, most};
    find_holders(&holders, before, after);
    size_t bytes = 0;
    for (size_t i = known; i < unit->reads.count; i++) bytes += bytes_of_root(root_at(unit, unit->reads.first[i].key));
    if (unit->reads.count > known) count_request(unit, unit->reads.count - known, bytes);
    Follower *made = take_memory(work, sizeof *made);
    made->unit = unit;
    made->source = source;
    made->source_count = fields_of(work, source->body, source->body.data, made->source_fields);
    for (int i = 0; i < holders.count; i++) follow(made, asked, holders.first[i]);
}
