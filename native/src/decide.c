/* Deciding: the rows that follow from saving entities. */
#include "core.h"

#include <string.h>

static const uint8_t ZERO_BYTE = 0;
static const Span ZERO = {&ZERO_BYTE, 1};

/* One entity that is being decided. */
typedef struct {
    Unit *unit;
    const Program *program;
    const Question *asked;
    Root *seen;
    uint64_t version;
    int is_new;
    Span old[MOST_FIELDS]; /* the fields before, where there was an entity */
    Record before, after;
    Entity entity;
    Root *sources[MOST_REFERENCES];
} Decision;

int fields_of(Work *work, Span body, const uint8_t *layout, Span *fields) {
    if (body.size < LAYOUT_BYTES || memcmp(body.data, layout, LAYOUT_BYTES)) stop(work, OTHER_LAYOUT);
    const int count = elements_of((Span){body.data + LAYOUT_BYTES, body.size - LAYOUT_BYTES}, fields, MOST_FIELDS);
    if (count < 0) stop(work, OTHER_LAYOUT);
    return count;
}

Span document_of(Work *work, const Program *program, const Span *fields) {
    size_t size = LAYOUT_BYTES + 8;
    for (int i = 0; i < program->fields; i++) size += fields[i].size;
    Writer start = take_memory(work, size);
    Writer to = write_array_header(write_span(start, program->layout), program->fields);
    for (int i = 0; i < program->fields; i++) to = write_span(to, fields[i]);
    return (Span){start, (size_t)(to - start)};
}

/* ---- what was there before ---- */

static int is_expired(const Unit *unit, const Span *fields, int count, const Expiry *expiry) {
    return expiry_of(unit->work, fields, count, expiry) <= unit->now;
}

static void read_before(Decision *made) {
    Work *work = made->unit->work;
    const Root *seen = made->seen;
    const Program *program = made->program;
    const int64_t expected = made->asked->expected;
    if (made->asked->number && (seen->body.data || seen->version)) stop(work, NUMBERED);
    if (seen->is_given && made->asked->verb != SAVE) stop(work, OTHER_ROW); /* it was asked of what is stored */
    if (expected >= 0 && (uint64_t)expected != seen->own) stop(work, OTHER_VERSION);
    made->is_new = !seen->body.data;
    if (made->is_new && made->asked->verb != SAVE) stop(work, OTHER_ROW);
    made->version = next_version(made->unit, seen);
    clear_record(program, &made->before);
    if (made->is_new) {
        if (program->is_numbered != (made->asked->number != 0)) stop(work, NUMBERED);
        return;
    }
    if (fields_of(work, seen->body, program->layout.data, made->old) != program->fields) stop(work, OTHER_LAYOUT);
    if (is_expired(made->unit, made->old, program->fields, &program->expiry)) stop(work, VANISHES);
    decode_record(work, program, seen->record, &made->before);
}

/* ---- copies, and what the store gives ---- */

/* Whether the entity referred to the same source before, by the same bytes. */
static int refers_as_before(const Decision *made, const Reference *reference, Span given) {
    if (made->is_new) return 0;
    const Span old = made->old[reference->field];
    if (is_nil(old)) return 0;
    if (!reference->is_copy) return is_same(old, given);
    const Span old_ref = element_at(old, 0), given_ref = element_at(given, 0);
    return old_ref.data && given_ref.data && is_same(old_ref, given_ref);
}

/* Whether the record before says that the entity referred to this source: perhaps by other bytes of an equal key. */
static int is_recorded(const Decision *made, const Reference *reference, Span source) {
    const Span taken = joined(made->unit->work, source, reference->selection, NOTHING);
    for (int i = 0; i < made->before.taken_count; i++)
        if (is_same(made->before.taken[i], taken)) return 1;
    for (int i = 0; i < made->before.held_count; i++)
        if (is_same(made->before.held[i], source)) return 1;
    return 0;
}

Span filled_copy(Work *work, const Reference *reference, Span given, const Span *fields, int count) {
    Span values[MOST_ITEMS];
    const Span ref = element_at(given, 0);
    if (!ref.data) stop(work, OTHER_VALUE);
    size_t size = 8 + ref.size;
    for (int i = 0; i < reference->count; i++) {
        values[i] = value_at(work, fields, count, reference->paths[i]);
        size += values[i].size;
    }
    Writer start = take_memory(work, size);
    Writer to = write_span(write_array_header(start, 2 + (size_t)reference->count), ref);
    *to++ = 0xc2; /* not deleted */
    for (int i = 0; i < reference->count; i++) to = write_span(to, values[i]);
    return (Span){start, (size_t)(to - start)};
}

void fill_hidden(Work *work, const Program *program, int reference, const Span *fields, int count, Entity *entity) {
    for (int i = 0; i < program->hidden_count; i++)
        if (program->hidden[i].reference == reference)
            entity->fields[program->fields + i] = value_at(work, fields, count, program->hidden[i].path);
}

void keep_hidden(const Program *program, int reference, const Record *record, Entity *entity) {
    for (int i = 0; i < program->hidden_count; i++)
        if (program->hidden[i].reference == reference)
            entity->fields[program->fields + i] = record ? record->hidden[i] : NIL;
}

/* Whether a list of references had this one before. */
static int had_reference(const Decision *made, const Reference *reference, Span key) {
    Work *work = made->unit->work;
    if (made->is_new || is_nil(made->old[reference->field])) return 0;
    int count;
    const Span *found = all_elements(work, made->old[reference->field], &count);
    for (int i = 0; i < count; i++)
        if (is_same(key_of_source(work, reference, found[i]), key)) return 1;
    return 0;
}

/* Whether a reference may refer to an entity of this document, in a layout that this core knows. */
static int is_accepted(const Reference *reference, Span body) {
    for (size_t i = 0; i + LAYOUT_BYTES <= reference->accepted.size; i += LAYOUT_BYTES)
        if (!memcmp(reference->accepted.data + i, body.data, LAYOUT_BYTES)) return 1;
    return 0;
}

/* The fields of a source that the entity did not refer to before; none where they are not looked at. */
static int fields_of_source(Decision *made, int place, const Root *source, Span *fields) {
    const Reference *reference = &made->program->references[place];
    if (!source->body.data) stop(made->unit->work, NO_SOURCE);
    if (!reference->is_copy && !reference->is_hidden && !reference->expiry.path.count) {
        if (!is_accepted(reference, source->body)) stop(made->unit->work, OTHER_LAYOUT);
        return 0;
    }
    const int count = fields_of(made->unit->work, source->body, reference->layout, fields);
    if (is_expired(made->unit, fields, count, &reference->expiry)) stop(made->unit->work, NO_SOURCE);
    return count;
}

/* Looks whether what a list refers to is there, where it did not refer to it before. */
static void check_list(Decision *made, int place) {
    const SourceKeys *keys = &made->asked->sources[place];
    Span fields[MOST_FIELDS];
    for (int i = 0; i < keys->count; i++)
        if (!had_reference(made, &made->program->references[place], keys->first[i]))
            fields_of_source(made, place, root_at(made->unit, keys->first[i]), fields);
}

static void fill_reference(Decision *made, int place) {
    const Reference *reference = &made->program->references[place];
    if (reference->is_many) {
        check_list(made, place);
        return;
    }
    Work *work = made->unit->work;
    const Span key = made->entity.sources[place];
    Span source[MOST_FIELDS];
    if (reference->field == NO_FIELD) {
        if (!key.data) stop(work, OTHER_VALUE);
        if (made->is_new) fields_of_source(made, place, made->sources[place], source);
        return;
    }
    Span *field = &made->entity.fields[reference->field];
    if (is_nil(*field) != !key.data) stop(work, OTHER_VALUE);
    if (key.data && refers_as_before(made, reference, *field)) {
        if (reference->is_going && made->sources[place]->is_deleted) stop(work, VANISHES);
        *field = made->old[reference->field];
        keep_hidden(made->program, place, &made->before, &made->entity);
        return;
    }
    keep_hidden(made->program, place, NULL, &made->entity);
    if (reference->is_going && !made->is_new && made->asked->verb == SAVE && !is_nil(made->old[reference->field]))
        stop(work, VANISHES); /* the source before may have been deleted, and is not read here */
    if (!key.data) return;
    if (!made->is_new && is_recorded(made, reference, key)) stop(work, OTHER_VALUE);
    const int count = fields_of_source(made, place, made->sources[place], source);
    if (reference->is_copy) *field = filled_copy(work, reference, *field, source, count);
    fill_hidden(work, made->program, place, source, count, &made->entity);
}

/* Reads the sources that an entity which is changed did not refer to before, and those with which it may go. */
static void read_new_sources(Decision *made) {
    const size_t first = made->unit->reads.count;
    for (int i = 0; i < made->program->reference_count; i++) {
        const Reference *reference = &made->program->references[i];
        const SourceKeys *keys = &made->asked->sources[i];
        const Span key = made->entity.sources[i];
        for (int j = 0; reference->is_many && j < keys->count; j++)
            if (!had_reference(made, reference, keys->first[j])) root_at(made->unit, keys->first[j]);
        if (!key.data || reference->field == NO_FIELD) continue;
        const Span given = made->entity.fields[reference->field], old = made->old[reference->field];
        if (is_nil(given)) stop(made->unit->work, OTHER_VALUE);
        const int is_kept = refers_as_before(made, reference, given);
        if (is_kept && !reference->is_going) continue;
        if (!is_kept && !is_nil(old) &&
            is_same(key_of_source(made->unit->work, reference, old), key))
            stop(made->unit->work, OTHER_VALUE); /* an equal key by other bytes */
        made->sources[i] = root_at(made->unit, key);
    }
    count_reads(made->unit, first);
}

/* Gives a field what the store gives it. */
static void fill_role(Decision *made, int place) {
    static const uint8_t left_out[3] = {0xc7, 0, 5}; /* Python's mark of a value that is not given */
    enum { INSTANT_BYTES = 16 };
    Span *field = &made->entity.fields[place];
    const enum Role role = made->program->roles[place];
    if (role == GIVEN) return;
    if (role == TOTAL && made->is_new) return; /* `fill_totals` does */
    if (role != UPDATED && !made->is_new) {
        *field = made->old[place];
        return;
    }
    if (role == CREATED && !is_same(*field, (Span){left_out, sizeof left_out})) return;
    Writer start = take_memory(made->unit->work, INSTANT_BYTES), end = write_milliseconds(start, made->unit->now);
    *field = (Span){start, (size_t)(end - start)};
}

/* Gives a new entity the numbers of the groups that it shows, which may have come before it. */
static void fill_totals(Decision *made) {
    const Program *program = made->program;
    Unit *unit = made->unit;
    const size_t first = unit->reads.count;
    int counters = 0;
    for (int i = 0; i < program->total_count; i++) {
        const Total *total = &program->totals[i];
        if (total->place == UNKNOWN_PLACE) stop(unit->work, SHOWN);
        if (total->place == COUNTER_PLACE && counters == made->asked->counter_count) stop(unit->work, SHOWN);
        if (total->place == COUNTER_PLACE)
            expect_no_row(unit, made->asked->counters[counters++].settings);
        else
            read_sum(unit, sum_at(unit, joined(unit->work, total->prefix, made->entity.suffix, NOTHING)));
    }
    count_reads(unit, first);
    for (int i = 0; i < program->total_count; i++) {
        const Total *total = &program->totals[i];
        if (total->place == COUNTER_PLACE) {
            made->entity.fields[total->field] = ZERO;
            continue;
        }
        Sum *sum = sum_at(unit, joined(unit->work, total->prefix, made->entity.suffix, NOTHING));
        made->entity.fields[total->field] = number_at_place(unit, sum, total->place);
    }
}

/* Has adds to the counters that a new entity shows, to which nothing was added yet, say that there is something to show. */
static void show_counters(Decision *made) {
    const Question *asked = made->asked;
    Unit *unit = made->unit;
    if (!made->is_new) return;
    for (int i = 0; i < asked->counter_count; i++) {
        const Counter *counter = &asked->counters[i];
        expect_no_rows(unit, counter->start, counter->stop);
        write_row(unit, COUNTS, counter->settings, stamped(unit, unit->now, counter->shown));
    }
}

static void fill(Decision *made) {
    const Program *program = made->program;
    Entity *entity = &made->entity;
    Work *work = made->unit->work;
    if (fields_of(work, made->asked->document, program->layout.data, entity->fields) != program->fields)
        stop(work, OTHER_LAYOUT);
    if (made->asked->verb != SAVE) read_new_sources(made);
    for (int i = 0; i < program->reference_count; i++) fill_reference(made, i);
    for (int i = 0; i < program->fields; i++) fill_role(made, i);
    if (made->is_new) fill_totals(made);
}

/* ---- what differs from before ---- */

/* Where the rows of one entity differ. */
typedef struct {
    Unit *unit;
    Span owner, suffix;
    uint64_t version;
} Differing;

static Number amount_of(Unit *unit, Span value) {
    Number number = {0, 0, 0};
    if (!is_nil(value) && !number_of(value, &number)) stop(unit->work, OTHER_VALUE);
    return number;
}

static int amounts_of(Unit *unit, Span amounts, Span *parts) {
    const int count = elements_of(amounts, parts, MOST_SLOTS);
    if (count <= 0) stop(unit->work, OTHER_RECORD);
    return count;
}

/* Adds numbers to those of a group. */
static void add_to_sum(Unit *unit, Span key, const Number *added, int count) {
    Sum *sum = sum_at(unit, key);
    if (!sum->count) {
        memcpy(sum->amounts, added, (size_t)count * sizeof *added);
        sum->count = count;
        return;
    }
    if (sum->count != count) stop(unit->work, OTHER_RECORD);
    for (int i = 0; i < count; i++)
        if (!add_number(&sum->amounts[i], added[i])) stop(unit->work, OTHER_VALUE);
}

/* Adds amounts, as a record has them, to a group; `sign` is 1 or -1. */
static void add_amounts(Unit *unit, Span key, Span amounts, int sign) {
    Span parts[MOST_SLOTS];
    Number added[MOST_SLOTS];
    const int count = amounts_of(unit, amounts, parts);
    for (int i = 0; i < count; i++) {
        added[i] = amount_of(unit, parts[i]);
        if (sign < 0) added[i] = negative(added[i]);
    }
    add_to_sum(unit, key, added, count);
}

/* What turns the amounts of one contribution into those of another; equal ones add nothing. */
static void add_difference(Unit *unit, Span key, Span before, Span after) {
    Span old[MOST_SLOTS], new[MOST_SLOTS];
    Number added[MOST_SLOTS];
    const int count = amounts_of(unit, before, old);
    if (amounts_of(unit, after, new) != count) stop(unit->work, OTHER_RECORD);
    for (int i = 0; i < count; i++) {
        added[i] = (Number){0, 0, 0};
        if (is_same(old[i], new[i])) continue;
        added[i] = negative(amount_of(unit, old[i]));
        if (!add_number(&added[i], amount_of(unit, new[i]))) stop(unit->work, OTHER_VALUE);
    }
    add_to_sum(unit, key, added, count);
}

static void differ_in_sum(const Differing *of, Span prefix, const Contribution *old, const Contribution *new) {
    Unit *unit = of->unit;
    if (old && new && !old->next && !new->next && is_same(old->found, new->found)) {
        if (!is_same(old->kept, new->kept))
            add_difference(unit, joined(unit->work, prefix, new->found, NOTHING), old->kept, new->kept);
        return;
    }
    for (; old; old = old->next) add_amounts(unit, joined(unit->work, prefix, old->found, NOTHING), old->kept, -1);
    for (; new; new = new->next) add_amounts(unit, joined(unit->work, prefix, new->found, NOTHING), new->kept, 1);
}

/* The contribution at a place, among several; NULL where there is none. */
static const Contribution *at_place(const Contribution *first, Span found) {
    while (first && !is_same(first->found, found)) first = first->next;
    return first;
}

static void differ_in_row(const Differing *of, Span prefix, const Contribution *old, const Contribution *new) {
    Unit *unit = of->unit;
    for (const Contribution *each = new; each; each = each->next) {
        const Contribution *before = at_place(old, each->found);
        if (!before || !is_same(before->kept, each->kept))
            write_row(unit, VIEWS, joined(unit->work, prefix, each->found, of->suffix),
                      stamped(unit, of->version, each->shown));
    }
    for (const Contribution *each = old; each; each = each->next)
        if (!at_place(new, each->found))
            remove_row(unit, VIEWS, joined(unit->work, prefix, each->found, of->suffix));
}

static void differ_in_claims(const Differing *of, Span prefix, const Contribution *old, const Contribution *new) {
    Unit *unit = of->unit;
    for (const Contribution *each = old; each; each = each->next)
        if (!at_place(new, each->found))
            give_up_claim(unit, joined(unit->work, prefix, each->found, NOTHING), of->owner);
    for (const Contribution *each = new; each; each = each->next)
        if (!at_place(old, each->found))
            take_claim(unit, joined(unit->work, prefix, each->found, NOTHING), of->owner);
}

static int contains(const Span *keys, int count, Span key) {
    for (int i = 0; i < count; i++)
        if (is_same(keys[i], key)) return 1;
    return 0;
}

/* Back-references, or holds: rows of the view with this prefix, that say everything in their keys. */
static void differ_in_pointers(const Differing *of, Span prefix, const Span *old, int olds, const Span *new, int news) {
    Unit *unit = of->unit;
    for (int i = 0; i < olds; i++)
        if (!contains(new, news, old[i])) remove_row(unit, VIEWS, joined(unit->work, prefix, old[i], of->owner));
    for (int i = 0; i < news; i++)
        if (!contains(old, olds, new[i]))
            write_row(unit, VIEWS, joined(unit->work, prefix, new[i], of->owner),
                      stamped(unit, of->version, NOTHING));
}

/* Whether contributions are the same, in the same order. */
static int are_same(const Contribution *one, const Contribution *other) {
    for (; one && other; one = one->next, other = other->next)
        if (!is_same(one->found, other->found) || !is_same(one->kept, other->kept)) return 0;
    return !one && !other;
}

/* Notes the groups of an aggregate that the entity was in, and is in. */
static void touch_groups(const Differing *of, const Program *program, const Shown *shown, const Record *before,
                         const Record *after) {
    Unit *unit = of->unit;
    const Span prefix = program->tokens[shown->sum].prefix;
    const Contribution *both[2] = {first_of(&before->of[shown->sum]), first_of(&after->of[shown->sum])};
    if (!shown->is_known) stop(unit->work, SHOWN);
    for (int i = 0; i < 2; i++)
        for (const Contribution *each = both[i]; each; each = each->next) {
            Sum *sum = sum_at(unit, joined(unit->work, prefix, each->found, NOTHING));
            note_touched(unit, (Touched){sum, shown, prefix, each->found});
        }
}

void differ(Unit *unit, const Program *program, Span owner, Span suffix, uint64_t version, const Record *before,
            const Record *after) {
    const Differing of = {unit, owner, suffix, version};
    for (int i = 0; i < program->token_count; i++) {
        const Token *token = &program->tokens[i];
        const Contribution *old = first_of(&before->of[i]), *new = first_of(&after->of[i]);
        if (are_same(old, new)) continue;
        if (token->shown) touch_groups(&of, program, &program->shown[token->shown - 1], before, after);
        switch ((enum Form)token->form) {
        case OF_ROWS: differ_in_row(&of, token->prefix, old, new); break;
        case OF_SUMS: differ_in_sum(&of, token->prefix, old, new); break;
        case OF_CLAIMS: differ_in_claims(&of, token->prefix, old, new); break;
        }
    }
    differ_in_pointers(&of, (Span){BACK_REFERENCES, 2}, before->taken, before->taken_count, after->taken,
                       after->taken_count);
    differ_in_pointers(&of, (Span){HOLDS, 2}, before->held, before->held_count, after->held, after->held_count);
}

/* ---- one entity, and all ---- */

static void store_one(Decision *made, Saved *saved) {
    Unit *unit = made->unit;
    fill(made);
    emit(unit->work, made->program, &made->entity, &made->after);
    const Span body = document_of(unit->work, made->program, made->entity.fields);
    const Span record = encode_record(unit->work, made->program, &made->after);
    if (made->is_new || !is_same(record, made->seen->record))
        differ(unit, made->program, made->seen->key, made->entity.suffix, made->version, &made->before, &made->after);
    write_root(unit, made->seen, made->version, made->version, body, record);
    *saved = (Saved){made->version, made->is_new, 0, body};
}

/* Has the root take note of the number that it gave. */
static void note_number(Decision *made) {
    for (int i = 0; i < made->program->reference_count; i++)
        if (made->program->references[i].field == NO_FIELD) {
            raise_sequence(made->unit, made->sources[i], made->program->kind, made->asked->number);
            return;
        }
    stop(made->unit->work, NUMBERED);
}

static void delete_one(Decision *made, Saved *saved) {
    Unit *unit = made->unit;
    const Span key = made->seen->key;
    clear_record(made->program, &made->after);
    differ(unit, made->program, key, made->entity.suffix, made->version, &made->before, &made->after);
    write_deleted(unit, made->seen, made->version, made->asked->document);
    *saved = (Saved){made->version, 0, 0, {NULL, 0}};
}

/* Notes whether holders may have to follow the entity, whose row was this before. */
static int note_source(Decision *made, const Root *before) {
    Unit *unit = made->unit;
    const int is_deleted = made->asked->verb == DELETE;
    if (is_deleted && made->program->is_held) expect_none(unit, HOLDS, before->key);
    if (!made->program->is_copied || (made->is_new && !before->version)) return 0;
    if (!is_deleted && is_same(made->before.copied, made->after.copied)) return 0;
    note_changed(unit, (Changed){made->seen, made->before.copied, made->after.copied, is_deleted || made->is_new});
    return 1;
}

static void decide_one(Decision *made, const Questions *all, const Question *asked, Saved *saved) {
    Unit *unit = made->unit;
    made->asked = asked;
    made->program = asked->program;
    made->seen = root_at(unit, asked->key);
    for (int i = 0; i < asked->program->reference_count; i++) {
        const SourceKeys *keys = &asked->sources[i];
        const int is_one = keys->count && !asked->program->references[i].is_many;
        made->entity.sources[i] = is_one ? keys->first[0] : (Span){NULL, 0};
        made->sources[i] = is_one && asked->verb == SAVE ? root_at(unit, keys->first[0]) : NULL;
    }
    made->entity.holds = asked->holds;
    made->entity.now = unit->now;
    made->entity.suffix = (Span){asked->key.data + asked->program->start, asked->key.size - asked->program->start};
    read_before(made);
    const Root before = *made->seen;
    if (asked->verb == DELETE)
        delete_one(made, saved);
    else
        store_one(made, saved);
    if (asked->number) note_number(made);
    made->seen->is_given = 1;
    saved->is_source = note_source(made, &before);
    show_counters(made);
    if (all->is_in_turn) follow(unit, all);
}

/* Of what has followed since it was saved, how it is now. */
static void take_followed(Unit *unit, const Questions *asked, Saved *saved) {
    for (size_t i = 0; i < asked->count; i++) {
        const Root *root = root_at(unit, asked->first[i].key);
        if (!root->has_followed) continue;
        if (!root->body.data) stop(unit->work, OTHER_ROW);
        saved[i].version = root->own;
        saved[i].body = root->body;
    }
}

/* Reads the sources of one question, as far as they are read before it is looked at. */
static void read_sources(Unit *unit, const Question *asked) {
    for (int i = 0; i < asked->program->reference_count; i++) {
        const SourceKeys *keys = &asked->sources[i];
        for (int j = 0; j < keys->count; j++) {
            const Span source = keys->first[j];
            if (source.size < asked->program->references[i].start) stop(unit->work, OTHER_VALUE);
            if (is_same(source, asked->key)) stop(unit->work, OTHER_VALUE); /* it refers to itself */
            if (asked->verb == SAVE || asked->verb == UPSERT) root_at(unit, source);
        }
    }
}

/* Reads all root rows that are named: the entities' own, and their sources'. */
static void read_roots(Unit *unit, const Questions *asked) {
    for (size_t i = 0; i < asked->known_count; i++) root_at(unit, asked->known[i]);
    size_t first = unit->reads.count;
    for (size_t i = 0; i < asked->count; i++) {
        const Question *each = &asked->first[i];
        if (each->key.size < each->program->start) stop(unit->work, OTHER_VALUE);
        if (!each->number) root_at(unit, each->key);
        read_sources(unit, each);
    }
    count_reads(unit, first);
    first = unit->reads.count;
    for (size_t i = 0; i < asked->count; i++)
        if (asked->first[i].number) root_at(unit, asked->first[i].key);
    count_reads(unit, first);
}

void decide(Work *work, const Questions *asked, Reader reader, Answer *answer) {
    Unit *unit = take_memory(work, sizeof *unit);
    Decision *made = take_memory(work, sizeof *made);
    memset(unit, 0, sizeof *unit);
    unit->work = work;
    unit->reader = reader;
    unit->now = asked->now;
    made->unit = unit;
    answer->unit = unit;
    answer->saved = take_memory(work, (asked->count + 1) * sizeof *answer->saved);
    read_roots(unit, asked);
    for (size_t i = 0; i < asked->count; i++)
        decide_one(made, asked, &asked->first[i], &answer->saved[i]);
    follow(unit, asked);
    take_followed(unit, asked, answer->saved);
    settle(unit);
    sort_writes(unit);
    answer->is_complete = follow_views(unit, asked);
    count_writes(unit);
}
