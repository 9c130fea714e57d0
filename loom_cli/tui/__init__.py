"""The debugger of `loom debug`: a model that is moved and drawn without a terminal, and a Textual app that shows it.

`open_log.py` is what is known of a log, `model.py` where a person is in it and how a key moves that; the panes (`state_pane.py`,
`event_pane.py` ...) say what is to be seen there as nodes and lines. `app.py` and `widgets.py`, which alone know Textual, draw those.
"""
