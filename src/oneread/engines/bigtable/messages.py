"""The messages of Bigtable's services, those fields of them that this engine uses.

They are private: built from a serialized descriptor set in a pool of their own, under a package name of their own, so
that a program may use the official client, whose names a second definition would clash with, in the same process. Names
are not sent; numbers and types are, and a test compares them with the official descriptors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

PACKAGE: Final = "oneread.bigtable"

FIELDS: Final[Mapping[str, str]] = {
    "StringValue": "string value=1",
    "BytesValue": "bytes value=1",
    "ValueRange": (
        "bytes start_value_closed=1 in start_value, bytes start_value_open=2 in start_value, "
        "bytes end_value_closed=3 in end_value, bytes end_value_open=4 in end_value"
    ),
    "ColumnRange": (
        "string family_name=1, bytes start_qualifier_closed=2 in start_qualifier, "
        "bytes end_qualifier_closed=4 in end_qualifier"
    ),
    "FilterChain": "many RowFilter filters=1",
    "FilterInterleave": "many RowFilter filters=1",
    "RowFilter": (
        "FilterChain chain=1 in filter, FilterInterleave interleave=2 in filter, "
        "string family_name_regex_filter=5 in filter, ColumnRange column_range_filter=7 in filter, "
        "int32 cells_per_column_limit_filter=12 in filter, bool strip_value_transformer=13 in filter, "
        "ValueRange value_range_filter=15 in filter"
    ),
    "TimestampRange": "int64 start_timestamp_micros=1, int64 end_timestamp_micros=2",
    "SetCell": "string family_name=1, bytes column_qualifier=2, int64 timestamp_micros=3, bytes value=4",
    "DeleteFromColumn": "string family_name=1, bytes column_qualifier=2, TimestampRange time_range=3",
    "Mutation": "SetCell set_cell=1 in mutation, DeleteFromColumn delete_from_column=2 in mutation",
    "RowRange": (
        "bytes start_key_closed=1 in start_key, bytes start_key_open=2 in start_key, "
        "bytes end_key_open=3 in end_key, bytes end_key_closed=4 in end_key"
    ),
    "RowSet": "many bytes row_keys=1, many RowRange row_ranges=2",
    "Cell": "int64 timestamp_micros=1, bytes value=2",
    "Column": "bytes qualifier=1, many Cell cells=2",
    "Family": "string name=1, many Column columns=2",
    "Row": "bytes key=1, many Family families=2",
    "ReadRowsRequest": (
        "string table_name=1, RowSet rows=2, RowFilter filter=3, int64 rows_limit=4, string app_profile_id=5, "
        "bool reversed=7"
    ),
    "CellChunk": (
        "bytes row_key=1, StringValue family_name=2, BytesValue qualifier=3, int64 timestamp_micros=4, "
        "many string labels=5, bytes value=6, int32 value_size=7, bool reset_row=8 in row_status, "
        "bool commit_row=9 in row_status"
    ),
    "ReadRowsResponse": "many CellChunk chunks=1, bytes last_scanned_row_key=2",
    "MutateRowRequest": "string table_name=1, bytes row_key=2, many Mutation mutations=3, string app_profile_id=4",
    "MutateRowResponse": "",
    "MutateEntry": "bytes row_key=1, many Mutation mutations=2",
    "MutateRowsRequest": "string table_name=1, many MutateEntry entries=2, string app_profile_id=3",
    "Status": "int32 code=1, string message=2",
    "MutatedEntry": "int64 index=1, Status status=2",
    "MutateRowsResponse": "many MutatedEntry entries=1",
    "CheckAndMutateRowRequest": (
        "string table_name=1, bytes row_key=2, many Mutation true_mutations=4, many Mutation false_mutations=5, "
        "RowFilter predicate_filter=6, string app_profile_id=7"
    ),
    "CheckAndMutateRowResponse": "bool predicate_matched=1",
    "ReadModifyWriteRule": "string family_name=1, bytes column_qualifier=2, int64 increment_amount=4 in rule",
    "ReadModifyWriteRowRequest": (
        "string table_name=1, bytes row_key=2, many ReadModifyWriteRule rules=3, string app_profile_id=4"
    ),
    "ReadModifyWriteRowResponse": "Row row=1",
    "FeatureFlags": "bool reverse_scans=1, bool last_scanned_row_responses=4",
    "GcRule": "int32 max_num_versions=1 in rule",
    "ColumnFamily": "GcRule gc_rule=1",
    "FamilyEntry": "string key=1, ColumnFamily value=2",  # of a map, which is this on the wire
    "Table": "string name=1, many FamilyEntry column_families=3",
    "Split": "bytes key=1",
    "CreateTableRequest": "string parent=1, string table_id=2, Table table=3, many Split initial_splits=4",
    "GetTableRequest": "string name=1, int32 view=2",
    "FamilyModification": "string id=1, ColumnFamily create=2 in mod",
    "ModifyColumnFamiliesRequest": "string name=1, many FamilyModification modifications=2",
}
"""The fields of each message: their type, name and number, and of what `oneof` they are."""

_FIELD: Final = re.compile(r"(?P<many>many )?(?P<type>\w+) (?P<name>\w+)=(?P<number>\d+)(?: in (?P<oneof>\w+))?")
_SCALARS: Final = {
    "string": FieldDescriptorProto.TYPE_STRING,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "int64": FieldDescriptorProto.TYPE_INT64,
}


def _described(name: str, fields: str) -> DescriptorProto:
    message = DescriptorProto(name=name)
    oneofs: list[str] = []
    for found in _FIELD.finditer(fields):
        field = message.field.add(name=found["name"], number=int(found["number"]))
        field.label = field.LABEL_REPEATED if found["many"] else field.LABEL_OPTIONAL
        if found["type"] in _SCALARS:
            field.type = _SCALARS[found["type"]]
        else:
            field.type = field.TYPE_MESSAGE
            field.type_name = f".{PACKAGE}.{found['type']}"
        if found["oneof"]:
            if found["oneof"] not in oneofs:
                oneofs.append(found["oneof"])
                message.oneof_decl.add(name=found["oneof"])
            field.oneof_index = oneofs.index(found["oneof"])
    return message


def descriptor_set() -> bytes:
    """The serialized descriptors of all messages."""
    file = FileDescriptorProto(name="oneread/bigtable.proto", package=PACKAGE, syntax="proto3")
    file.message_type.extend(_described(name, fields) for name, fields in FIELDS.items())
    made: bytes = FileDescriptorSet(file=[file]).SerializeToString()
    return made


def _classes() -> Iterator[tuple[str, Any]]:
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(descriptor_set()).file:
        pool.AddSerializedFile(file.SerializeToString())
    for name in FIELDS:
        yield name, GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))


MESSAGES: Final[Mapping[str, Any]] = dict(_classes())
"""The class of each message."""
