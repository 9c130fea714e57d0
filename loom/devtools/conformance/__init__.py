"""Kits that hold an adapter to its interface: inherit the class in a test and give the fixture it asks for.

class TestMyStore(StorageConformance):
@pytest.fixture
async def store(self, tmp_path: Path) -> AsyncIterator[Storage]: ...
"""
