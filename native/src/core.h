/* The core: what follows from saving one entity, decided on bytes by a program of operations.
 *
 * It knows neither Python nor LMDB. Whatever it does not know ends in `stop`, before anything is written, and Python
 * decides the whole commit instead. Python's text of the same operations is what they mean; see docs/design/native.md.
 */
#ifndef ONEREAD_CORE_H
#define ONEREAD_CORE_H

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that another one owns. Without data it is no value at all. */
typedef struct {
    const uint8_t *data;
    size_t size;
} Span;

/* Why a call of the core stopped. `reason_of` has the words. */
enum Why {
    DECIDED,
    NO_MEMORY,     /* malloc failed */
    NOT_READ,      /* the reader failed */
    BAD_PROGRAM,   /* a table that is no program */
    OTHER_LAYOUT,  /* a document, or one before, has another layout than the program knows */
    OTHER_RECORD,  /* the record before has other tokens, or is not as this core writes records */
    OTHER_ROW,     /* a row has a form that only few rows have */
    OTHER_VALUE,   /* a value that this core does not know, as an int beyond 64 bits */
    OTHER_VERSION, /* the row has another version than is expected, or none can follow */
    NO_SOURCE,     /* a source is absent, deleted, or of another layout */
    COPIED,        /* holders have to follow */
    SHOWN,         /* what shows a group has to follow, or the entity shows one that has to be read */
    VANISHES,      /* what is stored counts as absent */
    NUMBERED,      /* a new number of a group is taken */
    TOO_LONG,      /* beyond a limit, which Python names */
    OTHER_SUM,     /* the row of a group is not as expected */
    TAKEN,         /* another entity has a unique value, or takes it as well */
    OTHER_ROWS     /* rows besides are not as expected; the call says so, and not the core */
};

enum Table { ROOTS, VIEWS, COUNTS, SYSTEM, TABLES };

enum {
    MOST_FIELDS = 64,
    MOST_STEPS = 4,
    MOST_OPERATIONS = 250,
    MOST_ITEMS = 64,
    MOST_REGISTERS = 120,
    MOST_TOKENS = 120,
    MOST_REFERENCES = 15, /* arrays of up to 15 elements have a header of one byte */
    MOST_SELECTIONS = 15,
    NO_FIELD = 0xff,
    UNKNOWN_PLACE = 0xff,
    COUNTER_PLACE = 0xfe,
    MOST_AGGREGATES = 32,
    MOST_DEPTH = 32,
    MOST_PARTS = 8,
    MOST_CONDITIONS = 60,
    MOST_OWN = 16,
    FRAMED_ITEMS = 2, /* whose lengths are in a framed row, before all items */
    MOST_HIDDEN = 16,
    MOST_EACH = 1000 /* elements of a list, each of which has a row or is in a group */
};

/* ---- work.c: the memory of one call, and its way out ---- */

typedef struct Chunk Chunk;

/* What one call of the core works with. `out` is where `stop` returns to; all memory is freed by `end_work`. */
typedef struct {
    jmp_buf out;
    Chunk *chunks;
} Work;

/* Ends the call: returns to the `setjmp` of the work with the reason. */
_Noreturn void stop(Work *work, enum Why why);

/* Memory that is the work's, aligned for every type; stops where there is none. */
void *take_memory(Work *work, size_t size);

/* Frees all memory of a work. */
void end_work(Work *work);

/* The words of a reason, for people. */
const char *reason_of(enum Why why);

/* ---- documents.c: msgpack ---- */

/* Where bytes are written: `end` is behind the last one. The caller has taken enough. */
typedef uint8_t *Writer;

/* A number of `count` bytes, big-endian. */
uint64_t number_at(const uint8_t *data, int count);
void write_number(uint8_t *to, uint64_t number, int count);

/* The length or count of the value at `data`, which is before `end`, and what is behind its head. Returns its kind - 0
 * for bytes, 1 for elements, 2 for pairs - or -1. The length may be beyond the end. */
int read_head(const uint8_t *data, const uint8_t *end, const uint8_t **body, uint64_t *count);

/* The end of the value at `data`; NULL where it is cut off, nests too deeply, or is no msgpack. */
const uint8_t *end_of_value(const uint8_t *data, const uint8_t *end, int depth);

/* The elements of an array that is the whole span, at most `most`; their number, or -1. */
int elements_of(Span array, Span *found, int most);

/* All elements of an array, in memory of the work; stops where there are more than twice MOST_EACH. */
Span *all_elements(Work *work, Span array, int *count);

/* As `elements_of`, of the keys and values of a map, one after the other. */
int entries_of(Span map, Span *found, int most);

/* One element of an array, which may have others behind it; no value where there is none. */
Span element_at(Span array, unsigned place);

int is_nil(Span value);
int is_same(Span one, Span other);
int begins_with(Span key, Span prefix);

/* Whether bytes sort before others, as rows do. */
int is_below(Span one, Span other);

/* The text, bytes or number of a value. Each returns whether it is one. */
int text_of(Span value, Span *text);
int binary_of(Span value, Span *bytes);
int int_of(Span value, int64_t *number);

Writer write_span(Writer to, Span bytes);
Writer write_array_header(Writer to, size_t count);
Writer write_map_header(Writer to, size_t count);
Writer write_int(Writer to, int64_t number);    /* at most 9 bytes */
Writer write_binary(Writer to, Span bytes);     /* at most 5 bytes more */
Writer write_text_header(Writer to, size_t size);

/* An array of bytes: written where there is room for it, or in memory of the work. */
Writer write_keys(Writer to, const Span *keys, size_t count);
Span array_of_keys(Work *work, const Span *keys, size_t count);

extern const Span NIL;

/* ---- digest.c ---- */

/* BLAKE2b without a key (RFC 7693), of 1 to 64 bytes. */
void digest(Span bytes, uint8_t *to, size_t size);

/* What a record keeps of bytes, as msgpack: themselves where they are short, else 8 bytes of a digest. At most 10. */
Writer write_short_hash(Writer to, Span bytes);

/* ---- numbers.c: exact numbers ---- */

/* An int, or a decimal of `number` and so many digits behind the point. */
typedef struct {
    __int128 number;
    int scale;
    int is_decimal;
} Number;

/* The number of a value: an int, or the text of a decimal without an exponent. Returns whether it is one this core
 * knows. */
int number_of(Span value, Number *number);

/* As `number_of`, of every decimal that Python writes: with an exponent, and zeros below zero; its scale may be large. */
int any_number_of(Span value, Number *number);

/* Adds, exactly. Returns 0 where that takes more than the type holds. */
int add_number(Number *to, Number added);

/* The number with its sign changed. */
Number negative(Number number);

/* Writes a number as msgpack: at most 48 bytes. Returns NULL where Python would write an exponent, or more than 64
 * bits. */
Writer write_amount(Writer to, Number number);

/* ---- elements.c: elements of keys, as docs/formats/keys.md says ---- */

enum Type { TEXT = 1, INT, DECIMAL, INSTANT, BOOL, UUID_, DATE, BYTES, FLOAT, LAST_TYPE = FLOAT };

/* The bytes that an element takes at most, of a value of so many. */
size_t most_of_element(Span value);

enum Bucket { NO_BUCKET, MINUTE, HOUR, DAY, WEEK, MONTH, YEAR, LAST_BUCKET = YEAR };

/* The seconds, and nanoseconds, of an instant as msgpack has it. Returns whether it is one. */
int instant_of(Span value, int64_t *seconds, uint64_t *nanoseconds);

/* The microseconds of an instant since 1970. Returns whether it is one. */
int microseconds_of(Span value, int64_t *microseconds);

/* Writes an instant of whole seconds, of microseconds or of milliseconds, as msgspec does: at most 15 bytes. */
Writer write_seconds(Writer to, int64_t seconds);
Writer write_microseconds(Writer to, int64_t microseconds);
Writer write_milliseconds(Writer to, uint64_t milliseconds);

/* Writes a day since 1970, or an instant, as ISO 8601 has it: 10 bytes, or at most 27. Returns NULL where Python has no such
 * day or instant. */
Writer write_iso_date(Writer to, int64_t day);
Writer write_iso_instant(Writer to, int64_t seconds, uint64_t nanoseconds);

/* The second in which the bucket begins that has this one. */
int64_t bucket_start(int64_t seconds, enum Bucket bucket);

/* The byte before the rows of an entity, or a group, with this key, which are spread over so many ranges. */
uint8_t spread_part(Span key, uint32_t ranges);

/* The end of the element at `data`; NULL where it is cut off, or of a type whose end this core does not look for. */
const uint8_t *end_of_element(const uint8_t *data, const uint8_t *end);

/* Reads an ascending element of a type, or of None, as msgpack has its value. Returns its end; NULL where it is cut off, or
 * of another type, and of decimals and floats. */
const uint8_t *read_element(Work *work, const uint8_t *data, const uint8_t *end, enum Type type, Span *value);

/* Writes the element of a value. Returns NULL for a value that is not of the type, or that this core does not know. */
Writer write_element(Writer to, Span value, enum Type type, int is_descending);

/* Writes the element of an instant, of microseconds since 1970, descending: 9 bytes. */
Writer write_newest_first(Writer to, int64_t microseconds);

/* ---- program.c ---- */

/* Where a document has a value: a field, and elements of arrays within. */
typedef struct {
    uint8_t count;
    uint8_t steps[MOST_STEPS];
} Path;

/* The parts of a table; each stops where it is another one: a whole number from 0 to `most`, bytes of such a size, the
 * elements of an array, in memory of the work, at most so many, or exactly; and a path. */
unsigned take_number(Work *work, Span value, unsigned most);
Span take_bytes(Work *work, Span value, size_t least, size_t most);
Span *take_array(Work *work, Span value, int most, int *count);
Span *take_exactly(Work *work, Span value, int count);
Path take_path(Work *work, Span value);

/* What the store gives a field: nothing, the instant of the first save, that of each, or a total that it has. */
enum Role { GIVEN, CREATED, UPDATED, TOTAL, LAST_ROLE = TOTAL };

/* Whether this core may let an entity follow its sources, and the groups that it shows; CHECKED: Python looks at it then,
 * before it is written. */
enum Follows { MAY_FOLLOW = 1, CHECKED = 2, ALL_FOLLOWS = 3 };

/* When an entity expires: an instant of its own, and so many microseconds behind it. Without a path it does not. */
typedef struct {
    Path path;
    int64_t after;
} Expiry;

enum ItemKind { OWN_KEY = 1, VALUE, COPY_REFERRING, REF_REFERRING, LAST_ITEM = REF_REFERRING };

/* In place of a field, at the beginning of a path: the element of a list that a row is for. */
enum { THE_ELEMENT = 0xff };
enum SlotKind { ONE = 1, PRESENT, AMOUNT, LAST_SLOT = AMOUNT };

/* What a row shows, or an amount. */
typedef struct {
    uint8_t kind;
    uint8_t fields; /* of a copy that only refers; of a value, its bucket; of an amount, its condition: 0 for none */
    Path path;
} Item;

/* Of an operation: the bytes are complemented; the record keeps a value that is not in the usual form; the key has a
 * digest; the row is a document of the value, of which the record keeps a hash; the row ends in its expiry; the row of a
 * part of a feed is framed. */
enum Flag { DESCENDING = 1, IN_DIGITS = 2, HASHED = 4, IN_DOCUMENT = 8, WITH_EXPIRY = 16, FRAMED = 32, FLAGS = 63 };

enum Code {
    ELEMENT = 1,
    REFERENCE,
    PLACE,
    ROW,
    AMOUNTS,
    SUM,
    EXTREME,
    EXTREMUM,
    END,
    SPREAD,
    SKIP,
    FIRST_EXPIRY, /* and SKIP_EXPIRED: the entity is in the view before the first of the instants */
    KEY_OF,       /* of what a value refers to; `registers` are the types of its parts */
    EACH,         /* the elements of a list, as ELEMENT or KEY_OF makes them; `second` is 1 where they are sorted */
    REPEAT,       /* what follows is for each of them */
    CLAIM,        /* takes a unique value, where none of the items is absent */
    LAST_CODE = CLAIM
};

/* Operations are those of oneread.derivations.operations and row_operations, by the same names. */
typedef struct {
    uint8_t code;
    uint8_t made;         /* the register that it makes */
    uint8_t used, second; /* registers that it uses; of SKIP and EXTREME, `second` is a condition */
    uint8_t type;
    uint8_t flag;  /* DESCENDING; of EXTREME also IN_DIGITS or IN_DOCUMENT; of ROW WITH_EXPIRY or FRAMED */
    uint8_t bucket;
    uint8_t none;  /* the byte of an absent value; 0: the entity is not in the view then */
    uint8_t nones; /* how many of them */
    uint8_t place; /* of its token or reference */
    uint8_t count; /* of items, registers or instants */
    uint32_t most; /* the limit; 0 for none; of SPREAD, how many ranges there are */
    Path path, order;
    const Item *items;
    const uint8_t *registers;
    const Expiry *ends;
} Operation;

typedef struct {
    uint8_t field; /* NO_FIELD where parts of the own key refer */
    uint8_t is_copy, is_tracked, is_held;
    uint8_t is_going; /* the entity goes with its source */
    uint8_t start;     /* where the entity's own key begins in the key of a source */
    uint8_t count;     /* of paths */
    uint8_t layout[2]; /* of the source */
    Span selection;
    const Path *paths; /* in the source, of what the copy takes */
    Expiry expiry;     /* of the source */
    uint8_t kind[2];   /* of the source: how its keys begin */
    uint8_t ranges;    /* over which its rows are spread */
    uint8_t is_many;   /* the field is a list of references, which are neither tracked nor held */
    uint8_t is_hidden; /* the entity has hidden copies of the source */
    uint8_t parts;     /* of its key; none where this core does not make its keys */
    uint8_t types[MOST_PARTS];
    Span accepted; /* the layouts of what it may refer to, one after the other */
} Reference;

/* What an entity has of a token: rows, parts of groups, or unique values. */
enum Form { OF_ROWS, OF_SUMS, OF_CLAIMS, LAST_FORM = OF_CLAIMS };

typedef struct {
    int64_t token;
    uint8_t form;  /* of enum Form */
    uint8_t shown; /* behind which aggregate that is shown it is; 0 for none */
    Span prefix;
} Token;

/* A kind of entities that show groups: how their keys begin, and over how many ranges they are spread. */
typedef struct {
    Span kind;
    uint8_t ranges;
} Showing;

/* A part of a group's key: one value, or the parts of what a reference refers to. */
typedef struct {
    uint8_t is_reference, count;
    uint8_t types[MOST_PARTS];
} KeyPart;

/* The groups of an aggregate as indexes list them: the program of the indexes, whose fields are the parts of a group's key
 * and, behind them, numbers of its row, by their places there. */
typedef struct {
    const struct Program *program;
    int part_count, number_count;
    const KeyPart *parts;
    const uint8_t *numbers;
} Listed;

/* An aggregate whose groups are shown, by entities or by indexes. */
typedef struct {
    uint8_t sum; /* the place of the token of its numbers */
    uint8_t is_known; /* only counts and sums of whole numbers are shown */
    uint8_t rank, count;
    const Showing *showing;
    const Listed *listed; /* NULL where no index lists them */
} Shown;

/* A total: the field that shows it, the aggregate's prefix, and its place in the row of the group. */
typedef struct {
    uint8_t field, place; /* UNKNOWN_PLACE where the value is not just that number, COUNTER_PLACE of a counter */
    Span prefix;
} Total;

typedef struct {
    Span name;
    uint8_t count;
    const Path *paths;
} Selection;

/* A hidden copy: its name as msgpack, the reference behind which it is, and its place in the source. */
typedef struct {
    Span name;
    uint8_t reference;
    Path path;
} Hidden;

/* How a condition is decided: Python was asked; by comparing a value; and of other conditions, NONE_OF where none of them
 * holds. */
enum How { BY_PYTHON, COMPARES, IS_NONE, ALL, ANY, NONE_OF, LAST_HOW = NONE_OF };

/* What a value may be to an operand. */
enum { BELOW = 1, EQUAL = 2, ABOVE = 4 };

typedef struct Condition Condition;

struct Condition {
    uint8_t how, relation, type, count; /* of operands, or of parts */
    Path path;
    Span *operands; /* elements of keys: the value has the relation to one of them */
    const Condition *parts;
};

typedef struct Program {
    Span kind, layout; /* how keys and documents begin */
    uint8_t fields, start; /* where the own key begins in the key of the root row */
    uint8_t own_count;     /* of the parts of the key */
    const Path *own;
    uint8_t ranges; /* over which its rows are spread */
    uint8_t own_types[MOST_OWN]; /* 0 where this core does not make its keys */
    int token_count, reference_count, selection_count, operation_count;
    uint8_t is_tracked, is_holding, is_copied; /* what a record has besides tokens */
    uint8_t is_numbered;
    uint8_t is_held; /* others may forbid that it is deleted */
    uint8_t follows; /* MAY_FOLLOW, CHECKED */
    int shown_count, total_count;
    const Shown *shown;
    const Total *totals;
    uint8_t roles[MOST_FIELDS]; /* of the fields */
    Expiry expiry;
    const Token *tokens;
    const Reference *references;
    const Selection *selections;
    const Operation *operations;
    int condition_count, hidden_count;
    const Condition *conditions;
    const Hidden *hidden;
    int values; /* of an entity: its fields, and its hidden copies behind them */
} Program;

/* Reads a table, whose bytes must stay as long as the program; its memory is the work's. Every place, register and
 * count in it is within its bounds afterwards. Stops with BAD_PROGRAM. */
const Program *read_program(Work *work, Span table);

#define NEVER UINT64_MAX

/* When what has these fields expires, in milliseconds since 1970; NEVER where it does not. */
uint64_t expiry_of(Work *work, const Span *fields, int count, const Expiry *expiry);

/* The value at a path among so many fields; NIL for no path, and where anything on the way is. Stops where there is no
 * such element. */
Span value_at(Work *work, const Span *fields, int count, Path path);

/* What an entity contributes to one token: `kept` is what the record has of it, `shown` the value of its row. */
typedef struct Contribution Contribution;

struct Contribution {
    Span found; /* without data where it contributes nothing */
    Span kept, shown; /* neither of a unique value */
    Contribution *next, *last; /* those behind the first one, which knows the last of them */
};

typedef struct {
    Contribution of[MOST_TOKENS];
    Span taken[MOST_REFERENCES], held[MOST_REFERENCES];
    int taken_count, held_count;
    Span copied; /* the map of digests */
    Span hidden[MOST_HIDDEN];
} Record;

/* An entity as it is to be stored. */
typedef struct {
    Span fields[MOST_FIELDS + MOST_HIDDEN];
    Span sources[MOST_REFERENCES]; /* keys of root rows, by reference; without data for none */
    Span suffix;                   /* its own key */
    uint64_t holds;                /* a bit for each condition that Python was asked */
    uint64_t now;                  /* what expires until then is in no view */
} Entity;

/* ---- conditions.c ---- */

/* The conditions of a table. */
const Condition *take_conditions(Work *work, Span value, int *count);

/* Whether the condition with this number, from 1, holds for an entity; 0 is none. Stops where its value cannot be
 * compared. */
int condition_holds(Work *work, const Program *program, const Entity *entity, unsigned number);

/* ---- emit.c, records.c ---- */

/* Runs the program: what the entity contributes. */
void emit(Work *work, const Program *program, const Entity *entity, Record *record);

/* Adds a contribution to those of a token, whose first one is given. */
void add_contribution(Work *work, Contribution *first, Contribution added);

/* The contributions of a token, from a first one; NULL behind the last one, and where there is none. */
const Contribution *first_of(const Contribution *first);

/* A record without contributions. */
void clear_record(const Program *program, Record *record);

/* The bytes of a record. */
Span encode_record(Work *work, const Program *program, const Record *record);

/* A record of the program's tokens, in their order; stops at any other. */
void decode_record(Work *work, const Program *program, Span bytes, Record *record);

/* ---- json_form.c: documents as JSON, as oneread.models.json_form writes their entities ---- */

/* Besides the types of elements: a list; a reference, whose key is its only part or a list of its parts; what has fields. */
enum { LIST = LAST_TYPE + 1, REFERENCE_KEY, OBJECT, LAST_NODE = OBJECT };

typedef struct Node Node;

/* A field: the bytes before its value, the element of the array that has it, behind that of the field before, and what
 * that is. */
typedef struct {
    Span before;
    unsigned place;
    const Node *node;
} Member;

struct Node {
    unsigned type, elements; /* of an object: of the array that has it */
    int may_be_nil;
    int count;               /* of members: fields, parts of a key, or the elements of a list, which are alike */
    const Member *members;
};

/* JSON that is being written, which its caller frees. */
typedef struct {
    uint8_t *first;
    size_t size, room;
} Json;

/* The form in a table of oneread.models.json_table. Stops for bytes that are none. */
const Node *read_form(Work *work, Span table);

/* Adds the JSON of a document. Stops for a value that is not of the form, or whose JSON this core does not know. */
void write_json(Work *work, const Node *form, Span document, Json *to);

/* Adds some bytes as they are. */
void write_raw(Work *work, Json *to, const void *bytes, size_t size);

/* ---- stored_rows.c: rows as the store has them, as docs/formats/lmdb.md says ---- */

/* The forms in the first three bits, and the bytes before the first value. */
enum { FORM_ONE = 1, FORM_ENTRY, FORM_ROOT, FORM_OWN, FORM_MORE };
enum { ONE_HEAD = 6, ROOT_HEAD = 8, OWN_HEAD = 14, MORE_HEAD = 16 };

#define STAMPS ((uint64_t)1 << 45)

/* What readers see of a row, and its stamp. Returns whether its form is one of these, and the row is whole. */
int value_of_row(Span row, Span *value, uint64_t *stamp);

/* ---- unit.c: the rows of one commit ---- */

/* Reads a row: `value` has no data where it is absent. What it points to stays until the call has ended. Returns 0, or
 * another number where it failed. */
typedef int (*ReadRow)(void *reader, enum Table table, Span key, Span *value);

/* The first rows from one key on, and before another one, at most `most`: their keys, and their values unless that is
 * NULL. Returns how many, or -1 where it failed. What they point to stays. */
typedef int (*ScanRows)(void *reader, enum Table table, Span start, Span stop, Span *keys, Span *values, int most);

typedef struct {
    ReadRow read;
    ScanRows scan;
    void *of;
} Reader;

typedef struct {
    enum Table table;
    Span key, value; /* a value without data: the row is absent, or is to be removed */
} Row;

/* Rows, in the order in which they were added. */
typedef struct {
    Row *first;
    size_t count, room;
} Rows;

/* How many rows one request has, and their bytes as costs count them. */
typedef struct {
    size_t rows, bytes;
} Counted;

/* A root row, as it is in the unit. */
typedef struct {
    Span key;
    uint64_t version, own;
    Span body, record; /* a body without data: there is no entity */
    Span body_before;  /* as it is stored, and its own version */
    uint64_t own_before;
    Span more;         /* further cells, spelled out: sequences */
    int is_deleted;
    int is_given, has_followed, is_listed; /* saved by a question; as one that copies what has changed */
    int is_checked; /* it is among those at which Python looks */
} Root;

enum { MOST_SLOTS = 24 };

/* What is added to one group, and its row. */
typedef struct {
    Span key;
    Span row; /* as it is in the unit; without data where it is absent */
    Span row_before; /* as it is stored */
    int is_read;
    const Listed *listed; /* how indexes list it; NULL where it has not changed, or none does */
    Span suffix; /* of the key of a group that is listed */
    int count;
    Number amounts[MOST_SLOTS];
} Sum;

/* A unique value: the entities that give it up and take it, by the keys of their root rows; no data for none. */
typedef struct {
    Span key;
    Span from, to;
} Claim;

/* A group whose numbers may have changed, which others show. */
typedef struct {
    Sum *sum;
    const Shown *shown;
    Span prefix, suffix; /* of its key */
} Touched;

/* A source whose holders may have to follow: the digests of what is copied, before and now. */
typedef struct {
    Root *source;
    Span before, after;
    int is_gone; /* it was deleted, or is there again */
} Changed;

/* What begins with a key, by its key. */
typedef struct {
    void **slots;
    size_t count, room;
} Map;

typedef struct {
    Work *work;
    Reader reader;
    uint64_t now;
    Map roots, sums, claims;
    Touched *touched; /* those that have not been followed */
    size_t touched_count, touched_room;
    Changed *changed; /* those before `spread` have been followed */
    size_t changed_count, changed_room, spread;
    int room;        /* for how many holders that follow */
    Root **checked;  /* entities that have followed, at which Python has to look */
    size_t checked_count, checked_room;
    Rows reads, writes;
    Counted *requests; /* as many as Python makes, in no order */
    size_t request_count, request_room;
} Unit;

enum { LAYOUT_BYTES = 2, VIEW_BYTES = 4, MOST_KEY = 511 };

extern const Span NOTHING; /* no bytes, which is a value */

Span joined(Work *work, Span one, Span two, Span three);

/* Where the keys end that begin so. */
Span end_of(Work *work, Span prefix);

/* What has this key in a map, or else new memory of zeros, which begins with the key. */
void *item_at(Work *work, Map *map, Span key, size_t size);

/* Where `count` items of a size have room for one more: where they are, or in twice as much memory. */
void *with_room(Work *work, void *first, size_t count, size_t *room, size_t size);

/* Reads a row, and notes that; the caller counts the request. */
Span read_row(Unit *unit, enum Table table, Span key);

/* Reads the bytes of a root row that has a living entity; stops at every other, and where it has
 * sequences. And the number of bytes of any root row as costs count it; 0 for one that this core does not know. */
void parse_root(Work *work, Span row, Root *root);
size_t size_of_root(Span row);

/* The root row with this key, read once; it is absent or has a living entity. Stops at every other. */
Root *root_at(Unit *unit, Span key);

/* The group with this key, to which nothing is added yet where it is new. */
Sum *sum_at(Unit *unit, Span key);

/* Has an entity give up, or take, the unique value with this key; stops where two take it. */
void give_up_claim(Unit *unit, Span key, Span owner);
void take_claim(Unit *unit, Span key, Span owner);

/* Reads the row of a group, unless it was read. */
void read_sum(Unit *unit, Sum *sum);

/* A whole number of a group's row, by its place there, as msgpack; 0 for a group that is absent. Stops where it is none. */
Span number_in_group(Work *work, Span row, int place);

/* The same, with what was added to it. */
Span number_at_place(Unit *unit, Sum *sum, int place);

/* Looks whether a row, or all of a range, is absent, of COUNTS. Stops where it is not. */
void expect_no_row(Unit *unit, Span key);
void expect_no_rows(Unit *unit, Span start, Span stop_at);

/* Notes a group that entities or indexes show. */
void note_touched(Unit *unit, Touched group);

/* Notes a source that has changed, and an entity that has followed and is to be looked at, once. */
void note_changed(Unit *unit, Changed source);
void note_checked(Unit *unit, Root *root);

/* Counts a request for the rows that were read since there were so many, of one table; none where there are none. */
void count_reads(Unit *unit, size_t first);

/* Adds a row to those that are written, which stands in place of one with its key; `remove_row` one that is removed. */
void write_row(Unit *unit, enum Table table, Span key, Span value);
void remove_row(Unit *unit, enum Table table, Span key);

/* A row of one value, with its stamp. */
Span stamped(Unit *unit, uint64_t stamp, Span value);

/* Replaces a root row, which is decided then. */
void write_root(Unit *unit, Root *root, uint64_t version, uint64_t own, Span body, Span record);

/* Replaces a root row by what stays of a deleted entity. */
void write_deleted(Unit *unit, Root *root, uint64_t version, Span record);

/* Raises the sequence of children of a kind to a number that was not given yet, in their root's row. */
void raise_sequence(Unit *unit, Root *root, Span kind, uint64_t number);

/* The version of a root row's next commit. */
uint64_t next_version(Unit *unit, const Root *seen);

/* Whether a row of a range is among those that are written, or removed. */
int has_written(const Unit *unit, enum Table table, Span start, Span stop_at);

/* Counts a request. */
void count_request(Unit *unit, size_t rows, size_t bytes);

/* Gives unique values to those that take them, adds up the groups, and writes what indexes list of them: reads their rows
 * and writes them. Stops where another entity has a value. And counts the requests that write. */
void settle(Unit *unit);
void count_writes(Unit *unit);

/* Sorts what is written by table and key; of several rows with one key the last stands. */
void sort_writes(Unit *unit);

/* ---- listed.c ---- */

/* Writes the rows of indexes that follow from the numbers of a group, whose row is settled. */
void list_group(Unit *unit, const Sum *sum);

/* ---- decide.c ---- */

/* SAVE: the entity may be there or not, and its sources are read. PATCH: it is there, and was changed; only sources that
 * are new to it are read. DELETE: it is there, and goes. UPSERT: a patch whose sources are read, too. */
enum Verb { SAVE, PATCH, DELETE, UPSERT, LAST_VERB = UPSERT };

/* The keys of what a reference refers to. */
typedef struct {
    const Span *first;
    int count;
} SourceKeys;

/* A counter that a new entity shows: where its settings are, the range of its rows, and the settings by which adds say that
 * there is something to show. */
typedef struct {
    Span settings, start, stop, shown;
} Counter;

/* What is asked: to store the document of an entity, whose copies have their reference alone. Of what is deleted it is
 * the record that stays. */
typedef struct {
    const Program *program;
    Span key, document;
    const SourceKeys *sources; /* of each reference; those of a list each once */
    int64_t expected;    /* the own version that the row must have; negative for any */
    uint64_t holds;      /* which of the conditions that Python is asked hold for it, a bit for each */
    enum Verb verb;
    uint64_t number; /* that it takes from a sequence; 0 for none */
    const Counter *counters; /* that it shows, in the order of its totals */
    int counter_count;
} Question;

/* What came of it: the entity as it is stored. */
typedef struct {
    uint64_t version;
    int is_new, is_source; /* holders may take its values */
    Span body;
} Saved;

/* All questions of one commit. */
typedef struct {
    const Question *first;
    size_t count;
    uint64_t now;
    const Program *const *followers; /* of the entities that may follow */
    int follower_count;
    int most_holders; /* that follow their source in the commit */
    const Span *known; /* keys of root rows whose request was counted */
    size_t known_count;
    int is_in_turn; /* what follows from each is decided before the next one; else after all */
    Span followed; /* the table of logs and feeds; empty where there are none */
} Questions;

typedef struct {
    Unit *unit;
    Saved *saved; /* one for each question */
    int is_complete; /* what follows from changed rows of views, and entities, is in the unit as well */
} Answer;

/* Decides. The answer's memory is the work's. Stops with the reason where Python has to decide. */
void decide(Work *work, const Questions *asked, Reader reader, Answer *answer);

/* The fields of a document of one layout; stops at every other. */
int fields_of(Work *work, Span body, const uint8_t *layout, Span *fields);

/* The copy with the values of its source, which has these fields; `given` is the copy, or its reference alone. */
Span filled_copy(Work *work, const Reference *reference, Span given, const Span *fields, int count);

/* Gives an entity the hidden copies that are behind a reference, of a source with these fields. */
void fill_hidden(Work *work, const Program *program, int reference, const Span *fields, int count, Entity *entity);

/* Likewise, as a record has them; without a record it has none. */
void keep_hidden(const Program *program, int reference, const Record *record, Entity *entity);

/* The document of these fields. */
Span document_of(Work *work, const Program *program, const Span *fields);

/* Adds the writes that turn one record into another; `owner` is the entity's key, `suffix` its own. */
void differ(Unit *unit, const Program *program, Span owner, Span suffix, uint64_t version, const Record *before,
            const Record *after);

/* ---- follow.c ---- */

/* The key of the root row that the field of a reference names; stops where this core does not make such keys. */
Span key_of_source(Work *work, const Reference *reference, Span field);

/* Likewise, of the root of an entity's group, whose key is the beginning of its own. */
Span key_of_root(Work *work, const Program *program, const Reference *reference, const Span *fields);

/* Likewise, of the parts of its key, of which there are as many as the reference has. */
Span key_of_parts(Work *work, const Reference *reference, const Span *parts);

/* Lets all follow that has to: holders of what has changed, and theirs; then, rank by rank, the entities that show groups
 * which were touched, and their holders. */
void follow(Unit *unit, const Questions *asked);

/* Looks whether no entity is deleted with its source, or follows it, or forbids its delete: `prefix` is that of
 * back-references or of holds. Stops where there is one. */
void expect_none(Unit *unit, const uint8_t *prefix, Span source);

/* How the keys of back-references and of holds begin. */
extern const uint8_t BACK_REFERENCES[2], HOLDS[2];

/* ---- views.c, feeds.c, logs.c ---- */

/* How changed rows with a prefix are logged: the key of the log, and how many bytes of theirs it leaves out. */
typedef struct {
    Span prefix, key;
    unsigned cut;
} Log;

/* A feed: the prefixes of its entries, items and memberships, how many elements of their keys are the group and the
 * member, and how an entry begins; that is empty where this core does not know the feed. */
typedef struct {
    Span prefix, items, members;
    int group, member;
    Span head;
    size_t cut;  /* bytes at the end of an item's row that an entry does not have */
    Span oldest; /* what stands behind the member in the key of an entry that has expired, and of all behind it */
} Feed;

typedef struct {
    const Log *logs;
    const Feed *feeds;
    int log_count, feed_count;
    int most_entries; /* of one commit, unless more follow a row */
} Followed;

/* Adds what follows from the rows that a unit writes, which are sorted, and are afterwards. Returns 0, with the unit as
 * before, where Python has to. */
int follow_views(Unit *unit, const Questions *asked);

/* Adds the entries of feeds; the other one what logs have of all that is written, sorted. Each stops where Python has to
 * follow. */
void follow_feeds(Unit *unit, const Questions *asked, const Followed *followed);
void log_changes(Unit *unit, const Followed *followed);

#endif
