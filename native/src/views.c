/* What follows from changed rows of views, and entities: the entries of feeds, and change logs. */
#include "core.h"

#include <limits.h>
#include <string.h>

enum { MOST_FOLLOWED = 1000, MOST_ELEMENTS = 64, MOST_NAME = 64 };

static const Log *take_logs(Work *work, Span value, int *count) {
    Span *given = take_array(work, value, MOST_FOLLOWED, count);
    Log *logs = take_memory(work, ((size_t)*count + 1) * sizeof *logs);
    for (int i = 0; i < *count; i++) {
        Span *parts = take_exactly(work, given[i], 3);
        logs[i].prefix = take_bytes(work, parts[0], LAYOUT_BYTES, VIEW_BYTES);
        logs[i].key = take_bytes(work, parts[1], 1, MOST_NAME);
        logs[i].cut = take_number(work, parts[2], (unsigned)logs[i].prefix.size);
    }
    return logs;
}

/* How the keys of entries begin that have expired; `after` are microseconds, or nil where none do. */
static Span take_oldest(Work *work, Span after, uint64_t now) {
    enum { INSTANT_BYTES = 9 };
    int64_t microseconds;
    if (is_nil(after)) return (Span){NULL, 0};
    if (now >= STAMPS || !int_of(after, &microseconds) || microseconds < 0) stop(work, BAD_PROGRAM);
    Writer start = take_memory(work, INSTANT_BYTES);
    write_newest_first(start, (int64_t)(now + 1) * 1000 - 1 - microseconds); /* the last one of this millisecond */
    return (Span){start, INSTANT_BYTES};
}

static const Feed *take_feeds(Work *work, Span value, uint64_t now, int *count) {
    Span *given = take_array(work, value, MOST_FOLLOWED, count);
    Feed *feeds = take_memory(work, ((size_t)*count + 1) * sizeof *feeds);
    for (int i = 0; i < *count; i++) {
        Span *parts = take_exactly(work, given[i], 8);
        feeds[i].prefix = take_bytes(work, parts[0], VIEW_BYTES, VIEW_BYTES);
        feeds[i].items = take_bytes(work, parts[1], VIEW_BYTES, VIEW_BYTES);
        feeds[i].members = take_bytes(work, parts[2], VIEW_BYTES, VIEW_BYTES);
        feeds[i].group = (int)take_number(work, parts[3], MOST_ELEMENTS);
        feeds[i].member = (int)take_number(work, parts[4], MOST_ELEMENTS);
        feeds[i].head = take_bytes(work, parts[5], 0, MOST_NAME);
        feeds[i].cut = take_number(work, parts[6], MOST_NAME);
        feeds[i].oldest = take_oldest(work, parts[7], now);
    }
    return feeds;
}

/* Adds all that follows; stops where Python has to. */
static void follow_all(Unit *unit, const Questions *asked) {
    Followed followed;
    Span *parts = take_exactly(unit->work, asked->followed, 3);
    followed.logs = take_logs(unit->work, parts[0], &followed.log_count);
    followed.most_entries = (int)take_number(unit->work, parts[1], INT_MAX);
    followed.feeds = take_feeds(unit->work, parts[2], unit->now, &followed.feed_count);
    size_t before = unit->writes.count;
    follow_feeds(unit, asked, &followed);
    if (unit->writes.count > before) sort_writes(unit);
    before = unit->writes.count;
    log_changes(unit, &followed);
    if (unit->writes.count > before) sort_writes(unit);
}

int follow_views(Unit *unit, const Questions *asked) {
    Work *work = unit->work;
    if (!asked->followed.size) return 1;
    const Unit before = *unit;
    jmp_buf out;
    memcpy(&out, &work->out, sizeof out);
    const int why = setjmp(work->out);
    if (!why) follow_all(unit, asked);
    memcpy(&work->out, &out, sizeof out);
    if (why == NO_MEMORY || why == NOT_READ || why == BAD_PROGRAM) stop(work, (enum Why)why);
    if (why) *unit = before; /* what it has read and written is of no use */
    return !why;
}
