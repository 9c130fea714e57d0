"""Contents in plain files: `file_content()` for apps."""

from loom.plugins.files.content import FileContent, file_content

__maturity__ = "experimental"

__all__ = ["FileContent", "file_content"]
