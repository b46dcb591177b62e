"""The heat of a schema's graph: rows that were written for each edge, where recorded rows can say which."""

from datetime import datetime, timedelta

import pytest

from oneread import Aggregate, Copy, Index, Key, Model, Ref, Schema, by, connect, count, counter, newest, rollup
from oneread.costs.declared import of
from oneread.costs.graph_costs import with_costs
from oneread.costs.graph_svg import svg_lines
from oneread.costs.graph_text import dot_lines, mermaid_lines
from oneread.costs.schema_graph import GraphEdge, GraphNode, SchemaGraph, graph_of
from oneread.heat.edges import said_of_heat, with_heat
from tests.unit.heat.doctored import NOW, START


class Writer(Model[int]):
    number: Key[int]
    name: str


class WriterCopy(Copy[Writer]):
    name: str


class Vote(Model[int]):
    number: Key[int]
    book: Ref["Book"]


class VotesOfBook(Aggregate[Vote]):
    book: Ref["Book"] = by(Vote.book)
    votes: int = count()


class Book(Model[int]):
    number: Key[int]
    writer: WriterCopy
    made_at: datetime
    votes: int = rollup(VotesOfBook.votes)
    seen: int = rollup(counter("seen:{number}"), every=10)


class Novel(Book):
    pages: int = 0


class BooksOfWriter(Index[Book]):
    writer: WriterCopy = by(Book.writer)
    made_at: datetime = newest(Book.made_at)


SITE = Schema(Writer, Vote, VotesOfBook, Book, Novel, BooksOfWriter)
BOOKS = 4


class Person(Model[int]):
    """Whom heat cannot tell apart: parents that are persons, and two that one letter has."""

    number: Key[int]
    name: str
    parent: "PersonCopy | None" = None


class PersonCopy(Copy[Person]):
    name: str


class Letter(Model[int]):
    number: Key[int]
    sender: PersonCopy
    reader: PersonCopy


UNCLEAR = Schema(Person, Letter)


def heated(url, schema, work):
    """The graph of a schema with the heat of what was done, as rows in all instead of a second."""
    with connect(url, schema, workers=0, heat=1.0, clock=lambda: NOW) as db:
        work(db)
        db.drain()
        heat = db.heat(operation="write", measure="rows", ranges=1, last=timedelta(minutes=1))
    graph = with_heat(graph_of(schema), heat)
    seconds = 60 * len(heat.times)
    rows = {
        (each.start, each.end, each.label): None if each.heat is None else round(each.heat * seconds)
        for each in graph.edges
    }
    return graph, heat, rows


def make_books(db):
    db.save(Writer(number=1, name="Ada"))
    db.save(Novel(number=0, writer=WriterCopy.of(1), made_at=START))
    for number in range(1, BOOKS):
        db.save(Book(number=number, writer=WriterCopy.of(1), made_at=START))


def rename_and_vote(db):
    make_books(db)
    db.patch(Writer, 1, name="Ada L.")
    for number in range(5):
        db.save(Vote(number=number, book=Book.at(1)))


def test_an_edge_has_the_rows_that_were_written_for_it(url, kind_of_store):
    _graph, _heat, rows = heated(url, SITE, rename_and_vote)
    assert rows["VotesOfBook", "Vote", ""] >= 5
    assert rows["BooksOfWriter", "Book", ""] >= BOOKS
    if kind_of_store == "row":  # what follows is a commit of its own there, of several writes
        assert rows["Book", "Writer", "writer: name"] >= BOOKS
        assert rows["Book", "VotesOfBook", "votes"] >= 1
    else:
        assert rows["Book", "Writer", "writer: name"] == BOOKS
        assert rows["Book", "VotesOfBook", "votes"] == 5
    assert rows["Vote", "Book", "book"] is None
    assert rows["Novel", "Book", "variant"] is None
    assert rows["Book", "counter seen:{number}", "seen: copied within 10 s"] is None


def test_what_was_not_written_for_an_edge_is_zero(url):
    _graph, _heat, rows = heated(url, SITE, make_books)
    assert rows["Book", "Writer", "writer: name"] == 0
    assert rows["Book", "VotesOfBook", "votes"] == 0
    assert rows["BooksOfWriter", "Book", ""] >= BOOKS


def write_letters(db):
    db.save(Person(number=1, name="Ada"))
    db.save(Person(number=2, name="Bob", parent=PersonCopy.of(1)))
    db.save(Letter(number=1, sender=PersonCopy.of(1), reader=PersonCopy.of(2)))
    db.patch(Person, 1, name="Ada L.")


def test_what_heat_cannot_tell_apart_is_left_out(url):
    graph, heat, rows = heated(url, UNCLEAR, write_letters)
    assert set(rows.values()) == {None}
    assert len(rows) == 3
    assert said_of_heat(graph, heat) == (
        "rows written a second, as 1 program recorded them; not known of 3 arrows for which others could be meant"
    )


def test_a_store_without_heat_says_so(url):
    with connect(url, SITE, workers=0) as db:
        heat = db.heat()
    graph = graph_of(SITE)
    assert with_heat(graph, heat) is graph
    assert "not recorded: programs record with" in said_of_heat(graph, heat)


def hot(*heats):
    """A graph of a holder and as many sources as there are heats."""
    nodes = [GraphNode("Holder", "model"), *[GraphNode(f"S{place}", "model") for place, _heat in enumerate(heats)]]
    edges = [GraphEdge("Holder", f"S{place}", "copy", f"f{place}", heat=heat) for place, heat in enumerate(heats)]
    return SchemaGraph(tuple(nodes), tuple(edges))


@pytest.mark.parametrize(
    ("heats", "widths"),
    [((None, 0.0, 1.0, 25.0, 100.0), [0, 1, 2, 5, 8]), ((0.0, 0.0), [1, 1]), ((None,), [0]), ((1e-9, None), [8, 0])],
)
def test_an_edge_is_as_wide_as_its_heat(heats, widths):
    graph = hot(*heats)
    assert graph.widths == widths
    wide = [width for width in widths if width]
    assert [line for line in mermaid_lines(graph) if "linkStyle" in line] == [
        f"    linkStyle {place} stroke-width:{width}px" for place, width in enumerate(widths) if width
    ]
    assert [f'penwidth="{each}"' for each in wide] == [
        line.rpartition(", ")[2].rstrip("]") for line in dot_lines(graph) if "penwidth" in line
    ]
    drawn = "\n".join(svg_lines(graph))
    assert all(drawn.count(f' w{each}"') == wide.count(each) for each in range(1, 9))
    assert drawn.count("rows written a second") == len(wide)


def test_costs_are_those_of_the_verbs():
    costs = of(SITE)
    graph = with_costs(graph_of(SITE), SITE, costs)
    lines = {each.name: each.lines for each in graph.nodes}
    save = costs.save(Book)
    assert f"save: up to {save.requests:,} requests, {save.rows:,} rows" in lines["Book"]
    assert any(each.startswith("page(limit=50): up to ") for each in lines["BooksOfWriter"])
    edges = {(each.start, each.end): each.cost for each in graph.edges}
    patch = costs.patch(Writer, "name")
    assert edges["Book", "Writer"] == f"a change of name: up to {patch.requests:,} requests, {patch.rows:,} rows"
    assert edges["BooksOfWriter", "Book"] == "a change writes up to 2 rows"
    assert edges["Vote", "Book"] == ""
