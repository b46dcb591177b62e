/* The rows of one commit: those that were read, what is added to groups, and those that are written. */
#include "core.h"

#include <string.h>

enum {
    FORM_ONE = 1,
    FORM_ROOT = 3,
    FORM_OWN = 4,
    ONE_HEAD = 6,
    ROOT_HEAD = 8,
    OWN_HEAD = 14,
    VERSION_BYTES = 8,
    MOST_BODY = 0xffff,
    MOST_VALUE = 500000,
    COLUMN_BYTES = 3,
    MOST_CELL = 40, /* bytes of a cell that is spelled out, without its value, and of a version */
    AMOUNT_BYTES = 64,
    FIRST_ROOM = 16
};

static const char VERSION_COLUMN[] = "d:v", RECORD_COLUMN[] = "m:e";
static const uint64_t STAMPS = (uint64_t)1 << 45;
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

/* What has this key, or else new memory of zeros with the key. */
static void *item_at(Work *work, Map *map, Span key, size_t size) {
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

/* Where `count` items of a size have room for one more: where they are, or in twice as much memory. */
static void *with_room(Work *work, void *first, size_t count, size_t *room, size_t size) {
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

static Span read_row(Unit *unit, enum Table table, Span key) {
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
    if (unit->request_count == MOST_REQUESTS) stop(unit->work, TOO_LONG);
    unit->requests[unit->request_count++] = (Counted){rows, bytes};
}

Span stamped(Unit *unit, uint64_t stamp, Span value) {
    Writer start = take_memory(unit->work, ONE_HEAD + value.size);
    if (stamp >= STAMPS) stop(unit->work, OTHER_VERSION);
    write_number(start, (uint64_t)FORM_ONE << 45 | stamp, ONE_HEAD);
    write_span(start + ONE_HEAD, value);
    return (Span){start, ONE_HEAD + value.size};
}

/* ---- root rows ---- */

/* The value of a cell that is spelled out; without data where it is that of another column. */
static Span cell_of(Span cell, const char *column) {
    Span parts[3], name, value;
    if (elements_of(cell, parts, 3) != 3 || !binary_of(parts[0], &name) || !binary_of(parts[2], &value) ||
        !is_same(name, (Span){(const uint8_t *)column, COLUMN_BYTES}))
        return (Span){NULL, 0};
    return value;
}

/* Takes what is left of a deleted entity: a version, and a record. */
static int take_deleted(Root *root, Span row) {
    Span cells[2];
    if (!row.size || row.data[0] || elements_of((Span){row.data + 1, row.size - 1}, cells, 2) != 2) return 0;
    const Span version = cell_of(cells[0], VERSION_COLUMN), record = cell_of(cells[1], RECORD_COLUMN);
    if (!version.data || version.size != VERSION_BYTES || !record.data) return 0;
    root->version = number_at(version.data, VERSION_BYTES);
    root->record = record;
    root->is_deleted = 1;
    return 1;
}

static void read_root(Unit *unit, Root *root) {
    const Span row = read_row(unit, ROOTS, root->key);
    if (!row.data || take_deleted(root, row)) return;
    if (row.size < ROOT_HEAD) stop(unit->work, OTHER_ROW);
    const uint64_t head = number_at(row.data, ROOT_HEAD);
    const unsigned form = (unsigned)(head >> 61);
    const size_t size = head & 0xffff, start = form == FORM_OWN ? OWN_HEAD : ROOT_HEAD;
    if ((form != FORM_ROOT && form != FORM_OWN) || start + size > row.size || size < LAYOUT_BYTES)
        stop(unit->work, OTHER_ROW);
    root->version = head >> 16 & (STAMPS - 1);
    root->own = form == FORM_OWN ? number_at(row.data + ROOT_HEAD, OWN_HEAD - ROOT_HEAD) : root->version;
    root->body = (Span){row.data + start, size};
    root->record = (Span){row.data + start + size, row.size - start - size};
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

void write_root(Unit *unit, Root *root, uint64_t version, uint64_t own, Span body, Span record) {
    const size_t head = version == own ? ROOT_HEAD : OWN_HEAD;
    if (body.size > MOST_BODY) stop(unit->work, TOO_LONG);
    Writer start = take_memory(unit->work, head + body.size + record.size);
    const uint64_t form = version == own ? FORM_ROOT : FORM_OWN;
    write_number(start, form << 61 | version << 16 | body.size, ROOT_HEAD);
    if (version != own) write_number(start + ROOT_HEAD, own, OWN_HEAD - ROOT_HEAD);
    write_span(write_span(start + head, body), record);
    root->version = version;
    root->own = own;
    root->body = (Span){start + head, body.size};
    root->record = (Span){start + head + body.size, record.size};
    root->is_decided = 1;
    root->is_deleted = 0;
    write_row(unit, ROOTS, root->key, (Span){start, head + body.size + record.size});
}

static Writer write_cell(Writer to, const char *column, uint64_t stamp, Span value) {
    to = write_binary(write_array_header(to, 3), (Span){(const uint8_t *)column, COLUMN_BYTES});
    return write_binary(write_int(to, (int64_t)stamp), value);
}

void write_deleted(Unit *unit, Root *root, uint64_t version, Span record) {
    uint8_t bytes[VERSION_BYTES];
    Writer start = take_memory(unit->work, 2 * MOST_CELL + record.size), to = start;
    write_number(bytes, version, VERSION_BYTES);
    *to++ = 0;
    to = write_cell(write_array_header(to, 2), VERSION_COLUMN, version, (Span){bytes, VERSION_BYTES});
    to = write_cell(to, RECORD_COLUMN, version, record);
    const Span row = {start, (size_t)(to - start)};
    *root = (Root){.key = root->key, .is_decided = 1, .is_listed = root->is_listed};
    take_deleted(root, row);
    write_row(unit, ROOTS, root->key, row);
}

/* How much of a stored row costs do not count. */
static size_t uncounted(const Row *row) {
    if (!row->value.data) return 0;
    if (row->table != ROOTS) return ONE_HEAD;
    Root deleted;
    if (take_deleted(&deleted, row->value)) return row->value.size - VERSION_BYTES - deleted.record.size;
    const size_t head = row->value.data[0] >> 5 == FORM_OWN ? OWN_HEAD : ROOT_HEAD;
    return head - VERSION_BYTES;
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

void read_sum(Unit *unit, Sum *sum) {
    if (sum->is_read) return;
    sum->row = read_row(unit, COUNTS, sum->key);
    sum->is_read = 1;
    if (sum->row.data && (sum->row.size <= ONE_HEAD || sum->row.data[0] >> 5 != FORM_ONE)) stop(unit->work, OTHER_SUM);
}

/* Gives the row of a group what was added to it, once. */
static void settle_sum(Unit *unit, Sum *sum) {
    uint64_t stamp = unit->now;
    int64_t contributions;
    if (is_zero(sum)) return;
    if (sum->is_settled) stop(unit->work, OTHER_SUM); /* it was read, and changed again */
    read_sum(unit, sum);
    if (sum->row.data) {
        const uint64_t before = number_at(sum->row.data, ONE_HEAD) & (STAMPS - 1);
        if (before >= stamp) stamp = before + 1;
    }
    const Span value = added_up(unit, sum, sum->row);
    if (!int_of(element_at(value, 0), &contributions)) stop(unit->work, OTHER_SUM);
    sum->row = contributions ? stamped(unit, stamp, value) : (Span){NULL, 0};
    write_row(unit, COUNTS, sum->key, sum->row);
    sum->is_settled = 1;
    sum->count = 0;
}

Span number_at_place(Unit *unit, Sum *sum, int place) {
    static const uint8_t ZERO = 0;
    int64_t number;
    settle_sum(unit, sum);
    if (!sum->row.data) return (Span){&ZERO, 1};
    const Span found = element_at((Span){sum->row.data + ONE_HEAD, sum->row.size - ONE_HEAD}, (unsigned)place);
    if (!found.data || !int_of(found, &number)) stop(unit->work, OTHER_SUM);
    return found;
}

void count_reads(Unit *unit, size_t first) {
    size_t bytes = 0;
    if (unit->reads.count == first) return;
    for (size_t i = first; i < unit->reads.count; i++) {
        const Row *row = &unit->reads.first[i];
        if (row->value.data) bytes += row->value.size - uncounted(row);
    }
    count_request(unit, unit->reads.count - first, bytes);
}

void settle_sums(Unit *unit) {
    const size_t first = unit->reads.count;
    for (size_t i = 0; i < unit->sums.room; i++)
        if (unit->sums.slots[i]) settle_sum(unit, unit->sums.slots[i]);
    count_reads(unit, first);
}

void note_touched(Unit *unit, Touched group) {
    for (size_t i = 0; i < unit->touched_count; i++)
        if (unit->touched[i].sum == group.sum) return;
    unit->touched = with_room(unit->work, unit->touched, unit->touched_count, &unit->touched_room, sizeof group);
    unit->touched[unit->touched_count++] = group;
}

void count_writes(Unit *unit) {
    Counted found[TABLES] = {{0, 0}};
    for (size_t i = 0; i < unit->writes.count; i++) {
        const Row *row = &unit->writes.first[i];
        found[row->table].rows++;
        found[row->table].bytes += row->key.size + row->value.size - uncounted(row);
    }
    for (int table = 0; table < TABLES; table++)
        if (found[table].rows) count_request(unit, found[table].rows, found[table].bytes);
}
