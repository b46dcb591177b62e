/* Programs: the table that oneread.derivations.core_programs writes, read into structures. */
#include "core.h"

#include <string.h>

enum { PARTS = 23, REFERENCE_PARTS = 15, TOKEN_PARTS = 4, OPERATION_PARTS = 14, ITEM_PARTS = 3, HIDDEN_PARTS = 3 };
enum { SHOWN_PARTS = 5, LISTED_PARTS = 6, MOST_VARIANTS = 64 };

unsigned take_number(Work *work, Span value, unsigned most) {
    int64_t number;
    if (!int_of(value, &number) || number < 0 || number > (int64_t)most) stop(work, BAD_PROGRAM);
    return (unsigned)number;
}

Span take_bytes(Work *work, Span value, size_t least, size_t most) {
    Span found;
    if (!binary_of(value, &found) || found.size < least || found.size > most) stop(work, BAD_PROGRAM);
    return found;
}

Span *take_array(Work *work, Span value, int most, int *count) {
    Span *found = take_memory(work, (size_t)most * sizeof *found);
    *count = elements_of(value, found, most);
    if (*count < 0) stop(work, BAD_PROGRAM);
    return found;
}

Span *take_exactly(Work *work, Span value, int count) {
    int found;
    Span *parts = take_array(work, value, count, &found);
    if (found != count) stop(work, BAD_PROGRAM);
    return parts;
}

Path take_path(Work *work, Span value) {
    int count;
    Span *steps = take_array(work, value, MOST_STEPS, &count);
    Path path = {(uint8_t)count, {0}};
    for (int i = 0; i < count; i++) path.steps[i] = (uint8_t)take_number(work, steps[i], 0xff);
    return path;
}

static const Path *take_paths(Work *work, Span value, int most, uint8_t *count) {
    int found;
    Span *given = take_array(work, value, most, &found);
    Path *paths = take_memory(work, (size_t)(found + 1) * sizeof *paths);
    for (int i = 0; i < found; i++) paths[i] = take_path(work, given[i]);
    *count = (uint8_t)found;
    return paths;
}

/* An expiry: nothing, or its path and microseconds. */
static Expiry take_expiry(Work *work, Span value) {
    int count;
    Expiry expiry = {{0, {0}}, 0};
    Span *parts = take_array(work, value, 2, &count);
    if (!count) return expiry;
    if (count != 2 || !int_of(parts[1], &expiry.after)) stop(work, BAD_PROGRAM);
    expiry.path = take_path(work, parts[0]);
    return expiry;
}

static const Token *take_tokens(Work *work, Span value, int *count) {
    Span *given = take_array(work, value, MOST_TOKENS, count);
    Token *tokens = take_memory(work, (size_t)(*count + 1) * sizeof *tokens);
    for (int i = 0; i < *count; i++) {
        Span *parts = take_exactly(work, given[i], TOKEN_PARTS);
        if (!int_of(parts[0], &tokens[i].token)) stop(work, BAD_PROGRAM);
        tokens[i].form = (uint8_t)take_number(work, parts[1], LAST_FORM);
        tokens[i].prefix = take_bytes(work, parts[2], 0, 16);
        tokens[i].shown = (uint8_t)take_number(work, parts[3], MOST_AGGREGATES);
    }
    return tokens;
}

/* The types of the parts of a key. Returns how many there are. */
static uint8_t take_types(Work *work, Span value, uint8_t *types) {
    int count;
    Span *given = take_array(work, value, MOST_PARTS, &count);
    for (int i = 0; i < count; i++) types[i] = (uint8_t)take_number(work, given[i], LAST_TYPE);
    return (uint8_t)count;
}

static Reference *take_references(Work *work, Span value, unsigned fields, int *count) {
    Span *given = take_array(work, value, MOST_REFERENCES, count);
    Reference *references = take_memory(work, (size_t)(*count + 1) * sizeof *references);
    for (int i = 0; i < *count; i++) {
        Span *parts = take_exactly(work, given[i], REFERENCE_PARTS);
        Reference *made = &references[i];
        made->field = (uint8_t)take_number(work, parts[0], NO_FIELD);
        if (made->field >= fields && made->field != NO_FIELD) stop(work, BAD_PROGRAM);
        made->is_copy = (uint8_t)take_number(work, parts[1], 1);
        made->is_tracked = (uint8_t)take_number(work, parts[2], 1);
        made->is_held = (uint8_t)take_number(work, parts[3], 1);
        made->start = (uint8_t)take_number(work, parts[4], 16);
        memcpy(made->layout, take_bytes(work, parts[5], 2, 2).data, 2);
        made->selection = take_bytes(work, parts[6], 0, 16);
        made->paths = take_paths(work, parts[7], MOST_ITEMS, &made->count);
        made->is_going = (uint8_t)take_number(work, parts[8], 1);
        made->expiry = take_expiry(work, parts[9]);
        made->is_many = (uint8_t)take_number(work, parts[14], 1);
        if (made->is_many && (made->is_copy || made->is_tracked || made->is_held)) stop(work, BAD_PROGRAM);
        if (made->field == NO_FIELD && (made->is_copy || made->is_many)) stop(work, BAD_PROGRAM);
        memcpy(made->kind, take_bytes(work, parts[10], 2, 2).data, 2);
        made->ranges = (uint8_t)take_number(work, parts[11], 0xff);
        made->parts = take_types(work, parts[12], made->types);
        made->is_hidden = 0;
        made->accepted = take_bytes(work, parts[13], 0, 2 * MOST_VARIANTS);
    }
    return references;
}

/* The hidden copies, of references that are known. */
static void take_hidden(Work *work, Span value, Program *program, Reference *references) {
    Span *given = take_array(work, value, MOST_HIDDEN, &program->hidden_count), text;
    Hidden *hidden = take_memory(work, ((size_t)program->hidden_count + 1) * sizeof *hidden);
    for (int i = 0; i < program->hidden_count; i++) {
        Span *parts = take_exactly(work, given[i], HIDDEN_PARTS);
        if (!text_of(parts[0], &text)) stop(work, BAD_PROGRAM);
        hidden[i].name = parts[0];
        hidden[i].reference = (uint8_t)take_number(work, parts[1], MOST_REFERENCES);
        hidden[i].path = take_path(work, parts[2]);
        if (hidden[i].reference >= program->reference_count || references[hidden[i].reference].field == NO_FIELD)
            stop(work, BAD_PROGRAM);
        if (references[hidden[i].reference].is_many) stop(work, BAD_PROGRAM);
        references[hidden[i].reference].is_hidden = 1;
    }
    program->hidden = hidden;
    program->values = program->fields + program->hidden_count;
}

static const Selection *take_selections(Work *work, Span value, int *count) {
    Span *given = take_array(work, value, MOST_SELECTIONS, count);
    Selection *selections = take_memory(work, (size_t)(*count + 1) * sizeof *selections);
    for (int i = 0; i < *count; i++) {
        Span *parts = take_exactly(work, given[i], 2);
        selections[i].name = take_bytes(work, parts[0], 0, 16);
        selections[i].paths = take_paths(work, parts[1], MOST_ITEMS, &selections[i].count);
    }
    return selections;
}

static const Showing *take_showing(Work *work, Span value, uint8_t *count) {
    int found;
    Span *given = take_array(work, value, MOST_ITEMS, &found);
    Showing *showing = take_memory(work, (size_t)(found + 1) * sizeof *showing);
    for (int i = 0; i < found; i++) {
        Span *parts = take_exactly(work, given[i], 2);
        showing[i].kind = take_bytes(work, parts[0], 2, 2);
        showing[i].ranges = (uint8_t)take_number(work, parts[1], 0xff);
    }
    *count = (uint8_t)found;
    return showing;
}

static void take_totals(Work *work, Span value, Program *program) {
    Span *given = take_array(work, value, MOST_FIELDS, &program->total_count);
    Total *totals = take_memory(work, ((size_t)program->total_count + 1) * sizeof *totals);
    for (int i = 0; i < program->total_count; i++) {
        Span *parts = take_exactly(work, given[i], 3);
        totals[i].field = (uint8_t)take_number(work, parts[0], program->fields - 1u);
        totals[i].prefix = take_bytes(work, parts[1], 0, 16);
        totals[i].place = (uint8_t)take_number(work, parts[2], UNKNOWN_PLACE);
    }
    program->totals = totals;
}

static const Expiry *take_ends(Work *work, Span value, uint8_t *count) {
    int found;
    Span *given = take_array(work, value, MOST_ITEMS, &found);
    Expiry *ends = take_memory(work, (size_t)(found + 1) * sizeof *ends);
    for (int i = 0; i < found; i++) ends[i] = take_expiry(work, given[i]);
    *count = (uint8_t)found;
    return ends;
}

static const Item *take_items(Work *work, Span value, enum Code code, uint8_t *count, unsigned conditions) {
    const unsigned last = code == AMOUNTS ? LAST_SLOT : LAST_ITEM;
    int found;
    Span *given = take_array(work, value, MOST_ITEMS, &found);
    Item *items = take_memory(work, (size_t)(found + 1) * sizeof *items);
    for (int i = 0; i < found; i++) {
        Span *parts = take_exactly(work, given[i], ITEM_PARTS);
        items[i].kind = (uint8_t)take_number(work, parts[0], last);
        items[i].path = take_path(work, parts[1]);
        const unsigned most = code == AMOUNTS ? conditions : items[i].kind == VALUE ? LAST_BUCKET : MOST_ITEMS;
        items[i].fields = (uint8_t)take_number(work, parts[2], most);
    }
    *count = (uint8_t)found;
    return items;
}

static const uint8_t *take_registers(Work *work, Span value, uint8_t *count) {
    int found;
    Span *given = take_array(work, value, MOST_ITEMS, &found);
    uint8_t *registers = take_memory(work, (size_t)(found + 1));
    for (int i = 0; i < found; i++) registers[i] = (uint8_t)take_number(work, given[i], MOST_REGISTERS - 1);
    *count = (uint8_t)found;
    return registers;
}

/* One operation, of a program whose tokens, references and conditions are known. */
static Operation take_operation(Work *work, Span value, const Program *program) {
    Span *parts = take_exactly(work, value, OPERATION_PARTS);
    const unsigned conditions = (unsigned)program->condition_count;
    Operation made = {0};
    made.code = (uint8_t)take_number(work, parts[0], LAST_CODE);
    made.made = (uint8_t)take_number(work, parts[1], MOST_REGISTERS - 1);
    made.used = (uint8_t)take_number(work, parts[2], MOST_REGISTERS - 1);
    made.second = (uint8_t)take_number(work, parts[3], MOST_REGISTERS - 1);
    made.type = (uint8_t)take_number(work, parts[4], LAST_TYPE);
    made.flag = (uint8_t)take_number(work, parts[5], FLAGS);
    made.none = (uint8_t)take_number(work, parts[6], 0xff);
    made.nones = (uint8_t)take_number(work, parts[7], 16);
    made.place = (uint8_t)take_number(work, parts[8], 0xff);
    made.most = take_number(work, parts[9], 0xffff);
    made.path = take_path(work, parts[10]);
    made.order = take_path(work, parts[11]);
    if (made.code == PLACE || made.code == KEY_OF || made.code == EACH)
        made.registers = take_registers(work, parts[12], &made.count);
    else if (made.code == FIRST_EXPIRY)
        made.ends = take_ends(work, parts[12], &made.count);
    else
        made.items = take_items(work, parts[12], made.code, &made.count, conditions);
    made.bucket = (uint8_t)take_number(work, parts[13], LAST_BUCKET);
    if (made.code == SPREAD && !made.most) stop(work, BAD_PROGRAM);
    if (made.flag & FRAMED && (made.code != ROW || made.count < FRAMED_ITEMS)) stop(work, BAD_PROGRAM);
    if ((made.code == SKIP || made.code == EXTREME) && made.second > conditions) stop(work, BAD_PROGRAM);
    const int names_token = made.code == ROW || made.code == SUM || made.code == EXTREMUM || made.code == CLAIM;
    const int places = names_token ? program->token_count : made.code == REFERENCE ? program->reference_count : 0xff;
    if (made.place >= places || !made.code) stop(work, BAD_PROGRAM);
    return made;
}

static void take_operations(Work *work, Span value, Program *program) {
    Span *given = take_array(work, value, MOST_OPERATIONS, &program->operation_count);
    Operation *operations = take_memory(work, (size_t)(program->operation_count + 1) * sizeof *operations);
    for (int i = 0; i < program->operation_count; i++) operations[i] = take_operation(work, given[i], program);
    program->operations = operations;
}

static const KeyPart *take_key_parts(Work *work, Span value, int *count) {
    Span *given = take_array(work, value, MOST_PARTS, count);
    KeyPart *parts = take_memory(work, ((size_t)*count + 1) * sizeof *parts);
    for (int i = 0; i < *count; i++) {
        Span *each = take_exactly(work, given[i], 2);
        parts[i].is_reference = (uint8_t)take_number(work, each[0], 1);
        parts[i].count = take_types(work, each[1], parts[i].types);
        if (!parts[i].count || (parts[i].count > 1 && !parts[i].is_reference)) stop(work, BAD_PROGRAM);
    }
    return parts;
}

/* How indexes list the groups of an aggregate; NULL for no table: none does. */
static const Listed *take_listed(Work *work, Span value) {
    int count;
    Listed *made = take_memory(work, sizeof *made);
    Program *program = take_memory(work, sizeof *program);
    Span *parts = take_array(work, value, LISTED_PARTS, &count);
    if (!count) return NULL;
    if (count != LISTED_PARTS) stop(work, BAD_PROGRAM);
    memset(program, 0, sizeof *program);
    made->parts = take_key_parts(work, parts[0], &made->part_count);
    Span *places = take_array(work, parts[1], MOST_PARTS, &made->number_count);
    uint8_t *numbers = take_memory(work, (size_t)made->number_count + 1);
    for (int i = 0; i < made->number_count; i++) numbers[i] = (uint8_t)take_number(work, places[i], MOST_SLOTS);
    made->numbers = numbers;
    program->fields = (uint8_t)(made->part_count + made->number_count);
    program->values = program->fields;
    program->own = take_paths(work, parts[2], MOST_OWN, &program->own_count);
    program->tokens = take_tokens(work, parts[3], &program->token_count);
    for (int i = 0; i < program->token_count; i++)
        if (program->tokens[i].form != OF_ROWS) stop(work, BAD_PROGRAM);
    program->conditions = take_conditions(work, parts[4], &program->condition_count);
    take_operations(work, parts[5], program);
    made->program = program;
    return made;
}

static void take_shown(Work *work, Span value, Program *program) {
    Span *given = take_array(work, value, MOST_AGGREGATES, &program->shown_count);
    Shown *shown = take_memory(work, ((size_t)program->shown_count + 1) * sizeof *shown);
    for (int i = 0; i < program->shown_count; i++) {
        Span *parts = take_exactly(work, given[i], SHOWN_PARTS);
        shown[i].sum = (uint8_t)take_number(work, parts[0], 0xff);
        shown[i].is_known = (uint8_t)take_number(work, parts[1], 1);
        shown[i].rank = (uint8_t)take_number(work, parts[2], 0xff);
        shown[i].showing = take_showing(work, parts[3], &shown[i].count);
        shown[i].listed = take_listed(work, parts[4]);
        if (shown[i].sum >= program->token_count) stop(work, BAD_PROGRAM);
    }
    program->shown = shown;
    for (int i = 0; i < program->token_count; i++)
        if (program->tokens[i].shown > program->shown_count) stop(work, BAD_PROGRAM);
}

const Program *read_program(Work *work, Span table) {
    int count;
    Program *program = take_memory(work, sizeof *program);
    memset(program, 0, sizeof *program);
    Span *parts = take_exactly(work, table, PARTS);
    program->layout = take_bytes(work, parts[0], 2, 2);
    program->fields = (uint8_t)take_number(work, parts[1], MOST_FIELDS);
    if (!program->fields) stop(work, BAD_PROGRAM);
    program->start = (uint8_t)take_number(work, parts[2], 16);
    program->own = take_paths(work, parts[3], MOST_OWN, &program->own_count);
    program->tokens = take_tokens(work, parts[4], &program->token_count);
    Reference *references = take_references(work, parts[5], program->fields, &program->reference_count);
    program->references = references;
    take_hidden(work, parts[22], program, references);
    program->is_tracked = (uint8_t)take_number(work, parts[6], 1);
    program->is_holding = (uint8_t)take_number(work, parts[7], 1);
    program->is_copied = (uint8_t)take_number(work, parts[8], 1);
    program->selections = take_selections(work, parts[9], &program->selection_count);
    program->conditions = take_conditions(work, parts[21], &program->condition_count);
    take_operations(work, parts[10], program);
    program->is_numbered = (uint8_t)take_number(work, parts[11], 1);
    Span *given = take_exactly(work, parts[12], program->fields);
    for (int i = 0; i < program->fields; i++) program->roles[i] = (uint8_t)take_number(work, given[i], LAST_ROLE);
    program->expiry = take_expiry(work, parts[13]);
    program->kind = take_bytes(work, parts[14], 2, 2);
    program->follows = (uint8_t)take_number(work, parts[15], ALL_FOLLOWS);
    take_shown(work, parts[16], program);
    take_totals(work, parts[17], program);
    program->is_held = (uint8_t)take_number(work, parts[18], 1);
    program->ranges = (uint8_t)take_number(work, parts[19], 0xff);
    given = take_array(work, parts[20], program->own_count, &count);
    for (int i = 0; i < count; i++) program->own_types[i] = (uint8_t)take_number(work, given[i], LAST_TYPE);
    return program;
}

Span value_at(Work *work, const Span *fields, int count, Path path) {
    if (!path.count) return NIL;
    if (path.steps[0] >= count) stop(work, OTHER_LAYOUT);
    Span value = fields[path.steps[0]];
    for (int i = 1; i < path.count && !is_nil(value); i++) {
        value = element_at(value, path.steps[i]);
        if (!value.data) stop(work, OTHER_VALUE);
    }
    return value;
}

uint64_t expiry_of(Work *work, const Span *fields, int count, const Expiry *expiry) {
    int64_t since, until;
    const Span value = value_at(work, fields, count, expiry->path);
    if (is_nil(value)) return NEVER;
    if (!microseconds_of(value, &since) || __builtin_add_overflow(since, expiry->after, &until)) stop(work, OTHER_VALUE);
    return until < 0 ? 0 : (uint64_t)until / 1000;
}
