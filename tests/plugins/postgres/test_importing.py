from __future__ import annotations

from loom.devtools.conformance.event_import import EventImportConformance


class TestPostgresImport(EventImportConformance):
    """The kit, against a server that is started for it."""
