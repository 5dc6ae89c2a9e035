"""Stores that each break one thing in what the contract says of documents."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

from good_documents import BEGINNING, GoodDocuments
from wrong_stores import Good

from pml_hookspecs import Page, replace


class KeepsOneMark(Good):
    class documents_type(GoodDocuments):  # noqa: N801
        async def get(self, collection, key):
            found = await super().get(collection, key)
            return found and replace(found, marks=dict(list(found.marks.items())[:1]))


class DecodesToText(Good):
    class documents_type(GoodDocuments):  # noqa: N801
        def make(self, before, key, value, marks, expires_at):
            made = super().make(before, key, value, marks, expires_at)
            return replace(made, value=dict(sorted(made.value.items())))


class StripsNames(Good):
    class documents_type(GoodDocuments):  # noqa: N801
        def place(self, collection, key):
            return collection, key.split("\0")[0]


class MakesItselfAnewWithEachChange(Good):
    class documents_type(GoodDocuments):  # noqa: N801
        def make(self, before, key, value, marks, expires_at):
            made = super().make(before, key, value, marks, expires_at)
            return replace(made, created_at=made.changed_at)


class AddsMarks(Good):
    class documents_type(GoodDocuments):  # noqa: N801
        def make(self, before, key, value, marks, expires_at):
            marks = {**(before.marks if before else {}), **marks}
            return super().make(before, key, value, marks, expires_at)


class CountsFromZero(Good):
    class documents_type(GoodDocuments):  # noqa: N801
        async def get(self, collection, key):
            found = await super().get(collection, key)
            return found and replace(found, version=found.version + (found.version > 3))


class KeepsTheCallersObject(Good):
    class documents_type(GoodDocuments):  # noqa: N801
        def make(self, before, key, value, marks, expires_at):
            return replace(super().make(before, key, value, marks, expires_at), value=value)


class RunsCollectionAndKeyTogether(Good):
    class documents_type(GoodDocuments):  # noqa: N801
        def there(self, collection, key):
            rows = self.store.rows["document"].items()
            found = next((d for (c, k), d in rows if c + k == collection + key), None)
            return found if self.lives(found) else None


class IgnoresTheVersion(Good):
    class documents_type(GoodDocuments):  # noqa: N801
        def holds(self, collection, key, if_version):
            there = self.there(collection, key)
            return if_version is None or if_version <= (there.version if there else 0)


class LooksAndThenWrites(Good):
    class documents_type(GoodDocuments):  # noqa: N801
        async def put(self, collection, key, value, *, marks=None, expires_at=None, if_version=None):
            if not self.holds(collection, key, if_version):
                return None
            if if_version is not None:
                await asyncio.sleep(0)
            return self.keep(collection, key, value, marks or {}, expires_at)


class HoldsDocumentsBack(Good):
    class documents_type(GoodDocuments):  # noqa: N801
        held = ()

        def put_soon(self, collection, key, value, *, marks=None, expires_at=None):
            self.held = (*self.held, (collection, key, value, marks, expires_at))

        def release(self):
            held, self.held = self.held, ()
            for collection, key, value, marks, expires_at in held:
                super().put_soon(collection, key, value, marks=marks, expires_at=expires_at)

        async def find(self, *args, **named):
            self.release()
            return await super().find(*args, **named)


class BlocksOnDocuments(Good):
    class documents_type(GoodDocuments):  # noqa: N801
        def put_soon(self, collection, key, value, *, marks=None, expires_at=None):
            time.sleep(0.00015)
            super().put_soon(collection, key, value, marks=marks, expires_at=expires_at)


class RaisesSoon(Good):
    class documents_type(GoodDocuments):  # noqa: N801
        def put_soon(self, collection, key, value, *, marks=None, expires_at=None):
            self.keep(collection, key, value, marks or {}, expires_at)


class TakesAnyKey(Good):
    class documents_type(GoodDocuments):  # noqa: N801
        def put_soon(self, collection, key, value, *, marks=None, expires_at=None):
            if len(key) <= 512:
                super().put_soon(collection, key, value, marks=marks, expires_at=expires_at)

        def check(self, key, value, marks, expires_at):
            super().check(key[:512], value, marks, expires_at)


class FindsWithAnyMark(Good):
    class documents_type(GoodDocuments):  # noqa: N801
        def matches(self, document, marks):
            return not marks or bool(marks.items() & document.marks.items())


class FindsTheLastMadeFirst(Good):
    class documents_type(GoodDocuments):  # noqa: N801
        def order(self, document):
            return BEGINNING - document.created_at, document.key

        def write_cursor(self, document):
            return super().write_cursor(replace(document, changed_at=document.created_at))


class CountsDocumentRows(Good):
    class documents_type(GoodDocuments):  # noqa: N801
        async def find(self, collection, *, marks=None, limit=100, cursor=None):
            start = 0 if cursor is None else int(cursor.removeprefix("cursor ")) if "cursor " in cursor else None
            if start is None:
                raise ValueError("cursor")
            found = self.matching(collection, marks or {})
            end = start + self.check_limit(limit)
            return Page(found[start:end], f"cursor {end}" if end < len(found) else None, len(found))


class CountsDocumentsThatAreLeft(Good):
    class documents_type(GoodDocuments):  # noqa: N801
        async def find(self, collection, *, marks=None, limit=100, cursor=None):
            page = await super().find(collection, marks=marks, limit=limit, cursor=cursor)
            left = [d for d in self.matching(collection, marks or {}) if cursor and self.order(d) > self.after(cursor)]
            return replace(page, total=len(left)) if cursor else page


class GivesAHundredDocuments(Good):
    class documents_type(GoodDocuments):  # noqa: N801
        def check_limit(self, limit):
            return min(super().check_limit(limit), 100)


class BeginsAgainAtAForeignCursor(Good):
    class documents_type(GoodDocuments):  # noqa: N801
        def after(self, cursor):
            try:
                return super().after(cursor)
            except ValueError:
                return timedelta.min, ""


class CountsWhatHasExpired(Good):
    class documents_type(GoodDocuments):  # noqa: N801
        async def find(self, collection, *, marks=None, limit=100, cursor=None):
            page = await super().find(collection, marks=marks, limit=limit, cursor=cursor)
            rows = self.store.rows["document"].items()
            gone = [d for (c, _), d in rows if c == collection and not self.lives(d) and d.expires_at != BEGINNING]
            return replace(page, total=page.total + len([d for d in gone if self.matches(d, marks or {})]))


class ExpiresOnlyWhatIsWritten(Good):
    class documents_type(GoodDocuments):  # noqa: N801
        def now(self):
            self.written = super().now()
            return self.written

        def lives(self, document):
            return document is not None and (document.expires_at is None or document.expires_at > self.written)


class GoesOnAfterTheEnd(Good):
    class documents_type(GoodDocuments):  # noqa: N801
        def keep(self, collection, key, value, marks, expires_at):
            self.check(key, value, marks, expires_at)
            there = self.store.rows["document"].get(self.place(collection, key))
            before = None if there is None or there.expires_at == BEGINNING else there
            document = self.make(before, key, value, marks, expires_at)
            self.write(collection, key, document)
            return document.version


class DeletesNoDocument(Good):
    class documents_type(GoodDocuments):  # noqa: N801
        async def delete(self, collection, key):
            return self.there(collection, key) is not None


class PrunesTheLast(Good):
    class documents_type(GoodDocuments):  # noqa: N801
        async def prune(self, collection, *, keep):
            backwards = self.order
            self.order = lambda document: (document.changed_at - BEGINNING, document.key)
            try:
                return await super().prune(collection, keep=keep)
            finally:
                self.order = backwards


class KeepsDocumentsInMemory(Good):
    class documents_type(GoodDocuments):  # noqa: N801
        def write(self, collection, key, document):
            self.store.rows["document"][self.place(collection, key)] = document
