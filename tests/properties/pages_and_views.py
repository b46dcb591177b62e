"""A schema in which entities show counters: in lists, in totals of totals, and in copies."""

from uuid import UUID

from oneread import Aggregate, Copy, Index, Key, Model, Ref, Schema, by, counter, descending, rollup, shown, total


class PageTitle(Copy["Page"]):
    title: str
    views: int


class Page(Model[int]):
    number: Key[int]
    title: str = ""
    site: Ref["Site"] | None = None
    views: int = rollup(counter("views:{number}"), every=10)
    likes: int = rollup(counter("likes:{number}"), every=2)


class PagesByViews(Index[Page]):
    views: int = descending(Page.views)
    title: str = shown(Page.title)
    likes: int = shown(Page.likes)


class ViewsOfSite(Aggregate[Page]):
    site: Ref["Site"] = by(Page.site)
    views: int = total(Page.views)


class Site(Model[str]):
    name: Key[str]
    views: int = rollup(ViewsOfSite.views)
    visits: int = rollup(counter("visits:{name}"), every=1)


class SitesByViews(Index[Site]):
    views: int = descending(Site.views)
    visits: int = shown(Site.visits)


class Link(Model[UUID, int]):
    id: Key[UUID]
    place: Key[int]
    page: PageTitle | None = None
    clicks: int = rollup(counter("clicks:{place}/{id}"), every=30)


class LinksByViews(Index[Link]):
    page: PageTitle = by(Link.page)
    clicks: int = descending(Link.clicks)


PAGES = Schema(Page, PagesByViews, ViewsOfSite, Site, SitesByViews, Link, LinksByViews)
