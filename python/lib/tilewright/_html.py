"""What notebooks show."""

from base64 import b64encode
from html import escape

# A notebook keeps what it shows: so many bytes of an image, and a third more as text.
MOST = 96 << 10


def shown(title: str, image: str | None) -> str:
    """What a notebook shows of a layout: its image, apart from the style of the notebook, or only its text."""
    if image is None:
        return f"<code>{escape(title[:1000])}</code>"
    data = b64encode(image.encode()).decode()
    style = "max-width: 100%; height: auto"
    return f'<img style="{style}" alt="{escape(title[:300])}" src="data:image/svg+xml;base64,{data}">'
