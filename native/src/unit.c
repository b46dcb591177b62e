/* The rows of one commit: those that were read, what is added to groups, and those that are written. */
#include "core.h"

#include <stdlib.h>
#include <string.h>

enum {
    VERSION_BYTES = 8,
    MOST_BODY = 0xffff,
    MOST_VALUE = 500000,
    MOST_CELL = 40,  /* bytes of a cell that is spelled out, without its value, and of a version */
    MOST_CELLS = 16, /* of a root row, besides those of the entity */
    AMOUNT_BYTES = 64,
    FIRST_ROOM = 16
};

enum { COLUMN_BYTES = 3 };
static const uint8_t VERSION_COLUMN[] = {'d', ':', 'v'}, RECORD_COLUMN[] = {'m', ':', 'e'};
static const uint8_t SEQUENCE_COLUMN[] = {'m', ':', 's'}; /* and the kind of the children */
static const uint8_t NO_BYTES[1] = {0};
const Span NOTHING = {NO_BYTES, 0};

Span joined(Work *work, Span one, Span two, Span three) {
    Writer start = take_memory(work, one.size + two.size + three.size + 1);
    write_span(write_span(write_span(start, one), two), three);
    return (Span){start, one.size + two.size + three.size};
}

/* ---- maps ---- */

static uint64_t hash_of(Span key) {
    uint64_t hash = 0xcbf29ce484222325; /* FNV-1a */
    for (size_t i = 0; i < key.size; i++) hash = (hash ^ key.data[i]) * 0x100000001b3;
    return hash ^ hash >> 29;
}

/* The slot of a key: with what has it, or empty. What is in a map begins with its key. */
static void **slot_of(const Map *map, Span key) {
    for (size_t at = hash_of(key);; at++) {
        void **slot = &map->slots[at & (map->room - 1)];
        if (!*slot || is_same(*(const Span *)*slot, key)) return slot;
    }
}

static void grow(Work *work, Map *map) {
    Map larger = {NULL, map->count, map->room ? 2 * map->room : FIRST_ROOM};
    larger.slots = take_memory(work, larger.room * sizeof *larger.slots);
    memset(larger.slots, 0, larger.room * sizeof *larger.slots);
    for (size_t i = 0; i < map->room; i++)
        if (map->slots[i]) *slot_of(&larger, *(const Span *)map->slots[i]) = map->slots[i];
    *map = larger;
}

void *item_at(Work *work, Map *map, Span key, size_t size) {
    if (2 * map->count >= map->room) grow(work, map);
    void **slot = slot_of(map, key);
    if (*slot) return *slot;
    Span *made = take_memory(work, size);
    memset(made, 0, size);
    *made = key;
    map->count++;
    *slot = made;
    return made;
}

/* ---- rows ---- */

void *with_room(Work *work, void *first, size_t count, size_t *room, size_t size) {
    if (count < *room) return first;
    *room = *room ? 2 * *room : FIRST_ROOM;
    void *larger = take_memory(work, *room * size);
    if (count) memcpy(larger, first, count * size);
    return larger;
}

static void add_row(Work *work, Rows *rows, Row added) {
    rows->first = with_room(work, rows->first, rows->count, &rows->room, sizeof added);
    rows->first[rows->count++] = added;
}

Span read_row(Unit *unit, enum Table table, Span key) {
    Span value = {NULL, 0};
    if (!key.size || key.size > MOST_KEY) stop(unit->work, TOO_LONG);
    if (unit->reader.read(unit->reader.of, table, key, &value)) stop(unit->work, NOT_READ);
    add_row(unit->work, &unit->reads, (Row){table, key, value});
    return value;
}

void write_row(Unit *unit, enum Table table, Span key, Span value) {
    if (key.size > MOST_KEY || value.size > MOST_VALUE) stop(unit->work, TOO_LONG);
    add_row(unit->work, &unit->writes, (Row){table, key, value});
}

void remove_row(Unit *unit, enum Table table, Span key) {
    write_row(unit, table, key, (Span){NULL, 0});
}

void count_request(Unit *unit, size_t rows, size_t bytes) {
    const Counted added = {rows, bytes};
    unit->requests = with_room(unit->work, unit->requests, unit->request_count, &unit->request_room, sizeof added);
    unit->requests[unit->request_count++] = added;
}

Span stamped(Unit *unit, uint64_t stamp, Span value) {
    Writer start = take_memory(unit->work, ONE_HEAD + value.size);
    if (stamp >= STAMPS) stop(unit->work, OTHER_VERSION);
    write_number(start, (uint64_t)FORM_ONE << 45 | stamp, ONE_HEAD);
    write_span(start + ONE_HEAD, value);
    return (Span){start, ONE_HEAD + value.size};
}

/* ---- root rows ---- */

/* The name of the column of a cell that is spelled out; empty where there is none. */
static Span column_of(Span cell) {
    Span parts[3], name;
    return elements_of(cell, parts, 3) == 3 && binary_of(parts[0], &name) ? name : NOTHING;
}

/* The value of a cell that is spelled out; without data where it is that of another column. */
static Span cell_of(Span cell, Span column) {
    Span parts[3], value;
    if (!is_same(column_of(cell), column) || elements_of(cell, parts, 3) != 3 || !binary_of(parts[2], &value))
        return (Span){NULL, 0};
    return value;
}

/* Takes what is left of a deleted entity: a version, and a record. */
static int take_deleted(Root *root, Span row) {
    Span cells[2];
    if (row.data[0] || elements_of((Span){row.data + 1, row.size - 1}, cells, 2) != 2) return 0;
    const Span version = cell_of(cells[0], (Span){VERSION_COLUMN, COLUMN_BYTES});
    const Span record = cell_of(cells[1], (Span){RECORD_COLUMN, COLUMN_BYTES});
    if (!version.data || version.size != VERSION_BYTES || !record.data) return 0;
    root->version = number_at(version.data, VERSION_BYTES);
    root->record = record;
    root->is_deleted = 1;
    return 1;
}

static const size_t HEADS[] = {[FORM_ROOT] = ROOT_HEAD, [FORM_OWN] = OWN_HEAD, [FORM_MORE] = MORE_HEAD};

/* Takes a living entity. */
static int take_living(Root *root, Span row) {
    const unsigned form = row.data[0] >> 5;
    if (form < FORM_ROOT || form > FORM_MORE || row.size < HEADS[form]) return 0;
    const size_t start = HEADS[form];
    const uint64_t head = number_at(row.data, ROOT_HEAD);
    const size_t size = head & MOST_BODY, left = row.size - start;
    if (size > left || size < LAYOUT_BYTES) return 0;
    const size_t record = form == FORM_MORE ? number_at(row.data + OWN_HEAD, MORE_HEAD - OWN_HEAD) : left - size;
    if (record > left - size) return 0;
    root->version = head >> 16 & (STAMPS - 1);
    root->own = form == FORM_ROOT ? root->version : number_at(row.data + ROOT_HEAD, OWN_HEAD - ROOT_HEAD);
    root->body = (Span){row.data + start, size};
    root->record = (Span){root->body.data + size, record};
    if (form == FORM_MORE) root->more = (Span){root->record.data + record, left - size - record};
    return 1;
}

/* Takes a root row. Returns whether it is one that this core knows. */
static int take_root(Root *root, Span row) {
    return row.size && (take_deleted(root, row) || take_living(root, row));
}

void parse_root(Work *work, Span row, Root *root) {
    if (!take_root(root, row) || root->is_deleted || root->more.data) stop(work, OTHER_ROW);
}

static void read_root(Unit *unit, Root *root) {
    const Span row = read_row(unit, ROOTS, root->key);
    if (row.data && !take_root(root, row)) stop(unit->work, OTHER_ROW);
    root->body_before = root->body;
    root->own_before = root->own;
}

Root *root_at(Unit *unit, Span key) {
    const size_t before = unit->roots.count;
    Root *root = item_at(unit->work, &unit->roots, key, sizeof *root);
    if (unit->roots.count != before) read_root(unit, root);
    return root;
}

uint64_t next_version(Unit *unit, const Root *seen) {
    if (seen->version >= STAMPS) stop(unit->work, OTHER_VERSION);
    const uint64_t version = unit->now > seen->version ? unit->now : seen->version + 1;
    if (version >= STAMPS) stop(unit->work, OTHER_VERSION);
    return version;
}

/* Writes a living entity as it is in the unit. */
static void put_living(Unit *unit, Root *root) {
    const unsigned form = root->more.data ? FORM_MORE : root->version == root->own ? FORM_ROOT : FORM_OWN;
    const size_t size = HEADS[form] + root->body.size + root->record.size + root->more.size;
    if (root->body.size > MOST_BODY) stop(unit->work, TOO_LONG);
    if (form == FORM_MORE && (root->record.size > MOST_BODY || root->more.size > MOST_BODY)) stop(unit->work, TOO_LONG);
    Writer start = take_memory(unit->work, size), to = start + HEADS[form];
    write_number(start, (uint64_t)form << 61 | root->version << 16 | root->body.size, ROOT_HEAD);
    if (form != FORM_ROOT) write_number(start + ROOT_HEAD, root->own, OWN_HEAD - ROOT_HEAD);
    if (form == FORM_MORE) write_number(start + OWN_HEAD, root->record.size, MORE_HEAD - OWN_HEAD);
    to = write_span(write_span(to, root->body), root->record);
    if (root->more.data) write_span(to, root->more);
    const Span row = {start, size};
    take_living(root, row);
    write_row(unit, ROOTS, root->key, row);
}

void write_root(Unit *unit, Root *root, uint64_t version, uint64_t own, Span body, Span record) {
    root->version = version;
    root->own = own;
    root->body = body;
    root->record = record;
    root->is_deleted = 0;
    put_living(unit, root);
}

static Writer write_cell(Writer to, Span column, uint64_t stamp, Span value) {
    return write_binary(write_int(write_binary(write_array_header(to, 3), column), (int64_t)stamp), value);
}

void write_deleted(Unit *unit, Root *root, uint64_t version, Span record) {
    uint8_t bytes[VERSION_BYTES];
    if (root->more.data) stop(unit->work, NUMBERED);
    Writer start = take_memory(unit->work, 2 * MOST_CELL + record.size), to = start;
    write_number(bytes, version, VERSION_BYTES);
    *to++ = 0;
    to = write_array_header(to, 2);
    to = write_cell(to, (Span){VERSION_COLUMN, COLUMN_BYTES}, version, (Span){bytes, VERSION_BYTES});
    to = write_cell(to, (Span){RECORD_COLUMN, COLUMN_BYTES}, version, record);
    const Span row = {start, (size_t)(to - start)};
    root->own = 0;
    root->body = (Span){NULL, 0};
    take_deleted(root, row);
    write_row(unit, ROOTS, root->key, row);
}

/* Writes the cells of sequences, in the order of their columns, with this one in place of any that it had. */
static Writer write_sequences(Writer to, const Span *cells, int count, Span column, Span cell) {
    int before = 0, is_there = 0;
    for (int i = 0; i < count; i++) {
        is_there |= cell_of(cells[i], column).data != NULL;
        before += is_below(column_of(cells[i]), column);
    }
    to = write_array_header(to, (size_t)(count + 1 - is_there));
    for (int i = 0; i < before; i++) to = write_span(to, cells[i]);
    to = write_span(to, cell);
    for (int i = before + is_there; i < count; i++) to = write_span(to, cells[i]);
    return to;
}

void raise_sequence(Unit *unit, Root *root, Span kind, uint64_t number) {
    Span cells[MOST_CELLS];
    uint8_t name[COLUMN_BYTES + LAYOUT_BYTES], bytes[VERSION_BYTES];
    const int count = root->more.data ? elements_of(root->more, cells, MOST_CELLS) : 0;
    if (!root->body.data || count < 0 || kind.size != LAYOUT_BYTES) stop(unit->work, OTHER_ROW);
    write_span(write_span(name, (Span){SEQUENCE_COLUMN, COLUMN_BYTES}), kind);
    const Span column = {name, sizeof name};
    for (int i = 0; i < count; i++) {
        const Span value = cell_of(cells[i], column);
        if (value.data && (value.size != VERSION_BYTES || number_at(value.data, VERSION_BYTES) >= number))
            stop(unit->work, NUMBERED);
    }
    root->version = next_version(unit, root);
    write_number(bytes, number, VERSION_BYTES);
    Writer cell = take_memory(unit->work, MOST_CELL);
    const Writer end = write_cell(cell, column, root->version, (Span){bytes, VERSION_BYTES});
    Writer start = take_memory(unit->work, 8 + root->more.size + MOST_CELL);
    const Writer stop_at = write_sequences(start, cells, count, column, (Span){cell, (size_t)(end - cell)});
    root->more = (Span){start, (size_t)(stop_at - start)};
    put_living(unit, root);
}

size_t size_of_root(Span row) {
    Root root = {.version = 0};
    Span cells[MOST_CELLS], parts[3], value;
    if (!take_root(&root, row)) return 0;
    size_t size = VERSION_BYTES + root.body.size + root.record.size;
    const int count = root.more.data ? elements_of(root.more, cells, MOST_CELLS) : 0;
    for (int i = 0; i < count; i++)
        if (elements_of(cells[i], parts, 3) == 3 && binary_of(parts[2], &value)) size += value.size;
    return size;
}

/* The bytes of a row's values. */
static size_t counted(const Row *row) {
    if (!row->value.data) return 0;
    if (row->table == ROOTS) return size_of_root(row->value);
    return row->value.size - (row->value.size && row->value.data[0] >> 5 == FORM_ENTRY ? OWN_HEAD : ONE_HEAD);
}

/* ---- groups ---- */

Sum *sum_at(Unit *unit, Span key) {
    return item_at(unit->work, &unit->sums, key, sizeof(Sum));
}

static int is_zero(const Sum *sum) {
    for (int i = 0; i < sum->count; i++)
        if (sum->amounts[i].number) return 0;
    return 1;
}

/* The numbers of a group with what is added. */
static Span added_up(Unit *unit, const Sum *sum, Span row) {
    Span parts[MOST_SLOTS];
    const int is_old = row.data != NULL;
    if (is_old && elements_of((Span){row.data + ONE_HEAD, row.size - ONE_HEAD}, parts, MOST_SLOTS) != sum->count)
        stop(unit->work, OTHER_SUM);
    Writer start = take_memory(unit->work, 8 + (size_t)sum->count * AMOUNT_BYTES + row.size);
    Writer to = write_array_header(start, (size_t)sum->count);
    for (int i = 0; i < sum->count; i++) {
        Number total = sum->amounts[i], old;
        if (is_old && !total.number && !total.is_decimal && !is_nil(parts[i])) {
            to = write_span(to, parts[i]);
            continue;
        }
        if (is_old && (!number_of(parts[i], &old) || !add_number(&total, old))) stop(unit->work, OTHER_SUM);
        to = write_amount(to, total);
        if (!to) stop(unit->work, OTHER_SUM);
    }
    return (Span){start, (size_t)(to - start)};
}

static int is_group(Span row) {
    return row.size > ONE_HEAD && row.data[0] >> 5 == FORM_ONE;
}

void read_sum(Unit *unit, Sum *sum) {
    if (sum->is_read) return;
    sum->row = sum->row_before = read_row(unit, COUNTS, sum->key);
    sum->is_read = 1;
    if (sum->row.data && !is_group(sum->row)) stop(unit->work, OTHER_SUM);
}

/* Gives the row of a group what was added to it since it was settled last. */
static void settle_sum(Unit *unit, Sum *sum) {
    uint64_t stamp = unit->now;
    int64_t contributions;
    const int is_changed = !is_zero(sum);
    if (is_changed || sum->listed) read_sum(unit, sum);
    if (!is_changed) return;
    if (sum->row.data) {
        const uint64_t before = number_at(sum->row.data, ONE_HEAD) & (STAMPS - 1);
        if (before >= stamp) stamp = before + 1;
    }
    const Span value = added_up(unit, sum, sum->row);
    if (!int_of(element_at(value, 0), &contributions)) stop(unit->work, OTHER_SUM);
    sum->row = contributions ? stamped(unit, stamp, value) : (Span){NULL, 0};
    write_row(unit, COUNTS, sum->key, sum->row);
    sum->count = 0;
}

Span number_in_group(Work *work, Span row, int place) {
    static const uint8_t ZERO = 0;
    int64_t number;
    if (!row.data) return (Span){&ZERO, 1};
    if (!is_group(row)) stop(work, OTHER_SUM);
    const Span found = element_at((Span){row.data + ONE_HEAD, row.size - ONE_HEAD}, (unsigned)place);
    if (!found.data || !int_of(found, &number)) stop(work, OTHER_SUM);
    return found;
}

Span number_at_place(Unit *unit, Sum *sum, int place) {
    settle_sum(unit, sum);
    return number_in_group(unit->work, sum->row, place);
}

void count_reads(Unit *unit, size_t first) {
    size_t bytes = 0;
    if (unit->reads.count == first) return;
    for (size_t i = first; i < unit->reads.count; i++) {
        const Row *row = &unit->reads.first[i];
        bytes += counted(row);
    }
    count_request(unit, unit->reads.count - first, bytes);
}

int has_written(const Unit *unit, enum Table table, Span start, Span stop_at) {
    for (size_t i = 0; i < unit->writes.count; i++) {
        const Row *row = &unit->writes.first[i];
        if (row->table == table && !is_below(row->key, start) && is_below(row->key, stop_at)) return 1;
    }
    return 0;
}

void expect_no_row(Unit *unit, Span key) {
    if (has_written(unit, COUNTS, key, joined(unit->work, key, (Span){NO_BYTES, 1}, NOTHING)) ||
        read_row(unit, COUNTS, key).data)
        stop(unit->work, SHOWN);
}

void expect_no_rows(Unit *unit, Span start, Span stop_at) {
    Span found;
    const int count = unit->reader.scan(unit->reader.of, COUNTS, start, stop_at, &found, NULL, 1);
    if (count) stop(unit->work, count < 0 ? NOT_READ : SHOWN);
    count_request(unit, 0, 0);
}

/* ---- unique values ---- */

void give_up_claim(Unit *unit, Span key, Span owner) {
    Claim *claim = item_at(unit->work, &unit->claims, key, sizeof *claim);
    if (claim->to.data && is_same(claim->to, owner))
        claim->to = (Span){NULL, 0};
    else
        claim->from = owner;
}

void take_claim(Unit *unit, Span key, Span owner) {
    Claim *claim = item_at(unit->work, &unit->claims, key, sizeof *claim);
    if (claim->to.data && !is_same(claim->to, owner)) stop(unit->work, TAKEN);
    claim->to = owner;
}

static void settle_claim(Unit *unit, const Claim *claim) {
    Span held = {NULL, 0};
    uint64_t before = 0;
    const Span row = read_row(unit, COUNTS, claim->key);
    if (row.data && (row.data[0] >> 5 != FORM_ONE || !value_of_row(row, &held, &before))) stop(unit->work, OTHER_ROW);
    const int is_left = claim->from.data && is_same(held, claim->from);
    if (claim->to.data) {
        if (held.data && !is_left && !is_same(held, claim->to)) stop(unit->work, TAKEN);
        const uint64_t stamp = row.data && before >= unit->now ? before + 1 : unit->now;
        write_row(unit, COUNTS, claim->key, stamped(unit, stamp, claim->to));
    } else if (held.data && is_left) {
        remove_row(unit, COUNTS, claim->key);
    }
}

void settle(Unit *unit) {
    const size_t first = unit->reads.count;
    for (size_t i = 0; i < unit->claims.room; i++)
        if (unit->claims.slots[i]) settle_claim(unit, unit->claims.slots[i]);
    for (size_t i = 0; i < unit->sums.room; i++)
        if (unit->sums.slots[i]) settle_sum(unit, unit->sums.slots[i]);
    count_reads(unit, first);
    for (size_t i = 0; i < unit->sums.room; i++) {
        const Sum *sum = unit->sums.slots[i];
        if (sum && sum->listed) list_group(unit, sum);
    }
}

void note_changed(Unit *unit, Changed source) {
    unit->changed = with_room(unit->work, unit->changed, unit->changed_count, &unit->changed_room, sizeof source);
    unit->changed[unit->changed_count++] = source;
}

void note_checked(Unit *unit, Root *root) {
    if (root->is_checked) return;
    root->is_checked = 1;
    unit->checked = with_room(unit->work, unit->checked, unit->checked_count, &unit->checked_room, sizeof root);
    unit->checked[unit->checked_count++] = root;
}

void note_touched(Unit *unit, Touched group) {
    group.sum->listed = group.shown->listed;
    group.sum->suffix = group.suffix;
    if (!group.shown->count) return;
    for (size_t i = 0; i < unit->touched_count; i++)
        if (unit->touched[i].sum == group.sum) return;
    unit->touched = with_room(unit->work, unit->touched, unit->touched_count, &unit->touched_room, sizeof group);
    unit->touched[unit->touched_count++] = group;
}

static int is_same_place(const Row *one, const Row *other) {
    return one->table == other->table && is_same(one->key, other->key);
}

static int in_order(const void *one, const void *other) {
    const Row *first = *(const Row *const *)one, *second = *(const Row *const *)other;
    if (first->table != second->table) return first->table < second->table ? -1 : 1;
    if (!is_same(first->key, second->key)) return is_below(first->key, second->key) ? -1 : 1;
    return first < second ? -1 : first > second;
}

void sort_writes(Unit *unit) {
    Rows *rows = &unit->writes;
    const size_t count = rows->count;
    const Row **places = take_memory(unit->work, (count + 1) * sizeof *places);
    Row *sorted = take_memory(unit->work, (count + 1) * sizeof *sorted);
    for (size_t i = 0; i < count; i++) places[i] = &rows->first[i];
    qsort(places, count, sizeof *places, in_order);
    *rows = (Rows){sorted, 0, count + 1};
    for (size_t i = 0; i < count; i++)
        if (i + 1 == count || !is_same_place(places[i], places[i + 1])) sorted[rows->count++] = *places[i];
}

void count_writes(Unit *unit) {
    Counted found[TABLES] = {{0, 0}};
    for (size_t i = 0; i < unit->writes.count; i++) {
        const Row *row = &unit->writes.first[i];
        found[row->table].rows++;
        found[row->table].bytes += row->key.size + counted(row);
    }
    for (int table = 0; table < TABLES; table++)
        if (found[table].rows) count_request(unit, found[table].rows, found[table].bytes);
}
