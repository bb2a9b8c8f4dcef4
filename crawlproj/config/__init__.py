"""Every setting of ours, typed and checked (`options.py`), for all rooms.

Names that begin like ours but are not ours stop the start, with the nearest real one; in a project
that only has our scheduler, those that are near to none of ours are left alone. Every setting can
be a variable of the environment. Knows no room.
"""

from crawlproj.config.choices import BY_FINGERPRINT, BY_URL
from crawlproj.config.lookup import (
    Option,
    arguments,
    asked_for,
    checked,
    crawl_name,
    doubtful_variables,
    names_connections,
    names_content_types,
    options,
    refuse_unknown_arguments,
    take_arguments,
    take_crawl_name,
    unknown_names,
    user_agent_of,
)
from crawlproj.config.names import PREFIXES
from crawlproj.config.options import Config

__all__ = [
    "BY_FINGERPRINT",
    "BY_URL",
    "PREFIXES",
    "Config",
    "Option",
    "arguments",
    "asked_for",
    "checked",
    "crawl_name",
    "doubtful_variables",
    "names_connections",
    "names_content_types",
    "options",
    "refuse_unknown_arguments",
    "take_arguments",
    "take_crawl_name",
    "unknown_names",
    "user_agent_of",
]
