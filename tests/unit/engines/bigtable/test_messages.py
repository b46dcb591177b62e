"""The private messages are those of Bigtable, and live beside the official ones in one process."""

import pytest
from google.cloud.bigtable_admin_v2.types import bigtable_table_admin
from google.cloud.bigtable_admin_v2.types import table as admin_table
from google.cloud.bigtable_v2.types import bigtable, data, feature_flags
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.wrappers_pb2 import BytesValue, StringValue
from google.rpc.status_pb2 import Status

from oneread.engines.bigtable.messages import FIELDS, MESSAGES, PACKAGE

NAMED = {
    "StringValue": StringValue,
    "BytesValue": BytesValue,
    "Status": Status,
    "FilterChain": data.RowFilter.Chain,
    "FilterInterleave": data.RowFilter.Interleave,
    "SetCell": data.Mutation.SetCell,
    "DeleteFromColumn": data.Mutation.DeleteFromColumn,
    "CellChunk": bigtable.ReadRowsResponse.CellChunk,
    "MutateEntry": bigtable.MutateRowsRequest.Entry,
    "MutatedEntry": bigtable.MutateRowsResponse.Entry,
    "Split": bigtable_table_admin.CreateTableRequest.Split,
    "FamilyModification": bigtable_table_admin.ModifyColumnFamiliesRequest.Modification,
}
"""The official messages that have another name, or another's inside."""
MAP_ENTRIES = {"FamilyEntry"}


def official(name):
    """The official descriptor of a message."""
    if name in MAP_ENTRIES:
        return admin_table.Table.pb().DESCRIPTOR.fields_by_name["column_families"].message_type
    for found in (NAMED.get(name), *(getattr(each, name, None) for each in
                  (bigtable, data, feature_flags, bigtable_table_admin, admin_table))):  # fmt: skip
        if found is not None:
            return found.DESCRIPTOR if hasattr(found, "DESCRIPTOR") else found.pb().DESCRIPTOR
    raise AssertionError(name)


ON_THE_WIRE = {FieldDescriptor.TYPE_ENUM: FieldDescriptor.TYPE_INT32}
"""Types that are equal on the wire."""


@pytest.mark.parametrize("name", FIELDS)
def test_fields_have_the_official_numbers_and_types(name):
    theirs = official(name).fields_by_name
    for field in MESSAGES[name].DESCRIPTOR.fields:
        other = theirs[field.name]
        assert (field.number, field.is_repeated) == (other.number, other.is_repeated), field.name
        assert field.type == ON_THE_WIRE.get(other.type, other.type), field.name
        if field.message_type is not None:
            assert other.message_type.full_name == official(field.message_type.name).full_name, field.name
        own, their = field.containing_oneof, other.containing_oneof
        assert (own and own.name) == (their and their.name), field.name


def test_the_official_messages_are_in_the_process_and_the_private_ones_are_not_in_their_pool():
    pool = descriptor_pool.Default()
    assert pool.FindMessageTypeByName("google.bigtable.v2.Mutation")
    with pytest.raises(KeyError):
        pool.FindMessageTypeByName(f"{PACKAGE}.Mutation")


def test_what_one_writes_the_other_reads():
    ours = MESSAGES["Mutation"](set_cell={"family_name": "d", "column_qualifier": b"b", "value": b"1"})
    theirs = data.Mutation.deserialize(ours.SerializeToString())
    assert theirs.set_cell.column_qualifier == b"b"
    assert MESSAGES["Mutation"].FromString(data.Mutation.serialize(theirs)) == ours
