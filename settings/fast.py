"""Your own site: no delay, many connections. Not for other people's."""

from settings.base import *  # noqa: F403

POLITENESS_DELAY = 0
POLITENESS_PER_HOST = 64
CONCURRENT_REQUESTS = 64
ROBOTSTXT_OBEY = False
