/* Feeds: the entries that follow, in the same commit, from changed rows of items and memberships.
 *
 * Those of oneread.feeds.following, of feeds that are not trimmed and have no large groups, as long as no task is
 * needed. Whatever else stops, and Python lets all feeds and logs of the commit follow.
 */
#include "core.h"

#include <string.h>

enum { FRAME_BYTES = 4, LENGTH_BYTES = 2, MOST_SHOWN_BY = 0xffff };
enum {
    MOST_NAMES = 100, /* of memberships that show an entry */
    BUCKETS = 64      /* of tasks */
};

/* A membership that shows an entry: the group, and the membership. */
typedef struct Name Name;

struct Name {
    Span membership;
    const Name *next;
};

/* A row of items, taken apart: what stands behind the member in an entry's key, and the parts of an entry's value. */
typedef struct {
    Span tail, source, rest;
    uint64_t stamp;
} ItemRow;

/* A row of memberships, taken apart. */
typedef struct {
    Span member, membership, shown;
} MemberRow;

/* An entry that changes, and why. It begins with its key. */
typedef struct {
    Span key;
    Span stored; /* as it will be without this; no data where it is absent, or was not read */
    int is_read;
    const Feed *feed;
    const ItemRow *item; /* the last one that was given, and its member */
    const MemberRow *member;
    const Name *given, *gone;
} Entry;

/* A row of an entry, taken apart. */
typedef struct {
    Span value, shown_by;
    uint64_t stamp;
} EntryRow;

typedef struct {
    Unit *unit;
    const Followed *followed;
    size_t changed; /* rows that the commit writes, sorted: what is added comes behind */
    int inline_count;
    int room;
    Map entries;
} Delivery;

/* ---- rows of a range, as they will be written ---- */

static size_t place_of(const Delivery *made, Span key) {
    const Row *rows = made->unit->writes.first;
    size_t low = 0, high = made->changed;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (rows[middle].table < VIEWS || (rows[middle].table == VIEWS && is_below(rows[middle].key, key)))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The bytes of the cells of a row of views. */
static size_t size_of_cells(Work *work, Span row) {
    Span value;
    uint64_t stamp;
    if (!value_of_row(row, &value, &stamp)) stop(work, OTHER_ROW);
    return row.size - (row.data[0] >> 5 == FORM_ENTRY ? OWN_HEAD : ONE_HEAD);
}

/* The first rows from a key on, before another one, at most `most`. Returns how many. One request. */
static int scan_rows(Delivery *made, Span start, Span stop_at, int most, Row **found) {
    Unit *unit = made->unit;
    Work *work = unit->work;
    const Row *changed = unit->writes.first;
    size_t at = place_of(made, start), bytes = 0;
    const size_t end = place_of(made, stop_at), room = (size_t)most + (end - at);
    Span *keys = take_memory(work, 2 * room * sizeof *keys), *values = keys + room;
    const int count = unit->reader.scan(unit->reader.of, VIEWS, start, stop_at, keys, values, (int)room);
    if (count < 0) stop(work, NOT_READ);
    for (int i = 0; i < count; i++) bytes += keys[i].size + size_of_cells(work, values[i]);
    count_request(unit, (size_t)count, bytes);
    Row *rows = *found = take_memory(work, room * sizeof *rows);
    int place = 0;
    for (int i = 0; place < most && (i < count || at < end);) {
        const int is_stored = i < count && (at == end || is_below(keys[i], changed[at].key));
        if (is_stored) {
            rows[place++] = (Row){VIEWS, keys[i], values[i]};
            i++;
            continue;
        }
        if (i < count && is_same(keys[i], changed[at].key)) i++;
        if (changed[at].value.data) rows[place++] = changed[at];
        at++;
    }
    return place;
}

/* ---- rows taken apart ---- */

/* The end of so many elements of a key. */
static const uint8_t *end_of_elements(Work *work, const uint8_t *data, const uint8_t *end, int count) {
    for (int i = 0; i < count; i++) {
        data = end_of_element(data, end);
        if (!data) stop(work, OTHER_VALUE);
    }
    return data;
}

/* What a key has from a place on, of so many elements. */
static Span part_of(Work *work, Span key, size_t start, int count) {
    if (key.size < start) stop(work, OTHER_VALUE);
    const uint8_t *first = key.data + start;
    return (Span){first, (size_t)(end_of_elements(work, first, key.data + key.size, count) - first)};
}

static Span behind(Span key, size_t size) {
    return (Span){key.data + size, key.size - size};
}

/* The source and the last fields of a row's value, which is framed. Returns its stamp. */
static uint64_t take_frame(Work *work, Span row, Span *source, Span *rest) {
    Span value;
    uint64_t stamp;
    if (!value_of_row(row, &value, &stamp) || row.data[0] >> 5 != FORM_ONE) stop(work, OTHER_ROW);
    if (value.size < FRAME_BYTES || value.data[0] == 0xc1) stop(work, OTHER_ROW); /* ints beyond 64 bits */
    const size_t size = (size_t)number_at(value.data, LENGTH_BYTES);
    const size_t group = (size_t)number_at(value.data + LENGTH_BYTES, LENGTH_BYTES);
    if (size + group > value.size - FRAME_BYTES) stop(work, OTHER_ROW);
    *source = (Span){value.data + FRAME_BYTES, size};
    *rest = behind(value, FRAME_BYTES + size + group);
    return stamp;
}

static const ItemRow *take_item(Work *work, const Feed *feed, const Row *row, Span group) {
    ItemRow *item = take_memory(work, sizeof *item);
    item->tail = behind(row->key, VIEW_BYTES + group.size);
    item->stamp = take_frame(work, row->value, &item->source, &item->rest);
    if (item->rest.size < feed->cut) stop(work, OTHER_ROW);
    item->rest.size -= feed->cut;
    return item;
}

/* The member of a row of memberships, and the membership. */
static MemberRow *take_names(Work *work, const Feed *feed, Span key, Span group) {
    MemberRow *member = take_memory(work, sizeof *member);
    member->member = part_of(work, key, VIEW_BYTES + group.size, feed->member);
    member->membership = joined(work, group, behind(key, VIEW_BYTES + group.size + member->member.size), NOTHING);
    return member;
}

static const MemberRow *take_member(Work *work, const Feed *feed, const Row *row, Span group) {
    Span source;
    MemberRow *member = take_names(work, feed, row->key, group);
    take_frame(work, row->value, &source, &member->shown);
    return member;
}

static EntryRow take_entry(Work *work, Span row) {
    EntryRow entry;
    if (row.size < OWN_HEAD || row.data[0] >> 5 != FORM_ENTRY || !value_of_row(row, &entry.value, &entry.stamp))
        stop(work, OTHER_ROW);
    entry.shown_by = (Span){row.data + OWN_HEAD, row.size - OWN_HEAD - entry.value.size};
    return entry;
}

/* The memberships that show an entry. Returns how many. */
static int names_of(Work *work, Span shown_by, Span *names) {
    const int count = elements_of(shown_by, names, MOST_NAMES);
    if (count < 0) stop(work, OTHER_ROW);
    for (int i = 0; i < count; i++)
        if (!binary_of(names[i], &names[i])) stop(work, OTHER_ROW);
    return count;
}

/* ---- what changes ---- */

static Entry *entry_at(Delivery *made, const Feed *feed, Span member, Span tail) {
    Unit *unit = made->unit;
    Entry *entry = item_at(unit->work, &made->entries, joined(unit->work, feed->prefix, member, tail), sizeof *entry);
    entry->feed = feed;
    return entry;
}

static const Name *named(Work *work, Span membership, const Name *next) {
    Name *name = take_memory(work, sizeof *name);
    *name = (Name){membership, next};
    return name;
}

/* Gives a member an item of the group. */
static void give(Delivery *made, const Feed *feed, const ItemRow *item, const MemberRow *member) {
    Entry *entry = entry_at(made, feed, member->member, item->tail);
    entry->item = item;
    entry->member = member;
    entry->given = named(made->unit->work, member->membership, entry->given);
}

static void take_away(Delivery *made, Entry *entry, Span membership) {
    entry->gone = named(made->unit->work, membership, entry->gone);
}

/* Whether what has this behind the member in its key has left the feed. */
static int has_expired(const Feed *feed, Span tail) {
    return feed->oldest.data && !is_below(tail, feed->oldest);
}

/* Gives changed items of one group to its members, or takes them away. */
static void give_items(Delivery *made, const Feed *feed, const Row *items, size_t count, Span group) {
    Work *work = made->unit->work;
    Row *rows;
    const int most = made->inline_count;
    const Span members = joined(work, feed->members, group, NOTHING);
    const int found = scan_rows(made, members, end_of(work, members), most + 1, &rows);
    if (found > most || count * (size_t)(found ? found : 1) > (size_t)made->room) stop(work, COPIED); /* tasks do */
    made->room -= (int)count * found;
    const MemberRow **whose = take_memory(work, ((size_t)found + 1) * sizeof *whose);
    for (int i = 0; i < found; i++) whose[i] = take_member(work, feed, &rows[i], group);
    for (size_t i = 0; i < count; i++) {
        const Span tail = behind(items[i].key, VIEW_BYTES + group.size);
        if (items[i].value.data && has_expired(feed, tail)) continue;
        const ItemRow *item = items[i].value.data ? take_item(work, feed, &items[i], group) : NULL;
        for (int j = 0; j < found; j++) {
            if (item)
                give(made, feed, item, whose[j]);
            else
                take_away(made, entry_at(made, feed, whose[j]->member, tail), whose[j]->membership);
        }
    }
}

/* Gives a new member the items of the group. */
static void join(Delivery *made, const Feed *feed, const Row *row, Span group, int most) {
    Work *work = made->unit->work;
    Row *rows;
    const MemberRow *member = take_member(work, feed, row, group);
    const Span items = joined(work, feed->items, group, NOTHING);
    const Span stop_at = feed->oldest.data ? joined(work, items, feed->oldest, NOTHING) : end_of(work, items);
    const int found = scan_rows(made, items, stop_at, most + 1, &rows);
    if (found > most) stop(work, COPIED);
    made->room -= found;
    for (int i = 0; i < found; i++) give(made, feed, take_item(work, feed, &rows[i], group), member);
}

/* Takes entries from a member who left, as far as this membership shows them. */
static void leave(Delivery *made, const Feed *feed, const Row *row, Span group, int most) {
    Work *work = made->unit->work;
    Row *rows;
    Span names[MOST_NAMES];
    const MemberRow *member = take_names(work, feed, row->key, group);
    const Span prefix = joined(work, feed->prefix, member->member, NOTHING);
    const int found = scan_rows(made, prefix, end_of(work, prefix), most + 1, &rows);
    if (found > most) stop(work, COPIED);
    made->room -= found;
    for (int i = 0; i < found; i++) {
        const int count = names_of(work, take_entry(work, rows[i].value).shown_by, names);
        for (int j = 0; j < count; j++) {
            if (!is_same(names[j], member->membership)) continue;
            Entry *entry = entry_at(made, feed, member->member, behind(rows[i].key, prefix.size));
            if (!entry->is_read) entry->stored = rows[i].value;
            entry->is_read = 1;
            take_away(made, entry, member->membership);
            break;
        }
    }
}

/* ---- which rows ---- */

enum Side { NEITHER, ITEMS, MEMBERS };

/* The feed of which a changed row is an item or a membership. */
static enum Side side_of(const Delivery *made, const Row *row, const Feed **feed) {
    if (row->table != VIEWS) return NEITHER;
    for (int i = 0; i < made->followed->feed_count; i++) {
        const Feed *each = *feed = &made->followed->feeds[i];
        const int is_item = begins_with(row->key, each->items);
        if (!is_item && !begins_with(row->key, each->members)) continue;
        if (!each->head.size) stop(made->unit->work, COPIED); /* a feed that this core does not know */
        return is_item ? ITEMS : MEMBERS;
    }
    return NEITHER;
}

static void follow_items(Delivery *made) {
    Work *work = made->unit->work;
    const Row *rows = made->unit->writes.first;
    const Feed *feed;
    for (size_t i = 0, end; i < made->changed; i = end) {
        end = i + 1;
        if (side_of(made, &rows[i], &feed) != ITEMS) continue;
        const Span group = part_of(work, rows[i].key, VIEW_BYTES, feed->group);
        const Span prefix = {rows[i].key.data, VIEW_BYTES + group.size};
        while (end < made->changed && rows[end].table == VIEWS && begins_with(rows[end].key, prefix)) end++;
        give_items(made, feed, &rows[i], end - i, group);
    }
}

/* Looks whether no task waits for a membership that begins, as it would have to begin again. One request. */
static void expect_no_tasks(Delivery *made) {
    static const uint8_t TASKS[] = {'t', 'a', 's', 'k', ':'}, OF_FEED = 0xff;
    Unit *unit = made->unit;
    const Row *rows = unit->writes.first;
    const size_t first = unit->reads.count;
    const Feed *feed;
    for (size_t i = 0; i < made->changed; i++) {
        if (!rows[i].value.data || side_of(made, &rows[i], &feed) != MEMBERS) continue;
        const Span source = joined(unit->work, (Span){&OF_FEED, 1}, rows[i].key, NOTHING);
        const uint8_t bucket = spread_part(source, BUCKETS) & (BUCKETS - 1);
        if (read_row(unit, SYSTEM, joined(unit->work, (Span){TASKS, sizeof TASKS}, (Span){&bucket, 1}, source)).data)
            stop(unit->work, COPIED);
    }
    count_reads(unit, first);
}

static void follow_members(Delivery *made) {
    const Row *rows = made->unit->writes.first;
    const Feed *feed;
    for (size_t i = 0; i < made->changed; i++) {
        if (side_of(made, &rows[i], &feed) != MEMBERS) continue;
        const Span group = part_of(made->unit->work, rows[i].key, VIEW_BYTES, feed->group);
        const int most = made->room < made->inline_count ? made->room : made->inline_count;
        (rows[i].value.data ? join : leave)(made, feed, &rows[i], group, most);
    }
}

/* ---- the entries ---- */

static int contains(const Name *names, Span membership) {
    for (; names; names = names->next)
        if (is_same(names->membership, membership)) return 1;
    return 0;
}

static void put_entry(Unit *unit, Span key, uint64_t stamp, Span value, Span shown_by) {
    if (shown_by.size > MOST_SHOWN_BY || stamp >= STAMPS) stop(unit->work, TOO_LONG);
    Writer start = take_memory(unit->work, OWN_HEAD + shown_by.size + value.size);
    write_number(start, ((uint64_t)FORM_ENTRY << 45 | stamp) << 16 | shown_by.size, ROOT_HEAD);
    write_number(start + ROOT_HEAD, unit->now, OWN_HEAD - ROOT_HEAD);
    Writer end = write_span(write_span(start + OWN_HEAD, shown_by), value);
    write_row(unit, VIEWS, key, (Span){start, (size_t)(end - start)});
}

/* Adds a membership to others, in their order. Returns how many there are. */
static int add_sorted(Work *work, Span *names, int count, Span added) {
    int at = 0;
    while (at < count && is_below(names[at], added)) at++;
    if (at < count && is_same(names[at], added)) return count;
    if (count == MOST_NAMES) stop(work, TOO_LONG);
    memmove(names + at + 1, names + at, (size_t)(count - at) * sizeof *names);
    names[at] = added;
    return count + 1;
}

/* An entry that memberships show no more, and none that begins. */
static void end_entry(Unit *unit, const Entry *entry) {
    Span stored[MOST_NAMES];
    int left = 0;
    if (!entry->stored.data) return;
    const EntryRow row = take_entry(unit->work, entry->stored);
    const int count = names_of(unit->work, row.shown_by, stored);
    for (int i = 0; i < count; i++)
        if (!contains(entry->gone, stored[i])) stored[left++] = stored[i];
    if (left == count) return;
    if (left)
        put_entry(unit, entry->key, row.stamp, row.value, array_of_keys(unit->work, stored, (size_t)left));
    else
        remove_row(unit, VIEWS, entry->key);
}

static void show_entry(Unit *unit, const Entry *entry) {
    Work *work = unit->work;
    Span stored[MOST_NAMES], names[MOST_NAMES];
    EntryRow row = {NOTHING, NOTHING, 0};
    int count = 0, all = 0;
    if (entry->stored.data) {
        row = take_entry(work, entry->stored);
        count = names_of(work, row.shown_by, stored);
    }
    for (const Name *each = entry->given; each; each = each->next) all = add_sorted(work, names, all, each->membership);
    for (int i = 0; i < count; i++)
        if (!contains(entry->gone, stored[i])) all = add_sorted(work, names, all, stored[i]);
    const Span shown_by = array_of_keys(work, names, (size_t)all);
    const Span rest = joined(work, entry->member->shown, entry->item->rest, NOTHING);
    const Span value = joined(work, entry->feed->head, entry->item->source, rest);
    if (entry->stored.data && is_same(row.shown_by, shown_by) && is_same(row.value, value) &&
        row.stamp == entry->item->stamp)
        return;
    put_entry(unit, entry->key, entry->item->stamp, value, shown_by);
}

/* Puts and removes the entries, but for those that are right. One request. */
static void deliver(Delivery *made) {
    Unit *unit = made->unit;
    size_t bytes = 0, count = 0;
    for (size_t i = 0; i < made->entries.room; i++) {
        Entry *entry = made->entries.slots[i];
        if (!entry || entry->is_read) continue;
        entry->stored = read_row(unit, VIEWS, entry->key);
        count++;
        if (entry->stored.data) bytes += size_of_cells(unit->work, entry->stored);
    }
    if (count) count_request(unit, count, bytes);
    for (size_t i = 0; i < made->entries.room; i++) {
        const Entry *entry = made->entries.slots[i];
        if (!entry) continue;
        (entry->given ? show_entry : end_entry)(unit, entry);
    }
}

void follow_feeds(Unit *unit, const Questions *asked, const Followed *followed) {
    const int most = asked->most_holders, room = most > followed->most_entries ? most : followed->most_entries;
    Delivery made = {unit, followed, unit->writes.count, most, room, {NULL, 0, 0}};
    follow_items(&made);
    expect_no_tasks(&made);
    follow_members(&made);
    deliver(&made);
}
