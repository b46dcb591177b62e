/* Following: the holders of a source get its new values in the commit that changes it. */
#include "core.h"

#include <string.h>

enum { SELECTION_BYTES = 4, FIRST_SELECTION = 0x80 };

const uint8_t BACK_REFERENCES[2] = {0, 0}, HOLDS[2] = {0xff, 0xff};

/* A holder that follows. */
typedef struct {
    Unit *unit;
    const Program *program;
    const Root *source; /* that it follows; NULL where it follows groups */
    Span source_fields[MOST_FIELDS];
    int source_count;
    Record before, after;
    Entity entity;
} Follower;

Span key_of_source(Work *work, const Reference *reference, Span field) {
    const Span key = element_at(reference->is_copy ? element_at(field, 0) : field, 0);
    Span parts[MOST_PARTS];
    if (!key.data || elements_of(key, parts, MOST_PARTS) != reference->parts) stop(work, OTHER_VALUE);
    return key_of_parts(work, reference, parts);
}

Span key_of_root(Work *work, const Program *program, const Reference *reference, const Span *fields) {
    Span parts[MOST_PARTS];
    if (reference->parts > program->own_count) stop(work, OTHER_VALUE);
    for (int i = 0; i < reference->parts; i++) parts[i] = value_at(work, fields, program->fields, program->own[i]);
    return key_of_parts(work, reference, parts);
}

Span key_of_parts(Work *work, const Reference *reference, const Span *parts) {
    if (!reference->parts) stop(work, OTHER_VALUE);
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
    if (reference->is_many) return;
    if (reference->field == NO_FIELD) {
        *source = key_of_root(work, made->program, reference, made->entity.fields);
        return;
    }
    Span *field = &made->entity.fields[reference->field];
    keep_hidden(made->program, place, &made->before, &made->entity);
    if (is_nil(*field)) return;
    *source = key_of_source(work, reference, *field);
    if (!(reference->is_copy || reference->is_hidden) || !made->source || !is_same(*source, made->source->key)) return;
    if (memcmp(made->source->body.data, reference->layout, LAYOUT_BYTES)) stop(work, NO_SOURCE);
    fill_hidden(work, made->program, place, made->source_fields, made->source_count, &made->entity);
    if (reference->is_copy) *field = filled_copy(work, reference, *field, made->source_fields, made->source_count);
}

static const Program *program_of(Work *work, const Questions *asked, const Root *holder) {
    for (int i = 0; i < asked->follower_count; i++) {
        const Program *each = asked->followers[i];
        if (each->follows & MAY_FOLLOW && !memcmp(holder->key.data, each->kind.data, each->kind.size) &&
            !memcmp(holder->body.data, each->layout.data, LAYOUT_BYTES))
            return each;
    }
    stop(work, COPIED);
}

/* Begins with a holder: its program, its fields as they are, and what it contributes. */
static void begin(Follower *made, const Questions *asked, const Root *holder) {
    Work *work = made->unit->work;
    if (!holder->body.data || holder->key.size <= LAYOUT_BYTES) stop(work, OTHER_ROW);
    const Program *program = made->program = program_of(work, asked, holder);
    if (holder->key.size < program->start) stop(work, OTHER_ROW);
    if (fields_of(work, holder->body, program->layout.data, made->entity.fields) != program->fields)
        stop(work, OTHER_LAYOUT);
    made->entity.suffix = (Span){holder->key.data + program->start, holder->key.size - program->start};
    made->entity.now = made->unit->now;
    decode_record(work, program, holder->record, &made->before);
}

/* Writes the holder with its fields as they are now, unless nothing is another one. */
static void end(Follower *made, Root *holder) {
    Unit *unit = made->unit;
    Work *work = unit->work;
    const Program *program = made->program;
    for (int i = 0; i < program->reference_count; i++) follow_reference(made, i);
    emit(work, program, &made->entity, &made->after);
    const Span body = document_of(work, program, made->entity.fields);
    const Span record = encode_record(work, program, &made->after);
    const int is_same_record = is_same(record, holder->record);
    if (is_same_record && is_same(body, holder->body)) return;
    const uint64_t version = next_version(unit, holder), own = holder->own;
    if (!is_same_record)
        differ(unit, program, holder->key, made->entity.suffix, version, &made->before, &made->after);
    write_root(unit, holder, version, own, body, record);
    holder->has_followed = 1;
    const int is_source = program->is_copied && !is_same(made->before.copied, made->after.copied);
    if (is_source) note_changed(unit, (Changed){holder, made->before.copied, made->after.copied, 0});
    if (is_source || program->follows & CHECKED) note_checked(unit, holder);
}

/* ---- who follows ---- */

/* The holders that are found, in the order of their back-references, each once. */
typedef struct {
    Unit *unit;
    Span prefix; /* of the back-references */
    Root **first;
    int count, rows, most;
} Holders;

Span end_of(Work *work, Span prefix) {
    while (prefix.size && prefix.data[prefix.size - 1] == 0xff) prefix.size--;
    uint8_t *end = take_memory(work, prefix.size + 1);
    write_span(end, prefix);
    if (prefix.size) end[prefix.size - 1]++;
    return (Span){end, prefix.size};
}

/* Adds the holders of one range of back-references. */
static void scan(Holders *holders, Span start, Span stop_at) {
    Unit *unit = holders->unit;
    const int room = holders->most + 1 - holders->rows;
    if (!is_below(start, stop_at)) return;
    if (has_written(unit, VIEWS, start, stop_at)) stop(unit->work, COPIED); /* who refers has changed in this commit */
    Span *found = take_memory(unit->work, (size_t)room * sizeof *found);
    const int count = unit->reader.scan(unit->reader.of, VIEWS, start, stop_at, found, NULL, room);
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

void expect_none(Unit *unit, const uint8_t *prefix, Span source) {
    Span found;
    const Span start = joined(unit->work, (Span){prefix, 2}, source, NOTHING), stop_at = end_of(unit->work, start);
    if (has_written(unit, VIEWS, start, stop_at)) stop(unit->work, COPIED);
    const int count = unit->reader.scan(unit->reader.of, VIEWS, start, stop_at, &found, NULL, 1);
    if (count) stop(unit->work, count < 0 ? NOT_READ : COPIED);
    count_request(unit, 0, 0);
}

/* Lets the holders of a source follow it. */
static void follow_source(Follower *made, const Questions *asked, const Changed *changed) {
    Unit *unit = made->unit;
    Work *work = unit->work;
    const size_t known = unit->reads.count;
    const int most = unit->room;
    Holders holders = {unit, joined(work, (Span){BACK_REFERENCES, 2}, changed->source->key, NOTHING),
                       take_memory(work, ((size_t)most + 1) * sizeof(Root *)), 0, 0, most};
    find_holders(&holders, changed->before, changed->after);
    count_reads(unit, known);
    unit->room -= holders.rows;
    made->source = changed->source;
    made->source_count = fields_of(work, made->source->body, made->source->body.data, made->source_fields);
    for (int i = 0; i < holders.count; i++) {
        begin(made, asked, holders.first[i]);
        end(made, holders.first[i]);
        holders.first[i]->is_listed = 0;
    }
}

/* Lets the holders of all that has changed follow, and theirs. */
static void spread_copies(Follower *made, const Questions *asked) {
    Unit *unit = made->unit;
    while (unit->spread < unit->changed_count) {
        const Changed changed = unit->changed[unit->spread++]; /* more may come, and move */
        if (!asked->most_holders) stop(unit->work, COPIED); /* a task looks for them */
        if (changed.is_gone)
            expect_none(unit, BACK_REFERENCES, changed.source->key);
        else
            follow_source(made, asked, &changed);
    }
}

/* ---- groups that are shown ---- */

/* An entity that shows groups of one rank. */
typedef struct {
    Root *holder;
    const Touched *group;
} ShownBy;

/* Takes the groups of the least rank out of those that were touched. Returns how many there are. */
static size_t take_rank(Unit *unit, Touched *taken) {
    size_t count = 0, left = 0;
    unsigned least = 0xff;
    for (size_t i = 0; i < unit->touched_count; i++)
        if (unit->touched[i].shown->rank < least) least = unit->touched[i].shown->rank;
    for (size_t i = 0; i < unit->touched_count; i++) {
        const Touched group = unit->touched[i];
        if (group.shown->rank == least)
            taken[count++] = group;
        else
            unit->touched[left++] = group;
    }
    unit->touched_count = left;
    return count;
}

/* The root row of the entity of a kind that shows a group. */
static Root *root_showing(Unit *unit, const Showing *showing, Span suffix) {
    uint8_t range;
    Span spread = NOTHING;
    if (showing->ranges > 1) {
        range = spread_part(suffix, showing->ranges);
        spread = (Span){&range, 1};
    }
    return root_at(unit, joined(unit->work, showing->kind, spread, suffix));
}

/* Gives an entity the numbers of a group. */
static void take_numbers(Follower *made, const Touched *group) {
    const Program *program = made->program;
    for (int i = 0; i < program->total_count; i++) {
        const Total *total = &program->totals[i];
        if (!is_same(total->prefix, group->prefix)) continue;
        if (total->place >= COUNTER_PLACE) stop(made->unit->work, SHOWN);
        made->entity.fields[total->field] = number_at_place(made->unit, group->sum, total->place);
    }
}

static void follow_rank(Follower *made, const Questions *asked, const Touched *groups, size_t count) {
    Unit *unit = made->unit;
    size_t known = unit->reads.count, found = 0, most = 0;
    for (size_t i = 0; i < count; i++) most += groups[i].shown->count;
    ShownBy *showing = take_memory(unit->work, (most + 1) * sizeof *showing);
    for (size_t i = 0; i < count; i++)
        for (int j = 0; j < groups[i].shown->count; j++)
            showing[found++] =
                (ShownBy){root_showing(unit, &groups[i].shown->showing[j], groups[i].suffix), &groups[i]};
    count_reads(unit, known);
    made->source = NULL;
    known = unit->reads.count;
    for (size_t i = 0; i < found; i++)
        if (showing[i].holder->body.data) read_sum(unit, showing[i].group->sum);
    count_reads(unit, known);
    for (size_t i = 0; i < found; i++) {
        Root *holder = showing[i].holder;
        if (!holder || !holder->body.data) continue;
        begin(made, asked, holder);
        for (size_t j = i; j < found; j++) {
            if (showing[j].holder != holder) continue;
            take_numbers(made, showing[j].group);
            showing[j].holder = NULL; /* once for all of them */
        }
        end(made, holder);
    }
}

void follow(Unit *unit, const Questions *asked) {
    if (!unit->touched_count && unit->spread == unit->changed_count) return;
    Follower *made = take_memory(unit->work, sizeof *made);
    memset(made, 0, sizeof *made);
    made->unit = unit;
    unit->room = asked->most_holders;
    spread_copies(made, asked);
    while (unit->touched_count) {
        Touched *groups = take_memory(unit->work, unit->touched_count * sizeof *groups);
        const size_t count = take_rank(unit, groups);
        follow_rank(made, asked, groups, count);
        spread_copies(made, asked);
    }
}
