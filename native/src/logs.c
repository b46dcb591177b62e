/* Change logs: what a commit adds to the logs of watched views, and of entities. */
#include "core.h"

#include <string.h>

enum { NUMBER_BYTES = 8, KEYS_OF_ENTRY = 100 };

/* What one log gets. */
typedef struct {
    const Log *log;
    Span *keys;
    size_t count, room;
    Span row;
} Logged;

typedef struct {
    Unit *unit;
    const Followed *followed;
    Logged *logged; /* one for each prefix */
} Logging;

/* Notes a changed row of views, or an entity, if it is logged; `size` is that of the prefixes of its table. */
static void note(Logging *made, Span key, size_t size) {
    for (int i = 0; i < made->followed->log_count; i++) {
        const Log *log = &made->followed->logs[i];
        Logged *to = &made->logged[i];
        if (log->prefix.size != size || !begins_with(key, log->prefix)) continue;
        to->log = log;
        to->keys = with_room(made->unit->work, to->keys, to->count, &to->room, sizeof *to->keys);
        to->keys[to->count++] = (Span){key.data + log->cut, key.size - log->cut};
        return;
    }
}

/* Whether an entity is another one than before: its fields, or its own version. */
static int has_changed(Unit *unit, Span key) {
    const Root *root = root_at(unit, key);
    return !root->body.data != !root->body_before.data || root->own != root->own_before ||
           !is_same(root->body, root->body_before);
}

/* Notes all that changed: removed rows of views first, each in the order of keys. */
static void note_changes(Logging *made) {
    Unit *unit = made->unit;
    for (int is_put = 0; is_put < 2; is_put++)
        for (size_t i = 0; i < unit->writes.count; i++) {
            const Row *row = &unit->writes.first[i];
            if (row->table == VIEWS && !row->value.data == !is_put) note(made, row->key, VIEW_BYTES);
        }
    for (size_t i = 0; i < unit->writes.count; i++) {
        const Row *row = &unit->writes.first[i];
        if (row->table == ROOTS && has_changed(unit, row->key)) note(made, row->key, LAYOUT_BYTES);
    }
}

/* Reads the rows of all logs that get something. */
static void read_logs(Logging *made) {
    const size_t first = made->unit->reads.count;
    for (int i = 0; i < made->followed->log_count; i++) {
        Logged *to = &made->logged[i];
        if (!to->log) continue;
        to->row = read_row(made->unit, SYSTEM, to->log->key);
        if (to->row.size != ONE_HEAD + NUMBER_BYTES || to->row.data[0] >> 5 != FORM_ONE)
            stop(made->unit->work, OTHER_ROW); /* it is lost, or the first of all */
    }
    count_reads(made->unit, first);
}

/* Adds entries to a log, and counts them in its row. */
static void add_entries(Unit *unit, const Logged *to) {
    Work *work = unit->work;
    uint64_t last = number_at(to->row.data + ONE_HEAD, NUMBER_BYTES);
    const uint64_t before = number_at(to->row.data, ONE_HEAD) & (STAMPS - 1);
    const uint64_t stamp = before > unit->now ? before : unit->now; /* of a log it never goes back */
    Writer number = NULL;
    for (size_t i = 0; i < to->count; i += KEYS_OF_ENTRY) {
        const size_t left = to->count - i, count = left < KEYS_OF_ENTRY ? left : KEYS_OF_ENTRY;
        number = take_memory(work, NUMBER_BYTES);
        if (!++last) stop(work, OTHER_ROW);
        write_number(number, last, NUMBER_BYTES);
        write_row(unit, SYSTEM, joined(work, to->log->key, (Span){number, NUMBER_BYTES}, NOTHING),
                  stamped(unit, stamp, array_of_keys(work, to->keys + i, count)));
    }
    write_row(unit, SYSTEM, to->log->key, stamped(unit, stamp, (Span){number, NUMBER_BYTES}));
}

void log_changes(Unit *unit, const Followed *followed) {
    const size_t size = ((size_t)followed->log_count + 1) * sizeof(Logged);
    if (!followed->log_count) return;
    Logging made = {unit, followed, take_memory(unit->work, size)};
    memset(made.logged, 0, size);
    note_changes(&made);
    read_logs(&made);
    for (int i = 0; i < followed->log_count; i++)
        if (made.logged[i].log) add_entries(unit, &made.logged[i]);
}
