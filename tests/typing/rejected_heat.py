"""What type checkers report about heat."""

from oneread import Database, HeatMap


def shown(db: Database) -> None:
    db.heat(operation="writes")  # rejected
    db.heat(measure="time")  # rejected
    db.heat(last=6)  # rejected
    db.heat(declared="Song")  # rejected
    db.hot_keys()  # rejected
    db.doctor(severity="act")  # rejected


def changed(heat: HeatMap) -> None:
    heat.processes = 2  # rejected
    heat.causes("Song")  # rejected
