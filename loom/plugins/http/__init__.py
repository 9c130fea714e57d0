"""What Loom sends over HTTP: `webhook(...)` for apps."""

from loom.plugins.http.webhook import AnswerPages, WebHook, WebHookFailed, webhook

__maturity__ = "experimental"

__all__ = ["AnswerPages", "WebHook", "WebHookFailed", "webhook"]
