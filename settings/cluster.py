"""Many machines, one shared Redis or Redis Cluster: name it in REDIS_URL."""

from settings.base import *  # noqa: F403

FRONTIER_EMBEDDED = False
FRONTIER_SHARDS = 12
CONCURRENT_REQUESTS = 64
