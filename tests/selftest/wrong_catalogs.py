"""Stores that each break one thing in what the contract says of spans, the catalog and secrets."""

from __future__ import annotations

import asyncio
import time

from wrong_stores import Good, GoodSecrets

from pml_hookspecs import replace


class OrdersSpansByArrival(Good):
    async def of(self, execution, scope):
        found = {id(e): n for n, e in enumerate(self.rows["span"].values())}
        return sorted(await super().of(execution, scope), key=lambda e: found[id(e)])


class KeepsSpansTwice(Good):
    async def append(self, spans):
        for ended in spans:
            self.write("span", len(self.rows["span"]), ended)


class ConfusesTraces(Good):
    async def append(self, spans):
        for ended in spans:
            self.rows["span"].setdefault(ended.span.span_id, ended)


class ShowsSpansToEveryone(Good):
    async def of(self, execution, scope):
        return await super().of(execution, replace(scope, principals=None))


class KeepsToolsAsTheyCame(Good):
    async def replace(self, server, fingerprint, entries):
        self.write("tools", server, (fingerprint, list(entries)))


class IgnoresTheFingerprint(Good):
    async def entries(self, server, fingerprint):
        return self.rows["tools"].get(server, (None, []))[1]


class AddsTools(Good):
    async def replace(self, server, fingerprint, entries):
        there = {e.name: e for e in await self.entries(server, fingerprint)}
        await super().replace(server, fingerprint, list({**there, **{e.name: e for e in entries}}.values()))


class ReplacesToolsInTwoSteps(Good):
    async def replace(self, server, fingerprint, entries):
        await super().replace(server, fingerprint, [])
        await asyncio.sleep(0)
        await super().replace(server, fingerprint, entries)


class KeepsTheFirstReport(Good):
    async def report(self, status):
        if status.name not in self.rows["status"]:
            await super().report(status)


class ForgetsDescriptions(Good):
    async def report(self, status):
        await super().report(replace(status, description=""))


class KeepsTheFirstSecret(Good):
    class secrets_type(GoodSecrets):  # noqa: N801
        async def put(self, owner, name, value):
            if value is None or await self.get(owner, name) is None:
                await super().put(owner, name, value)


class ForgetsNoSecret(Good):
    class secrets_type(GoodSecrets):  # noqa: N801
        async def put(self, owner, name, value):
            if value is not None:
                await super().put(owner, name, value)


class TakesNothingForEmpty(Good):
    class secrets_type(GoodSecrets):  # noqa: N801
        async def get(self, owner, name):
            return await super().get(owner, name) or None


class SharesSecrets(Good):
    class secrets_type(GoodSecrets):  # noqa: N801
        def key(self, owner, name):
            return name


class RunsOwnerAndNameTogether(Good):
    class secrets_type(GoodSecrets):  # noqa: N801
        def key(self, owner, name):
            return owner + name


class KeepsSecretsInMemory(Good):
    class secrets_type(GoodSecrets):  # noqa: N801
        async def put(self, owner, name, value):
            self.store.rows["secret"][self.key(owner, name)] = value


class TellsSecrets(Good):
    async def health(self):
        return {**await super().health(), "rows": [str(row) for row in self.rows["secret"].items()]}


class BlocksTheLoop(Good):
    async def statuses(self):
        time.sleep(2.0)  # noqa: ASYNC251 - the fault
        return await super().statuses()
