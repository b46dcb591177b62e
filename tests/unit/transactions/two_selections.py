"""A source of which some holders take one field, and others another one."""

from oneread import Copy, Key, Model


class Maker(Model[int]):
    number: Key[int]
    name: str
    city: str


class ByName(Copy[Maker]):
    name: str


class ByCity(Copy[Maker]):
    city: str


class Thing(Model[int]):
    number: Key[int]
    maker: ByName


class Shop(Model[int]):
    number: Key[int]
    maker: ByCity
