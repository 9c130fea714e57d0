"""Pictures of flows: read off their source, laid out for a terminal, as SVG and as Mermaid, with what a run visited."""
