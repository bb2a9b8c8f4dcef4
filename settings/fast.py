"""Your own site: no delay, many connections. Not for other people's."""

from settings.base import *  # noqa: F403

POLITENESS_DELAY = 0
# Leased at a time, those that wait in buffers included; CONCURRENT_REQUESTS bounds connections.
POLITENESS_PER_HOST = 256
CONCURRENT_REQUESTS = 64
ROBOTSTXT_OBEY = False
