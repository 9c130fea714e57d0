"""The inbox of a run for a command: looked at from the store alone, held and released by the app."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from loom.core.ids import ExecutionId
from loom.lenses.folding import fold_at
from loom.lenses.inbox import TopicView, UnreadMessage, inbox_view
from loom.lenses.shapes import topic_json
from loom.spi.event_store import Storage
from loom_cli.cli import Cli
from loom_cli.exits import ExitCode
from loom_cli.hints import Hints
from loom_cli.readable import readable
from loom_cli.reading import lane_of, log_meant
from loom_cli.screen import Screen, Styled
from loom_cli.times import distance
from loom_cli.wording import counted, joined

_SHOWN_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Inboxes:
    """What `loom inbox` does, with its *options* `app` and `store`."""

    cli: Cli
    options: Mapping[str, str | None]
    principal: str | None
    as_json: bool

    def show(self, text: str) -> ExitCode:
        """Print what is unread in the run whose id begins with *text*."""
        storage = self.cli.reader(self.options["store"])
        run_id, topics = self.cli.run(_inbox(storage, text))
        if self.as_json:
            self.cli.screen.json({"id": run_id, "topics": [topic_json(topic) for topic in topics]})
        elif topics:
            draw_inbox(self.cli.screen, topics, self._hints(run_id), now_ms=self.cli.now_ms())
        else:
            self.cli.screen.note(f"nothing is unread in {run_id}")
        return ExitCode.DONE

    def hold(self, text: str, topic: str, reason: str | None) -> ExitCode:
        """Hold *topic* of the run back."""
        from loom_cli.principals import principal_of

        run_id = self.cli.run(self._held(text, topic, reason, principal_of(self.principal)))
        if self.as_json:
            self.cli.screen.json({"id": run_id, "topic": topic, "held": True}, indent=None)
        else:
            release = Styled(self._hints(run_id).command("inbox release", after=[topic]), "bold")
            self.cli.screen.note(f"{topic} of {run_id} is held back; its messages are kept until ", release)
        return ExitCode.DONE

    async def _held(self, text: str, topic: str, reason: str | None, principal: str) -> ExecutionId:
        from loom_cli.ids import meant_id

        async with self.cli.app(self.options["app"], store=self.options["store"]) as app:
            run_id = await meant_id(app.storage, text)
            await app.runtime.hold(run_id, topic, reason=reason, principal=principal)
            return run_id

    def release(self, text: str, topic: str, *, detach: bool, wait_s: float, quiet: bool) -> ExitCode:
        """Deliver *topic* again, and drive a run that was parked for it."""
        from loom_cli.principals import principal_of
        from loom_cli.sending import Sending

        app, acting = self.cli.app(self.options["app"], store=self.options["store"]), principal_of(self.principal)
        sending = Sending(cli=self.cli, app=app, options=self.options, quiet=quiet, as_json=self.as_json)
        return sending.do(
            text,
            topic,
            lambda runtime, run_id, drive: runtime.release(
                run_id, topic, principal=acting, drive=drive, linger_s=wait_s
            ),
            detach=detach,
            releases=True,
        )

    def _hints(self, run_id: str) -> Hints:
        return Hints(run_id, self.options["app"], self.options["store"])


async def _inbox(storage: Storage, text: str) -> tuple[ExecutionId, list[TopicView]]:
    log = await log_meant(storage, text)
    state = fold_at(log.events, base=log.base)
    return log.run_id, inbox_view(state, await lane_of(storage, log.run_id))


def draw_inbox(screen: Screen, topics: list[TopicView], hints: Hints, *, now_ms: int) -> None:
    """Print each topic with its unread messages, the oldest first."""
    for at, topic in enumerate(topics):
        if at:
            screen.line()
        waits = f"{counted(topic.waiting, 'receive waits', 'receives wait')} for it" if topic.waiting else ""
        told = joined(f"  {len(topic.unread)} unread", "held back" if topic.held else "", waits)
        screen.line(Styled(topic.topic, "bold"), Styled(told, "yellow" if topic.held else "dim"))
        for message in topic.unread[:_SHOWN_MAX]:
            _draw_message(screen, message, now_ms)
        if len(topic.unread) > _SHOWN_MAX:
            screen.line(Styled(f"  {len(topic.unread) - _SHOWN_MAX} more (--json prints them)", "dim"))
        if topic.held:
            screen.line(Styled("  try   ", "dim"), hints.command("inbox release", after=[topic.topic]))


def _draw_message(screen: Screen, message: UnreadMessage, now_ms: int) -> None:
    by = f"by {message.by}" if message.by else ""
    about = joined(distance(message.sent_at, now_ms), by, f"key {message.key}" if message.key else "")
    screen.line(f"  {message.number:>3}  {screen.brief(readable(message.message), 60)}", Styled(f"  {about}", "dim"))
