/* Conditions: which entities are in a view, and which of them a number is made of. */
#include "core.h"

#include <string.h>

enum { CONDITION_PARTS = 6, MOST_OPERANDS = 64, MOST_OPERAND = 0xffff };

static void take_condition(Work *work, Span value, Condition *made, int depth);

static const Condition *take_parts(Work *work, Span value, int depth, uint8_t *count) {
    int found;
    Span *given = take_array(work, value, MOST_OPERANDS, &found);
    Condition *made = take_memory(work, (size_t)(found + 1) * sizeof *made);
    for (int i = 0; i < found; i++) take_condition(work, given[i], &made[i], depth - 1);
    *count = (uint8_t)found;
    return made;
}

static void take_condition(Work *work, Span value, Condition *made, int depth) {
    int count;
    memset(made, 0, sizeof *made);
    Span *parts = take_array(work, value, CONDITION_PARTS, &count);
    if (count != CONDITION_PARTS || !depth) stop(work, BAD_PROGRAM);
    made->how = (uint8_t)take_number(work, parts[0], LAST_HOW);
    made->relation = (uint8_t)take_number(work, parts[1], BELOW | EQUAL | ABOVE);
    made->type = (uint8_t)take_number(work, parts[2], LAST_TYPE);
    made->path = take_path(work, parts[3]);
    if (made->how != COMPARES) {
        made->parts = take_parts(work, parts[5], depth, &made->count);
        return;
    }
    made->operands = take_array(work, parts[4], MOST_OPERANDS, &count);
    made->count = (uint8_t)count;
    for (int i = 0; i < count; i++) made->operands[i] = take_bytes(work, made->operands[i], 1, MOST_OPERAND);
}

const Condition *take_conditions(Work *work, Span value, int *count) {
    uint8_t found;
    const Condition *made = take_parts(work, value, MOST_DEPTH, &found);
    if (found > MOST_CONDITIONS) stop(work, BAD_PROGRAM);
    *count = found;
    return made;
}

/* Whether a value has the relation to one of the operands, as the elements of keys are ordered. */
static int compares(Work *work, const Condition *condition, Span value) {
    Writer start = take_memory(work, most_of_element(value)), end = write_element(start, value, condition->type, 0);
    if (!end) stop(work, OTHER_VALUE);
    const Span element = {start, (size_t)(end - start)};
    for (int i = 0; i < condition->count; i++) {
        const Span operand = condition->operands[i];
        const int found = is_same(element, operand) ? EQUAL : is_below(element, operand) ? BELOW : ABOVE;
        if (condition->relation & found) return 1;
    }
    return 0;
}

static int holds(Work *work, const Program *program, const Condition *condition, const Span *fields) {
    if (condition->how == COMPARES || condition->how == IS_NONE) {
        const Span value = value_at(work, fields, program->values, condition->path);
        if (condition->how == IS_NONE) return is_nil(value);
        return !is_nil(value) && compares(work, condition, value);
    }
    for (int i = 0; i < condition->count; i++)
        if (holds(work, program, &condition->parts[i], fields) != (condition->how == ALL)) return condition->how == ANY;
    return condition->how != ANY;
}

int condition_holds(Work *work, const Program *program, const Entity *entity, unsigned number) {
    if (!number) return 1;
    const Condition *condition = &program->conditions[number - 1];
    if (condition->how == BY_PYTHON) return entity->holds >> (number - 1) & 1;
    return holds(work, program, condition, entity->fields);
}
