"""What type checkers report about launches."""

from oneread import Database


def old(genre: str, limit: int = 10) -> list[int]:
    return [len(genre) + limit]


def other(number: int) -> list[int]:
    return [number]


def launched(db: Database) -> None:
    top = db.launch("top", old=old, new=old, key=lambda genre, limit=10: genre)
    top(7)  # rejected
    top("rock", most=7)  # rejected
    db.launch("top", old=old, new=other, key=lambda genre: genre)  # rejected
    db.launch("top", old=old, new=old)  # rejected
    db.launches.set("top", reads="5")  # rejected
    db.launches.set("Songs", writes="5")  # rejected
