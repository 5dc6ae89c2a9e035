"""The part of a store that keeps documents and keeps the contract."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from pml_hookspecs import Document, Page, RawObject, encode, replace

BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


class GoodDocuments:
    def __init__(self, store):
        self.store = store
        self.last = BEGINNING

    def place(self, collection, key):
        return collection, key

    def now(self):
        self.last = max(datetime.now(UTC), self.last + timedelta(microseconds=1))
        return self.last

    def lives(self, document):
        return document is not None and (document.expires_at is None or document.expires_at > datetime.now(UTC))

    def there(self, collection, key):
        found = self.store.rows["document"].get(self.place(collection, key))
        return found if self.lives(found) else None

    def check(self, key, value, marks, expires_at):
        if len(key) > 512 or len(marks) > 8 or (expires_at is not None and expires_at.tzinfo is None):
            raise ValueError("a key of 512 characters, 8 marks and a time zone are the limits")
        encode(value)

    def make(self, before, key, value, marks, expires_at):
        now = self.now()
        return Document(
            key=key,
            value=RawObject(encode(value)),
            version=before.version + 1 if before else 1,
            marks=dict(marks),
            created_at=before.created_at if before else now,
            changed_at=now,
            expires_at=expires_at,
        )

    def keep(self, collection, key, value, marks, expires_at):
        self.check(key, value, marks, expires_at)
        document = self.make(self.there(collection, key), key, value, marks, expires_at)
        self.write(collection, key, document)
        return document.version

    def write(self, collection, key, document):
        self.store.write("document", self.place(collection, key), document)

    def holds(self, collection, key, if_version):
        there = self.there(collection, key)
        return if_version is None or if_version == (there.version if there else 0)

    async def put(self, collection, key, value, *, marks=None, expires_at=None, if_version=None):
        if not self.holds(collection, key, if_version):
            return None
        return self.keep(collection, key, value, marks or {}, expires_at)

    def put_soon(self, collection, key, value, *, marks=None, expires_at=None):
        try:
            self.keep(collection, key, value, marks or {}, expires_at)
        except (TypeError, ValueError):
            return

    async def get(self, collection, key):
        return self.there(collection, key)

    def matches(self, document, marks):
        return marks.items() <= document.marks.items()

    def order(self, document):
        return BEGINNING - document.changed_at, document.key

    def matching(self, collection, marks):
        rows = self.store.rows["document"].items()
        found = [d for (c, _), d in rows if c == collection and self.lives(d) and self.matches(d, marks)]
        return sorted(found, key=self.order)

    def check_limit(self, limit):
        if not 1 <= limit <= 1000:
            raise ValueError("limit must be 1 to 1000")
        return limit

    def write_cursor(self, document):
        return "journal " + json.dumps([document.changed_at.isoformat(), document.key])

    def after(self, cursor):
        if not cursor.startswith("journal "):
            raise ValueError("not a cursor of this store")
        changed_at, key = json.loads(cursor.removeprefix("journal "))
        return BEGINNING - datetime.fromisoformat(changed_at), key

    async def find(self, collection, *, marks=None, limit=100, cursor=None):
        limit = self.check_limit(limit)
        found = self.matching(collection, marks or {})
        after = None if cursor is None else self.after(cursor)
        left = found if after is None else [d for d in found if self.order(d) > after]
        items = left[:limit]
        return Page(items, self.write_cursor(items[-1]) if len(left) > limit else None, len(found))

    async def delete(self, collection, key):
        there = self.there(collection, key)
        if there:
            self.write(collection, key, replace(there, expires_at=BEGINNING))
        return there is not None

    async def prune(self, collection, *, keep):
        rows = [(key, d) for (c, key), d in self.store.rows["document"].items() if c == collection]
        rows = [(key, d) for key, d in rows if d.expires_at != BEGINNING]
        living = [d.key for d in self.matching(collection, {})][:keep]
        gone = [(key, d) for key, d in rows if d.key not in living]
        for key, document in gone:
            self.write(collection, key, replace(document, expires_at=BEGINNING))
        return len(gone)
