"""Run bundles: runs in one file, which opens as a store to read only."""

from loom.plugins.bundle.refusing import BundleReadOnly
from loom.plugins.bundle.storage import BundleStorage

__maturity__ = "experimental"

__all__ = ["BundleReadOnly", "BundleStorage"]
