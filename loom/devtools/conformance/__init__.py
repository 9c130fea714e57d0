"""Kits that hold an adapter to its interface: inherit the class in a test and give the fixtures it asks for.

class TestMyStore(StorageConformance):
@pytest.fixture
def clock(self) -> VirtualClock: ...

@pytest.fixture
async def store(self, tmp_path: Path, clock: VirtualClock) -> AsyncIterator[Storage]: ...
"""
