"""What every `Host` must do: inherit the class and give the fixture *host*."""

from __future__ import annotations

from loom.spi.host import Host


class HostConformance:
    """Names that nobody else has, and no process that is called gone while it lives."""

    async def test_every_name_is_new(self, host: Host) -> None:
        names = {host.name() for _ in range(100)}

        assert len(names) == 100
        assert all(names)

    async def test_who_lives_is_not_gone(self, host: Host) -> None:
        assert not host.is_gone(host.name())

    async def test_of_whom_nothing_is_known_nothing_is_claimed(self, host: Host) -> None:
        for name in ("", "nobody", "a/b/c", "////", "machine/boot/space/1/start", "\x00", "ü/%2F/%"):
            assert not host.is_gone(name)

    async def test_the_time_since_the_start_never_goes_back(self, host: Host) -> None:
        told = [host.boottime_s() for _ in range(100)]

        assert told == sorted(told)
