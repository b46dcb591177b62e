/* Rows as the store has them. */
#include "core.h"

int value_of_row(Span row, Span *value, uint64_t *stamp) {
    if (row.size < ONE_HEAD) return 0;
    const unsigned form = row.data[0] >> 5;
    *stamp = number_at(row.data, ONE_HEAD) & (STAMPS - 1);
    if (form == FORM_ONE) {
        *value = (Span){row.data + ONE_HEAD, row.size - ONE_HEAD};
        return 1;
    }
    const size_t head = form == FORM_ROOT ? ROOT_HEAD : OWN_HEAD;
    if (form < FORM_ENTRY || form > FORM_OWN || row.size < head) return 0;
    const size_t first = (size_t)number_at(row.data + ONE_HEAD, 2);
    if (first > row.size - head) return 0;
    if (form == FORM_OWN) *stamp = number_at(row.data + ROOT_HEAD, OWN_HEAD - ROOT_HEAD);
    const uint8_t *behind = row.data + head + first;
    *value = form == FORM_ENTRY ? (Span){behind, row.size - head - first} : (Span){row.data + head, first};
    return 1;
}
