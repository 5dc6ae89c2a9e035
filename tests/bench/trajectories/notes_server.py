"""A small shelf of notes: the suite that needs no benchmark.

python notes_server.py [--control SOCKET]
"""

from __future__ import annotations

import json

from stdio_server import Server, ToolError, arguments, definition

TEXT = {"type": "string"}
OWNERS = {"ada": "shelf-7301", "ben": "shelf-4410"}
FILLER = "A note has a text that nobody who moves it has to read. " * 12


class Shelf:
    """Notes by their ids, each on somebody's shelf."""

    def __init__(self) -> None:
        self.reset(None)

    def definitions(self):
        return [
            definition("find_shelf", "Find the id of somebody's shelf by name.", {"owner": TEXT}, reads=True),
            definition("list_notes", "List the notes that lie on a shelf.", {"shelf_id": TEXT}, reads=True),
            definition("read_note", "Read one note, with its text.", {"note_id": TEXT}, reads=True),
            definition(
                "move_note", "Move a note onto another shelf.", {"note_id": TEXT, "shelf_id": TEXT}, reads=False
            ),
            definition("delete_note", "Delete a note for good.", {"note_id": TEXT}, reads=False),
        ]

    def call(self, name, given):
        if name not in {tool["name"] for tool in self.definitions()}:
            raise ToolError(f"no tool {name}")
        found = getattr(self, f"_{name}")(**given)
        return found if isinstance(found, str) else json.dumps(found)

    def reset(self, to):
        self._notes = {
            f"note-{number}": {"title": f"Note {number}", "shelf_id": shelf, "text": FILLER}
            for number, shelf in enumerate(["shelf-7301", "shelf-7301", "shelf-4410"], 1)
        }

    def state(self):
        return self._notes

    def _find_shelf(self, owner):
        if owner.lower() not in OWNERS:
            raise ToolError(f"nobody is called {owner}")
        return OWNERS[owner.lower()]

    def _list_notes(self, shelf_id):
        there = {key: note for key, note in self._notes.items() if note["shelf_id"] == shelf_id}
        return {"notes": [{"id": key, **note} for key, note in there.items()]}

    def _read_note(self, note_id):
        if note_id not in self._notes:
            raise ToolError(f"no note {note_id}")
        return {"id": note_id, **self._notes[note_id]}

    def _move_note(self, note_id, shelf_id):
        self._read_note(note_id)
        self._notes[note_id]["shelf_id"] = shelf_id
        return self._read_note(note_id)

    def _delete_note(self, note_id):
        self._read_note(note_id)
        del self._notes[note_id]
        return {"id": note_id, "deleted": True}


if __name__ == "__main__":
    given = arguments()
    Server("notes", Shelf()).serve(given.control)
